"""Teacher forcing and scheduled sampling: units that have a target take the target of the step before as their value.

    a_t = W x̃_{t−1} + W_in u_t + b                               [N] all units; the first O of them are the output units
    x_t[i] = φ(a_t)[i] for i < O,    σ(a_t[i]) for the others

    x̃_t[i] = d_t[i]   where i < O, m[i] and c_t = 1              in training: c_t = 1 with probability p, for each sequence
    x̃_t[i] = x_t[i]   elsewhere                                  in evaluation and generation: everywhere

d_t [O] are the targets, m [O] the mask of units that have one. p = 1 is teacher forcing, p = 0 free running, between them is
scheduled sampling (Bengio et al. 2015), with p lowered from update to update by whoever trains. The gradient goes back through
x_t where the unit's own output was used, and not where the target was: the loops through output units are cut there.

Where p = 1 and all output units have targets, what they feed back is known beforehand. The others are then a plain recurrent
layer with the inputs [u_t, d_{t−1}], and are computed by the library's own:

    h_t = σ(W_hh h_{t−1} + [W_in, W_ho] [u_t; d_{t−1}] + b_h),    a_t[:O] = W_oh h_{t−1} + W_oo d_{t−1} + W_in,o u_t + b_o
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Generator, Tensor, nn

from .. import checks
from ..flow import GradientFlow, Recorder
from ..recurrence import run as recurrence
from ..recurrence.options import Given, Options

SIGMA: dict[str, Callable[[Tensor], Tensor]] = {
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "relu": torch.relu,
    "identity": lambda a: a,
}
OUTPUTS: dict[str, Callable[[Tensor], Tensor]] = {**SIGMA, "softmax": lambda a: a.softmax(-1)}


class TeacherForced(nn.Module):
    """A plain recurrent network whose first units are its outputs, trained with their targets in place of their values.

    Args:
        hidden_size: all units, N, the output units among them.
        output_size: the output units, O, at most N.
        input_size: the inputs, I; 0 for a generator, which has none.
        nonlinearity: σ of the hidden units: 'tanh', 'sigmoid', 'relu' or 'identity'.
        outputs: φ of the output units: one of those, or 'softmax' for classes; σ if None. Targets must lie in its range to be
            reached.
        mask: bool [O], the units that have a target; all by default. At least one.
        probability: p, of taking the target, in [0, 1]: a number, or a tensor [T] of one for every step. An attribute: lower it
            between updates for scheduled sampling.
        generator: the source of c_t; torch's global one if None.
        device, dtype: as for any module.

    Shapes:
        inputs [T, B, I]. targets [T, B, O], at every step; with 'softmax' also integer classes [T, B]. Outputs [T, B, O]: what
        a loss compares with targets, for 'softmax' the values before it (logits).

    Example:
        >>> import torch
        >>> from steadygrad.tasks.generators import FigureEight
        >>> network = TeacherForced(20, 2)
        >>> batch = FigureEight().sample(8, 100, torch.Generator().manual_seed(0))
        >>> outputs, _ = network(targets=batch.targets, start=batch.inputs[0])
        >>> torch.nn.functional.mse_loss(outputs, batch.targets).backward()
        >>> network.generate(50, batch.targets[:30]).shape
        torch.Size([50, 8, 2])

    Reference:
        Williams & Zipser 1989; Doya & Yoshizawa 1991; Pascanu et al. 2013, section 3.1; Bengio, Vinyals, Jaitly & Shazeer 2015.
    """

    mask: Tensor

    def __init__(
        self,
        hidden_size: int,
        output_size: int,
        input_size: int = 0,
        *,
        nonlinearity: str = "tanh",
        outputs: str | None = None,
        mask: Any = None,
        probability: float | Tensor = 1.0,
        generator: Generator | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.hidden_size, self.output_size = (
            checks.whole("hidden_size", hidden_size),
            checks.whole("output_size", output_size),
        )
        if output_size > hidden_size:
            raise ValueError(f"output_size must be at most hidden_size, {hidden_size}, not {output_size}")
        self.input_size = checks.whole("input_size", input_size, low=0)
        self.nonlinearity = checks.one_of("nonlinearity", nonlinearity, SIGMA)
        self.outputs = nonlinearity if outputs is None else checks.one_of("outputs", outputs, OUTPUTS)
        self.register_buffer("mask", _mask(mask, output_size).to(device), persistent=False)
        self.probability = probability
        self.generator = generator
        self.record = False
        self._recorder = Recorder("l0")
        made: Any = {"device": device, "dtype": dtype}
        self.weight_ih_l0 = nn.Parameter(torch.empty(hidden_size, input_size, **made))
        self.weight_hh_l0 = nn.Parameter(torch.empty(hidden_size, hidden_size, **made))
        self.bias_l0 = nn.Parameter(torch.empty(hidden_size, **made))
        with torch.no_grad():
            for parameter in self.parameters():
                parameter.uniform_(-(hidden_size**-0.5), hidden_size**-0.5)

    @property
    def flow(self) -> GradientFlow:
        """What the last backward pass saw of the hidden units, where `record` was set and all targets were given (p = 1)."""
        return GradientFlow([] if self._recorder.last is None else [self._recorder.last])

    @property
    def probability(self) -> float | Tensor:
        """p, of taking the target in training. Change it between updates for a schedule."""
        return self._probability

    @probability.setter
    def probability(self, value: float | Tensor) -> None:
        if isinstance(value, Tensor):
            if value.dim() != 1 or not bool(((value >= 0) & (value <= 1)).all()):
                raise ValueError("probability must be a number in [0, 1] or a tensor [T] of them")
            self._probability: float | Tensor = value
        else:
            self._probability = checks.number("probability", value, low=0, high=1)

    def forward(
        self,
        inputs: Tensor | None = None,
        targets: Tensor | None = None,
        *,
        start: Tensor | None = None,
        state: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """The outputs of every step, [T, B, O], and the last state x_T, [B, N].

        Args:
            inputs: u_1 … u_T; None where input_size is 0.
            targets: d_1 … d_T; needed in training mode. In evaluation mode the network runs on its own outputs: targets are
                then only counted, where there are no inputs to tell the number of steps.
            start: [B, O], the target of the step before the first, d_0; without it the output units begin as `state` says.
            state: [B, N], x_0; zeros if None.
        """
        if self.training and targets is None:
            raise ValueError(
                "targets must be given in training mode: they are what the output units take as their values"
            )
        d, (steps, batch) = self._targets(targets), self._steps(inputs, targets)
        like = self.weight_hh_l0
        x = (
            like.new_zeros(batch, self.hidden_size)
            if state is None
            else _shaped("state", state, batch, self.hidden_size)
        )
        if start is not None:
            first = _shaped("start", start, batch, self.output_size).to(x)
            x = torch.cat([torch.where(self.mask, first, x[:, : self.output_size]), x[:, self.output_size :]], 1)
        p = self._probability if self.training else 0.0
        if (
            d is not None
            and isinstance(p, float)
            and p == 1
            and bool(self.mask.all())
            and self.hidden_size > self.output_size
        ):
            return self._forced(self._drive(inputs, steps, batch), inputs, d, x)
        taken = None if d is None or (isinstance(p, float) and p == 0) else self._taken(p, steps, batch)
        return self._step_by_step(self._drive(inputs, steps, batch), d, taken, x)

    @torch.no_grad()
    def generate(self, steps: int, start: Tensor, inputs: Tensor | None = None) -> Tensor:
        """What the network makes of itself after `start`: outputs [steps, B, O]. The mode, training or not, plays no part.

        Args:
            steps: how many to generate.
            start: [T_0, B, O] targets (or classes [T_0, B]), T_0 at least 1, that the output units take first: they bring the
                hidden units to where they would be.
            inputs: [T_0 + steps, B, I]; None where input_size is 0.
        """
        checks.whole("steps", steps)
        d = self._targets(start)
        assert d is not None
        warm, batch = d.shape[:2]
        if inputs is not None and inputs.shape[:2] != (warm + steps, batch):
            raise ValueError(f"inputs must be [{warm + steps}, {batch}, I], start and steps, not {list(inputs.shape)}")
        drive = self._drive(inputs, warm + steps, batch)
        x = self.weight_hh_l0.new_zeros(batch, self.hidden_size)
        # Forced where the step before has a target in `start`; from there on the units take their own outputs.
        taken = self.mask.expand(warm + steps, batch, -1).clone()
        taken[warm + 1 :] = False
        taken[0] = False
        padded = torch.cat([d, d.new_zeros(steps, *d.shape[1:])])
        return self._step_by_step(drive, padded, taken, x)[0][warm:]

    def _forced(self, drive: Tensor, inputs: Tensor | None, d: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        """Teacher forcing throughout: a plain layer, and a read-out of the step before."""
        O, W, b = self.output_size, self.weight_hh_l0, self.bias_l0
        before = torch.cat([x[:, :O].unsqueeze(0), d[:-1]])
        u = before if inputs is None else torch.cat([inputs.to(before), before], -1)
        W_in = W[O:, :O] if inputs is None else torch.cat([self.weight_ih_l0[O:], W[O:, :O]], 1)
        zeros = torch.zeros_like(b[O:])
        given = Given(
            u, x[:, O:].contiguous(), W_in.contiguous(), W[O:, O:].contiguous(), b[O:].contiguous(), zeros, None
        )
        h, _ = recurrence.run(given, Options(self.nonlinearity), self._recorder if self.record else None)
        a = torch.cat([x[:, O:].unsqueeze(0), h[:-1]]) @ W[:O, O:].T + before @ W[:O, :O].T + drive[..., :O]
        y = OUTPUTS[self.outputs](a)
        return a if self.outputs == "softmax" else y, torch.cat([y[-1], h[-1]], 1)

    def _step_by_step(self, drive: Tensor, d: Tensor | None, taken: Tensor | None, x: Tensor) -> tuple[Tensor, Tensor]:
        """x_t for every t; `taken` [T, B, O] says where the step before gives its target d_{t−1} in place of its output."""
        O, W = self.output_size, self.weight_hh_l0
        sigma, phi, found = SIGMA[self.nonlinearity], OUTPUTS[self.outputs], list[Tensor]()
        for t in range(len(drive)):
            if t > 0 and taken is not None and d is not None:
                x = torch.cat([torch.where(taken[t], d[t - 1], x[:, :O]), x[:, O:]], 1)
            a = x @ W.T + drive[t]
            x = torch.cat([phi(a[:, :O]), sigma(a[:, O:])], 1)
            found.append(a[:, :O] if self.outputs == "softmax" else x[:, :O])
        return torch.stack(found), x

    def _taken(self, p: float | Tensor, steps: int, batch: int) -> Tensor:
        """c_{t−1} and m, [T, B, O]: one coin for each step and sequence."""
        if isinstance(p, Tensor) and len(p) != steps:
            raise ValueError(
                f"probability must be a number or a tensor of {steps}, one for every step, not of {len(p)}"
            )
        where = self.mask.device if self.generator is None else self.generator.device
        coin = torch.rand(steps, batch, 1, generator=self.generator, device=where).to(self.mask.device)
        chance = p.to(self.mask.device).view(-1, 1, 1) if isinstance(p, Tensor) else p
        return (coin < chance) & self.mask

    def _drive(self, inputs: Tensor | None, steps: int, batch: int) -> Tensor:
        """W_in u_t + b, [T, B, N]."""
        if inputs is None:
            return self.bias_l0.expand(steps, batch, -1)
        return inputs.to(self.bias_l0.dtype) @ self.weight_ih_l0.T + self.bias_l0

    def _steps(self, inputs: Tensor | None, targets: Tensor | None) -> tuple[int, int]:
        if (inputs is None) != (self.input_size == 0):
            wanted = "None for a network without inputs" if self.input_size == 0 else f"[T, B, {self.input_size}]"
            raise ValueError(f"inputs must be {wanted}, not {None if inputs is None else list(inputs.shape)}")
        if inputs is None:
            if targets is None:
                raise ValueError("targets must be given to a network without inputs, or use generate(steps, start)")
            return targets.shape[0], targets.shape[1]
        if inputs.dim() != 3 or inputs.shape[2] != self.input_size or 0 in inputs.shape:
            raise ValueError(f"inputs must be [T, B, {self.input_size}], not {list(inputs.shape)}")
        if targets is not None and targets.shape[:2] != inputs.shape[:2]:
            raise ValueError(
                "targets must be there at every step of every sequence, or teacher forcing has no value to give: "
                f"inputs have {list(inputs.shape[:2])} steps and sequences, targets {list(targets.shape[:2])}"
            )
        return inputs.shape[0], inputs.shape[1]

    def _targets(self, given: Tensor | None) -> Tensor | None:
        if given is None:
            return None
        if self.outputs == "softmax" and not given.is_floating_point():
            if given.numel() and (int(given.min()) < 0 or int(given.max()) >= self.output_size):
                raise ValueError(f"targets must be classes in 0 … {self.output_size - 1}, not {int(given.max())}")
            given = nn.functional.one_hot(given, self.output_size)
        if given.dim() != 3 or given.shape[2] != self.output_size or 0 in given.shape:
            raise ValueError(f"targets must be [T, B, {self.output_size}], not {list(given.shape)}")
        if not bool(given.isfinite().all()):
            raise ValueError("targets must be finite: a unit without a target is left out by mask, not by NaN")
        return given.to(self.weight_hh_l0)

    def extra_repr(self) -> str:
        """Sizes and functions."""
        return f"{self.hidden_size}, {self.output_size}, {self.input_size}, {self.nonlinearity!r}, outputs={self.outputs!r}"


def _mask(mask: Any, units: int) -> Tensor:
    given = torch.ones(units, dtype=torch.bool) if mask is None else torch.as_tensor(mask)
    if given.dtype != torch.bool or given.shape != (units,):
        raise ValueError(
            f"mask must be {units} booleans, one for each output unit, not {given.dtype} {list(given.shape)}"
        )
    if not bool(given.any()):
        raise ValueError("mask must name at least one unit that has a target, and it is empty")
    return given.clone()


def _shaped(name: str, given: Tensor, batch: int, width: int) -> Tensor:
    if given.shape != (batch, width):
        raise ValueError(f"{name} must be [{batch}, {width}], not {list(given.shape)}")
    return given
