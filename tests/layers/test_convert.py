"""torch's layers inside a model become ours, with the same parameters, and back."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

import steadygrad as sg


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder = torch.nn.LSTM(3, 4, num_layers=2, batch_first=True, bidirectional=True, dropout=0.0)
        self.blocks = torch.nn.ModuleList([torch.nn.GRU(8, 5, bias=False), torch.nn.RNN(5, 5, nonlinearity="relu")])
        self.again = self.blocks[0]  # one layer in two places
        self.cell = torch.nn.GRUCell(5, 5)
        self.narrow = torch.nn.LSTM(5, 6, proj_size=2)
        self.readout = torch.nn.Linear(5, 2)

    def forward(self, x: Tensor) -> Tensor:
        x = self.encoder(x)[0].transpose(0, 1)
        for block in self.blocks:
            x = block(x)[0]
        return self.readout(x)


def model() -> Model:
    torch.manual_seed(0)
    return Model().double()


def inputs() -> Tensor:
    return torch.randn(2, 7, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


def test_outputs_and_gradients_agree_before_and_after() -> None:
    changed, expected = model(), model()
    said = sg.convert(changed, alpha=0.0)
    assert list(said.replaced) == ["encoder", "again", "blocks.0", "blocks.1"]
    assert [type(layer) for layer in (changed.encoder, *changed.blocks)] == [sg.LSTM, sg.GRU, sg.RNN]
    assert changed.again is changed.blocks[0]
    for each in (changed, expected):
        each(inputs()).square().sum().backward()
    torch.testing.assert_close(changed(inputs()), expected(inputs()), rtol=1e-12, atol=1e-14)
    for (name, a), b in zip(changed.named_parameters(), expected.parameters(), strict=True):
        if b.grad is not None:
            torch.testing.assert_close(a.grad, b.grad, rtol=1e-11, atol=1e-13, msg=name)
    assert changed.state_dict().keys() == expected.state_dict().keys()


def test_it_says_what_it_left_alone_and_why() -> None:
    said = sg.convert(model())
    assert said.left == {
        "cell": "a cell that its owner calls step by step: wrap it in sg.Recurrent and call that once",
        "narrow": "proj_size is 2, and ours has no projections",
    }
    assert "left narrow: proj_size is 2" in str(said)
    assert str(sg.convert(torch.nn.Sequential(torch.nn.Linear(2, 2)))) == "no recurrent layers found"


def test_an_optimizer_made_before_trains_the_converted_model() -> None:
    changed = model()
    parameters = dict(changed.named_parameters())
    optimizer = torch.optim.Adam(changed.parameters(), 0.01)
    sg.convert(changed, alpha=0.5)
    assert all(parameter is parameters[name] for name, parameter in changed.named_parameters())
    before = changed.encoder.weight_hh_l0.detach().clone()
    changed(inputs()).square().sum().backward()
    optimizer.step()
    assert not torch.equal(changed.encoder.weight_hh_l0, before)
    layer: Any = changed.encoder
    assert layer.alpha == 0.5
    assert layer.flow[0].active > 0


def test_revert_undoes_it_with_the_trained_weights() -> None:
    changed = model()
    sg.convert(changed)
    with torch.no_grad():
        changed.encoder.weight_hh_l1.mul_(0.9)
    trained = changed(inputs())
    said = sg.revert(changed)
    assert list(said.replaced) == ["encoder", "again", "blocks.0", "blocks.1"]
    assert type(changed.encoder) is torch.nn.LSTM
    torch.testing.assert_close(changed(inputs()), trained, rtol=1e-12, atol=1e-14)


def test_revert_leaves_what_torch_has_not() -> None:
    mixed = torch.nn.ModuleDict({"leaky": sg.RNN(2, 3, leak=0.1), "sigmoid": sg.RNN(2, 3, nonlinearity="sigmoid")})
    assert sg.revert(mixed).left == {
        "leaky": "torch.nn.RNN has no leaky units",
        "sigmoid": "torch.nn.RNN has no sigmoid units",
    }


def test_hooks_modes_and_frozen_parameters_move_along() -> None:
    changed = torch.nn.Sequential(torch.nn.GRU(3, 4))
    seen: list[str] = []
    changed[0].register_forward_hook(lambda *_: seen.append("forward"))
    changed[0].weight_ih_l0.requires_grad_(False)
    changed.eval()
    sg.convert(changed)
    changed(torch.ones(2, 1, 3))
    assert seen == ["forward"]
    assert not changed[0].training
    assert not changed[0].weight_ih_l0.requires_grad


def test_parametrized_and_own_layers_are_left_alone() -> None:
    class Own(torch.nn.GRU):
        pass

    changed = torch.nn.ModuleDict({"own": Own(3, 4), "normed": torch.nn.GRU(3, 4)})
    torch.nn.utils.parametrizations.weight_norm(changed["normed"], "weight_hh_l0")
    said = sg.convert(changed)
    assert said.replaced == {}
    assert said.left["own"] == "Own is a class of its own, whose forward pass may differ"
    assert said.left["normed"] == "its weights are parametrized"


def test_wrong_arguments_change_nothing() -> None:
    changed = model()
    for arguments in ({"alpha": -1.0}, {"omega": "papers"}, {"clip_error": 0.0}):
        with pytest.raises(ValueError, match=" must be "):
            sg.convert(changed, **arguments)
        assert type(changed.encoder) is torch.nn.LSTM
    with pytest.raises(ValueError, match="model must contain the layers to replace, and is itself a GRU"):
        sg.convert(torch.nn.GRU(3, 4))
    with pytest.raises(TypeError, match=r"model must be a torch\.nn\.Module, not a str"):
        sg.convert("model")  # pyright: ignore[reportArgumentType]
