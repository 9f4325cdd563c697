"""One update judged: its norm is taken, and the gradient is clipped, or the update is skipped, shrunk or refused."""

from __future__ import annotations

import copy
import math
import warnings
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from .norm import by_device_and_dtype, clamp_, joined, measured, refuse_fsdp1, scale_, sharded
from .stats import Ledger
from .units import Names, Units, fault, parameters_of

SHRINK_ABOVE = 1e10
SHRINK_BY = 0.02
WARN_AFTER = 20


class Judge:
    """Clips the gradients of an optimizer's parameters, says whether the update may be made, and keeps account."""

    def __init__(
        self,
        optimizer: Optimizer,
        nonfinite: str,
        units: Units,
        ledger: Ledger,
        names: Names,
        recurrent: frozenset[int],
    ) -> None:
        self.optimizer = optimizer
        self.nonfinite = nonfinite
        self.units = units
        self.ledger = ledger
        self.names = names
        self._recurrent = recurrent  # the ids of the recurrent matrices; none unless nonfinite is "shrink"

    @property
    def may_skip(self) -> bool:
        """Whether an update can be left out once its step has begun."""
        return self.nonfinite != "shrink" or self.units.trackers[0].skips

    def __copy__(self) -> Judge:
        units, ledger = copy.deepcopy(self.units), copy.deepcopy(self.ledger)
        return Judge(self.optimizer, self.nonfinite, units, ledger, self.names, self._recurrent)

    def __getstate__(self) -> dict[str, Any]:
        # ids are of no use elsewhere: the tensors go in their place
        recurrent = [tensor for tensor in parameters_of(self.optimizer) if id(tensor) in self._recurrent]
        return {**vars(self), "names": list(self.names.values()), "_recurrent": recurrent}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self.names = {id(tensor): (name, tensor) for name, tensor in state["names"]}
        self._recurrent = frozenset(id(tensor) for tensor in state["_recurrent"])

    def clip(self) -> bool:
        """Clip, and say whether the update may be made."""
        optimizer, units = self.optimizer, self.units
        if not self.ledger.steps:  # it may have been wrapped after the clipper was made
            refuse_fsdp1(parameters_of(optimizer))
        with torch.no_grad():
            # a GradScaler leaves this on fused optimizers, whose gradients are then still scaled
            scale = float(getattr(optimizer, "grad_scale", None) or 1.0)
            if units.several:
                return self._clip_units(scale)
            grads = [g for group in optimizer.param_groups for p in group["params"] if (g := p.grad) is not None]
            norm, groups = measured(grads)
            norm /= scale
            if not math.isfinite(norm) or (self._recurrent and norm > SHRINK_ABOVE):
                return self._without(norm, scale)
            tracker, ledger = units.trackers[0], self.ledger
            threshold = tracker.value
            if norm < threshold:
                ledger.enter(norm, norm)
            elif units.per == "entry":
                self._clip_entries(norm, threshold, scale)
            elif self._spiked([norm], norm):
                return False
            else:
                scale_(groups, threshold / norm)
                ledger.clipped += 1
                ledger.enter(norm, threshold)
            tracker.observe(norm)
            return True

    def _clip_units(self, scale: float) -> bool:
        units, ledger = self.units, self.ledger
        grads, members = units.gradients(self.optimizer)
        count = len(units.trackers)
        norms = [norm / scale for norm in sharded().unit_norms(grads, members, count)]
        norm = joined(norms)
        if not math.isfinite(norm) or (self._recurrent and norm > SHRINK_ABOVE):
            return self._without(norm, scale)
        if self._spiked(norms, norm):
            return False
        beyond = {u: t.value / n for u, (n, t) in enumerate(zip(norms, units.trackers, strict=True)) if n >= t.value}
        ledger.clipped_by += [0] * (count - len(ledger.clipped_by))
        for unit, factor in beyond.items():
            mine = [g for g, member in zip(grads, members, strict=True) if member == unit]
            scale_(by_device_and_dtype(sharded().local_parts(mine)), factor)
            ledger.clipped_by[unit] += 1
        ledger.clipped += bool(beyond)
        ledger.enter(norm, joined([min(n, t.value) for n, t in zip(norms, units.trackers, strict=True)]))
        for tracker, each in zip(units.trackers, norms, strict=True):
            tracker.observe(each)
        return True

    def _clip_entries(self, norm: float, threshold: float, scale: float) -> None:
        grads: list[Tensor] = []
        for p in parameters_of(self.optimizer):
            if p.grad is not None:
                # the bound is on the sum over ranks, not on its parts
                whole: Tensor = sharded().whole_sum(p.grad)
                p.grad = whole
                grads.append(whole)
        clamp_(sharded().local_parts(grads), threshold * scale)
        after = measured(grads)[0] / scale
        self.ledger.clipped += after < norm
        self.ledger.enter(norm, after)

    def _spiked(self, norms: list[float], norm: float) -> bool:
        """Whether some norm is a spike for which the update is skipped; then all is entered. Counts spikes."""
        if not self.units.watches_spikes:
            return False
        trackers, ledger = self.units.trackers, self.ledger
        spikes = [i for i, (n, t) in enumerate(zip(norms, trackers, strict=True)) if n >= t.value]
        ledger.spikes += bool(spikes)
        if not spikes or not trackers[0].skips:
            return False
        names = self.units.names(self.optimizer, self.names)
        reasons = [trackers[i].why(norms[i]) + (f" in {names[i]}" if names else "") for i in spikes]
        for tracker, each in zip(trackers, norms, strict=True):
            tracker.observe(each)
        ledger.last_skipped = tuple(reasons)
        ledger.skipped += 1
        ledger.enter_lost(norm, 0.0, counts=True)
        self._warn_of_streak("these norms may be the new scale of the gradients: then use action='clip', or a larger z")
        return True

    def _without(self, norm: float, scale: float) -> bool:
        """Go on without this gradient, as `nonfinite` says; an overflow that a GradScaler found is always skipped."""
        ledger = self.ledger
        found_inf = bool(getattr(self.optimizer, "found_inf", None))
        (overflow,) = sharded().anywhere([found_inf], [p.grad for p in parameters_of(self.optimizer)])
        ledger.last_skipped = fault().at_fault(self.optimizer, self.names) or (f"norm {norm:.3g}",)
        shrinks = bool(self._recurrent) and not overflow
        if shrinks:
            ledger.shrunk += 1
        else:
            ledger.skipped += 1
        ledger.enter_lost(norm, self._shrink_(scale) if shrinks else 0.0, counts=not overflow)
        if self.nonfinite == "raise" and not overflow:
            raise FloatingPointError(
                f"the gradient norm is {norm} because of {', '.join(ledger.last_skipped)}; no update was made"
            )
        self._warn_of_streak(
            "look at the inputs and the loss of these updates (torch.autograd.set_detect_anomaly finds the operation), "
            "lower the learning rate or the threshold, or start again from weights that are finite"
        )
        return shrinks

    def _warn_of_streak(self, advice: str) -> None:
        ledger = self.ledger
        if ledger.streak == WARN_AFTER:
            warnings.warn(
                f"the last {WARN_AFTER} updates, up to number {ledger.steps:,}, were made without their gradient, this one "
                f"because of {', '.join(ledger.last_skipped)}: {advice} (nonfinite={self.nonfinite!r})",
                RuntimeWarning,
                stacklevel=6,
            )

    def _shrink_(self, scale: float) -> float:
        """∂E/∂W_rec ← 0.02 W_rec, all other gradients ← 0; returns the norm of the result."""
        shrinking: list[Tensor] = []
        for p in parameters_of(self.optimizer):
            if p.grad is None:
                continue
            if id(p) in self._recurrent:
                if sharded().is_sharded(p.grad):
                    # in the parameter's own placements, since a gradient may have come as a partial sum
                    p.grad = p.detach().clone()
                else:
                    p.grad.copy_(p)
                shrinking.append(p.grad.mul_(SHRINK_BY * scale))
            else:
                p.grad.zero_()
        return measured(shrinking)[0] / scale
