"""Polyphonic music as piano rolls.

    piece u of T steps:   u_t ∈ {0, 1}^88,   u_t[k] = 1 while key k sounds in step t   (tensor [T, 88], uint8)

Key 0 is the piano's lowest A (MIDI note 21), key 87 its highest C (108). The sets come as MATLAB 5 files, each with
the cells `traindata`, `validdata` and `testdata` of [T × 88] rolls. Reading one runs no code: scipy's reader builds
arrays from the bytes, and there is no pickle in the format. But a damaged file can crash that reader, and Python with
it, so it is given nothing but bytes whose checksum is verified; music of one's own comes in as MIDI (`midi_folder`).

Reference: Boulanger-Lewandowski et al. 2012; used in Pascanu et al. 2013, section 4.2 and table 1.
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..checks import one_of
from .sources import DataError
from .store import contents

NAMES = ("piano-midi", "nottingham", "musedata", "jsb")
"""The music sets known by name; the first three are the paper's."""

KEYS = 88
"""Keys of a piano: the width of every roll."""


@dataclass(frozen=True, eq=False, repr=False)
class MusicData:
    """Pieces of music in three parts.

    Args:
        name: what the set is called.
        train, valid, test: pieces, each a uint8 tensor [steps, 88] of zeros and ones.
        dropped: notes left out when the set was read (MIDI only: no key of a piano, or percussion).
        skipped: one sentence for each file that could not be used and was left out (MIDI only).
    """

    name: str
    train: tuple[Tensor, ...]
    valid: tuple[Tensor, ...]
    test: tuple[Tensor, ...]
    dropped: int = 0
    skipped: tuple[str, ...] = ()

    @property
    def counts(self) -> dict[str, tuple[int, int]]:
        """(pieces, steps) of each part."""
        parts = {"train": self.train, "valid": self.valid, "test": self.test}
        return {part: (len(pieces), sum(len(piece) for piece in pieces)) for part, pieces in parts.items()}

    def __repr__(self) -> str:
        parts = ", ".join(f"{part}: {n} pieces, {steps:,} steps" for part, (n, steps) in self.counts.items())
        return f"MusicData({self.name!r}, {parts})"


def music(name: str, *, download: bool = True) -> MusicData:
    """Load one of the known music sets, fetching it first if it is missing.

    Args:
        name: `"piano-midi"`, `"nottingham"`, `"musedata"` (the paper's three) or `"jsb"`.
        download: fetch the file if it is missing; otherwise a missing file is an error.

    Returns:
        The set, in its published parts.

    Raises:
        DataError: the file is altered or out of reach.

    Example:
        >>> music("bach")
        Traceback (most recent call last):
        ValueError: name must be one of 'piano-midi', 'nottingham', 'musedata', 'jsb', not 'bach'

    Reference:
        Boulanger-Lewandowski et al. 2012; Pascanu et al. 2013, table 1.
    """
    one_of("name", name, NAMES)
    (data,) = contents(name, download)
    return _parse(name, data)


def transposed(piece: Tensor, most: int, generator: torch.Generator) -> Tensor:
    """A piece in another key: moved by up to `most` keys up or down, each number equally likely.

    Only as far as no note leaves the keyboard.

    Args:
        piece: a roll [steps, 88].
        most: at least 0.
        generator: what the number is drawn from.
    """
    (sounding,) = torch.nonzero(piece.any(0), as_tuple=True)
    lowest, highest = (int(sounding[0]), int(sounding[-1])) if len(sounding) else (0, KEYS - 1)
    down, up = min(most, lowest), min(most, KEYS - 1 - highest)
    by = int(torch.randint(-down, up + 1, (), generator=generator))
    return piece.roll(by, 1)  # what leaves on one side, to come back on the other, is silent


def _parse(name: str, data: bytes) -> MusicData:
    try:
        from scipy.io import loadmat
    except ImportError:
        raise ImportError("reading .mat files needs scipy: pip install 'steadygrad[data]'") from None
    if not data.startswith(b"MATLAB 5.0 MAT-file"):
        raise DataError(f"{name} is not a MATLAB 5 file")
    cells = ("traindata", "validdata", "testdata")
    arrays: dict[str, Any] = loadmat(io.BytesIO(data), variable_names=cells)
    train, valid, test = (_pieces(arrays.get(cell), f"{name}: {cell}") for cell in cells)
    return MusicData(name, train, valid, test)


def _pieces(cell: Any, where: str) -> tuple[Tensor, ...]:
    if not isinstance(cell, np.ndarray) or cell.dtype != object or cell.size == 0:
        raise DataError(f"{where} must be a cell of at least one piece")
    return tuple(_piece(array, f"{where}{{{i}}}") for i, array in enumerate(cell.ravel(), start=1))


def _piece(array: Any, where: str) -> Tensor:
    if not isinstance(array, np.ndarray) or array.dtype.kind not in "buif":
        raise DataError(f"{where} must be an array of numbers")
    if array.ndim != 2 or array.shape[0] == 0 or array.shape[1] != KEYS:
        raise DataError(f"{where} must be [steps, {KEYS}] with at least one step, not {list(array.shape)}")
    if not ((array == 0) | (array == 1)).all():
        raise DataError(f"{where} must hold only zeros and ones")
    return torch.from_numpy(np.ascontiguousarray(array, dtype=np.uint8))
