"""Problems with a data set: music and text, cut into chunks for training, whole for testing.

    music   predict the 88 notes of step t from those before it           cost: −Σ over notes of log p, in nats
    text    predict the character `ahead` of t from those up to t         cost: −log₂ p, in bits

An epoch of music takes the pieces in an order drawn anew from the seed and the epoch's number, and with `transpose` in
keys so drawn; a text is read from its beginning, in `batch` streams. A test reads every piece whole and as it is, and a
text as one stream: no step is left out, and the state is carried all the way. Only the training part of a text is read in
streams once more, which is quicker.
"""

from __future__ import annotations

import hashlib
import json
import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any, Literal

from torch import Tensor

from ..checks import one_of
from ..reproducible import stream
from .batches import Chunk, chunks, streams
from .folder import midi_folder
from .music import KEYS, MusicData, music, transposed
from .text import TextData, characters, text_file

SPLITS = ("train", "valid", "test")
SHARE = 0.05  # of the user's own data, for validation and for test each
SIDE_BY_SIDE = 32  # pieces that a test reads at once
STREAMS = 16  # that the training part of a text is read in
TEST_STEPS = 1000  # longest chunk of a test


class DataSet(ABC):
    """A problem with a data set. One's own is a subclass that is made from the config alone.

    Attributes:
        config: the settings of the run (`steadygrad.experiments.Config`): batch, steps, seed, of text `ahead`, …
        input_size, output_size: the width of inputs and outputs.
        symbols: the characters that outputs stand for, or None.
        cost: 'classes', one of the outputs is right (text), or 'keys', each of them is 0 or 1 (music).
        unit, per_nat: what the score is measured in, and how many of it make a nat.
    """

    input_size: int
    output_size: int
    symbols: list[str] | None = None
    cost: Literal["classes", "keys"]
    unit: str = "nats/step"
    per_nat: float = 1.0

    def __init__(self, config: Any) -> None:
        self.config = config

    @abstractmethod
    def predictions(self, split: str) -> int:
        """How many steps of a part ('train', 'valid' or 'test') are predicted."""

    @abstractmethod
    def epoch(self, number: int) -> Iterator[Chunk]:
        """The chunks of one epoch of training; epochs are numbered from 1."""

    @abstractmethod
    def whole(self, split: str) -> Iterator[Chunk]:
        """A part, each of its predictions once, the state to be carried all the way."""

    @property
    def updates_per_epoch(self) -> int:
        """How many chunks an epoch has."""
        return sum(1 for _ in self.epoch(1))

    @abstractmethod
    def tensors(self) -> Iterable[Tensor]:
        """All data, in a fixed order: what the checksum is over."""

    def about(self) -> dict[str, Any]:
        """What a run keeps of it: sizes, symbols, unit, the predictions of each part, and the checksum."""
        width = self.input_size if self.input_size == self.output_size else [self.input_size, self.output_size]
        parts = {split: self.predictions(split) for split in SPLITS}
        said: dict[str, Any] = {"width": width, "symbols": self.symbols, "cost": self.cost, "unit": self.unit}
        return {**said, "parts": parts, "sha256": self.checksum()}

    def checksum(self) -> str:
        """The sha256 of all parts and symbols, which tells whether the data are still the same."""
        digest = hashlib.sha256(json.dumps(self.symbols).encode())
        for tensor in self.tensors():
            digest.update(f"{tuple(tensor.shape)}".encode())
            digest.update(tensor.contiguous().numpy().data)
        return digest.hexdigest()


class Music(DataSet):
    """Pieces of music."""

    input_size = output_size = KEYS
    cost = "keys"

    def __init__(self, config: Any, pieces: MusicData) -> None:
        super().__init__(config)
        self.skipped = pieces.skipped
        self._parts = {split: getattr(pieces, split) for split in SPLITS}

    def predictions(self, split: str) -> int:
        return sum(len(piece) for piece in self._parts[one_of("split", split, SPLITS)])

    def epoch(self, number: int) -> Iterator[Chunk]:
        order, pieces = stream(self.config.seed, "order", number), self._parts["train"]
        if (most := self.config.transpose) > 0:
            keys = stream(self.config.seed, "transpose", number)
            pieces = [transposed(piece, most, keys) for piece in pieces]
        return chunks(pieces, self.config.steps, self.config.batch, generator=order)

    def whole(self, split: str) -> Iterator[Chunk]:
        # the longest first: else they would be read alone at the end
        pieces = sorted(self._parts[one_of("split", split, SPLITS)], key=len, reverse=True)
        return chunks(pieces, TEST_STEPS, min(SIDE_BY_SIDE, len(pieces)))

    def tensors(self) -> Iterable[Tensor]:
        return (piece for split in SPLITS for piece in self._parts[split])


class Text(DataSet):
    """A text in characters."""

    cost = "classes"
    unit, per_nat = "bits/character", 1 / math.log(2)

    def __init__(self, config: Any, text: TextData) -> None:
        super().__init__(config)
        self.symbols = list(text.vocabulary)
        self.input_size = self.output_size = len(self.symbols)
        self._parts: dict[str, Tensor] = {split: getattr(text, split) for split in SPLITS}
        for split, tokens in self._parts.items():
            if len(tokens) <= config.ahead:
                there = f"the {len(tokens):,} characters that {text.name} has for {split}"
                raise ValueError(f"ahead must be below {there}, not {config.ahead}")
        most = len(self._parts["train"]) - config.ahead
        if config.batch > most:
            raise ValueError(f"batch must be at most {most:,}, the predictions in {text.name}, not {config.batch}")

    def predictions(self, split: str) -> int:
        return len(self._parts[one_of("split", split, SPLITS)]) - self.config.ahead

    def epoch(self, number: int) -> Iterator[Chunk]:
        return streams(self._parts["train"], self.config.batch, self.config.steps, self.config.ahead)

    @property
    def updates_per_epoch(self) -> int:
        longest = -(-self.predictions("train") // self.config.batch)
        return -(-longest // self.config.steps)

    def whole(self, split: str) -> Iterator[Chunk]:
        tokens = self._parts[one_of("split", split, SPLITS)]
        side_by_side = min(STREAMS, len(tokens) - self.config.ahead) if split == "train" else 1
        return streams(tokens, side_by_side, TEST_STEPS, self.config.ahead)

    def tensors(self) -> Iterable[Tensor]:
        return (self._parts[split] for split in SPLITS)


def read(config: Any) -> DataSet:
    """The music or text that a config names, read and verified."""
    if config.problem == "text":
        return Text(config, text_file(config.path or "", SHARE, SHARE))
    if config.problem == "music":
        step = config.time_step or 0.0
        folder = midi_folder(config.path or "", step=step, valid=SHARE, test=SHARE, faults=config.faults)
        return Music(config, folder)
    if config.is_text:
        return Text(config, characters(config.problem))
    return Music(config, music(config.problem))
