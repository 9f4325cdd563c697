"""One step down the gradient: clip it, hand it to the optimizer, and watch for divergence.

    g ← g + l1 sign(W_rec) + 2 l2 W_rec          the penalties, where the settings ask for them (baselines/penalty.py)
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

from .. import clip
from ..checks import one_of
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


class Method:
    """What makes an update, and what was seen of it. Two others than the step down the gradient are in methods.py.

    `named` are the parameters that are trained; `since` is what was seen since the last summary.
    """

    has_rate = False

    def __init__(self, named: Iterable[tuple[str, torch.nn.Parameter]]) -> None:
        self.named = list(named)
        self.updates, self.since = 0, Since()
        self._first_loss: float | None = None

    def learn(self, network: Any, feed: Any) -> float:
        """Make one update with the next batch of `feed`, and return its loss; NaN where it has none."""
        raise NotImplementedError

    def settle(self) -> None:
        """Bring the network to what was learned so far, before a test. After a step it is there already."""

    def set_rate(self, lr: float) -> None:
        """Take the learning rate of the next step, where there is one."""

    def forget(self) -> None:
        """Take the weights as new ones: what the updates before have left, such as momentum, goes."""

    def note(self, loss: float) -> None:
        """Count an update of this loss."""
        self.updates += 1
        self.since.updates += 1
        if math.isfinite(loss):
            self.since.loss += loss
            self.since.losses += 1
            if self._first_loss is None:
                self._first_loss = loss

    def judge(self) -> None:
        """Raise `Diverged` if a parameter is not finite or the mean loss since the last summary has blown up."""
        for name, parameter in self.named:
            if not torch.isfinite(parameter).all():
                raise Diverged(f"{name} is no longer finite {self.after}")
        since, first = self.since, self._first_loss
        if since.losses and first is not None and (mean := since.loss / since.losses) > BLOWN_UP * first:
            seen = f"the mean loss of the last {since.updates:,} updates is {mean:.3g}"
            raise Diverged(f"{seen}, and was {first:.3g} at first, {self.after}")

    def summary(self) -> dict[str, float | None]:
        """What was seen since the last summary, as means, and begin anew."""
        since, self.since = self.since, Since()
        return {
            "loss": since.loss / since.losses if since.losses else None,
            "gradient_norm": since.norm / since.norms if since.norms else None,
            "gradient_norm_max": since.norm_max if since.norms else None,
            "clip_rate": 0.0,
            "skipped": 0,
        }

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """All that the next update depends on but the parameters and the rate: tensors by name, and plain values."""
        return {}, {"updates": self.updates, "since": asdict(self.since), "first_loss": self._first_loss}

    def load_state(self, tensors: dict[str, Tensor], values: dict[str, Any]) -> None:
        """Go on from `state()`, to the very same numbers. Tensors of other names are ignored; the rate stays."""
        self.updates, self.since = values["updates"], Since(**values["since"])
        self._first_loss = values["first_loss"]

    @property
    def after(self) -> str:
        return f"after {self.updates:,} updates"


class Descent(Method):
    """An optimizer, a clipper if there is a threshold, and what they have seen.

    `optimizer`, `lr` and `momentum` are as in `build`, `threshold` (None clips nothing), `nonfinite` and `per` as in
    `NormClipper`; `l1` and `l2` are the factors of the penalties on recurrent weights.

    Example:
        >>> weight = torch.nn.Parameter(torch.zeros(3))
        >>> descent = Descent([("weight", weight)], "sgd", 1.0, None, threshold=6.5, nonfinite="skip")
        >>> weight.grad = torch.tensor([3.0, 4.0, 12.0])
        >>> descent.step(loss=0.5), weight.tolist()
        (13.0, [-1.5, -2.0, -6.0])
    """

    has_rate = True

    def __init__(
        self,
        named: Iterable[tuple[str, torch.nn.Parameter]],
        optimizer: str,
        lr: float,
        momentum: float | None,
        threshold: Any = None,
        nonfinite: Any = None,
        per: Any = "all",
        l1: float = 0.0,
        l2: float = 0.0,
    ) -> None:
        super().__init__(named)
        self._parameters = [parameter for _, parameter in self.named]
        self._optimizer = build(optimizer, self._parameters, lr, momentum)
        self._clipper: clip.NormClipper | None = None
        if threshold is not None:
            about: Any = {"per": per, "named_parameters": self.named, "history": 0}
            self._clipper = clip.NormClipper(self._optimizer, threshold, nonfinite, **about)
        self._penalties: list[tuple[Any, float]] = []
        if l1 or l2:
            from ..baselines import penalty

            both = ((penalty.add_l1, l1), (penalty.add_l2, l2))
            self._penalties = [(add, strength) for add, strength in both if strength > 0]
        self._lost = 0

    @property
    def lr(self) -> float:
        """The learning rate of the next step."""
        return self._optimizer.param_groups[0]["lr"]

    def set_rate(self, lr: float) -> None:
        for group in self._optimizer.param_groups:
            group["lr"] = lr

    def forget(self) -> None:
        self._optimizer.state.clear()

    def learn(self, network: Any, feed: Any) -> float:
        loss = feed.learn(network)
        for add, strength in self._penalties:
            add(network.rnn, strength)
        self.step(loss)
        return loss

    def step(self, loss: float) -> float:
        """Make one update with the gradients that are there, and return their norm before clipping.

        Raises `Diverged` if the loss or the gradient is not finite and there is no clipper to skip it, or a clipper had to
        skip `LOST` gradients in a row.
        """
        norm = self._step(loss)
        self.note(loss)
        since = self.since
        if math.isfinite(norm):
            since.norm += norm
            since.norms += 1
            since.norm_max = max(since.norm_max, norm)
            self._lost = 0
        else:
            self._lost += 1
            if self._lost >= LOST:
                raise Diverged(f"the last {LOST:,} gradients were not finite, {self.after}")
        return norm

    def summary(self) -> dict[str, float | None]:
        since, seen = self.since, super().summary()
        if self._clipper is not None:
            stats = self._clipper.stats
            skipped = stats.skipped + stats.shrunk
            if since.updates:
                seen["clip_rate"] = (stats.clipped - since.clipped_before) / since.updates
                seen["skipped"] = skipped - since.skipped_before
            self.since = Since(clipped_before=stats.clipped, skipped_before=skipped)
        return seen

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        tensors, rest = moments(self._optimizer)
        clipper = None if self._clipper is None else self._clipper.state_dict()
        return tensors, {**super().state()[1], "optimizer": rest, "lost": self._lost, "clipper": clipper}

    def load_state(self, tensors: dict[str, Tensor], values: dict[str, Any]) -> None:
        super().load_state(tensors, values)
        load_moments(self._optimizer, tensors, values["optimizer"])
        if self._clipper is not None:
            self._clipper.load_state_dict(values["clipper"])
        self._lost = values["lost"]

    def _step(self, loss: float) -> float:
        if self._clipper is not None:
            try:
                self._optimizer.step()
            except FloatingPointError as error:
                raise Diverged(f"{error}, {self.after}") from error
            return self._clipper.norm_before
        norm = clip.grad_norm(self._parameters).item()
        if not (math.isfinite(norm) and math.isfinite(loss)):
            names = ", ".join(clip.nonfinite_parameters(self.named)) or "none"
            seen = f"the loss is {loss:.3g}, the gradient's norm {norm:.3g} (not finite: {names})"
            raise Diverged(f"{seen}, {self.after}")
        self._optimizer.step()
        return norm


def moments(optimizer: Optimizer) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """What an optimizer keeps for each parameter: tensors by name, and plain values."""
    tensors: dict[str, Tensor] = {}
    rest: dict[str, Any] = {}
    for index, entries in optimizer.state_dict()["state"].items():
        for key, value in entries.items():
            if isinstance(value, Tensor):
                tensors[f"{OPTIMIZER}{index}.{key}"] = value
            else:
                rest[f"{index}.{key}"] = value
    return tensors, rest


def load_moments(optimizer: Optimizer, tensors: dict[str, Tensor], rest: dict[str, Any]) -> None:
    """Give an optimizer what `moments` found; its settings stay."""
    found = {name.removeprefix(OPTIMIZER): t for name, t in tensors.items() if name.startswith(OPTIMIZER)}
    entries: dict[int, dict[str, Any]] = {}
    for name, value in {**found, **rest}.items():
        index, key = name.split(".", 1)
        entries.setdefault(int(index), {})[key] = value
    optimizer.load_state_dict({"state": entries, "param_groups": optimizer.state_dict()["param_groups"]})


def build(name: str, parameters: Iterable[torch.nn.Parameter], lr: float, momentum: float | None) -> Optimizer:
    """The optimizer 'sgd', 'momentum', 'nesterov', 'rmsprop' or 'adam', whose β₁ is `momentum`; 'sgd' has none."""
    one_of("optimizer", name, USUAL_MOMENTUM)
    listed, momentum = list(parameters), momentum or 0.0
    if name == "adam":
        return torch.optim.Adam(listed, lr=lr, betas=(momentum, ADAM_SECOND), fused=True)
    if name == "rmsprop":
        return torch.optim.RMSprop(listed, lr=lr, momentum=momentum, foreach=True)
    return torch.optim.SGD(listed, lr=lr, momentum=momentum, nesterov=name == "nesterov", fused=True)
