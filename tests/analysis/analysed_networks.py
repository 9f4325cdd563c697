"""Networks of every kind the analysis takes, and their own forward pass as a map of one vector: the slow, obvious version."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

import steadygrad as sg

D, H = 3, 4


class OverTime(nn.Module):
    """What `steadygrad.Recurrent` is to the analysis: a module with a cell."""

    def __init__(self, cell: nn.Module, batch_first: bool = False, reverse: bool = False) -> None:
        super().__init__()
        self.cell, self.batch_first, self.reverse = cell, batch_first, reverse


class Minimal(nn.Module):
    """A gated cell with one tensor as its state."""

    hidden_size, input_size = H, D

    def __init__(self) -> None:
        super().__init__()
        self.gate, self.new = nn.Linear(D + H, H), nn.Linear(D + H, H)

    def forward(self, input: Tensor, state: Tensor) -> Tensor:
        both = torch.cat([input, state], -1)
        z = torch.sigmoid(self.gate(both))
        return z * state + (1 - z) * torch.tanh(self.new(both))


class Paired(nn.Module):
    """Two parts of different shapes, the second with two axes; dropout inside, which is off in evaluation mode."""

    input_size = D

    def __init__(self) -> None:
        super().__init__()
        self.mix, self.read, self.drop = nn.Linear(D + H, 6), nn.Linear(6, H), nn.Dropout(0.5)

    def initial_state(self, batch: int) -> tuple[Tensor, Tensor]:
        return torch.zeros(batch, H), torch.full((batch, 2, 3), 0.1)

    def forward(self, input: Tensor, state: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        h, memory = state
        memory = 0.9 * memory + 0.5 * torch.tanh(self.mix(torch.cat([input, h], -1))).view(-1, 2, 3)
        return torch.tanh(self.read(self.drop(memory.flatten(1)))), memory


class _Cube(torch.autograd.Function):
    """Has no rule for torch.func."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return 3 * ctx.saved_tensors[0] ** 2 * grad


class Cubic(nn.Module):
    """A cell torch.func can't differentiate, and autograd can."""

    hidden_size, input_size = H, D

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(0.5 * torch.randn(H, H))
        self.inputs = nn.Linear(D, H)

    def forward(self, input: Tensor, state: Tensor) -> Tensor:
        cubed: Any = _Cube.apply(state)
        return torch.tanh((state + cubed) @ self.weight.T + self.inputs(input))


class BentGRU(nn.GRUCell):
    """A subclass that computes something else than its parent."""

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        return 0.5 * super().forward(input, hx)


NETWORKS: dict[str, Callable[[], nn.Module]] = {
    "torch.nn.GRU": lambda: nn.GRU(D, H),
    "torch.nn.GRU without bias": lambda: nn.GRU(D, H, bias=False),
    "torch.nn.LSTM": lambda: nn.LSTM(D, H),
    "torch.nn.LSTM without bias": lambda: nn.LSTM(D, H, bias=False),
    "sg.GRU": lambda: sg.GRU(D, H, backend="reference"),
    "sg.LSTM": lambda: sg.LSTM(D, H, backend="reference"),
    "RNNCell": lambda: nn.RNNCell(D, H),
    "RNNCell with relu": lambda: nn.RNNCell(D, H, nonlinearity="relu"),
    "GRUCell": lambda: nn.GRUCell(D, H),
    "LSTMCell": lambda: nn.LSTMCell(D, H),
    "OverTime(RNNCell)": lambda: OverTime(nn.RNNCell(D, H)),
    "OverTime(GRUCell)": lambda: OverTime(nn.GRUCell(D, H)),
    "OverTime(LSTMCell)": lambda: OverTime(nn.LSTMCell(D, H)),
    "OverTime(own cell)": lambda: OverTime(Minimal()),
    "OverTime(cell with two parts)": lambda: OverTime(Paired()),
    "OverTime(cell without torch.func)": lambda: OverTime(Cubic()),
    "OverTime(subclass of GRUCell)": lambda: OverTime(BentGRU(D, H)),
}


def network(name: str, scale: float = 2.0, seed: int = 0) -> nn.Module:
    """In float64, its parameters larger than torch's start, in training mode as a user's would be."""
    torch.manual_seed(seed)
    made = NETWORKS[name]().double()
    with torch.no_grad():
        for parameter in made.parameters():
            parameter *= scale
    return made


def shapes(made: nn.Module) -> list[tuple[int, ...]]:
    """Of the parts of the state, without the batch."""
    inner = getattr(made, "cell", made)
    if isinstance(inner, Paired):
        return [(H,), (2, 3)]
    return [(H,)] * (2 if isinstance(made, (nn.LSTM, sg.LSTM)) or isinstance(inner, nn.LSTMCell) else 1)


def parts(made: nn.Module, s: Tensor) -> list[Tensor]:
    """The parts of the state vectors s [B, n], each [B, …]."""
    sizes = [torch.Size(shape).numel() for shape in shapes(made)]
    return [piece.reshape(-1, *shape) for piece, shape in zip(s.split(sizes, 1), shapes(made), strict=True)]


def state_size(made: nn.Module) -> int:
    return sum(torch.Size(shape).numel() for shape in shapes(made))


def step(made: Any, u: Tensor, s: Tensor) -> Tensor:
    """The next state [B, n] by the module's own forward pass; u [B, D], s [B, n]."""
    inner = made.cell if isinstance(getattr(made, "cell", None), nn.Module) else made
    state = parts(made, s)
    given: Any = state[0] if len(state) == 1 else tuple(state)
    if isinstance(inner, nn.RNNBase):  # a layer: [num_layers, B, H]
        given = given.unsqueeze(0) if isinstance(given, Tensor) else tuple(part.unsqueeze(0) for part in given)
        after = inner(u.unsqueeze(0), given)[1]
        after = [after[0]] if isinstance(after, Tensor) else [part[0] for part in after]
    else:
        was_training = inner.training
        inner.eval()
        after = inner(u, given)
        inner.train(was_training)
        after = [after] if isinstance(after, Tensor) else list(after)
    return torch.cat([part.flatten(1) for part in after], 1)


def as_h0(made: Any, s: Tensor) -> Any:
    """The state vectors s [B, n] as the argument h0."""
    state = parts(made, s)
    if isinstance(made, nn.RNNBase):
        state = [part.unsqueeze(0) for part in state]
    return state[0] if len(state) == 1 else tuple(state)


def jacobian(made: nn.Module, u: Tensor, s: Tensor) -> Tensor:
    """∂s'/∂s [n, n] of one sequence, u [D], s [n], by autograd through the module's own forward pass."""
    found: Any = torch.autograd.functional.jacobian(lambda x: step(made, u.unsqueeze(0), x.unsqueeze(0))[0], s)
    return found
