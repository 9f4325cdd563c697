"""Chunks of sequences for training through time, the state carried from one chunk to the next.

    music:  inputs u_{t−1}, targets u_t,       t = 1 … T of every piece, with u_0 = 0
    text:   inputs s_t,     targets s_{t+a},   t = 1 … N − a                              (a: how far ahead)

Row b of a chunk goes on where row b of the chunk before it ended, if `carry[b]`; else it begins a sequence, from the
initial state. Each target above appears in exactly one chunk, once, so sums over the chunks are sums over the data.

Reference: Pascanu et al. 2013, supplement, "Natural tasks": sequences of 200 steps, state carried over.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from ..checks import whole

IGNORE = -100
"""Target of a padded text step: the value that `torch.nn.functional.cross_entropy` leaves out by default."""


class Chunk(NamedTuple):
    """Up to `steps` steps of B sequences side by side.

    Args:
        inputs: [T, B, K] float32 (music) or [T, B] int64 (text); zero where padded.
        targets: of the same shape and type; zero (music) or `IGNORE` (text) where padded.
        lengths: steps of each row that count, int64 [B]; padding follows them. A row with nothing left has length 0.
        carry: bool [B]; whether the row goes on from its final state in the chunk before.

    A row is shorter than T only where its sequence ends, so a state that ran through padding is never carried.
    """

    inputs: Tensor
    targets: Tensor
    lengths: Tensor
    carry: Tensor

    @property
    def mask(self) -> Tensor:
        """Bool [T, B]: the steps that count."""
        return torch.arange(len(self.inputs), device=self.lengths.device)[:, None] < self.lengths


def chunks(
    pieces: Sequence[Tensor], steps: int = 200, batch: int = 1, *, generator: torch.Generator | None = None
) -> Iterator[Chunk]:
    """One pass over pieces of music, each cut into chunks of at most `steps` steps.

    The first step of a piece is predicted from a zero input, so a piece of T steps gives T predictions: evaluation
    covers whole pieces and no step is left out. A row that finishes its piece takes the next one waiting; `batch`
    stays the same throughout, and when no piece waits, finished rows idle with length 0.

    Args:
        pieces: piano rolls [T_i, K], each with at least one step.
        steps: longest chunk.
        batch: rows B of a chunk.
        generator: if given, the pieces come in an order drawn from it (once, when `chunks` is called); otherwise in
            the order given.

    Returns:
        An iterator over `Chunk`s with float32 [T, B, K] inputs and targets, T ≤ steps.

    Example:
        >>> piece = torch.tensor([[1, 0], [0, 1], [1, 1]], dtype=torch.uint8)
        >>> for inputs, targets, lengths, carry in chunks([piece], steps=2):
        ...     print(inputs[:, 0].tolist(), targets[:, 0].tolist(), carry.tolist())
        [[0.0, 0.0], [1.0, 0.0]] [[1.0, 0.0], [0.0, 1.0]] [False]
        [[0.0, 1.0]] [[1.0, 1.0]] [True]

    Reference:
        Pascanu et al. 2013, supplement, "Polyphonic music prediction".
    """
    whole("steps", steps)
    whole("batch", batch)
    if not pieces:
        raise ValueError("pieces must hold at least one piece")
    width = pieces[0].shape[-1] if pieces[0].dim() else 0
    for i, piece in enumerate(pieces):
        if piece.dim() != 2 or len(piece) == 0 or piece.shape[1] != width:
            raise ValueError(
                f"pieces must be [steps, keys] with at least one step and as many keys as the first ({width}), "
                f"not {list(piece.shape)} (piece {i})"
            )
    if generator is None:
        return _piece_chunks(pieces, steps, batch)
    order = torch.randperm(len(pieces), generator=generator).tolist()
    return _piece_chunks([pieces[i] for i in order], steps, batch)


def _piece_chunks(pieces: Sequence[Tensor], steps: int, batch: int) -> Iterator[Chunk]:
    waiting = iter(pieces)
    nothing = pieces[0][:0]
    rows = [nothing] * batch
    done = [0] * batch
    while True:
        carry = [done[b] < len(rows[b]) for b in range(batch)]
        for b in range(batch):
            if not carry[b]:
                rows[b], done[b] = next(waiting, nothing), 0
        lengths = [min(steps, len(row) - start) for row, start in zip(rows, done, strict=True)]
        if not any(lengths):
            return
        targets = pieces[0].new_zeros((max(lengths), batch, pieces[0].shape[1]), dtype=torch.float32)
        inputs = torch.zeros_like(targets)
        for b, (row, start, length) in enumerate(zip(rows, done, lengths, strict=True)):
            targets[:length, b] = row[start : start + length]
            first = 1 if start == 0 else 0  # u_0 = 0: the piece's first input stays zero
            inputs[first:length, b] = row[start + first - 1 : start + length - 1] if length else row
            done[b] += length
        yield Chunk(inputs, targets, *_per_row(lengths, carry, pieces[0].device))


def streams(tokens: Tensor, batch: int, steps: int = 200, ahead: int = 1) -> Iterator[Chunk]:
    """One pass over a text, cut into `batch` contiguous streams read side by side, `steps` tokens at a time.

    Of N tokens all but the first `ahead` are predicted, each once; those first have no input far enough back. The
    streams differ in length by at most one step. Each begins from the initial state, so only `batch = 1` reads the
    whole text with one unbroken state.

    Args:
        tokens: integers [N], N ≥ batch + ahead.
        batch: number of streams B.
        steps: longest chunk.
        ahead: distance from an input to its target; the paper uses 1 and 5.

    Returns:
        An iterator over `Chunk`s with int64 [T, B] inputs and targets, T ≤ steps.

    Example:
        >>> for chunk in streams(torch.arange(6), batch=2, steps=2):
        ...     print(chunk.inputs.T.tolist(), chunk.targets.T.tolist(), chunk.lengths.tolist(), chunk.carry.tolist())
        [[0, 1], [3, 4]] [[1, 2], [4, 5]] [2, 2] [False, False]
        [[2], [0]] [[3], [-100]] [1, 0] [True, False]

    Reference:
        Pascanu et al. 2013, supplement, "Language modelling".
    """
    whole("batch", batch)
    whole("steps", steps)
    whole("ahead", ahead)
    if tokens.dim() != 1 or tokens.is_floating_point() or tokens.is_complex() or tokens.dtype == torch.bool:
        raise ValueError(f"tokens must be integers [N], not {tokens.dtype} {list(tokens.shape)}")
    if len(tokens) < batch + ahead:
        raise ValueError(f"tokens must hold at least batch + ahead = {batch + ahead} tokens, not {len(tokens)}")
    return _stream_chunks(tokens, batch, steps, ahead)


def _stream_chunks(tokens: Tensor, batch: int, steps: int, ahead: int) -> Iterator[Chunk]:
    shortest, longer = divmod(len(tokens) - ahead, batch)
    sizes = [shortest + (b < longer) for b in range(batch)]
    begins = [b * shortest + min(b, longer) for b in range(batch)]
    for done in range(0, sizes[0], steps):
        lengths = [max(0, min(steps, size - done)) for size in sizes]
        carry = [done > 0 and length > 0 for length in lengths]
        inputs = tokens.new_zeros((lengths[0], batch), dtype=torch.int64)
        targets = torch.full_like(inputs, IGNORE)
        for b, (begin, length) in enumerate(zip(begins, lengths, strict=True)):
            t = begin + done
            inputs[:length, b] = tokens[t : t + length]
            targets[:length, b] = tokens[t + ahead : t + ahead + length]
        yield Chunk(inputs, targets, *_per_row(lengths, carry, tokens.device))


def _per_row(lengths: list[int], carry: list[bool], device: torch.device) -> tuple[Tensor, Tensor]:
    return torch.tensor(lengths, device=device), torch.tensor(carry, device=device)
