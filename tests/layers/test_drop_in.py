"""sg.RNN in place of torch.nn.RNN: the same weights, the same outputs, the same gradients."""

from __future__ import annotations

import io
import itertools
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence

import steadygrad as sg

# In float64 two orders of summation differ by rounding alone; 12 digits are left after these few steps.
CLOSE: dict[str, Any] = {"rtol": 1e-12, "atol": 1e-13}
STEPS, BATCH, INPUTS, HIDDEN = 9, 4, 3, 6
SHAPES: dict[str, dict[str, Any]] = {
    "tanh": {},
    "relu": {"nonlinearity": "relu"},
    "no-bias": {"bias": False},
    "two-layers": {"num_layers": 2},
    "bidirectional": {"bidirectional": True},
    "deep-bidirectional-relu": {"num_layers": 3, "bidirectional": True, "nonlinearity": "relu"},
    "batch-first": {"batch_first": True},
    "batch-first-bidirectional": {"batch_first": True, "bidirectional": True, "num_layers": 2},
    "dropout": {"num_layers": 3, "dropout": 0.4},
    "dropout-bidirectional-batch-first": {"num_layers": 2, "dropout": 0.4, "bidirectional": True, "batch_first": True},
    "dropout-of-everything": {"num_layers": 2, "dropout": 1.0},
}


def pair(arguments: dict[str, Any], backend: str, dtype: torch.dtype = torch.float64) -> tuple[sg.RNN, torch.nn.RNN]:
    """Both layers from the same seed."""
    torch.manual_seed(1)
    ours = sg.RNN(INPUTS, HIDDEN, **arguments, backend=backend, dtype=dtype)
    torch.manual_seed(1)
    return ours, torch.nn.RNN(INPUTS, HIDDEN, **arguments, dtype=dtype)


def state_for(rnn: torch.nn.Module, batch: int | None = BATCH) -> Tensor:
    cells = sum(name.startswith("weight_hh") for name, _ in rnn.named_parameters())
    shape = (cells, HIDDEN) if batch is None else (cells, batch, HIDDEN)
    return torch.randn(*shape, dtype=torch.float64, requires_grad=True)


def everything(rnn: torch.nn.Module, x: Tensor, state: Tensor | None, lengths: list[int] | None = None) -> list[Tensor]:
    """Output, last states, and the gradients of parameters, input and h0 of a loss that sees both."""
    sequence: Tensor | PackedSequence = x
    if lengths is not None:
        in_order = lengths == sorted(lengths, reverse=True)
        first = bool(getattr(rnn, "batch_first", False))
        sequence = pack_padded_sequence(x, torch.tensor(lengths), batch_first=first, enforce_sorted=in_order)
    torch.manual_seed(7)  # the dropout's
    output, last = rnn(sequence, state)
    data = output.data if isinstance(output, PackedSequence) else output
    leaves = [x, *rnn.parameters(), *([state] if state is not None else [])]
    return [data, last, *torch.autograd.grad(data.square().sum() + (3 * last).sin().sum(), leaves)]


def assert_same(ours: list[Tensor], theirs: list[Tensor]) -> None:
    for found, expected in zip(ours, theirs, strict=True):
        torch.testing.assert_close(found, expected, **CLOSE)


@pytest.mark.parametrize("arguments", SHAPES.values(), ids=SHAPES.keys())
def test_same_seed_gives_the_same_initial_weights_under_the_same_names(arguments: dict[str, Any]) -> None:
    ours, theirs = pair(arguments, "auto", torch.float32)
    found, expected = ours.state_dict(), theirs.state_dict()
    assert list(found) == list(expected)
    assert all(torch.equal(found[name], expected[name]) for name in expected)


@pytest.mark.parametrize("arguments", SHAPES.values(), ids=SHAPES.keys())
def test_state_dict_goes_both_ways_strictly(arguments: dict[str, Any]) -> None:
    ours, theirs = sg.RNN(INPUTS, HIDDEN, **arguments), torch.nn.RNN(INPUTS, HIDDEN, **arguments)
    ours.load_state_dict(theirs.state_dict(), strict=True)
    assert all(torch.equal(a, b) for a, b in zip(ours.parameters(), theirs.parameters(), strict=True))
    ours.reset_parameters()
    theirs.load_state_dict(ours.state_dict(), strict=True)
    assert all(torch.equal(a, b) for a, b in zip(ours.parameters(), theirs.parameters(), strict=True))


@pytest.mark.parametrize("with_state", [False, True], ids=["zeros", "h0"])
@pytest.mark.parametrize("arguments", SHAPES.values(), ids=SHAPES.keys())
def test_outputs_and_gradients_equal_torch(backend: str, arguments: dict[str, Any], with_state: bool) -> None:
    ours, theirs = pair(arguments, backend)
    shape = (BATCH, STEPS) if arguments.get("batch_first") else (STEPS, BATCH)
    x = torch.randn(*shape, INPUTS, dtype=torch.float64, requires_grad=True)
    state = state_for(theirs) if with_state else None
    assert_same(everything(ours, x, state), everything(theirs, x, state))


@pytest.mark.parametrize("arguments", SHAPES.values(), ids=SHAPES.keys())
def test_unbatched_input_equals_torch(backend: str, arguments: dict[str, Any]) -> None:
    ours, theirs = pair(arguments, backend)
    x = torch.randn(STEPS, INPUTS, dtype=torch.float64, requires_grad=True)
    state = state_for(theirs, None)
    assert_same(everything(ours, x, state), everything(theirs, x, state))


@pytest.mark.parametrize("with_state", [False, True], ids=["zeros", "h0"])
@pytest.mark.parametrize("lengths", [[9, 7, 7, 1], [3, 9, 1, 5]], ids=["sorted", "unsorted"])
@pytest.mark.parametrize("arguments", SHAPES.values(), ids=SHAPES.keys())
def test_packed_sequences_equal_torch(
    backend: str, arguments: dict[str, Any], lengths: list[int], with_state: bool
) -> None:
    ours, theirs = pair(arguments, backend)
    first = bool(arguments.get("batch_first"))
    x = torch.randn(*((BATCH, STEPS) if first else (STEPS, BATCH)), INPUTS, dtype=torch.float64, requires_grad=True)
    state = state_for(theirs) if with_state else None
    assert_same(everything(ours, x, state, lengths), everything(theirs, x, state, lengths))


def test_packed_output_keeps_its_order_and_sizes(backend: str) -> None:
    packed = pack_padded_sequence(torch.randn(STEPS, BATCH, INPUTS), torch.tensor([3, 9, 1, 5]), enforce_sorted=False)
    output, _ = sg.RNN(INPUTS, HIDDEN, backend=backend)(packed)
    assert isinstance(output, PackedSequence)
    assert torch.equal(output.batch_sizes, packed.batch_sizes)
    for name in ("sorted_indices", "unsorted_indices"):
        assert torch.equal(getattr(output, name), getattr(packed, name))


@pytest.mark.parametrize("packed", [False, True])
def test_tokens_equal_one_hot_vectors(backend: str, packed: bool) -> None:
    torch.manual_seed(0)
    rnn = sg.RNN(INPUTS, HIDDEN, num_layers=2, backend=backend, dtype=torch.float64)
    tokens = torch.randint(INPUTS, (STEPS, BATCH))
    one_hot = torch.nn.functional.one_hot(tokens, INPUTS).double()
    lengths = torch.tensor([3, 9, 1, 5])
    results: list[list[Tensor]] = []
    for sequence in (tokens, one_hot):
        given = pack_padded_sequence(sequence, lengths, enforce_sorted=False) if packed else sequence
        output, last = rnn(given)
        data = output.data if packed else output
        results.append([data, last, *torch.autograd.grad(data.square().sum(), list(rnn.parameters()))])
    assert_same(*results)


def test_eval_mode_drops_nothing(backend: str) -> None:
    ours, theirs = pair({"num_layers": 2, "dropout": 0.9}, backend)
    x = torch.randn(STEPS, BATCH, INPUTS, dtype=torch.float64)
    torch.testing.assert_close(ours.eval()(x)[0], theirs.eval()(x)[0], **CLOSE)
    assert not torch.equal(ours.train()(x)[0], ours.eval()(x)[0])


@pytest.mark.parametrize("convert", ["double", "constructor"])
def test_a_layer_converted_to_double_computes_in_double(backend: str, convert: str) -> None:
    ours, theirs = pair({}, backend, torch.float64 if convert == "constructor" else torch.float32)
    x = torch.randn(STEPS, BATCH, INPUTS, dtype=torch.float64)
    found, expected = ours.double()(x)[0], theirs.double()(x)[0]
    assert found.dtype == torch.float64
    torch.testing.assert_close(found, expected, **CLOSE)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("leak", [0.0, 0.3])
def test_half_precision_works_and_is_near_float64(dtype: torch.dtype, leak: float) -> None:
    torch.manual_seed(0)
    rnn = sg.RNN(INPUTS, HIDDEN, alpha=0.5, leak=leak, dtype=dtype)
    exact = sg.RNN(INPUTS, HIDDEN, alpha=0.5, leak=leak, dtype=torch.float64, backend="reference")
    exact.load_state_dict(rnn.state_dict())
    x = torch.randn(STEPS, BATCH, INPUTS).to(dtype)
    for each in (rnn, exact):
        each(x.to(each.weight_hh_l0.dtype))[0].sum().backward()
    output = rnn(x)[0]
    assert output.dtype == dtype
    # bfloat16 keeps 2 to 3 digits, and a few dozen roundings are added up.
    torch.testing.assert_close(output.double(), exact(x.double())[0], rtol=0, atol=0.05)
    for name, parameter in rnn.named_parameters():
        expected = exact.get_parameter(name).grad
        assert parameter.grad is not None
        assert parameter.grad.dtype == dtype
        assert expected is not None
        assert (parameter.grad.double() - expected).norm() <= 0.05 * expected.norm()


def test_autocast_leaves_the_layer_its_own_dtype(backend: str) -> None:
    rnn, x = sg.RNN(INPUTS, HIDDEN, alpha=0.5, backend=backend), torch.randn(STEPS, BATCH, INPUTS, requires_grad=True)
    leaves = [x, *rnn.parameters()]
    plain, _ = rnn(x)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        cast, _ = rnn(x)
        assert rnn(x.bfloat16())[0].dtype == torch.float32
    assert torch.equal(cast, plain)
    expected = torch.autograd.grad(plain.square().sum(), leaves)
    found = torch.autograd.grad(cast.square().sum(), leaves)
    assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))


@pytest.mark.parametrize("lengths", [None, [3, 9, 1, 5]], ids=["whole", "packed"])
def test_a_backward_pass_under_autocast_keeps_its_digits(fast_backend: str, lengths: list[int] | None) -> None:
    rnn, x = sg.RNN(INPUTS, HIDDEN, alpha=0.5, backend=fast_backend), torch.randn(STEPS, BATCH, INPUTS).requires_grad_()
    plain = everything(rnn, x, None, lengths)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        cast = everything(rnn, x, None, lengths)
    assert all(torch.equal(a, b) for a, b in zip(cast, plain, strict=True))


def test_no_grad_gives_the_same_output_and_no_graph(backend: str) -> None:
    rnn = sg.RNN(INPUTS, HIDDEN, num_layers=2, backend=backend)
    x = torch.randn(STEPS, BATCH, INPUTS)
    with_graph = rnn(x)
    with torch.no_grad():
        without = rnn(x)
    assert all(torch.equal(a, b) for a, b in zip(with_graph, without, strict=True))
    assert not any(each.requires_grad for each in without)
    with torch.inference_mode():
        assert torch.equal(rnn(x)[0], with_graph[0])


def test_state_survives_torch_save_and_safetensors(tmp_path: Path) -> None:
    rnn = sg.RNN(INPUTS, HIDDEN, num_layers=2, bidirectional=True, alpha=0.5)
    rnn(torch.randn(STEPS, BATCH, INPUTS))[0].sum().backward()
    file = io.BytesIO()
    torch.save(rnn.state_dict(), file)
    file.seek(0)
    safetensors.torch.save_file(rnn.state_dict(), tmp_path / "rnn.safetensors")
    for state in (torch.load(file, weights_only=True), safetensors.torch.load_file(tmp_path / "rnn.safetensors")):
        other = sg.RNN(INPUTS, HIDDEN, num_layers=2, bidirectional=True)
        other.load_state_dict(state, strict=True)
        assert all(torch.equal(a, b) for a, b in zip(other.parameters(), rnn.parameters(), strict=True))


def test_all_weights_lists_the_parameters_as_torch_does() -> None:
    ours, theirs = pair({"num_layers": 2, "bidirectional": True}, "auto")
    flat, expected = itertools.chain(*ours.all_weights), itertools.chain(*theirs.all_weights)
    assert all(torch.equal(a, b) for a, b in zip(flat, expected, strict=True))


@pytest.mark.parametrize(
    ("rnn", "text"),
    [
        (sg.RNN(3, 5), "RNN(3, 5)"),
        (sg.RNN(3, 5, 2, "relu", False, True, 0.5, True), (
            "RNN(3, 5, num_layers=2, nonlinearity='relu', bias=False, batch_first=True, dropout=0.5, bidirectional=True)"
        )),
        (sg.RNN(3, 5, alpha=2, omega="program", leak=0.1, clip_error=4, backend="torch"), (
            "RNN(3, 5, alpha=2.0, omega='program', leak=0.1, clip_error=4.0, backend='torch')"
        )),
    ],
    ids=["defaults", "torch's arguments", "our arguments"],
)  # fmt: skip
def test_repr_names_what_differs_from_the_defaults(rnn: sg.RNN, text: str) -> None:
    assert repr(rnn) == text
