"""Music and text: where the files live, how they are fetched and verified, and how they become batches.

`music("nottingham")` and `characters("ptb")` are the paper's natural tasks (Pascanu et al. 2013, section 4.2);
`midi_folder` and `text_file` read the user's own; `chunks` and `streams` cut them for training.
"""

from .batches import IGNORE as IGNORE
from .batches import Chunk as Chunk
from .batches import chunks as chunks
from .batches import streams as streams
from .folder import midi_folder as midi_folder
from .midi import Piece as Piece
from .midi import read_midi as read_midi
from .midi import write_midi as write_midi
from .music import MusicData as MusicData
from .music import music as music
from .sources import SOURCES as SOURCES
from .sources import DataError as DataError
from .sources import Source as Source
from .store import Row as Row
from .store import fetch as fetch
from .store import home as home
from .store import listing as listing
from .store import locate as locate
from .store import summary as summary
from .store import table as table
from .text import TextData as TextData
from .text import characters as characters
from .text import text_file as text_file
