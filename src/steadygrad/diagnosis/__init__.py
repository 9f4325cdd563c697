"""Watch a model while it trains, find what is wrong with its gradients, and say what to change.

watcher.py   `sg.watch`: what a user holds                observer.py  the hooks: when to look, what to keep
layers.py    which modules are watched                    calls.py     one call of a layer, in one shape
rerun.py     a call computed again: states.py, sweep.py   cellrun.py   one layer and direction of it
measures.py  from that to numbers                         look.py      the numbers of one looked-at update
findings.py  what is wrong and what to change: of_errors.py, of_states.py, of_updates.py, advice.py
table.py     print(watch)                                 page.py      one HTML page
records.py   JSON lines, scalars                          board.py     TensorBoard
"""

from .findings import KINDS as KINDS
from .findings import Finding as Finding
from .findings import findings_of as findings_of
from .look import CellLook as CellLook
from .look import Look as Look
from .page import page_of as page_of
from .records import read_jsonl as read_jsonl
from .watcher import Watch as Watch
from .watcher import watch as watch
