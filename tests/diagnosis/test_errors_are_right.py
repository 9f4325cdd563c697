"""The errors that a watch reports are those of autograd through torch's own cells, for every kind of call."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from by_hand import error_norms
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pack_sequence

import steadygrad as sg

T, B, I, H = 9, 4, 3, 5
LAYERS: dict[str, Any] = {
    "torch.RNN": nn.RNN,
    "torch.GRU": nn.GRU,
    "torch.LSTM": nn.LSTM,
    "sg.RNN": sg.RNN,
    "sg.GRU": sg.GRU,
    "sg.LSTM": sg.LSTM,
}
every_layer = pytest.mark.parametrize("kind", LAYERS.values(), ids=LAYERS.keys())


def made(kind: Any, **options: Any) -> Any:
    torch.manual_seed(0)
    return kind(I, H, dtype=torch.float64, **options)


def data(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


def cost(output: Tensor, last: Tensor) -> Tensor:
    return output.sin().sum() + 2 * last.square().sum()


def looked_at(layer: Any, *given: Any) -> sg.Watch:
    with sg.watch(layer, every=1) as watch:
        output, last = layer(*given)
        cost(output, last[0] if isinstance(last, tuple) else last).backward()
    return watch


def assert_same(watch: sg.Watch, expected: dict[str, Tensor]) -> None:
    cells = watch.looks[-1].cells
    assert [cell.cell for cell in cells] == list(expected)
    for cell in cells:
        # float64 through T steps: a few ulps each
        torch.testing.assert_close(
            torch.tensor(cell.norms, dtype=torch.float64), expected[cell.cell].mean(1), rtol=1e-10, atol=1e-14
        )
        assert not cell.approximate


@every_layer
@pytest.mark.parametrize("bidirectional", [False, True], ids=["one-way", "both-ways"])
@pytest.mark.parametrize("layers", [1, 3])
def test_errors_of_every_step_equal_autograds(kind: Any, layers: int, bidirectional: bool) -> None:
    layer = made(kind, num_layers=layers, bidirectional=bidirectional)
    x = data(T, B, I)
    assert_same(looked_at(layer, x), error_norms(layer, x, cost))


@every_layer
def test_batch_first_and_an_initial_state(kind: Any) -> None:
    layer = made(kind, num_layers=2, batch_first=True)
    x, states = data(B, T, I), tuple(data(2, B, H) for _ in range(2 if layer.mode == "LSTM" else 1))
    watch = looked_at(layer, x, states if len(states) > 1 else states[0])
    assert_same(watch, error_norms(layer, x.transpose(0, 1), cost, states))


@every_layer
def test_one_sequence_without_a_batch(kind: Any) -> None:
    layer = made(kind)
    x = data(T, I)
    assert_same(looked_at(layer, x), error_norms(layer, x.unsqueeze(1), cost))


@every_layer
@pytest.mark.parametrize("bidirectional", [False, True], ids=["one-way", "both-ways"])
def test_a_packed_sequence_is_each_sequence_alone(kind: Any, bidirectional: bool) -> None:
    layer = made(kind, num_layers=2, bidirectional=bidirectional)
    lengths = [4, 9, 1, 6]
    sequences = [data(length, I) * (1 + index) for index, length in enumerate(lengths)]
    weights = data(max(lengths), 2 * H if bidirectional else H)
    with sg.watch(layer, every=1) as watch:
        output, last = layer(pack_sequence(sequences, enforce_sorted=False))
        padded, _ = nn.utils.rnn.pad_packed_sequence(output)
        (padded * weights.unsqueeze(1)).sum().backward(retain_graph=True)
        (last[0] if isinstance(last, tuple) else last).square().sum().backward()

    def alone_cost(output: Tensor, last: Tensor) -> Tensor:
        return (output[:, 0] * weights[: len(output)]).sum() + last.square().sum()

    alone = [error_norms(layer, x.unsqueeze(1), alone_cost) for x in sequences]
    for cell in watch.looks[-1].cells:
        for step in range(max(lengths)):
            own = [float(one[cell.cell][step, 0]) for one in alone if step < len(one[cell.cell])]
            assert cell.norms[step] == pytest.approx(sum(own) / len(own), rel=1e-9, abs=1e-14)


def test_a_packed_sequence_with_an_initial_state_is_sorted_as_the_layer_sorts_it() -> None:
    layer = made(nn.LSTM)
    x, states, lengths = data(T, B, I), (data(1, B, H), 3 * data(1, B, H)), torch.tensor([3, 9, 5, 7])
    with sg.watch(layer, every=1) as watch:
        _, (last, _) = layer(pack_padded_sequence(x, lengths, enforce_sorted=False), states)
        last.square().sum().backward()
    total = torch.zeros(T, dtype=torch.float64)
    count = torch.zeros(T, dtype=torch.float64)
    for b, length in enumerate(lengths.tolist()):
        own = tuple(part[:, b : b + 1] for part in states)
        norms = error_norms(layer, x[:length, b : b + 1], lambda o, h: h.square().sum(), own)["l0"]
        total[:length] += norms[:, 0]
        count[:length] += 1
    torch.testing.assert_close(
        torch.tensor(watch.looks[0].cells[0].norms, dtype=torch.float64), total / count, rtol=1e-9, atol=1e-15
    )


@pytest.mark.parametrize("packed", [False, True], ids=["padded", "packed"])
@every_layer
def test_dropout_between_layers_is_repeated(kind: Any, packed: bool) -> None:
    layer = made(kind, num_layers=3, dropout=0.4)
    x = data(T, B, I)
    given = pack_padded_sequence(x, torch.tensor([9, 7, 7, 2])) if packed else x
    with sg.watch(layer, every=1) as watch:
        torch.manual_seed(5)
        output, _ = layer(given)
        (output.data if packed else output).sin().sum().backward()
    assert not any(cell.approximate for cell in watch.looks[0].cells)
    # The lowest layer's weights get their gradient from the errors below both masks.
    assert layer.weight_hh_l0.grad is not None
    assert watch.looks[0].gradients["weight_hh_l0"] == pytest.approx(layer.weight_hh_l0.grad.norm().item())


def test_a_mask_that_can_not_be_repeated_is_said() -> None:
    def draw(module: Any, args: Any) -> None:
        torch.rand(7)  # after the watch has noted the random state

    layer = made(nn.GRU, num_layers=2, dropout=0.4)
    with sg.watch(layer, every=1) as watch:
        hook = layer.register_forward_pre_hook(draw)
        output, _ = layer(data(T, B, I))
        output.sum().backward()
        hook.remove()
    assert "dropout between layers can't be repeated" in watch.notes[0]


OPTIONS: list[tuple[Any, dict[str, Any]]] = [
    (sg.RNN, {"leak": 0.3}),
    (sg.RNN, {"omega": "program"}),
    (sg.RNN, {"clip_error": 0.01}),
    (sg.RNN, {"leak": 0.3, "clip_error": 0.01}),
    (sg.RNN, {"omega": "program", "clip_error": 0.01}),
    (sg.RNN, {"nonlinearity": "sigmoid"}),
    (sg.RNN, {"nonlinearity": "identity", "bias": False}),
    (sg.GRU, {"clip_error": 0.01}),
    (sg.LSTM, {"clip_error": 0.01, "bias": False}),
]


@pytest.mark.parametrize("packed", [False, True], ids=["padded", "packed"])
@pytest.mark.parametrize(("kind", "options"), OPTIONS, ids=lambda each: str(getattr(each, "__name__", each)))
def test_options_of_our_layer_are_kept(kind: Any, options: dict[str, Any], packed: bool) -> None:
    layer = made(kind, num_layers=2, bidirectional=True, alpha=0.7, **options)
    x = data(T, B, I)
    with sg.watch(layer, every=1) as watch:
        output, _ = layer(pack_padded_sequence(x, torch.tensor([9, 7, 7, 2])) if packed else x)
        (output.data if packed else output).sin().sum().backward()
    for cell, flow in zip(watch.looks[0].cells, layer.flow, strict=True):
        torch.testing.assert_close(torch.tensor(cell.norms, dtype=torch.float64), flow.norms, rtol=1e-9, atol=1e-15)
        ratios = torch.tensor(cell.ratios, dtype=torch.float64)
        torch.testing.assert_close(ratios, flow.ratios, rtol=1e-8, atol=1e-15, equal_nan=True)
        assert cell.omega == pytest.approx(flow.omega, rel=1e-7)


@every_layer
@pytest.mark.parametrize("packed", [False, True], ids=["padded", "packed"])
def test_the_horizon_is_that_of_the_last_losses_error(kind: Any, packed: bool) -> None:
    """A loss at every step hides what comes from afar; the horizon must be the one of a loss at the last step alone."""
    layer = made(kind, num_layers=1, bidirectional=True)
    x = data(40, B, I)
    given = pack_padded_sequence(x, torch.tensor([40, 31, 31, 17])) if packed else x

    def looks(loss: Any) -> list[Any]:
        with sg.watch(layer, every=1) as watch:
            output = layer(given)[0]
            loss(nn.utils.rnn.pad_packed_sequence(output)[0] if packed else output).backward()
        return list(watch.looks[0].cells)

    def ends(output: Tensor) -> Tensor:
        lasts = torch.tensor([40, 31, 31, 17] if packed else [40] * B) - 1
        return output[lasts, torch.arange(B), :H].sin().sum() + output[0, :, H:].sin().sum()

    for everywhere, end in zip(looks(lambda output: output.sin().sum()), looks(ends), strict=True):
        assert (everywhere.horizon, everywhere.room) == (end.horizon, end.room)
        assert everywhere.growth == pytest.approx(end.growth, rel=1e-9)
        assert everywhere.norms != pytest.approx(end.norms, rel=1e-3)


def test_tokens_and_other_dtypes() -> None:
    layer = sg.GRU(7, H)
    with sg.watch(layer, every=1) as watch:
        layer(torch.randint(7, (T, B)))[0].sum().backward()
    assert watch.looks[0].cells[0].steps == T
    half = nn.GRU(I, H, dtype=torch.bfloat16)
    with sg.watch(half, every=1) as watch:
        half(data(T, B, I).bfloat16())[0].sum().backward()
    assert watch.looks[0].cells[0].horizon > 0


@pytest.mark.skipif(
    not torch.ops.mkldnn._is_mkldnn_bf16_supported(), reason="torch.nn.LSTM has no bfloat16 on this processor"
)
def test_autocast() -> None:
    whole = nn.LSTM(I, H)
    with sg.watch(whole, every=1) as watch, torch.autocast("cpu", torch.bfloat16):
        whole(data(T, B, I).float())[0].float().sum().backward()
    assert watch.looks[0].cells[0].horizon > 0


@every_layer
@pytest.mark.parametrize("packed", [False, True], ids=["padded", "packed"])
def test_of_a_large_batch_some_sequences_are_seen_exactly(kind: Any, packed: bool) -> None:
    layer = made(kind, num_layers=2, batch_first=not packed, dropout=0.3)
    x = data(T, 29, I)
    given = pack_padded_sequence(x, torch.arange(29, 0, -1).clamp(max=T)) if packed else x.transpose(0, 1)
    with sg.watch(layer, every=1) as watch:
        output, _ = layer(given)
        (output.data if packed else output).sin().sum().backward()
    rows = [0, 4, 8, 12, 16, 20, 24, 28]
    assert not any(cell.approximate for cell in watch.looks[0].cells)
    layer.dropout = 0.0
    lengths, chosen = torch.arange(29, 0, -1).clamp(max=T)[rows], x[:, rows]
    with sg.watch(layer, every=1) as few:
        output, _ = layer(pack_padded_sequence(chosen, lengths) if packed else chosen.transpose(0, 1))
        (output.data if packed else output).sin().sum().backward()
    assert watch.looks[0].cells[0].batch == few.looks[0].cells[0].batch == 8
    with sg.watch(layer, every=1) as whole:
        output, _ = layer(given)
        (output.data if packed else output).sin().sum().backward()
    for cell, expected in zip(whole.looks[0].cells, few.looks[0].cells, strict=True):
        assert cell.norms == pytest.approx(expected.norms, rel=1e-9)
        assert cell.horizon == expected.horizon


def test_the_sequence_that_is_not_finite_is_among_those_that_are_seen() -> None:
    layer = made(nn.GRU)
    x = data(T, 50, I)
    x[5, 33, 1] = float("inf")
    with sg.watch(layer, every=1) as watch:
        layer(x)[0].sum().backward()
    assert str(watch.looks[0].cells[0].fault) == "input of step 5"
    assert watch.looks[0].cells[0].batch == 8
