"""MIDI files to piano rolls, and back.

A note that sounds from time p to time q, in units of the step, fills the steps

    ⌊p + ½⌋ … max(⌊q + ½⌋, ⌊p + ½⌋ + 1) − 1

that is, both ends go to the nearest step and no note gets lost between two. The unit is either a part of a quarter note
(score time: tempo plays no role) or a number of seconds (clock time: the file's tempo changes are followed). A piece
lasts to the end of its longest track. Pedals are not read.

    roll [steps, 88] ∈ {0, 1},   key k ↔ MIDI note 21 + k
"""

from __future__ import annotations

import bisect
import io
import itertools
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..checks import number
from .music import KEYS
from .sources import DataError

LOWEST = 21
"""MIDI note of the piano's lowest key."""

_PERCUSSION = 9  # channel 10 as musicians count: its note numbers name drums, not pitches
_DEFAULT_TEMPO = 500_000  # microseconds a quarter, until the file says otherwise
_TICKS = 480  # a quarter in the files written here
_LATEST = 0x0FFF_FFFF  # the largest time between two events that the format can hold
_SHORTEST = 1e-3  # seconds of a step
_LONGEST = 1_000_000  # steps; a damaged time value would otherwise ask for all memory


class Piece(NamedTuple):
    """A MIDI file as a roll.

    Args:
        roll: uint8 [steps, 88].
        dropped: notes left out, because no key of a piano plays them or because they are percussion.
    """

    roll: Tensor
    dropped: int


class _Fault(Exception):
    """Why this file cannot be used."""


def read_midi(path: str | os.PathLike[str], step: str | float = "quarter/2") -> Piece:
    """Read one MIDI file as a piano roll; all tracks and channels but percussion sound together.

    Args:
        path: a MIDI file of type 0 or 1.
        step: length of a time step: `"quarter"` or `"quarter/n"` (the default is an eighth note), or seconds,
            from a thousandth up.

    Returns:
        The roll and the number of notes left out.

    Raises:
        DataError: the file is unreadable, damaged, no MIDI file, or without a note for the piano.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = Path(folder, "scale.mid")
        ...     write_midi(torch.eye(88), file)
        ...     torch.equal(read_midi(file).roll, torch.eye(88, dtype=torch.uint8))
        True
    """
    unit = step_unit(step)
    try:
        return _roll(Path(path).read_bytes(), unit)
    except OSError as fault:
        raise DataError(f"cannot read {path}: {fault.strerror or fault}") from fault
    except _Fault as fault:
        raise DataError(f"{path} {fault}") from fault


def write_midi(roll: Tensor, path: str | os.PathLike[str], *, step_seconds: float = 0.25, tempo: float = 120.0) -> None:
    """Write a piano roll as a MIDI file; a key that sounds in successive steps becomes one held note.

    `read_midi(path, step_seconds)` gives the roll back. With the defaults a step is an eighth note, and so does
    `read_midi(path)`.

    Args:
        roll: [steps, 88] of zeros and ones.
        path: the file to write.
        step_seconds: how long a step lasts.
        tempo: quarter notes a minute. It sets the note values a score editor shows, not the speed.

    Raises:
        DataError: the file cannot be written.
    """
    if not isinstance(roll, Tensor) or roll.dim() != 2 or len(roll) == 0 or roll.shape[1] != KEYS:
        came = list(roll.shape) if isinstance(roll, Tensor) else type(roll).__name__
        raise ValueError(f"roll must be a tensor [steps, {KEYS}] with at least one step, not {came}")
    if not ((roll == 0) | (roll == 1)).all():
        raise ValueError("roll must hold only zeros and ones")
    number("step_seconds", step_seconds, low=_SHORTEST)
    # A quarter is stored as a 24-bit number of microseconds.
    quarter = round(60e6 / number("tempo", tempo, low=60e6 / (2**24 - 1), high=60e6))
    ticks = step_seconds * 1e6 * _TICKS / quarter
    if ticks < 2:  # below this, times rounded to ticks no longer tell the steps apart
        least = 2 * quarter / _TICKS / 1e6
        raise ValueError(f"step_seconds must be at least {least:g} at a tempo of {tempo:g}, not {step_seconds}")
    if len(roll) * ticks > _LATEST:
        raise ValueError(
            f"roll must have at most {int(_LATEST / ticks):,} steps of {step_seconds} s, not {len(roll):,}"
        )

    mido = _mido("writing")
    track = mido.MidiTrack([mido.MetaMessage("set_tempo", tempo=quarter)])
    sounding = torch.zeros(KEYS, dtype=torch.bool)
    now = 0
    for t, keys in enumerate([*roll.bool().cpu(), sounding]):
        tick = round(t * ticks)
        for kind, changed in (("note_off", sounding & ~keys), ("note_on", keys & ~sounding)):
            for key in changed.nonzero().flatten().tolist():
                track.append(mido.Message(kind, note=LOWEST + key, velocity=64, time=tick - now))
                now = tick
        sounding = keys
    track.append(mido.MetaMessage("end_of_track", time=round(len(roll) * ticks) - now))
    try:
        mido.MidiFile(type=0, ticks_per_beat=_TICKS, tracks=[track]).save(os.fspath(path))
    except OSError as fault:
        raise DataError(f"cannot write {path}: {fault.strerror or fault}") from fault


def _mido(purpose: str) -> Any:
    try:
        import mido
    except ImportError:
        raise ImportError(f"{purpose} MIDI files needs mido: pip install 'steadygrad[data]'") from None
    return mido


def step_unit(step: str | float) -> int | float:
    """`step`, checked: an int n for a quarter note divided by n, or a float for seconds.

    >>> step_unit("quarter/4"), step_unit(0.25)
    (4, 0.25)
    """
    if isinstance(step, str):
        match = re.fullmatch(r"quarter(?:/([1-9][0-9]{0,3}))?", step)
        if not match:
            raise ValueError(f"step must be 'quarter', 'quarter/n' or a number of seconds, not {step!r}")
        return int(match[1] or 1)
    return number("step", step, low=_SHORTEST)


def _roll(data: bytes, unit: int | float) -> Piece:
    mido = _mido("reading")
    try:
        file = mido.MidiFile(file=io.BytesIO(data))
    except Exception as fault:  # a damaged file surfaces in the reader as any of a dozen exception types
        if not data.startswith(b"MThd"):
            raise _Fault("is not a MIDI file") from fault
        reason = "it ends too early" if isinstance(fault, EOFError) else f"{type(fault).__name__}: {fault}"
        raise _Fault(f"is a damaged MIDI file ({reason})") from fault
    if file.type not in (0, 1):
        raise _Fault(f"is a MIDI file of type {file.type}, whose tracks share no clock; types 0 and 1 are read")
    if file.ticks_per_beat <= 0:
        raise _Fault("counts time in film frames (SMPTE), not in beats, and is not read")
    if any(message.time > _LATEST for track in file.tracks for message in track):
        raise _Fault("is a damaged MIDI file (a time value longer than the format allows)")
    index = _clock(file, unit)
    notes, dropped, end = [], 0, 0
    for track in file.tracks:
        heard, last = _notes(track)
        end = max(end, index(last))
        for channel, note, begin, finish in heard:
            if channel == _PERCUSSION or not 0 <= note - LOWEST < KEYS:
                dropped += 1
                continue
            first = index(begin)
            notes.append((note - LOWEST, first, max(index(finish), first + 1)))
    if not notes:
        raise _Fault("holds no notes" + (f" for a piano ({dropped} others)" if dropped else ""))
    end = max(end, *(finish for _, _, finish in notes), 1)
    if end > _LONGEST:
        raise _Fault(f"would last {end:,} steps, more than {_LONGEST:,}: it is damaged, or the step is too short")
    roll = torch.zeros(end, KEYS, dtype=torch.uint8)
    for key, first, finish in notes:
        roll[first:finish, key] = 1
    return Piece(roll, dropped)


def _notes(track: Any) -> tuple[list[tuple[int, int, int, int]], int]:
    """The notes (channel, note, begin, finish) of a track and its end, in ticks."""
    notes: list[tuple[int, int, int, int]] = []
    open_since: dict[tuple[int, int], list[int]] = {}
    now = 0
    for message in track:
        now += message.time
        if message.type == "note_on" and message.velocity > 0:
            open_since.setdefault((message.channel, message.note), []).append(now)
        elif message.type in ("note_on", "note_off"):  # struck with velocity 0 means released
            begins = open_since.get((message.channel, message.note))
            if begins:
                notes.append((message.channel, message.note, begins.pop(0), now))
    notes += [(*which, begin, now) for which, begins in open_since.items() for begin in begins]
    return notes, now


def _clock(file: Any, unit: int | float) -> Callable[[int], int]:
    """The nearest step to a time in ticks."""
    beat = file.ticks_per_beat
    if isinstance(unit, int):
        return lambda tick: (2 * tick * unit + beat) // (2 * beat)
    changes: list[tuple[int, int]] = [(0, _DEFAULT_TEMPO)]
    for track in file.tracks:
        now = 0
        for message in track:
            now += message.time
            if message.type == "set_tempo":
                changes.append((now, message.tempo))
    changes.sort(key=lambda change: change[0])  # stable: of two at one tick the later written holds
    ticks = [tick for tick, _ in changes]
    elapsed = [0]  # microseconds × ticks a beat at each change: whole numbers, so nothing drifts
    for (tick, tempo), (following, _) in itertools.pairwise(changes):
        elapsed.append(elapsed[-1] + (following - tick) * tempo)

    def index(tick: int) -> int:
        i = bisect.bisect_right(ticks, tick) - 1
        microseconds = (elapsed[i] + (tick - ticks[i]) * changes[i][1]) / beat
        return int(microseconds / 1e6 / unit + 0.5)

    return index
