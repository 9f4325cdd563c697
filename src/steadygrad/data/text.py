"""Text as a stream of characters.

    tokens s ∈ {0, …, V−1}^N   (int64 tensor [N]),   character of token i = vocabulary[i]

The vocabulary is sorted by code point, so a text gives the same tokens on every machine. The end of a line is one
token, "\\n". For the Penn Treebank each line first loses its outer spaces; every character left is a token, the space
included, and the line's end one more: 5,017,482 / 393,042 / 442,423 tokens over a vocabulary of 50.

Reference: Mikolov et al. 2012; used in Pascanu et al. 2013, section 4.2 and table 2.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from ..checks import number, one_of
from .sources import DataError
from .store import contents

NAMES = ("ptb",)
"""The texts known by name."""


@dataclass(frozen=True, eq=False, repr=False)
class TextData:
    """A text in three parts, and the characters it is written in.

    Args:
        name: what the text is called.
        train, valid, test: tokens, int64 tensors [N].
        vocabulary: the V characters, sorted; token i stands for `vocabulary[i]`.
    """

    name: str
    train: Tensor
    valid: Tensor
    test: Tensor
    vocabulary: tuple[str, ...]

    def encode(self, text: str) -> Tensor:
        """The tokens of `text`, int64 [len(text)]; characters outside the vocabulary are refused by name."""
        if not isinstance(text, str):
            raise TypeError(f"text must be a str, not {type(text).__name__}")
        return _tokens(_code_points(text), _code_points("".join(self.vocabulary)))

    def decode(self, tokens: Tensor) -> str:
        """The text of `tokens`, integers [N] in [0, V)."""
        if tokens.dim() != 1 or tokens.is_floating_point() or tokens.is_complex() or tokens.dtype == torch.bool:
            raise ValueError(f"tokens must be integers [N], not {tokens.dtype} {list(tokens.shape)}")
        indices = tokens.tolist()
        if indices and not 0 <= min(indices) <= max(indices) < len(self.vocabulary):
            raise ValueError(f"tokens must lie in [0, {len(self.vocabulary)}), not in [{min(indices)}, {max(indices)}]")
        return "".join(self.vocabulary[i] for i in indices)

    def __repr__(self) -> str:
        parts = ", ".join(f"{part}: {len(getattr(self, part)):,}" for part in ("train", "valid", "test"))
        return f"TextData({self.name!r}, {parts} tokens, vocabulary of {len(self.vocabulary)})"


def characters(name: str, *, download: bool = True) -> TextData:
    """Load a known text as characters, fetching it first if it is missing.

    Args:
        name: `"ptb"`, the Penn Treebank with its usual 10,000-word vocabulary.
        download: fetch the files if they are missing; otherwise a missing file is an error.

    Returns:
        The text in its published parts; the vocabulary is that of the training part and covers the others.

    Raises:
        DataError: a file is altered or out of reach.

    Example:
        >>> characters("wikitext")
        Traceback (most recent call last):
        ValueError: name must be one of 'ptb', not 'wikitext'

    Reference:
        Mikolov et al. 2012; Pascanu et al. 2013, table 2.
    """
    one_of("name", name, NAMES)
    parts = [_code_points(_stripped(data.decode("utf-8"))) for data in contents(name, download)]
    alphabet = np.unique(parts[0])
    train, valid, test = (_tokens(part, alphabet) for part in parts)
    return TextData(name, train, valid, test, _vocabulary(alphabet))


def text_file(path: str | os.PathLike[str], valid: float = 0.05, test: float = 0.05) -> TextData:
    """Load the user's own text, cut into three contiguous parts: training first, then validation, then test.

    The text is taken as it is, save that line ends become "\\n" and a byte order mark is dropped. The vocabulary is
    that of the whole file, so every part can be scored: a character that training never shows is a token whose
    probability the model never learned, and costs it accordingly.

    Args:
        path: a UTF-8 text file.
        valid, test: fractions of the text for validation and test, in [0, 1), together below 1; 0 leaves that part
            empty.

    Returns:
        The text; `name` is the file's name without its ending.

    Raises:
        DataError: the file is unreadable, not UTF-8, or too short to give each part the two characters that a
            prediction needs.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = Path(folder, "abba.txt")
        ...     _ = file.write_text("abbaabbaab")
        ...     data = text_file(file, valid=0.2, test=0.2)
        >>> data
        TextData('abba', train: 6, valid: 2, test: 2 tokens, vocabulary of 2)
        >>> data.decode(data.train)
        'abbaab'
    """
    number("valid", valid, low=0, high=1, open_high=True)
    number("test", test, low=0, high=1, open_high=True)
    if valid + test >= 1:
        raise ValueError(f"valid + test must be below 1, not {valid + test:g}")
    file = Path(path)
    try:
        text = file.read_bytes().decode("utf-8-sig")
    except OSError as fault:
        raise DataError(f"cannot read {file}: {fault.strerror or fault}") from fault
    except UnicodeDecodeError as fault:
        raise DataError(f"{file} is not UTF-8 text ({fault.reason} at byte {fault.start:,})") from fault
    points = _code_points(text.replace("\r\n", "\n").replace("\r", "\n"))
    n = len(points)
    held = {"valid": int(n * valid), "test": int(n * test)}
    sizes = {"train": n - sum(held.values()), **held}
    wanted = {"train": 1.0, "valid": valid, "test": test}
    short = [part for part, size in sizes.items() if wanted[part] > 0 and size < 2]
    if short:
        raise DataError(f"{file} is too short: of its {n:,} characters fewer than 2 fall to {' and '.join(short)}")
    alphabet = np.unique(points)
    parts = _tokens(points, alphabet).split(list(sizes.values()))
    # Copies, so that keeping one part does not keep the whole text in memory.
    return TextData(file.stem, *(part.clone() for part in parts), vocabulary=_vocabulary(alphabet))


def _stripped(text: str) -> str:
    return "".join(line.strip(" ") + "\n" for line in text.removesuffix("\n").split("\n"))


def _code_points(text: str) -> np.ndarray:
    # surrogatepass: a lone surrogate in a prompt must reach the vocabulary check, which names it.
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype="<u4")


def _vocabulary(alphabet: np.ndarray) -> tuple[str, ...]:
    return tuple(chr(point) for point in alphabet.tolist())


def _tokens(points: np.ndarray, alphabet: np.ndarray) -> Tensor:
    """Places of `points` in the sorted `alphabet`."""
    found = np.searchsorted(alphabet, points)
    known = alphabet[np.minimum(found, len(alphabet) - 1)] == points
    if not known.all():
        strangers = ", ".join(repr(chr(point)) for point in np.unique(points[~known]).tolist())
        raise ValueError(f"text must hold only characters of the vocabulary ({len(alphabet)}), not {strangers}")
    return torch.from_numpy(found.astype(np.int64, copy=False))
