"""A short forward pass without gradients (layers/quick.py): the reference's numbers, and nothing strange is taken for plain."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.utils import parametrizations
from torch.nn.utils.rnn import PackedSequence, pack_sequence
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

import steadygrad as sg
from steadygrad.recurrence import inference, native

pytestmark = pytest.mark.skipif(native.library() is None, reason="the C++ kernel is not built")
CELLS = ("RNN", "GRU", "LSTM")


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Grows by one entry at each pass that comes to the quick way: whether it took it."""
    seen: list[bool] = []
    run = inference.run

    def watched(*arguments: Any) -> Any:
        found = run(*arguments)
        seen.append(found is not None)
        return found

    monkeypatch.setattr(inference, "run", watched)
    return seen


@pytest.fixture(autouse=True)
def threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def layer_of(cell: str, inputs: int = 5, hidden: int = 19, backend: str = "auto", **options: Any) -> Any:
    torch.manual_seed(0)
    return getattr(sg, cell)(inputs, hidden, backend=backend, **({"dtype": torch.float64} | options))


def tensors(result: Any) -> list[Tensor]:
    output, last = result
    data = output.data if isinstance(output, PackedSequence) else output
    return [data, *(last if isinstance(last, tuple) else (last,))]


def state_of(layer: Any, batch: int) -> Any:
    parts = [torch.randn(len(layer._recorders), batch, layer.hidden_size, dtype=layer.weight_hh_l0.dtype) for _ in "hc"]
    return tuple(parts) if layer.cell == "LSTM" else parts[0]


def check(layer: Any, *arguments: Any, tolerance: float = 1e-12) -> None:
    """As the reference has it, in shapes and numbers."""
    reference = layer_of(
        layer.cell,
        layer.input_size,
        layer.hidden_size,
        "reference",
        **{name: getattr(layer, name) for name in ("num_layers", "bias", "batch_first", "bidirectional")},
        **({"nonlinearity": layer.nonlinearity, "leak": layer.leak} if layer.cell == "RNN" else {}),
    )
    reference.load_state_dict(layer.state_dict())
    with torch.no_grad():
        found, wanted = tensors(layer(*arguments)), tensors(reference(*arguments))
    for ours, theirs in zip(found, wanted, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=tolerance, atol=tolerance)


SHAPES = list(itertools.product(CELLS, (1, 3), (1, 2, 7), (1, 8, 19, 50)))


@pytest.mark.parametrize(("cell", "steps", "batch", "hidden"), SHAPES)
@pytest.mark.parametrize(
    "options", [{}, {"num_layers": 3, "bidirectional": True}, {"batch_first": True, "bias": False}]
)
def test_outputs_equal_the_reference(
    cell: str, steps: int, batch: int, hidden: int, options: dict[str, Any], taken: list[bool]
) -> None:
    layer = layer_of(cell, 33, hidden, **options)
    inputs = torch.randn(steps, batch, 33, dtype=torch.float64)
    inputs = inputs.transpose(0, 1) if layer.batch_first else inputs  # which is not contiguous
    check(layer, inputs)
    check(layer, inputs, state_of(layer, batch))
    assert taken == [True, True]


@pytest.mark.parametrize("nonlinearity", ["tanh", "relu", "sigmoid", "identity"])
@pytest.mark.parametrize("leak", [0.0, 0.3])
def test_every_plain_cell_equals_the_reference(nonlinearity: str, leak: float, taken: list[bool]) -> None:
    layer = layer_of("RNN", nonlinearity=nonlinearity, leak=leak, num_layers=2)
    check(layer, torch.randn(2, 3, 5, dtype=torch.float64), state_of(layer, 3))
    check(layer, torch.randn(2, 5, dtype=torch.float64))  # unbatched
    assert taken == [True, True]


@pytest.mark.parametrize("cell", CELLS)
def test_tokens_equal_the_reference_and_bad_ones_are_refused(cell: str, taken: list[bool]) -> None:
    layer = layer_of(cell, 11, num_layers=2, bidirectional=True)
    check(layer, torch.randint(11, (2, 3)), state_of(layer, 3))
    check(layer, torch.randint(11, (4,)))
    assert taken == [True, True]
    for wrong in (11, -1):
        with torch.no_grad(), pytest.raises(IndexError, match="token outside 0 … 10"):
            layer(torch.tensor([[3, wrong]]))


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("lengths", [[5, 1, 1], [1, 4, 2, 4], [3]], ids=str)
@pytest.mark.parametrize("options", [{}, {"num_layers": 2, "bidirectional": True}])
def test_packed_sequences_equal_the_reference(
    cell: str, lengths: list[int], options: dict[str, Any], taken: list[bool]
) -> None:
    layer = layer_of(cell, **options)
    packed = pack_sequence([torch.randn(n, 5, dtype=torch.float64) for n in lengths], enforce_sorted=False)
    check(layer, packed)
    check(layer, packed, state_of(layer, len(lengths)))
    assert taken == [True, True]


def test_float32_is_as_exact_as_torch(taken: list[bool]) -> None:
    for cell, hidden in itertools.product(CELLS, (300, 1024)):
        layer = layer_of(cell, 700, hidden, dtype=torch.float32)
        theirs = getattr(torch.nn, cell)(700, hidden)
        theirs.load_state_dict(layer.state_dict())
        inputs, state = torch.randn(1, 2, 700), state_of(layer, 2)
        exact = getattr(torch.nn, cell)(700, hidden).double()
        exact.load_state_dict({name: value.double() for name, value in layer.state_dict().items()})
        doubles = tuple(part.double() for part in state) if cell == "LSTM" else state.double()
        with torch.no_grad():
            wanted = tensors(exact(inputs.double(), doubles))
            ours, torchs = tensors(layer(inputs, state)), tensors(theirs(inputs, state))
        for a, b, right in zip(ours, torchs, wanted, strict=True):
            assert (a - right).abs().max() <= 2 * (b - right).abs().max() + 1e-7
    assert all(taken)


@pytest.mark.parametrize("cell", CELLS)
def test_threads_do_not_change_a_bit(cell: str) -> None:
    layer, inputs = layer_of(cell, 300, 1024, dtype=torch.float32), torch.randn(1, 3, 300)
    results: list[list[Tensor]] = []
    for count in (1, 2, 3):
        torch.set_num_threads(count)
        with torch.no_grad():
            results += [tensors(layer(inputs)), tensors(layer(inputs))]
    for result in results[1:]:
        assert all(torch.equal(a, b) for a, b in zip(result, results[0], strict=True))


@pytest.mark.parametrize("cell", CELLS)
def test_changed_weights_are_seen_at_once(cell: str, taken: list[bool]) -> None:
    layer, inputs = layer_of(cell, num_layers=2), torch.randn(1, 2, 5, dtype=torch.float64)
    state = state_of(layer, 2)

    def by_data() -> None:  # bumps no version
        layer.weight_hh_l1.data.mul_(0.5)
        layer.weight_ih_l0.data[0, 0] = 3.0

    def by_optimizer() -> None:
        layer(torch.randn(4, 2, 5, dtype=torch.float64))[0].square().sum().backward()
        torch.optim.SGD(layer.parameters(), lr=0.1).step()

    def by_exchange() -> None:
        layer.weight_hh_l0 = torch.nn.Parameter(torch.randn_like(layer.weight_hh_l0))

    changes: list[Callable[[], Any]] = [
        by_data,
        by_optimizer,
        by_exchange,
        lambda: layer.load_state_dict(layer_of(cell, num_layers=2).state_dict()),
        lambda: torch.nn.init.orthogonal_(layer.weight_hh_l0),
    ]
    for change in changes:
        with torch.no_grad():
            before = layer(inputs, state)[0].clone()
        change()
        check(layer, inputs, state)
        with torch.no_grad():
            assert not torch.equal(before, layer(inputs, state)[0])
    assert all(taken)


def test_output_and_last_state_are_apart_and_inputs_are_left_alone() -> None:
    layer, inputs = layer_of("LSTM"), torch.randn(1, 2, 5, dtype=torch.float64)
    state = state_of(layer, 2)
    kept = [part.clone() for part in state]
    with torch.no_grad():
        output, (h, c) = layer(inputs, state)
        output.zero_()
    assert h.abs().min() > 0
    assert c.abs().min() > 0
    assert all(torch.equal(a, b) for a, b in zip(kept, state, strict=True))


class Watched(TorchDispatchMode):
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


class Renamed(TorchFunctionMode):
    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


class Own(Tensor):
    pass


def under(context: Any) -> Callable[[Any, Tensor], Any]:
    def call(layer: Any, inputs: Tensor) -> Any:
        with torch.no_grad(), context():
            return layer(inputs)

    return call


def without_gradients(call: Callable[[Any, Tensor], Any]) -> Callable[[Any, Tensor], Any]:
    return torch.no_grad()(call)


def parametrized(layer: Any, inputs: Tensor) -> Any:
    parametrizations.weight_norm(layer, "weight_hh_l0")
    return layer(inputs)


def dropping(layer: Any, inputs: Tensor) -> Any:
    layer.num_layers, layer.dropout = layer.num_layers, 0.5
    return layer.train()(inputs)


STRANGE = {
    "gradients of the weights": lambda layer, inputs: layer(inputs),
    "gradients of the input": lambda layer, inputs: layer.requires_grad_(False)(inputs.requires_grad_()),
    "a dispatch mode": under(Watched),
    "a function mode": under(Renamed),
    "forward-mode derivatives": under(torch.autograd.forward_ad.dual_level),
    "a subclass": without_gradients(lambda layer, inputs: layer(inputs.as_subclass(Own))),
    "vmap": without_gradients(lambda layer, inputs: torch.vmap(lambda x: layer(x)[0])(inputs.unsqueeze(0))),
    "parametrized weights": without_gradients(parametrized),
    "dropout between layers": without_gradients(dropping),
    "a zero tensor": without_gradients(
        lambda layer, _: layer(torch._efficientzerotensor((1, 2, 5), dtype=torch.float64))
    ),
    "a lazily negated input": without_gradients(
        lambda layer, inputs: layer(torch.complex(inputs, -inputs).conj().imag)
    ),
}


@pytest.mark.parametrize("what", STRANGE)
@pytest.mark.parametrize("cell", CELLS)
def test_what_is_strange_is_left_to_the_general_way(cell: str, what: str, taken: list[bool]) -> None:
    STRANGE[what](layer_of(cell, num_layers=2), torch.randn(1, 2, 5, dtype=torch.float64))
    if what == "a lazily negated input":  # reshaping may have resolved it: then it is plain
        negated = -torch.randn(1, 2, 5, dtype=torch.float64)
        check(layer_of(cell), torch.complex(negated, negated).conj().imag)
    else:
        assert not any(taken)


@pytest.mark.parametrize("cell", CELLS)
def test_autocast_leaves_the_layer_in_its_own_dtype(cell: str) -> None:
    layer, inputs = layer_of(cell), torch.randn(1, 2, 5, dtype=torch.bfloat16)
    with torch.no_grad():
        with torch.autocast("cpu", torch.bfloat16):
            found = tensors(layer(inputs))
        wanted = tensors(layer(inputs.double()))
    for ours, plain in zip(found, wanted, strict=True):
        assert torch.equal(ours, plain)


@pytest.mark.parametrize("backend", ["native", "torch", "reference"])
def test_a_backend_asked_for_by_name_computes(backend: str, taken: list[bool]) -> None:
    with torch.no_grad():
        layer_of("GRU", backend=backend)(torch.randn(1, 2, 5, dtype=torch.float64))
    assert not taken


@pytest.mark.parametrize("cell", CELLS)
def test_freed_numbers_are_refused_and_not_read(cell: str) -> None:
    for name in ("weight_ih_l0", "weight_hh_l0", "bias_hh_l0"):
        for left in (0, 8):
            layer = layer_of(cell)
            getattr(layer, name).data.untyped_storage().resize_(left)
            with torch.no_grad(), pytest.raises(RuntimeError, match="hold its numbers"):
                layer(torch.randn(1, 1, 5, dtype=torch.float64))


def wrong_calls(layer: Any) -> list[tuple[Any, ...]]:
    inputs, numbers = torch.randn(1, 2, 5, dtype=torch.float64), torch.float64
    wrong_state = torch.zeros(1, 3, 19, dtype=numbers)
    pair = (wrong_state, wrong_state)
    return [
        (torch.randn(1, 2, 6, dtype=numbers),),
        (torch.randn(1, 2, 5),),
        (torch.zeros(0, 2, 5, dtype=numbers),),
        (torch.zeros(1, 2, dtype=torch.int32),),
        (torch.zeros(1, 1, 2, 5, dtype=numbers),),
        (inputs.to_sparse(),),
        (inputs, pair if layer.cell == "LSTM" else wrong_state),
        (inputs, wrong_state if layer.cell == "LSTM" else pair),
        (inputs, "state"),
    ]


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("number", range(9))
def test_bad_input_is_refused_in_the_same_words_as_with_gradients(cell: str, number: int) -> None:
    layer = layer_of(cell)
    with pytest.raises(Exception) as with_gradients:  # noqa: PT011  (whatever it is, it must be the same)
        layer(*wrong_calls(layer)[number])
    with torch.no_grad(), pytest.raises(type(with_gradients.value)) as without:
        layer(*wrong_calls(layer)[number])
    assert str(without.value) == str(with_gradients.value)


@pytest.mark.parametrize("sizes", [[2, 3], [2, 1], [5], [3, 0], [4, -1]], ids=str)
def test_batch_sizes_that_do_not_fit_the_data_never_reach_the_kernel(sizes: list[int], taken: list[bool]) -> None:
    packed = PackedSequence(torch.randn(3, 5, dtype=torch.float64), torch.tensor(sizes))
    if sum(sizes) == 3 and sizes == sorted(sizes, reverse=True) and sizes[-1] > 0:
        check(layer_of("GRU"), packed)
        return
    try:
        with torch.no_grad():
            layer_of("GRU")(packed)
    except Exception:  # what torch says of them is torch's affair
        pass
    assert not any(taken)


@pytest.mark.parametrize("cell", CELLS)
def test_a_forked_child_computes_the_same(cell: str) -> None:
    script = Path(__file__).with_name("inference_in_a_child.py")
    run = subprocess.run(
        [sys.executable, "-W", "ignore", str(script), cell],
        env=os.environ | {"OMP_NUM_THREADS": "2"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (run.stdout, run.returncode) == ("same\n", 0), run.stderr[-1000:]


@pytest.mark.skipif(
    torch.backends.cpu.get_cpu_capability() not in ("AVX2", "AVX512"), reason="one instruction set only"
)
@pytest.mark.parametrize("isa", ["avx2", "baseline"])
def test_lesser_instruction_sets_equal_the_reference(isa: str) -> None:
    names = "equal_the_reference and not lesser or as_exact"
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", __file__, "-k", names],
        env=os.environ | {"STEADYGRAD_ISA": isa, "OMP_NUM_THREADS": "1"},
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout[-4000:] + run.stderr[-2000:]


@pytest.mark.parametrize(("steps", "batch"), [(1, 1), (1, 63), (1, 64), (1, 70), (30, 3), (16, 4), (9, 33)])
@pytest.mark.parametrize("layers", [1, 2, 3])
@pytest.mark.parametrize("given_state", [False, True])
def test_plain_layers_of_any_length_and_batch(
    steps: int, batch: int, layers: int, given_state: bool, taken: list[bool]
) -> None:
    layer = layer_of("RNN", num_layers=layers)
    inputs = torch.randn(steps, batch, 5, dtype=torch.float64)
    check(layer, inputs, *([state_of(layer, batch)] if given_state else []))
    check(layer, torch.randint(5, (steps, batch)), *([state_of(layer, batch)] if given_state else []))
    assert all(taken)


@pytest.mark.parametrize("options", [{}, {"num_layers": 3}, {"bias": False}, {"nonlinearity": "sigmoid"}])
@pytest.mark.parametrize("given_state", [False, True])
def test_wide_layers_by_torchs_products(
    options: dict[str, Any], given_state: bool, taken: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inference, "WIDE", 1)
    layer = layer_of("RNN", **options)
    state = [state_of(layer, 20)] if given_state else []
    for inputs in (torch.randn(3, 20, 5, dtype=torch.float64), torch.randint(5, (2, 20))):
        check(layer, inputs, *state)
    assert all(taken)
    layer.weight_hh_l0.data.untyped_storage().resize_(0)
    with torch.no_grad(), pytest.raises((RuntimeError, ValueError), match=r"hold its numbers|storage was freed"):
        layer(torch.randn(3, 20, 5, dtype=torch.float64), *state)


def test_who_computes_a_pass_goes_by_its_shapes() -> None:
    plain, narrow = (inference.Network("RNN", "tanh", 0.0, 8, hidden, 1, 1) for hidden in (512, 256))
    shapes = [(plain, 1, 16), (plain, 4, 256), (plain, 1, 15), (plain, 5, 16), (narrow, 1, 256)]
    shapes.append((plain._replace(mode="GRU"), 1, 16))
    assert [inference.takes_products(*shape, 4) for shape in shapes] == [True, True, False, False, False, False]
    wide, wider = plain._replace(hidden=1024), plain._replace(hidden=2048)
    shapes = [(wide, 16, 8), (wider, 1000, 8), (wide, 17, 8), (wide, 10, 16), (wide, 10, 7), (wider, 10, 7)]
    assert [inference.takes_products(*shape, 8) for shape in shapes] == [True, True, False, False, False, False]
    assert not any(inference.takes_products(*shape, 4) for shape in shapes)
    assert inference.is_for(plain, 10_000)
    assert not inference.is_for(plain._replace(leak=0.5), 65)
