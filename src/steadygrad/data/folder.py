"""A folder of MIDI files as a music set.

The files are put in the order of the sha256 of their contents and cut into parts, test first, then validation, then
training: a fixed shuffle, the same on every machine and under every name.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from ..checks import number, one_of
from .midi import Piece, read_midi, step_unit
from .music import MusicData
from .sources import DataError


def midi_folder(
    path: str | os.PathLike[str],
    *,
    step: str | float = "quarter/2",
    valid: float = 0.1,
    test: float = 0.1,
    faults: str = "raise",
) -> MusicData:
    """Read the user's own folder of MIDI files (`.mid` and `.midi`, in subfolders too).

    Args:
        path: the folder.
        step: length of a time step, as in `read_midi`: a part of a quarter note, or seconds.
        valid, test: fractions of the files for validation and test, in [0, 1), together below 1. A fraction above 0
            gets at least one file.
        faults: `"raise"`: files that cannot be used are an error that names them all; `"skip"`: they are left out,
            and `skipped` of the result names them.

    Returns:
        The pieces; `name` is the folder's name, and `dropped` counts the notes left out.

    Raises:
        DataError: there is no such folder, too few files for the parts, or some cannot be used.

    Example:
        >>> import tempfile, torch
        >>> from steadygrad.data import write_midi
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     for key in range(5):
        ...         write_midi(torch.eye(88)[key:], Path(folder, f"{key}.mid"))
        ...     midi_folder(folder, valid=0.2, test=0.2).counts["valid"][0]
        1
    """
    step_unit(step)
    number("valid", valid, low=0, high=1, open_high=True)
    number("test", test, low=0, high=1, open_high=True)
    if valid + test >= 1:
        raise ValueError(f"valid + test must be below 1, not {valid + test:g}")
    one_of("faults", faults, ("raise", "skip"))
    folder = Path(path)
    if not folder.is_dir():
        raise DataError(f"{folder} is not a folder")
    files = sorted(file for file in folder.rglob("*") if file.suffix.lower() in (".mid", ".midi") and file.is_file())
    pieces: list[tuple[str, Piece]] = []
    unusable: list[str] = []
    for file in files:
        try:
            piece = read_midi(file, step)
            pieces.append((hashlib.sha256(file.read_bytes()).hexdigest(), piece))
        except DataError as fault:
            unusable.append(str(fault))
    if unusable and faults == "raise":
        raise DataError(
            f"{len(unusable)} of {len(files)} MIDI files cannot be used (faults='skip', as an option --faults skip, leaves "
            "them out): " + "; ".join(unusable)
        )
    rolls = [piece.roll for _, piece in sorted(pieces, key=lambda entry: entry[0])]
    n_test, n_valid = (max(1, round(len(rolls) * part)) if part else 0 for part in (test, valid))
    if len(rolls) <= n_test + n_valid:
        raise DataError(
            f"{folder} holds {len(rolls)} usable MIDI files, and its parts need at least {n_test + n_valid + 1}"
        )
    return MusicData(
        folder.resolve().name,
        train=tuple(rolls[n_test + n_valid :]),
        valid=tuple(rolls[n_test : n_test + n_valid]),
        test=tuple(rolls[:n_test]),
        dropped=sum(piece.dropped for _, piece in pieces),
        skipped=tuple(unusable),
    )
