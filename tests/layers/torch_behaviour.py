"""What a torch.nn.RNN, GRU or LSTM does, one function per behaviour, each run on our layer and on torch's.

A function raises where ours behaves otherwise. test_torch_modules.py runs them as tests; compatibility.py writes
docs/compatibility.md from them. `DIFFERENCES` says why for the few that differ on purpose.
"""

from __future__ import annotations

import contextlib
import copy
import io
import pickle
import warnings
from collections.abc import Callable
from typing import Any

import torch
import torch.utils.checkpoint
from torch import Tensor
from torch.func import functional_call
from torch.nn.utils import parametrizations, prune
from torch.nn.utils.rnn import pack_padded_sequence
from torch_modules import CLOSE, OURS, TORCHS, Sample, assert_same, computed, errors, loss, samples, tensors

import steadygrad as sg

T, B, I, H = 4, 3, 2, 3


def pair(cell: str, **options: Any) -> tuple[Any, Any]:
    """Our layer and torch's, in float64, with the same weights."""
    sample = Sample("", (I, H), options, ())
    return sample.layer(cell, True), sample.layer(cell, False)


def sequence(*shape: int) -> Tensor:
    draw = torch.Generator().manual_seed(3)
    return torch.randn(*(shape or (T, B, I)), dtype=torch.float64, generator=draw, requires_grad=True)


def kind(act: Callable[[], Any]) -> type[BaseException] | None:
    """The type of what `act` raises."""
    try:
        act()
    except Exception as raised:
        return type(raised)
    return None


def assert_same_refusal(ours: Callable[[], Any], torchs: Callable[[], Any]) -> None:
    expected, found = kind(torchs), kind(ours)
    assert expected is not None, "torch takes it"
    assert found is not None, f"torch raises {expected.__name__}, and it is taken here"
    assert issubclass(found, expected), f"{found.__name__} is not caught by `except {expected.__name__}`"


def outputs_and_gradients(cell: str) -> None:
    for sample in samples(cell):
        if not sample.projects:
            for batch in (None, 3):
                ours, torchs = sample.layer(cell, True), sample.layer(cell, False)
                assert_same(computed(ours, sample.inputs(batch)), computed(torchs, sample.inputs(batch)))


def packed_sequences(cell: str) -> None:
    for sorts in (True, False):
        lengths = torch.tensor([4, 2, 2] if sorts else [2, 4, 1])
        found = [
            computed(layer, (pack_padded_sequence(sequence(), lengths, enforce_sorted=sorts),))
            for layer in pair(cell, num_layers=2, bidirectional=True)
        ]
        assert_same(*found)


def empty_batch(cell: str) -> None:
    ours, torchs = pair(cell, num_layers=2, bidirectional=True)
    assert_same(computed(ours, (sequence(T, 0, I),)), computed(torchs, (sequence(T, 0, I),)))


def projections(cell: str) -> None:
    for sample in samples(cell):
        if sample.projects:
            assert_same(
                computed(sample.layer(cell, True), sample.inputs()),
                computed(sample.layer(cell, False), sample.inputs()),
            )


def refused_arguments(cell: str) -> None:
    for name, error in errors(cell):
        made, given = error.module_error_input.constructor_input, error.module_error_input.forward_input
        about = {"name": name}
        calls: list[Callable[[], Any]] = []
        for layers in (OURS, TORCHS):

            def call(layers: dict[str, Any] = layers, made: Any = made, given: Any = given) -> None:
                layer = layers[cell](*made.args, **made.kwargs)
                if given is not None:
                    layer(*given.args, **given.kwargs)

            calls.append(call)
        assert error.error_type in kind_and_bases(calls[0]), about
        assert_same_refusal(*calls)


def kind_and_bases(act: Callable[[], Any]) -> tuple[type, ...]:
    found = kind(act)
    return () if found is None else found.__mro__


def refused_inputs(cell: str) -> None:
    ours, torchs = pair(cell)
    state = torch.zeros(1, B, H + 1, dtype=torch.float64)
    wrong: list[tuple[Any, ...]] = [
        (torch.zeros(T, B, I + 1, dtype=torch.float64),),
        (torch.zeros(T, B, 1, I, dtype=torch.float64),),
        (torch.zeros(I, dtype=torch.float64),),
        (torch.zeros(0, B, I, dtype=torch.float64),),
        (sequence().float(),),
        (sequence(), (state, state) if cell == "LSTM" else state),
    ]
    for given in wrong:
        assert_same_refusal(lambda given=given: ours(*given), lambda given=given: torchs(*given))


def integer_inputs(cell: str) -> None:
    ours, torchs = pair(cell)
    tokens = torch.zeros(T, I, dtype=torch.int64)
    assert_same_refusal(lambda: ours(tokens), lambda: torchs(tokens))


def dropout_of_one_layer_warns(cell: str) -> None:
    for layers in (OURS, TORCHS):
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            layers[cell](I, H, dropout=0.5)
        assert any("dropout option adds dropout after all but last" in str(each.message) for each in seen)


def _numbers(layer: Any, leaves: list[Tensor], x: Tensor) -> Any:
    names = [name for name, _ in layer.named_parameters()]
    return lambda x, *given: tuple(tensors(functional_call(layer, dict(zip(names, given, strict=True)), (x,))))


def first_derivatives(cell: str) -> None:
    """gradcheck."""
    layer, _ = pair(cell, num_layers=2)
    leaves = [each.detach().clone().requires_grad_() for each in layer.parameters()]
    assert torch.autograd.gradcheck(_numbers(layer, leaves, sequence()), (sequence(), *leaves), fast_mode=True)


def second_derivatives(cell: str) -> None:
    """gradgradcheck."""
    layer, _ = pair(cell)
    leaves = [each.detach().clone().requires_grad_() for each in layer.parameters()]
    assert torch.autograd.gradgradcheck(_numbers(layer, leaves, sequence()), (sequence(), *leaves), fast_mode=True)


def non_contiguous(cell: str) -> None:
    found: list[list[Tensor]] = []
    for layer in pair(cell, num_layers=2):
        for parameter in layer.parameters():
            parameter.data = torch.stack([parameter.data, parameter.data], -1)[..., 0]
        x = torch.stack([sequence().detach()] * 2, -1)[..., 0].requires_grad_()
        assert not x.is_contiguous()
        found.append(computed(layer, (x,)))
    assert_same(*found)


def state_dict_both_ways(cell: str) -> None:
    options = {"num_layers": 2, "bidirectional": True}
    ours, torchs = OURS[cell](I, H, **options), TORCHS[cell](I, H, **options)
    assert list(ours.state_dict()) == list(torchs.state_dict())
    ours.load_state_dict(torchs.state_dict(), strict=True)
    torchs.reset_parameters()
    torchs.load_state_dict(ours.state_dict(), strict=True)
    assert all(torch.equal(a, b) for a, b in zip(ours.parameters(), torchs.parameters(), strict=True))


def same_seed_same_weights(cell: str) -> None:
    ours, torchs = pair(cell, num_layers=2, bidirectional=True)
    assert_same(list(ours.parameters()), list(torchs.parameters()))
    assert_same(
        [each for row in ours.all_weights for each in row], [each for row in torchs.all_weights for each in row]
    )


def copies_and_pickles(cell: str) -> None:
    ours, _ = pair(cell, num_layers=2)
    saved = io.BytesIO()
    torch.save(ours, saved)
    saved.seek(0)
    others = [copy.deepcopy(ours), copy.copy(ours), pickle.loads(pickle.dumps(ours))]
    for other in (*others, torch.load(saved, weights_only=False)):
        assert_same(computed(other, (sequence(),)), computed(ours, (sequence(),)))


def printed(cell: str) -> None:
    for options in ({}, {"num_layers": 2, "dropout": 0.5}, {"bias": False, "batch_first": True, "bidirectional": True}):
        assert repr(OURS[cell](I, H, **options)) == repr(TORCHS[cell](I, H, **options))


def printed_nonlinearity(cell: str) -> None:
    assert repr(sg.RNN(I, H, nonlinearity="relu")) == repr(torch.nn.RNN(I, H, nonlinearity="relu"))


def dtypes(cell: str) -> None:
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        ours, torchs = (each.to(dtype) for each in pair(cell))
        x = sequence().detach().to(dtype)
        found, expected = ours(x)[0], torchs(x)[0]
        assert found.dtype == expected.dtype == dtype
        digits = 10 * torch.finfo(dtype).eps  # a few roundings
        torch.testing.assert_close(found, expected, rtol=digits, atol=digits)


def meta_device(cell: str) -> None:
    for layer in pair(cell):
        output, _ = layer.to("meta")(torch.empty(T, B, I, dtype=torch.float64, device="meta"))
        assert output.is_meta
        assert output.shape == (T, B, H)
        layer.to_empty(device="cpu")
        assert layer(sequence())[0].device.type == "cpu"


def training_and_evaluation(cell: str) -> None:
    ours, torchs = pair(cell, num_layers=3, dropout=0.5)
    assert_same(computed(ours, (sequence(),)), computed(torchs, (sequence(),)))  # the same seed drops the same entries
    assert_same(computed(ours.eval(), (sequence(),)), computed(torchs.eval(), (sequence(),)))


def no_grad_and_inference_mode(cell: str) -> None:
    ours, torchs = pair(cell)
    for context in (torch.no_grad, torch.inference_mode):
        with context():
            assert_same(tensors(ours(sequence())), tensors(torchs(sequence())))


def in_place_on_the_output(cell: str) -> None:
    found: list[list[Tensor]] = []
    for layer in pair(cell):
        output = layer(sequence())[0]
        output.mul_(2).masked_fill_(output > 0.1, 0.3)
        found.append(list(torch.autograd.grad(loss(output), list(layer.parameters()))))
    assert_same(*found)


def _func(layer: Any) -> tuple[Callable[..., Tensor], dict[str, Tensor]]:
    given = {name: parameter.detach() for name, parameter in layer.named_parameters()}
    return lambda given, x: functional_call(layer, given, (x,))[0], given


def func_grad_and_vjp(cell: str) -> None:
    def derivatives(layer: Any) -> list[Tensor]:
        f, given = _func(layer)
        x = sequence().detach()
        gradients = torch.func.grad(lambda given: loss(f(given, x)))(given)
        output, back = torch.func.vjp(lambda x: f(given, x), x)
        return [*gradients.values(), *back(torch.ones_like(output))]

    assert_same(*map(derivatives, pair(cell)))


def func_jacobians(cell: str) -> None:
    ours, torchs = pair(cell)
    x = sequence().detach()
    f, given = _func(ours)
    rows: Any = torch.autograd.functional.jacobian(lambda x: torchs(x)[0], x)  # torch's layer has no batching rule
    assert_same([torch.func.jacrev(lambda x: f(given, x))(x)], [rows])


def func_jvp(cell: str) -> None:
    layer, torchs = pair(cell)
    x = sequence().detach()
    along = torch.linspace(-1, 1, x.numel(), dtype=x.dtype).view_as(x)
    f, given = _func(layer)
    _, found = torch.func.jvp(lambda x: f(given, x), (x,), (along,))
    rows: Any = torch.autograd.functional.jacobian(lambda x: torchs(x)[0], x)
    torch.testing.assert_close(found, (rows * along).sum((-3, -2, -1)), **CLOSE)


def func_vmap(cell: str) -> None:
    ours, torchs = pair(cell)
    many = torch.stack([sequence().detach() * factor for factor in (1, 2, 3)])
    found = torch.func.vmap(lambda x: ours(x)[0])(many)
    assert_same([found], [torch.stack([torchs(x)[0] for x in many])])


def batched_gradients(cell: str) -> None:
    """is_grads_batched."""
    ours, torchs = pair(cell)
    along = torch.stack([torch.full((T, B, H), factor, dtype=torch.float64) for factor in (1.0, -2.0)])
    leaves = list(ours.parameters())
    found = torch.autograd.grad(ours(sequence())[0], leaves, along, is_grads_batched=True)
    expected = [torch.autograd.grad(torchs(sequence())[0], list(torchs.parameters()), each) for each in along]
    assert_same(list(found), [torch.stack(each) for each in zip(*expected, strict=True)])


def parametrized_and_pruned(cell: str) -> None:
    found: list[list[Tensor]] = []
    for layer in pair(cell):
        parametrizations.weight_norm(layer, "weight_hh_l0")
        prune.l1_unstructured(layer, "weight_ih_l0", amount=0.5)
        found.append(computed(layer, (sequence(),)))
    assert_same(*found)


def checkpointed(cell: str) -> None:
    found: list[list[Tensor]] = []
    for layer in pair(cell):
        output = torch.utils.checkpoint.checkpoint(lambda x, layer=layer: layer(x)[0], sequence(), use_reentrant=False)
        found.append(list(torch.autograd.grad(loss(output), list(layer.parameters()))))
    assert_same(*found)


def found_by_other_libraries(cell: str) -> None:
    """isinstance(layer, torch.nn.RNNBase), layer.mode."""
    ours, torchs = pair(cell)
    assert isinstance(ours, torch.nn.RNNBase)
    assert ours.mode == torchs.mode
    for name in (
        "input_size",
        "hidden_size",
        "num_layers",
        "bias",
        "batch_first",
        "dropout",
        "bidirectional",
        "proj_size",
    ):
        assert getattr(ours, name) == getattr(torchs, name)
    ours.flatten_parameters()


def instance_of_torchs_class(cell: str) -> None:
    assert isinstance(pair(cell)[0], TORCHS[cell])


def autocast(cell: str) -> None:
    ours, torchs = (each.float() for each in pair(cell))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert ours(sequence().float())[0].dtype == torchs(sequence().float())[0].dtype


def scripted(cell: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for layer in reversed(pair(cell)):
            torch.jit.script(layer)


def traced(cell: str) -> None:
    ours, _ = pair(cell)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = torch.jit.trace(ours, sequence().detach())
    assert_same([found(sequence())[0]], [ours(sequence())[0]])


def dynamically_quantized(cell: str) -> None:
    model = torch.nn.Sequential(pair(cell)[0].float())
    with warnings.catch_warnings(), contextlib.suppress(ValueError):
        warnings.simplefilter("ignore")
        model = torch.ao.quantization.quantize_dynamic(model, {OURS[cell], TORCHS[cell]})
    assert "quantized" in type(model[0]).__module__


Behaviour = tuple[str, Callable[[str], None]]
BEHAVIOURS: list[Behaviour] = [
    ("outputs and gradients, all samples of PyTorch's module database, unbatched and batched", outputs_and_gradients),
    ("PackedSequence, sorted and unsorted, with several layers and directions", packed_sequences),
    ("an empty batch [T, 0, I]", empty_batch),
    ("`proj_size`", projections),
    ("wrong arguments raise what torch raises (error inputs of the module database)", refused_arguments),
    ("wrong inputs and states raise what torch raises", refused_inputs),
    ("an integer input is refused", integer_inputs),
    ("`dropout` with a single layer warns", dropout_of_one_layer_warns),
    ("first derivatives (gradcheck)", first_derivatives),
    ("second derivatives (gradgradcheck)", second_derivatives),
    ("non-contiguous inputs and parameters", non_contiguous),
    ("`state_dict` loads both ways, strictly", state_dict_both_ways),
    ("the same seed gives the same weights; order of the parameters, `all_weights`", same_seed_same_weights),
    ("copy, deepcopy, pickle, torch.save", copies_and_pickles),
    ("repr", printed),
    ("repr leaves out `nonlinearity`", printed_nonlinearity),
    ("float32, float16, bfloat16", dtypes),
    ("`to('meta')`, `to_empty`", meta_device),
    ("training and evaluation mode; the same seed drops the same entries", training_and_evaluation),
    ("no_grad and inference_mode", no_grad_and_inference_mode),
    ("in-place operations on the output", in_place_on_the_output),
    ("torch.func.grad, vjp", func_grad_and_vjp),
    ("torch.func.jacrev", func_jacobians),
    ("torch.func.jvp", func_jvp),
    ("torch.func.vmap", func_vmap),
    ("`is_grads_batched`", batched_gradients),
    ("parametrizations and pruning", parametrized_and_pruned),
    ("torch.utils.checkpoint", checkpointed),
    ("`isinstance(layer, torch.nn.RNNBase)`, `layer.mode` and torch's attributes", found_by_other_libraries),
    ("`isinstance(layer, torch.nn.RNN)` (GRU, LSTM)", instance_of_torchs_class),
    ("autocast changes the layer's dtype", autocast),
    ("torch.jit.trace", traced),
    ("torch.jit.script", scripted),
    ("torch.ao.quantization.quantize_dynamic", dynamically_quantized),
]
ONLY: dict[Callable[[str], None], tuple[str, ...]] = {projections: ("LSTM",), printed_nonlinearity: ("RNN",)}
"""Those that are about some of the cells alone."""

DIFFERENCES: dict[Callable[[str], None], str] = {
    projections: "projections are not supported; `proj_size` other than 0 is refused by name",
    integer_inputs: "int64 input of shape [T, B] is taken as tokens, in place of one-hot vectors",
    printed_nonlinearity: "it is shown where it is not tanh",
    instance_of_torchs_class: "torch.compile does not look into torch's three classes; the base class RNNBase is shared",
    autocast: "the layer keeps its own dtype: roundings would add up over time",
    scripted: "TorchScript can't read it; use torch.export, torch.jit.trace or ONNX",
    dynamically_quantized: "only torch's own classes are known to it; load the state_dict into torch's layer first",
}
"""Why a behaviour differs on purpose."""


def why_it_differs(behaviour: Callable[[str], None], cell: str) -> str | None:
    """None where it is the same."""
    if behaviour is autocast and cell == "GRU":  # autocast leaves torch.nn.GRU alone too
        return None
    return DIFFERENCES.get(behaviour)
