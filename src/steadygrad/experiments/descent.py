"""The step down the gradient: clip it, hand it to the optimizer, and watch what it does.

    g ← min(1, threshold/‖g‖) g                  (Pascanu et al. 2013, Algorithm 1; within optimizer.step())
    θ ← θ − lr · g                               or as the optimizer has it

Whatever is trained leaves its gradients in .grad and calls `step`. Optimizers are torch's, by name. Fused kernels take the few
small tensors of these networks in one call: a step takes as long as torch's loop over parameters without momentum, half of it
with, a third for Adam.
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

LOST = 1000
"""So many updates in a row without a finite gradient, and the run has diverged."""
BLOWN_UP = 1000.0
"""A mean loss so many times that of the first update, and the run has diverged."""
ADAM_SECOND = 0.999
OPTIMIZER = "optimizer."
"""What the names of the optimizer's tensors begin with in a checkpoint."""


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

    Attributes:
        updates: how many were made.
        since: what was seen since the last summary.

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
        self.updates = 0
        self.since = Since()
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

    def step(self, loss: float, lost: int = LOST) -> float:
        """Make one update with the gradients that are there.

        Args:
            loss: of this update; it is only looked at.
            lost: how many gradients in a row may be other than finite.

        Returns:
            The gradient's norm before clipping.

        Raises:
            Diverged: the loss or the gradient is not finite, and no clipper is there to pass over it; or a clipper had
                to for too long.
        """
        norm = self._step(loss)
        self.updates += 1
        self._observe(loss, norm, lost)
        return norm

    def judge(self) -> None:
        """Whether the run has diverged, as far as one can tell between two checks. Raises `Diverged`."""
        for name, parameter in self.named:
            if not torch.isfinite(parameter).all():
                raise Diverged(f"{name} is no longer finite after {self.updates:,} updates")
        since, first = self.since, self._first_loss
        if since.losses and first is not None and since.loss / since.losses > BLOWN_UP * first:
            mean = since.loss / since.losses
            raise Diverged(
                f"the mean loss of the last {since.updates:,} updates is {mean:.3g}, and was {first:.3g} at first, "
                f"after {self.updates:,} updates"
            )

    def summary(self) -> dict[str, float | None]:
        """What was seen since the last summary, as means, and begin anew."""
        since = self.since
        seen: dict[str, float | None] = {
            "loss": since.loss / since.losses if since.losses else None,
            "gradient_norm": since.norm / since.norms if since.norms else None,
            "gradient_norm_max": since.norm_max if since.norms else None,
            "clip_rate": 0.0,
            "skipped": 0,
        }
        self.since = Since()
        if self._clipper is not None:
            stats = self._clipper.stats
            skipped = stats.skipped + stats.shrunk
            if since.updates:
                seen["clip_rate"] = (stats.clipped - since.clipped_before) / since.updates
                seen["skipped"] = skipped - since.skipped_before
            self.since = Since(clipped_before=stats.clipped, skipped_before=skipped)
        return seen

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """All that the next step depends on, but for the parameters and the rate: tensors by name, and plain values."""
        moments, rest = _state(self._optimizer)
        tensors = {OPTIMIZER + name: tensor for name, tensor in moments.items()}
        values = {
            "updates": self.updates,
            "since": asdict(self.since),
            "clipper": None if self._clipper is None else self._clipper.state_dict(),
            "optimizer": rest,
            "first_loss": self._first_loss,
            "lost": self._lost,
        }
        return tensors, values

    def load_state(self, tensors: dict[str, Tensor], values: dict[str, Any]) -> None:
        """Go on from `state()`, to the very same numbers. Tensors of other names are passed over."""
        moments = {name.removeprefix(OPTIMIZER): t for name, t in tensors.items() if name.startswith(OPTIMIZER)}
        _load_state(self._optimizer, moments, values["optimizer"])
        self.updates = values["updates"]
        self.since = Since(**values["since"])
        if self._clipper is not None:
            self._clipper.load_state_dict(values["clipper"])
        self._first_loss, self._lost = values["first_loss"], values["lost"]

    def _step(self, loss: float) -> float:
        if self._clipper is not None:
            try:
                self._optimizer.step()
            except FloatingPointError as error:
                raise Diverged(f"{error}, after {self.updates:,} updates") from error
            return self._clipper.stats.norm_before
        norm = grad_norm(self._parameters).item()
        if not (math.isfinite(norm) and math.isfinite(loss)):
            names = ", ".join(nonfinite_parameters(self.named)) or "none"
            raise Diverged(
                f"the loss is {loss:.3g}, the gradient's norm {norm:.3g} (not finite: {names}), "
                f"after {self.updates:,} updates"
            )
        self._optimizer.step()
        return norm

    def _observe(self, loss: float, norm: float, lost: int) -> None:
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
            if norm > since.norm_max:
                since.norm_max = norm
            self._lost = 0
        else:
            self._lost += 1
            if self._lost >= lost:
                raise Diverged(f"the last {lost:,} gradients were not finite, after {self.updates:,} updates")


def build(name: str, parameters: Iterable[torch.nn.Parameter], lr: float, momentum: float | None) -> Optimizer:
    """The optimizer of that name.

    Args:
        name: 'sgd', 'momentum', 'nesterov', 'rmsprop' or 'adam'.
        parameters: what it changes.
        lr: the learning rate.
        momentum: of 'momentum', 'nesterov' and 'rmsprop'; the β₁ of 'adam'; None for 'sgd'.

    Example:
        >>> build("nesterov", [torch.nn.Parameter(torch.zeros(2))], lr=0.1, momentum=0.9).defaults["nesterov"]
        True
    """
    one_of("optimizer", name, USUAL_MOMENTUM)
    listed = list(parameters)
    if name == "adam":
        return torch.optim.Adam(listed, lr=lr, betas=(momentum or 0.0, ADAM_SECOND), fused=True)
    if name == "rmsprop":
        return torch.optim.RMSprop(listed, lr=lr, momentum=momentum or 0.0, foreach=True)
    return torch.optim.SGD(listed, lr=lr, momentum=momentum or 0.0, nesterov=name == "nesterov", fused=True)


def _state(optimizer: Optimizer) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    """The optimizer's state as named tensors, and the rest of it as plain values: what a checkpoint can hold."""
    tensors: dict[str, torch.Tensor] = {}
    values: dict[str, Any] = {}
    for index, entries in optimizer.state_dict()["state"].items():
        for key, value in entries.items():
            (tensors if isinstance(value, torch.Tensor) else values)[f"{index}.{key}"] = value
    return tensors, values


def _load_state(optimizer: Optimizer, tensors: dict[str, torch.Tensor], values: dict[str, Any]) -> None:
    """Go on from `_state()`. Options such as the learning rate stay those of `optimizer`."""
    entries: dict[int, dict[str, Any]] = {}
    for name, value in {**tensors, **values}.items():
        index, key = name.split(".", 1)
        entries.setdefault(int(index), {})[key] = value
    optimizer.load_state_dict({"state": entries, "param_groups": optimizer.state_dict()["param_groups"]})
