"""What training loops do with a layer: accumulate, freeze, copy, detach, go back twice. And what must not stay behind."""

from __future__ import annotations

import copy
import gc
import itertools
from collections.abc import Callable, Iterator

import pytest
import torch
import torch.utils.checkpoint
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef

import steadygrad as sg

STEPS, BATCH, INPUTS, HIDDEN = 8, 4, 3, 5


def layer(backend: str, alpha: float = 0.5, **arguments: object) -> sg.RNN:
    torch.manual_seed(3)
    return sg.RNN(INPUTS, HIDDEN, backend=backend, alpha=alpha, dtype=torch.float64, **arguments)  # pyright: ignore


def sequence(seed: int = 0, batch: int = BATCH) -> Tensor:
    draw = torch.Generator().manual_seed(seed)
    return torch.randn(STEPS, batch, INPUTS, dtype=torch.float64, generator=draw)


def gradients(rnn: torch.nn.Module) -> list[Tensor]:
    found = [parameter.grad for parameter in rnn.parameters()]
    return [each.clone() for each in found if each is not None]


def test_two_backward_passes_add_up(backend: str) -> None:
    rnn = layer(backend)
    apart: list[list[Tensor]] = []
    for seed in (0, 1):
        rnn.zero_grad()
        rnn(sequence(seed))[0].square().sum().backward()
        apart.append(gradients(rnn))
    rnn.zero_grad()
    for seed in (0, 1):
        rnn(sequence(seed))[0].square().sum().backward()
    for total, first, second in zip(gradients(rnn), *apart, strict=True):
        torch.testing.assert_close(total, first + second, rtol=1e-14, atol=1e-14)


def test_going_back_twice_through_one_graph_doubles_the_gradient(backend: str) -> None:
    rnn = layer(backend)
    loss = rnn(sequence())[0].square().sum()
    loss.backward(retain_graph=True)
    once, flow = gradients(rnn), rnn.flow
    loss.backward()
    for twice, single in zip(gradients(rnn), once, strict=True):
        torch.testing.assert_close(twice, 2 * single, rtol=1e-14, atol=0)
    assert torch.equal(rnn.flow.norms, flow.norms)


CHANGES: dict[str, Callable[[Tensor], Tensor]] = {
    "add": lambda out: out.add_(torch.ones_like(out)),
    "dropout": lambda out: torch.nn.functional.dropout(out, 0.5, inplace=True),
    "masked_fill": lambda out: out.masked_fill_(out > 0.1, 0.0),
    "slice": lambda out: out.index_fill_(0, torch.tensor([1]), 0.3),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_an_output_may_be_changed_in_place(backend: str, change: Callable[[Tensor], Tensor]) -> None:
    found: list[list[Tensor]] = []
    for in_place in (True, False):
        rnn = layer(backend)
        torch.manual_seed(3)  # of the dropout
        output, _ = rnn(sequence())
        change(output if in_place else (output := output.clone())).square().sum().backward()
        found.append(gradients(rnn))
    assert all(torch.equal(a, b) for a, b in zip(*found, strict=True))


def test_a_second_backward_pass_gives_the_same_gradients(backend: str) -> None:
    rnn = layer(backend)
    loss = rnn(sequence())[0].square().sum()
    loss.backward(retain_graph=True)
    once = [gradient.clone() for gradient in gradients(rnn)]
    rnn.zero_grad()
    loss.backward()
    assert all(torch.equal(a, b) for a, b in zip(gradients(rnn), once, strict=True))


LEAVES = ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0", "input", "h0")
SUBSETS = [frozenset(c) for size in range(1, 7) for c in itertools.combinations(LEAVES, size)]


def test_frozen_parameters_change_no_other_gradient(backend: str) -> None:
    def computed(wanted: frozenset[str]) -> dict[str, Tensor]:
        rnn = layer(backend)
        leaves = dict(rnn.named_parameters()) | {
            "input": sequence(),
            "h0": torch.full((1, BATCH, HIDDEN), 0.3).double(),
        }
        for name, leaf in leaves.items():
            leaf.requires_grad_(name in wanted)
        rnn(leaves["input"], leaves["h0"])[0].square().sum().backward()
        assert {name for name, leaf in leaves.items() if leaf.grad is not None} == wanted
        return {name: leaf.grad for name, leaf in leaves.items() if leaf.grad is not None}

    everything = computed(frozenset(LEAVES))
    assert len(SUBSETS) == 2 ** len(LEAVES) - 1
    for subset in SUBSETS:
        for name, gradient in computed(subset).items():
            torch.testing.assert_close(
                gradient, everything[name], rtol=1e-13, atol=1e-14, msg=f"{name} of {set(subset)}"
            )


def test_both_biases_have_a_gradient_of_their_own(backend: str) -> None:
    # Shared memory would be scaled twice by whoever clips in place.
    rnn = layer(backend)
    rnn(sequence())[0].sum().backward()
    first, second = rnn.get_parameter("bias_ih_l0").grad, rnn.get_parameter("bias_hh_l0").grad
    assert first is not None
    assert second is not None
    assert torch.equal(first, second)
    first.mul_(0)
    assert second.abs().max() > 0


def test_truncated_bptt_with_detached_state_equals_pieces_run_alone(backend: str) -> None:
    rnn = layer(backend, alpha=0.0)
    x, state = sequence(), torch.zeros(1, BATCH, HIDDEN, dtype=torch.float64)
    with torch.no_grad():
        whole, _ = rnn(x)
    for piece in range(0, STEPS, 2):
        output, state = rnn(x[piece : piece + 2], state.detach())
        torch.testing.assert_close(output, whole[piece : piece + 2], rtol=1e-13, atol=1e-14)
        output.square().sum().backward()
    found = gradients(rnn)
    # By hand: the same sum, each piece's state given as a constant.
    expected = [torch.zeros_like(parameter) for parameter in rnn.parameters()]
    for piece in range(0, STEPS, 2):
        given = None if piece == 0 else whole[piece - 1].unsqueeze(0)
        loss = layer("reference", alpha=0.0)
        loss.load_state_dict(rnn.state_dict())
        loss(x[piece : piece + 2], given)[0].square().sum().backward()
        expected = [total + each for total, each in zip(expected, gradients(loss), strict=True)]
    for each, other in zip(found, expected, strict=True):
        torch.testing.assert_close(each, other, rtol=1e-12, atol=1e-13)


def test_a_copy_has_parameters_and_a_flow_of_its_own(backend: str) -> None:
    rnn = layer(backend, bidirectional=True)
    rnn(sequence(0))[0].sum().backward()
    other = copy.deepcopy(rnn)
    before = rnn.flow.norms.clone()
    assert torch.equal(other.flow.norms, before)  # a copy remembers what its original saw
    with torch.no_grad():
        other.weight_hh_l0.mul_(2)
    other(sequence(1))[0].sum().backward()
    assert torch.equal(rnn.flow.norms, before)
    assert not torch.equal(other.flow.norms, before)
    assert not torch.equal(rnn.weight_hh_l0, other.weight_hh_l0)
    assert other.alpha == rnn.alpha


def test_observing_changes_no_gradient(fast_backend: str) -> None:
    for alpha in (0.0, 0.5):
        found: list[list[Tensor]] = []
        for record in (True, False):
            rnn = layer(fast_backend, alpha)
            rnn.record = record
            rnn(sequence())[0].square().sum().backward()
            found.append(gradients(rnn))
        assert all(torch.equal(a, b) for a, b in zip(*found, strict=True))


def test_a_parametrised_matrix_hands_omega_on_to_what_it_is_made_of(fast_backend: str) -> None:
    found: list[dict[str, Tensor]] = []
    for backend in (fast_backend, "reference"):
        rnn = layer(backend)
        torch.nn.utils.parametrizations.weight_norm(rnn, "weight_hh_l0")
        rnn(sequence())[0].square().sum().backward()
        found.append({name: p.grad for name, p in rnn.named_parameters() if p.grad is not None})
    assert "parametrizations.weight_hh_l0.original0" in found[0]
    assert found[0].keys() == found[1].keys()
    for name in found[0]:
        torch.testing.assert_close(found[0][name], found[1][name], rtol=1e-11, atol=1e-13)


def test_checkpointing_changes_no_gradient(backend: str) -> None:
    rnn, x = layer(backend), sequence().requires_grad_()
    leaves = [x, *rnn.parameters()]
    plain = torch.autograd.grad(rnn(x)[0].square().sum(), leaves)
    output = torch.utils.checkpoint.checkpoint(lambda x: rnn(x)[0], x, use_reentrant=False)
    assert isinstance(output, Tensor)
    again = torch.autograd.grad(output.square().sum(), leaves)
    assert all(torch.equal(a, b) for a, b in zip(plain, again, strict=True))


@pytest.fixture
def no_garbage_collector() -> Iterator[None]:
    """Memory must go when the last reference goes, not when the collector happens to come by."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("no_garbage_collector")
@pytest.mark.parametrize("retain", [False, True], ids=["freed-graph", "retained-graph"])
@pytest.mark.parametrize("alpha", [0.0, 0.5])
def test_nothing_of_a_pass_stays_behind(backend: str, alpha: float, retain: bool) -> None:
    rnn = layer(backend, alpha, num_layers=2, leak=0.2)
    x, h0 = sequence().requires_grad_(), torch.zeros(2, BATCH, HIDDEN, dtype=torch.float64)
    output, last = rnn(x, h0)
    alive = [StorageWeakRef(each.untyped_storage()) for each in (x, h0, output, last)]
    loss = output.square().sum() + last.sum()
    loss.backward(retain_graph=retain)
    assert not any(each.expired() for each in alive)
    del x, h0, output, last, loss
    assert all(each.expired() for each in alive)
    assert all(cell.measured.grad_fn is None and not cell.measured.requires_grad for cell in rnn.flow)


@pytest.mark.usefixtures("no_garbage_collector")
def test_nothing_of_a_forward_pass_alone_stays_behind(backend: str) -> None:
    rnn = layer(backend)
    x = sequence()
    output, last = rnn(x)
    alive = [StorageWeakRef(each.untyped_storage()) for each in (x, output, last)]
    del x, output, last
    assert all(each.expired() for each in alive)


def test_a_layer_without_anything_to_learn_has_no_graph(backend: str) -> None:
    rnn = layer(backend)
    rnn.requires_grad_(False)
    output, last = rnn(sequence())
    assert not output.requires_grad
    assert not last.requires_grad


@pytest.mark.parametrize("which", ["output", "last", "both"])
def test_input_and_state_laid_out_in_any_way_give_the_same_gradients(fast_backend: str, which: str) -> None:
    # Transposed, expanded or sliced tensors are common and are not contiguous.
    rnn = layer(fast_backend)
    plain, wide = sequence(), torch.zeros(BATCH, 2 * INPUTS, STEPS, dtype=torch.float64)
    wide[:, ::2] = plain.permute(1, 2, 0)
    strided = wide[:, ::2].permute(2, 0, 1)
    assert not strided.is_contiguous()
    state = torch.linspace(-1, 1, HIDDEN).double()
    found: list[list[Tensor]] = []
    for x, h0 in (
        (plain.clone(), state.repeat(1, BATCH, 1)),
        (strided.detach(), state.expand(1, BATCH, HIDDEN).detach()),
    ):
        x.requires_grad_()
        h0.requires_grad_()
        output, last = rnn(x, h0)
        loss = {"output": output[::2].sum(), "last": last.sum(), "both": output.mT.sin().sum() + last.sum()}[which]
        found.append([*torch.autograd.grad(loss, [x, h0, *rnn.parameters()])])
    for first, second in zip(*found, strict=True):
        torch.testing.assert_close(first, second, rtol=1e-14, atol=1e-15)
