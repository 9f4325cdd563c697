"""Compiled layers equal eager ones however their tensors lie in memory, and one compilation serves all layers alike."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence

import steadygrad as sg
from steadygrad.recurrence import native

pytestmark = [  # torch's own compiler, on import and where a graph is cut
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf:UserWarning"),
]
T, B, I, H = 5, 3, 4, 4
NATIVE_OR_TORCH = "auto"


def noise(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64)


def packed() -> PackedSequence:
    return pack_padded_sequence(noise(T, B, I), torch.tensor([5, 2, 3]), enforce_sorted=False)


LAYOUTS: dict[str, Callable[[], Any]] = {
    "batch-first": lambda: noise(B, T, I),
    "sliced": lambda: noise(T, 2 * B, 2 * I)[:, ::2, 1::2],
    "permuted": lambda: noise(I, T, B).permute(1, 2, 0),
    "expanded-tokens": lambda: torch.randint(I, (1, 1)).expand(T, B),
    "sliced-tokens": lambda: torch.randint(I, (2 * T, 2 * B))[::2, ::2],
    "transposed-weights": lambda: noise(T, B, I),
    "unbatched": lambda: noise(T, 2 * I)[:, ::2],
    "packed": packed,
}
CELLS = {"RNN": sg.RNN, "GRU": sg.GRU, "LSTM": sg.LSTM}


@pytest.fixture(autouse=True)
def _fresh_compiler() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def layer(cell: str, backend: str, layout: str, **arguments: Any) -> Any:
    torch.manual_seed(1)
    arguments = {"alpha": 0.5, "dtype": torch.float64} | arguments
    made = CELLS[cell](I, H, batch_first=layout == "batch-first", backend=backend, **arguments)
    if layout == "transposed-weights":
        for parameter in (made.weight_ih_l0, made.weight_hh_l0):
            parameter.data = parameter.data.T.contiguous().T
            assert not parameter.is_contiguous()
    return made


def loss(run: Callable[..., Any], given: Any) -> Tensor:
    """A weighted sum in which every entry of the output and of the last states counts differently."""
    output, last = run(given)
    found = [output.data if isinstance(output, PackedSequence) else output, *(last if type(last) is tuple else [last])]
    return sum(
        ((part * torch.linspace(0, 1, part.numel()).view(part.shape).to(part)).sum() for part in found),
        torch.zeros((), dtype=torch.float64),
    )


def gradients(run: Callable[..., Any], given: Any, rnn: torch.nn.Module) -> list[Tensor]:
    """Of the parameters, and of the input where it has one."""
    leaves = list(rnn.parameters())
    if isinstance(given, Tensor) and given.is_floating_point():
        given = given.detach().requires_grad_()
        leaves.append(given)
    return list(torch.autograd.grad(loss(run, given), leaves))


def assert_same(found: list[Tensor], expected: list[Tensor]) -> None:
    assert any(bool(each.any()) for each in expected)
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-13)


def each_layout_and_backend() -> list[Any]:
    rows = [(cell, layout, backend) for cell in CELLS for layout in LAYOUTS for backend in ("torch", "native")]
    rows += [("RNN", layout, "reference") for layout in LAYOUTS] + [("LSTM", "packed", "reference")]
    unbuilt = pytest.mark.skipif(native.library() is None, reason="the C++ kernel is not built")
    return [pytest.param(*row, id="-".join(row), marks=unbuilt if row[2] == "native" else ()) for row in rows]


@pytest.mark.parametrize(("cell", "layout", "backend"), each_layout_and_backend())
def test_compiled_equals_eager(cell: str, layout: str, backend: str) -> None:
    rnn = layer(cell, backend, layout)
    given = LAYOUTS[layout]()
    expected, norms = gradients(rnn, given, rnn), rnn.flow.norms
    rnn.zero_grad()
    assert_same(gradients(torch.compile(rnn, backend="aot_eager"), given, rnn), expected)
    torch.testing.assert_close(rnn.flow.norms, norms, rtol=1e-12, atol=0)


def other_strides(tensor: Tensor) -> Tensor:
    """An equal tensor whose axes lie in memory in the opposite order, with a gap between its entries."""
    if tensor.dim() == 0:
        return tensor
    room = tensor.new_empty([2 * size for size in reversed(tensor.shape)])
    view = room.permute(*range(tensor.dim() - 1, -1, -1))[tuple(slice(None, None, 2) for _ in tensor.shape)]
    return view.copy_(tensor.detach())


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("layout", ["batch-first", "sliced-tokens"])
def test_hooks_that_return_saved_tensors_with_other_strides_change_nothing(
    fast_backend: str, layout: str, cell: str, compiled: bool
) -> None:
    rnn = layer(cell, fast_backend, layout)
    given = LAYOUTS[layout]()
    expected = gradients(rnn, given, rnn)
    run = torch.compile(rnn, backend="aot_eager") if compiled else rnn
    with torch.autograd.graph.saved_tensors_hooks(lambda tensor: tensor, other_strides):
        assert_same(gradients(run, given, rnn), expected)


@pytest.mark.skipif(shutil.which("g++") is None and shutil.which("clang++") is None, reason="inductor needs a compiler")
def test_inductor_equals_eager() -> None:
    rnn, given = layer("RNN", NATIVE_OR_TORCH, "batch-first"), noise(B, T, I)
    expected = gradients(rnn, given, rnn)
    assert_same(gradients(torch.compile(rnn, backend="inductor"), given, rnn), expected)


@pytest.mark.parametrize("cell", CELLS)
def test_ten_layers_and_ten_values_of_alpha_are_compiled_once(cell: str) -> None:
    x = noise(T, B, I)
    layers = [layer(cell, NATIVE_OR_TORCH, "batch-first", alpha=0.1 * (index + 1)) for index in range(10)]
    layers[0].alpha = 0.7

    def total(rnn: Any, x: Tensor) -> Tensor:
        return rnn(x)[0].square().sum()

    with torch._dynamo.config.patch(recompile_limit=1, fail_on_recompile_limit_hit=True):
        compiled = torch.compile(total, backend="aot_eager", fullgraph=True)
        for rnn in layers:
            compiled(rnn, x).backward()
        for alpha in range(10):
            layers[0].alpha = alpha / 10
            layers[0].zero_grad()
            compiled(layers[0], x).backward()
            found = layers[0].weight_hh_l0.grad.clone()
            (expected,) = torch.autograd.grad(total(layers[0], x), [layers[0].weight_hh_l0])
            torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-13)
    for rnn in layers:
        assert len(rnn.flow) == 1, "every layer has a flow of its own"
