"""When it looks, what it leaves untouched, and what comes of every way to train."""

from __future__ import annotations

import copy
import io
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

import steadygrad as sg

T, B, I, H = 12, 4, 3, 6


class Tagger(nn.Module):
    """An embedding of features, a recurrent layer and a read-out."""

    def __init__(self, layer: nn.Module, width: int = H) -> None:
        super().__init__()
        self.before, self.rnn, self.after = nn.Linear(I, I), layer, nn.Linear(width, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.after(self.rnn(self.before(x))[0])


def tagger(kind: Any = nn.GRU, **options: Any) -> Tagger:
    torch.manual_seed(0)
    return Tagger(kind(I, H, **options), H * (2 if options.get("bidirectional") else 1))


def data(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(1))


def train(model: nn.Module, updates: int, optimizer: torch.optim.Optimizer | None = None) -> list[Tensor]:
    optimizer = optimizer or torch.optim.Adam(model.parameters())
    torch.manual_seed(3)
    seen: list[Tensor] = []
    for _ in range(updates):
        optimizer.zero_grad()
        output = model(data(T, B, I))
        output.square().mean().backward()
        seen += [output.detach(), *(p.grad.clone() for p in model.parameters() if p.grad is not None), torch.rand(1)]
        optimizer.step()
    return seen


@pytest.mark.parametrize("kind", [nn.RNN, nn.GRU, nn.LSTM, sg.RNN, sg.LSTM])
def test_outputs_gradients_and_random_numbers_are_bit_identical(kind: Any) -> None:
    options = {"num_layers": 2, "dropout": 0.3, "bidirectional": True}
    alone = train(tagger(kind, **options), 5)
    model = tagger(kind, **options)
    with sg.watch(model, every=2) as watch:
        watched = train(model, 5)
    assert [look.update for look in watch.looks] == [0, 2, 4]
    assert all(torch.equal(one, other) for one, other in zip(alone, watched, strict=True))


def test_it_looks_at_one_forward_pass_in_every() -> None:
    model = tagger()
    watch = sg.watch(model, every=3)
    train(model, 8)
    assert [look.update for look in watch.looks] == [0, 3, 6]
    assert watch.updates == 8


def test_evaluation_and_no_grad_do_not_count() -> None:
    model = tagger()
    watch = sg.watch(model, every=2)
    for _ in range(3):
        train(model, 1)
        model.eval()
        model(data(T, B, I))
        model.train()
        with torch.no_grad():
            model(data(T, B, I))
    assert watch.updates == 3
    assert [look.update for look in watch.looks] == [0, 2]


def test_with_an_optimizer_its_steps_are_counted_and_micro_batches_are_calls() -> None:
    model = tagger()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    watch = sg.watch(model, every=2, optimizer=optimizer)
    for _ in range(3):
        for part in range(4):
            model(data(T, B, I) * (part + 1)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    assert [look.update for look in watch.looks] == [0, 2]
    assert [cell.name for cell in watch.looks[0].cells] == ["rnn l0", "rnn l0 #2", "rnn l0 #3", "rnn l0 #4"]
    assert watch.updates == 3


def test_norms_before_and_after_clipping_are_seen_with_the_optimizer() -> None:
    model = tagger()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    watch = sg.watch(model, every=1, optimizer=optimizer)
    model(data(T, B, I)).sum().backward()
    total = nn.utils.clip_grad_norm_(model.parameters(), 0.25).item()
    optimizer.step()
    assert watch.looks[0].norm == pytest.approx(total)
    assert watch.looks[0].norm_used == pytest.approx(0.25, rel=1e-4)


def test_a_clipper_counts_the_updates_that_it_skips_too() -> None:
    model = tagger()
    clipper = sg.NormClipper(torch.optim.SGD(model.parameters(), lr=0.1), threshold=0.1)
    watch = sg.watch(model, every=2, clipper=clipper)
    for update in range(5):
        model(data(T, B, I) * (float("nan") if update == 1 else 1)).sum().backward()
        clipper.optimizer.step()
        clipper.optimizer.zero_grad()
    assert [look.update for look in watch.looks] == [0, 2, 4]
    counts = [
        (look.clipping.steps, look.clipping.clipped, look.clipping.skipped) for look in watch.looks if look.clipping
    ]
    assert counts == [(2, 1, 1), (4, 3, 1), (5, 4, 1)]
    assert watch.looks[1].clipping is not None
    assert len(watch.looks[1].clipping.history) == 2


def test_a_step_with_a_closure_is_one_update() -> None:
    model = tagger()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    watch = sg.watch(model, every=1, optimizer=optimizer)

    def closure() -> float:
        optimizer.zero_grad()
        loss = model(data(T, B, I)).sum()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.25)
        return loss.item()

    for _ in range(2):
        optimizer.step(closure)  # pyright: ignore[reportArgumentType, reportCallIssue]
    assert [look.update for look in watch.looks] == [0, 1]
    assert watch.looks[1].norm_used == pytest.approx(0.25, rel=1e-4)
    assert watch.looks[1].norm > 0.3


def test_two_backward_passes_add_up() -> None:
    x = data(T, B, I)
    model = tagger()
    with sg.watch(model, every=1) as twice:
        output = model(x)
        output[3].sum().backward(retain_graph=True)
        output[-1].square().sum().backward()
    model = tagger()
    with sg.watch(model, every=1) as once:
        output = model(x)
        (output[3].sum() + output[-1].square().sum()).backward()
    assert twice.looks[0].cells[0].norms == pytest.approx(once.looks[0].cells[0].norms, rel=1e-5)
    assert len(twice.looks) == 1


def test_a_layer_called_twice_has_two_calls() -> None:
    class Siamese(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.rnn = nn.GRU(I, H)

        def forward(self, x: Tensor, y: Tensor) -> Tensor:
            return (self.rnn(x)[0][-1] * self.rnn(y)[0][-1]).sum()

    model = Siamese()
    with sg.watch(model, every=1) as watch:
        model(data(T, B, I), data(5, B, I)).backward()
    assert [(cell.name, cell.steps) for cell in watch.looks[0].cells] == [("rnn l0", T), ("rnn l0 #2", 5)]


@pytest.mark.parametrize("kind", [nn.RNN, nn.GRU, nn.LSTM, sg.RNN])
@pytest.mark.parametrize("pieces", [2, T])
def test_calls_that_go_on_from_each_others_state_are_one_sequence(kind: Any, pieces: int) -> None:
    torch.manual_seed(0)
    layer = kind(I, H, num_layers=2, dtype=torch.float64)
    x = data(T, B, I).double()
    with sg.watch(layer, every=1) as whole:
        layer(x)[0].square().sum().backward()
    with sg.watch(model := nn.ModuleList([layer]), every=1, optimizer=torch.optim.SGD(layer.parameters())) as apart:
        outputs, state = [], None
        for piece in x.chunk(pieces):
            output, state = model[0](piece, state)
            outputs.append(output)
        torch.cat(outputs).square().sum().backward()
    for one, other in zip(whole.looks[0].cells, apart.looks[0].cells, strict=True):
        assert (one.steps, one.horizon) == (other.steps, other.horizon)
        assert other.norms == pytest.approx(one.norms, rel=1e-9)
        assert other.ratios == pytest.approx(one.ratios, rel=1e-9)


def test_a_detached_state_begins_a_sequence_of_its_own() -> None:
    layer = nn.LSTM(I, H)
    with sg.watch(nn.ModuleList([layer]), every=1, optimizer=torch.optim.SGD(layer.parameters())) as watch:
        _, (h, c) = layer(data(T, B, I))
        output, _ = layer(data(T, B, I), (h.detach(), c.detach()))
        (output.sum() + h.sum()).backward()
    assert [cell.name for cell in watch.looks[0].cells] == ["0 l0", "0 l0 #2"]


def test_layers_called_outside_of_the_models_forward_count_their_own_calls() -> None:
    model = nn.ModuleDict({"one": nn.GRU(I, H), "two": nn.GRU(H, H)})
    watch = sg.watch(model, every=2)
    for _ in range(3):
        model["two"](model["one"](data(T, B, I))[0])[0].sum().backward()
    assert [(look.update, len(look.cells)) for look in watch.looks] == [(0, 2), (2, 2)]


def test_more_calls_than_it_keeps_are_said() -> None:
    layer = nn.GRU(I, H)
    with sg.watch(nn.ModuleList([layer]), every=1, optimizer=torch.optim.SGD(layer.parameters())) as watch:
        sum(layer(data(3, B, I))[0].sum() for _ in range(11)).backward()  # pyright: ignore
    assert len(watch.looks[0].cells) == 8
    assert "called more than 8 times" in watch.notes[0]


def test_a_frozen_layer_is_seen_where_an_error_goes_through_it_and_named_where_none_does() -> None:
    model = tagger()
    model.rnn.requires_grad_(False)
    with sg.watch(model, every=1) as watch:
        train(model, 1)
    assert watch.looks[0].cells[0].name == "rnn l0"
    assert "rnn.weight_hh_l0" not in watch.looks[0].gradients
    model.before.requires_grad_(False)
    with sg.watch(model, every=1) as watch:
        train(model, 1)
    assert watch.looks == ()
    assert watch.notes == ("No error flows through rnn: nothing in it or before it is trained.",)


def test_a_layer_that_is_not_called_is_named() -> None:
    model = nn.ModuleDict({"used": nn.GRU(I, H), "idle": nn.LSTM(I, H)})
    with sg.watch(model, every=1) as watch:
        model["used"](data(T, B, I))[0].sum().backward()
    assert watch.notes == ("idle was not called in the updates that were looked at, or no error came to it.",)


def test_gradients_without_a_parameter_accuse_nobody() -> None:
    model, x = tagger(), data(T, B, I).requires_grad_()
    with sg.watch(model, every=1) as watch:
        torch.autograd.grad(model(x).sum(), x)
    assert watch.looks[0].gradients == {}
    assert watch.looks[0].cells[0].horizon > 0


def test_an_output_changed_in_place_is_no_trouble() -> None:
    layer = nn.GRU(I, H)
    with sg.watch(layer, every=1) as watch:
        output, _ = layer(data(T, B, I))
        output.mul_(2.0)
        output.sum().backward()
    assert watch.notes == ()
    assert watch.looks[0].cells[0].norms[-1] == pytest.approx(2 * H**0.5, rel=1e-5)


class Checkpointed(Tagger):
    reentrant = False

    def forward(self, x: Tensor) -> Tensor:
        return self.after(checkpoint(self.rnn, self.before(x), use_reentrant=self.reentrant)[0])  # pyright: ignore


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpointing(reentrant: bool) -> None:
    torch.manual_seed(0)
    model = Checkpointed(nn.GRU(I, H))
    model.reentrant = reentrant
    with sg.watch(model, every=2) as watch:
        train(model, 3)
    assert [len(look.cells) for look in watch.looks] == [1, 1]
    model = tagger()
    with sg.watch(model, every=2) as plain:
        train(model, 3)
    assert watch.looks[-1].cells[0].norms == pytest.approx(plain.looks[-1].cells[0].norms, rel=1e-4)


def test_a_second_derivative() -> None:
    layer, x = nn.GRU(I, H), data(T, B, I).requires_grad_()
    with sg.watch(layer, every=1) as watch:
        (grad,) = torch.autograd.grad(layer(x)[0].sum(), x, create_graph=True)
        grad.square().sum().backward()
    assert watch.looks[0].cells[0].horizon > 0


def test_data_parallel_and_compiled_names_are_those_of_the_model() -> None:
    model = tagger()
    with sg.watch(nn.DataParallel(model), every=1) as watch:
        train(watch.model, 1)
    assert [cell.name for cell in watch.looks[0].cells] == ["rnn l0"]
    assert "rnn.weight_hh_l0" in watch.looks[0].gradients


def test_a_cell_made_a_layer_is_watched_by_its_own_flow() -> None:
    model = Tagger(sg.Recurrent(nn.GRUCell(I, H)))
    with sg.watch(model, every=1) as watch:
        train(model, 1)
    (cell,) = watch.looks[0].cells
    assert (cell.name, cell.kind, cell.steps, cell.units) == ("rnn cell", "GRUCell", T, H)
    assert cell.norms == pytest.approx(model.rnn.flow[0].norms.tolist())
    torch.manual_seed(0)
    fused = Tagger(nn.GRU(I, H))
    for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
        getattr(model.rnn.cell, name).data.copy_(getattr(fused.rnn, f"{name}_l0"))
    model.before.load_state_dict(fused.before.state_dict())
    model.after.load_state_dict(fused.after.state_dict())
    with sg.watch(model, every=1) as one, sg.watch(fused, every=1) as other:
        train(model, 1)
        train(fused, 1)
    assert one.looks[0].cells[0].norms == pytest.approx(other.looks[0].cells[0].norms, rel=1e-4)


def test_a_converted_model_is_watched() -> None:
    model = tagger(nn.LSTM)
    sg.convert(model, alpha=1.0)
    with sg.watch(model, every=1) as watch:
        train(model, 2)
    assert [cell.kind for cell in watch.looks[1].cells] == ["LSTM"]


def test_copies_and_saved_models_are_not_watched() -> None:
    model = tagger()
    watch = sg.watch(model, every=1)
    twin = copy.deepcopy(model)
    train(twin, 3)
    assert watch.looks == ()
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    train(torch.load(file, weights_only=False), 2)
    assert watch.looks == ()
    train(model, 1)
    assert len(watch.looks) == 1


def test_detached_it_sees_no_more_and_leaves_no_hook() -> None:
    model = tagger()
    optimizer = torch.optim.SGD(model.parameters())
    with sg.watch(model, every=1, optimizer=optimizer) as watch:
        train(model, 2, optimizer)
    train(model, 2, optimizer)
    watch.detach()
    assert len(watch.looks) == 2
    assert not any((model._forward_hooks, model._forward_pre_hooks, model.rnn._forward_hooks))
    assert not optimizer._optimizer_step_post_hooks


def test_an_exception_in_the_forward_pass_leaves_it_working() -> None:
    model = tagger()
    watch = sg.watch(model, every=1)
    with pytest.raises(RuntimeError):
        model(data(T, B, I + 1))
    train(model, 2)
    assert len(watch.looks) == 2


def test_only_so_many_looks_are_kept() -> None:
    model = tagger()
    watch = sg.watch(model, every=1, keep=4)
    train(model, 12)
    assert 3 <= len(watch.looks) <= 4
    assert watch.looks[0].update == 0
    assert watch.looks[-1].update == 11


def test_importing_the_library_loads_no_torch() -> None:
    import subprocess
    import sys

    code = (
        "import sys, steadygrad; print('torch' in sys.modules, 'lightning' in sys.modules, 'watch' in dir(steadygrad))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["False", "False", "True"]


def test_wrong_arguments_are_refused_by_name() -> None:
    model = tagger()
    optimizer = torch.optim.SGD(model.parameters())
    other = sg.NormClipper(torch.optim.SGD(model.parameters()), threshold=1.0)
    for given, said in [
        (lambda: sg.watch("model"), "model must be a torch.nn.Module, not a str"),
        (lambda: sg.watch(nn.Linear(2, 2)), r"model must have a recurrent layer .* it is made of Linear"),
        (lambda: sg.watch(nn.GRUCell(2, 2)), "a GRUCell is one step; sg.Recurrent makes a layer of it"),
        (lambda: sg.watch(nn.LSTM(2, 4, proj_size=2)), "an LSTM with proj_size is not re-run"),
        (lambda: sg.watch(model, every=0), "every must be a whole number of at least 1, not 0"),
        (lambda: sg.watch(model, optimizer=model), "optimizer must be a torch.optim.Optimizer, not a Tagger"),
        (lambda: sg.watch(model, clipper=optimizer), "clipper must be a steadygrad.NormClipper, not a SGD"),
        (
            lambda: sg.watch(model, optimizer=optimizer, clipper=other),
            "optimizer must be the one that clipper clips for",
        ),
        (lambda: sg.watch(model, keep=1), "keep must be a whole number of at least 4, not 1"),
    ]:
        with pytest.raises(ValueError, match=said):
            given()  # pyright: ignore


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of torch's own compiler, on import
@pytest.mark.parametrize("kind", [nn.GRU, sg.GRU])
@pytest.mark.parametrize("before", [True, False], ids=["watched-first", "compiled-first"])
def test_a_compiled_model_is_not_seen_and_that_is_said(kind: Any, before: bool) -> None:
    torch._dynamo.reset()  # pyright: ignore[reportPrivateUsage]
    alone = train(tagger(kind), 2)
    model = tagger(kind)
    if before:
        watch = sg.watch(model, every=1)
        compiled: Any = torch.compile(model, backend="eager")
    else:
        compiled = torch.compile(model, backend="eager")
        watch = sg.watch(compiled, every=1)
    watched = train(compiled, 2)
    assert all(torch.allclose(one, other, atol=1e-6) for one, other in zip(alone, watched, strict=True))
    assert watch.looks == ()
    assert "torch.compile leaves hooks out" in watch.notes[0]
