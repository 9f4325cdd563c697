"""Chunks and streams cover every target exactly once, in order, with the state carried where it should be."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from steadygrad.data import IGNORE, Chunk, chunks, streams


def pieces_of(lengths: list[int], keys: int = 5, seed: int = 0) -> list[Tensor]:
    g = torch.Generator().manual_seed(seed)
    return [torch.randint(0, 2, (n, keys), generator=g, dtype=torch.uint8) for n in lengths]


def sequences(passes: list[Chunk]) -> list[tuple[Tensor, Tensor]]:
    """(inputs, targets) of every sequence, put together again from the rows alone, in order of their beginning."""
    begun: list[tuple[list[Tensor], list[Tensor]]] = []
    in_row: dict[int, int] = {}
    for chunk in passes:
        for b, (length, carry) in enumerate(zip(chunk.lengths.tolist(), chunk.carry.tolist(), strict=True)):
            if length == 0:
                assert not carry
                continue
            if not carry:
                in_row[b] = len(begun)
                begun.append(([], []))
            inputs, targets = begun[in_row[b]]
            inputs.append(chunk.inputs[:length, b])
            targets.append(chunk.targets[:length, b])
    return [(torch.cat(inputs), torch.cat(targets)) for inputs, targets in begun]


@settings(deadline=None, max_examples=60)
@given(
    lengths=st.lists(st.integers(1, 23), min_size=1, max_size=9),
    steps=st.integers(1, 9),
    batch=st.integers(1, 5),
)
def test_every_step_of_every_piece_is_a_target_once_predicted_from_the_step_before(lengths, steps, batch):
    pieces = pieces_of(lengths)
    passes = list(chunks(pieces, steps, batch))
    got = sequences(passes)
    assert len(got) == len(pieces)
    for (inputs, targets), piece in zip(got, pieces, strict=True):
        assert torch.equal(targets, piece.float())
        assert torch.equal(inputs, torch.cat([torch.zeros(1, 5), piece[:-1].float()]))
    assert sum(int(chunk.mask.sum()) for chunk in passes) == sum(lengths)


@settings(deadline=None, max_examples=60)
@given(
    lengths=st.lists(st.integers(1, 23), min_size=1, max_size=9),
    steps=st.integers(1, 9),
    batch=st.integers(1, 5),
)
def test_padding_follows_the_length_and_is_zero_and_only_ended_pieces_are_padded(lengths, steps, batch):
    passes = list(chunks(pieces_of(lengths), steps, batch))
    for chunk, following in zip(passes, [*passes[1:], None], strict=True):
        inputs, targets, chunk_lengths, _ = chunk
        assert inputs.shape == targets.shape == (int(chunk_lengths.max()), batch, 5)
        assert inputs.dtype == targets.dtype == torch.float32
        assert len(inputs) <= steps
        assert not inputs[~chunk.mask].any()
        assert not targets[~chunk.mask].any()
        assert torch.equal(chunk.mask.sum(0), chunk_lengths)
        carried = following.carry if following else torch.zeros(batch, dtype=torch.bool)
        assert (chunk_lengths[carried] == steps).all()


def test_carrying_the_state_over_chunks_equals_running_whole_pieces():
    torch.manual_seed(0)
    pieces = pieces_of([13, 1, 7, 20, 4])
    rnn = torch.nn.RNN(5, 6, dtype=torch.float64)
    state = torch.zeros(1, 3, 6, dtype=torch.float64)
    rows: list[Chunk] = []
    with torch.no_grad():
        for chunk in chunks(pieces, 4, 3):
            state = state * chunk.carry[:, None]
            hidden, state = rnn(chunk.inputs.double(), state)
            rows.append(chunk._replace(targets=hidden))
        for (inputs, hidden), piece in zip(sequences(rows), pieces, strict=True):
            assert len(hidden) == len(piece)
            # the same products in the same order, save for BLAS's blocking: a few units in the last place
            torch.testing.assert_close(hidden, rnn(inputs.double())[0], rtol=0, atol=1e-13)


def test_a_generator_shuffles_the_pieces_and_its_seed_fixes_the_order():
    pieces = pieces_of(list(range(1, 31)))

    def order(generator: torch.Generator | None) -> list[int]:
        return [len(targets) for _, targets in sequences(list(chunks(pieces, 100, 1, generator=generator)))]

    generator = torch.Generator().manual_seed(3)
    first, second = order(generator), order(generator)
    assert order(None) == list(range(1, 31))
    assert sorted(first) == sorted(second) == list(range(1, 31))
    assert len({tuple(first), tuple(second), tuple(order(None))}) == 3
    assert order(torch.Generator().manual_seed(3)) == first


def test_the_order_is_drawn_when_chunks_is_called():
    generator = torch.Generator().manual_seed(0)
    before = generator.get_state()
    iterator = chunks(pieces_of([1, 2]), generator=generator)
    drawn = generator.get_state()
    assert not torch.equal(before, drawn)
    assert len(list(iterator)) == 2
    assert torch.equal(generator.get_state(), drawn)


@settings(deadline=None, max_examples=150)
@given(n=st.integers(2, 80), batch=st.integers(1, 6), steps=st.integers(1, 11), ahead=st.integers(1, 6))
def test_every_token_but_the_first_ones_is_a_target_once_at_its_distance(n, batch, steps, ahead):
    tokens = torch.arange(n)  # a token is its own position
    if n < batch + ahead:
        with pytest.raises(ValueError, match=rf"at least batch \+ ahead = {batch + ahead} tokens, not {n}"):
            streams(tokens, batch, steps, ahead)
        return
    passes = list(streams(tokens, batch, steps, ahead))
    got = sequences(passes)
    assert len(got) == batch
    inputs, targets = (torch.cat(parts) for parts in zip(*got, strict=True))
    assert torch.equal(inputs, tokens[: n - ahead])  # the streams, end to end, are the text
    assert torch.equal(targets, tokens[ahead:])
    lengths = [len(inputs) for inputs, _ in got]
    assert max(lengths) - min(lengths) <= 1
    for chunk in passes:
        assert chunk.inputs.shape == chunk.targets.shape == chunk.mask.shape
        assert len(chunk.inputs) <= steps
        assert (chunk.targets[~chunk.mask] == IGNORE).all()
        assert (chunk.inputs[~chunk.mask] == 0).all()
    assert not passes[0].carry.any()


def test_padded_text_steps_do_not_count_in_cross_entropy():
    tokens = torch.randint(0, 7, (12,), generator=torch.Generator().manual_seed(0))
    table = torch.randn(7, 7, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    summed = sum(
        torch.nn.functional.cross_entropy(table[c.inputs].flatten(0, 1), c.targets.flatten(), reduction="sum")
        for c in streams(tokens, batch=4, steps=2)
    )
    whole = torch.nn.functional.cross_entropy(table[tokens[:-1]], tokens[1:], reduction="sum")
    # eleven float64 terms of order one, added in another order
    torch.testing.assert_close(summed, whole, rtol=0, atol=1e-13)


def test_tokens_of_any_integer_type_become_int64():
    for kind in (torch.uint8, torch.int32, torch.int64):
        (chunk,) = streams(torch.arange(5, dtype=kind), 1)
        assert chunk.inputs.dtype == chunk.targets.dtype == torch.int64
        assert chunk.targets.flatten().tolist() == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        (lambda: chunks([]), "pieces must hold at least one piece"),
        (lambda: chunks([torch.zeros(0, 5)]), r"at least one step .* not \[0, 5\] \(piece 0\)"),
        (lambda: chunks([torch.zeros(2, 5), torch.zeros(2, 4)]), r"the first \(5\), not \[2, 4\] \(piece 1\)"),
        (lambda: chunks([torch.zeros(5)]), r"not \[5\] \(piece 0\)"),
        (lambda: chunks([torch.tensor(1)]), r"not \[\] \(piece 0\)"),
        (lambda: chunks(pieces_of([3]), steps=0), "steps must be a whole number of at least 1, not 0"),
        (lambda: chunks(pieces_of([3]), batch=1.5), "batch must be a whole number of at least 1, not 1.5"),  # type: ignore[arg-type]
        (lambda: streams(torch.arange(9), 0), "batch must be a whole number"),
        (lambda: streams(torch.arange(9), 1, steps=0), "steps must be a whole number"),
        (lambda: streams(torch.arange(9), 1, ahead=0), "ahead must be a whole number"),
        (lambda: streams(torch.zeros(9), 1), r"tokens must be integers \[N\], not torch.float32 \[9\]"),
        (lambda: streams(torch.zeros(9, dtype=torch.bool), 1), r"tokens must be integers \[N\], not torch.bool"),
        (lambda: streams(torch.arange(9).reshape(3, 3), 1), r"tokens must be integers \[N\], not torch.int64 \[3, 3\]"),
    ],
)
def test_bad_arguments_are_refused_when_called(call, reason):
    with pytest.raises(ValueError, match=reason):
        call()
