"""One step down the gradient: clip it, hand it to the optimizer, and watch for divergence.

    g ← min(1, threshold/‖g‖) g                  (Pascanu et al. 2013, Algorithm 1; within optimizer.step())
    θ ← θ − lr · g                               or as the optimizer has it

Optimizers are torch's, by name. Fused kernels take the few small tensors of these networks in one call: a step takes as long as
torch's loop over parameters without momentum, half of it with, a third for Adam.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from ..checks import one_of
from ..clip import NormClipper, grad_norm, nonfinite_parameters
from .config import USUAL_MOMENTUM

LOST = 1000  # so many updates in a row without a finite gradient, and the run has diverged
BLOWN_UP = 1000.0  # a mean loss so many times that of the first update, and the run has diverged
ADAM_SECOND = 0.999
OPTIMIZER = "optimizer."  # what the names of the optimizer's tensors begin with in a checkpoint


class Diverged(ArithmeticError):
    """The run can't learn any more; the message says why."""


@dataclass
class Since:
    """What was seen since the last check. Sums are over finite values."""

    updates: int = 0
    loss: float = 0.0
    losses: int = 0
    norm: float = 0.0
    norms: int = 0
    norm_max: float = 0.0
    clipped_before: int = 0
    skipped_before: int = 0


class Descent:
    """An optimizer, a clipper if there is a threshold, and what they have seen.

    Args:
        named: the parameters that are trained, with their names.
        optimizer, lr, momentum: as in `build`.
        threshold, nonfinite: as in `steadygrad.NormClipper`; without a threshold nothing is clipped.

    Example:
        >>> weight = torch.nn.Parameter(torch.zeros(3))
        >>> descent = Descent([("weight", weight)], "sgd", 1.0, None, threshold=6.5, nonfinite="skip")
        >>> weight.grad = torch.tensor([3.0, 4.0, 12.0])
        >>> descent.step(loss=0.5), weight.tolist()
        (13.0, [-1.5, -2.0, -6.0])
    """

    def __init__(
        self,
        named: Iterable[tuple[str, torch.nn.Parameter]],
        optimizer: str,
        lr: float,
        momentum: float | None,
        threshold: Any = None,
        nonfinite: Any = None,
    ) -> None:
        self.named = list(named)
        self.updates, self.since = 0, Since()
        self._parameters = [parameter for _, parameter in self.named]
        self._optimizer = build(optimizer, self._parameters, lr, momentum)
        self._clipper: NormClipper | None = None
        if threshold is not None:
            self._clipper = NormClipper(self._optimizer, threshold, nonfinite, named_parameters=self.named, history=0)
        self._first_loss: float | None = None
        self._lost = 0

    @property
    def lr(self) -> float:
        """The learning rate of the next step."""
        return self._optimizer.param_groups[0]["lr"]

    @lr.setter
    def lr(self, value: float) -> None:
        for group in self._optimizer.param_groups:
            group["lr"] = value

    def step(self, loss: float) -> float:
        """Make one update with the gradients that are there, and return their norm before clipping.

        Raises `Diverged` if the loss or the gradient is not finite and there is no clipper to skip it, or a clipper had to
        skip `LOST` gradients in a row.
        """
        norm = self._step(loss)
        self.updates += 1
        since = self.since
        since.updates += 1
        if math.isfinite(loss):
            since.loss += loss
            since.losses += 1
            if self._first_loss is None:
                self._first_loss = loss
        if math.isfinite(norm):
            since.norm += norm
            since.norms += 1
            since.norm_max = max(since.norm_max, norm)
            self._lost = 0
        else:
            self._lost += 1
            if self._lost >= LOST:
                raise Diverged(f"the last {LOST:,} gradients were not finite, {self._after}")
        return norm

    def judge(self) -> None:
        """Raise `Diverged` if a parameter is not finite or the mean loss since the last summary has blown up."""
        for name, parameter in self.named:
            if not torch.isfinite(parameter).all():
                raise Diverged(f"{name} is no longer finite {self._after}")
        since, first = self.since, self._first_loss
        if since.losses and first is not None and (mean := since.loss / since.losses) > BLOWN_UP * first:
            seen = f"the mean loss of the last {since.updates:,} updates is {mean:.3g}"
            raise Diverged(f"{seen}, and was {first:.3g} at first, {self._after}")

    def summary(self) -> dict[str, float | None]:
        """What was seen since the last summary, as means, and begin anew."""
        since, self.since = self.since, Since()
        seen: dict[str, float | None] = {
            "loss": since.loss / since.losses if since.losses else None,
            "gradient_norm": since.norm / since.norms if since.norms else None,
            "gradient_norm_max": since.norm_max if since.norms else None,
            "clip_rate": 0.0,
            "skipped": 0,
        }
        if self._clipper is not None:
            stats = self._clipper.stats
            skipped = stats.skipped + stats.shrunk
            if since.updates:
                seen["clip_rate"] = (stats.clipped - since.clipped_before) / since.updates
                seen["skipped"] = skipped - since.skipped_before
            self.since = Since(clipped_before=stats.clipped, skipped_before=skipped)
        return seen

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """All that the next step depends on but the parameters and the rate: tensors by name, and plain values."""
        tensors: dict[str, Tensor] = {}
        rest: dict[str, Any] = {}
        for index, entries in self._optimizer.state_dict()["state"].items():
            for key, value in entries.items():
                if isinstance(value, Tensor):
                    tensors[f"{OPTIMIZER}{index}.{key}"] = value
                else:
                    rest[f"{index}.{key}"] = value
        values = {"updates": self.updates, "since": asdict(self.since), "optimizer": rest, "lost": self._lost}
        clipper = None if self._clipper is None else self._clipper.state_dict()
        return tensors, {**values, "clipper": clipper, "first_loss": self._first_loss}

    def load_state(self, tensors: dict[str, Tensor], values: dict[str, Any]) -> None:
        """Go on from `state()`, to the very same numbers. Tensors of other names are ignored; the rate stays."""
        moments = {name.removeprefix(OPTIMIZER): t for name, t in tensors.items() if name.startswith(OPTIMIZER)}
        entries: dict[int, dict[str, Any]] = {}
        for name, value in {**moments, **values["optimizer"]}.items():
            index, key = name.split(".", 1)
            entries.setdefault(int(index), {})[key] = value
        groups = self._optimizer.state_dict()["param_groups"]
        self._optimizer.load_state_dict({"state": entries, "param_groups": groups})
        self.updates, self.since = values["updates"], Since(**values["since"])
        if self._clipper is not None:
            self._clipper.load_state_dict(values["clipper"])
        self._first_loss, self._lost = values["first_loss"], values["lost"]

    @property
    def _after(self) -> str:
        return f"after {self.updates:,} updates"

    def _step(self, loss: float) -> float:
        if self._clipper is not None:
            try:
                self._optimizer.step()
            except FloatingPointError as error:
                raise Diverged(f"{error}, {self._after}") from error
            return self._clipper.stats.norm_before
        norm = grad_norm(self._parameters).item()
        if not (math.isfinite(norm) and math.isfinite(loss)):
            names = ", ".join(nonfinite_parameters(self.named)) or "none"
            seen = f"the loss is {loss:.3g}, the gradient's norm {norm:.3g} (not finite: {names})"
            raise Diverged(f"{seen}, {self._after}")
        self._optimizer.step()
        return norm


def build(name: str, parameters: Iterable[torch.nn.Parameter], lr: float, momentum: float | None) -> Optimizer:
    """The optimizer 'sgd', 'momentum', 'nesterov', 'rmsprop' or 'adam', whose β₁ is `momentum`; 'sgd' has none.

    Example:
        >>> build("nesterov", [torch.nn.Parameter(torch.zeros(2))], lr=0.1, momentum=0.9).defaults["nesterov"]
        True
    """
    one_of("optimizer", name, USUAL_MOMENTUM)
    listed, momentum = list(parameters), momentum or 0.0
    if name == "adam":
        return torch.optim.Adam(listed, lr=lr, betas=(momentum, ADAM_SECOND), fused=True)
    if name == "rmsprop":
        return torch.optim.RMSprop(listed, lr=lr, momentum=momentum, foreach=True)
    return torch.optim.SGD(listed, lr=lr, momentum=momentum, nesterov=name == "nesterov", fused=True)
