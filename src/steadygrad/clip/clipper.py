"""Clipping inside `optimizer.step()`, where it cannot be misplaced.

    ‖g‖ finite:      g ← min(1, θ/‖g‖) g, then the optimizer's own step        (Pascanu et al. 2013, Algorithm 1)
    ‖g‖ not finite:  "skip"    nothing changes
                     "raise"   FloatingPointError
                     "shrink"  ∂E/∂W_rec ← 0.02 W_rec, all other gradients ← 0, then the step

The optimizer's `step` is wrapped on the instance: a hook that runs before the step could clip, but it could not keep
the step from decaying weights, moving momentum or counting. "shrink" is what the authors' own program did.
"""

from __future__ import annotations

import functools
import math
import types
from collections.abc import Callable, Iterable
from typing import Any, Literal

import torch
from torch import Tensor
from torch.optim import Optimizer

from steadygrad import checks

from .fault import at_fault, names_by_id, parameters_of, recurrent_ids, undo
from .norm import scale_
from .sharded import anywhere, is_sharded, measured, refuse_fsdp1
from .stats import ClipStats, Ledger
from .threshold import Threshold, track

SHRINK_ABOVE = 1e10
SHRINK_BY = 0.02


class NormClipper:
    """Makes every `optimizer.step()` clip the gradient norm first, and deal with gradients that are not finite.

        if ‖g‖ ≥ θ:  g ← (θ / ‖g‖) g       g: the gradients of all the optimizer's parameters, as one vector

    Below the threshold no gradient is written. The norm is read to the host once a step.

    Schedulers may be made before or after the clipper. With `torch.amp.GradScaler`, θ and the norms are those of the
    unscaled gradients, also for fused optimizers, which unscale inside their step; updates that the scaler skips are
    the scaler's affair (with a fused optimizer they are seen, and counted as skipped). Hooks registered on the
    optimizer's step run after the clipping. A copy of the optimizer has no clipper, as it has none of its hooks.

    Where `step` is given a closure, the gradient is clipped after each evaluation. LBFGS then sees clipped gradients,
    which say little about curvature: give it a threshold well above its ordinary norms. A step of which any evaluation
    is not finite is undone as a whole (for that, parameters and state are copied before each such step, unless the
    optimizer is one of torch's that evaluate the closure once).

    Args:
      optimizer: any `torch.optim.Optimizer` with dense gradients.
      threshold: θ, a positive number; "auto" (`Auto()`) or an `Auto` for a multiple of the average norm; or a
        `Percentile` of the recent norms.
      nonfinite: what to do where ‖g‖ is infinite or NaN. "skip" makes no update at all: neither parameters nor the
        optimizer's state change. "raise" raises FloatingPointError, with nothing changed. "shrink" replaces the
        gradient of the recurrent matrices by 0.02 of themselves and all others by 0, and makes the update; also where
        ‖g‖ > 1e10. "skip" and "raise" name the parameters at fault.
      named_parameters: pairs of name and tensor, `model.named_parameters()`, for those names. Without them, the names
        the optimizer was given, or "parameter 3 of group 0 (shape 50x50)".
      recurrent: the recurrent matrices, for "shrink" alone. Without it, those called weight_hh… in `named_parameters`.
      history: how many pairs (norm before, norm after) to keep.

    Example:
      >>> weight = torch.nn.Parameter(torch.zeros(3))
      >>> optimizer = torch.optim.SGD([weight], lr=1.0)
      >>> clipper = NormClipper(optimizer, threshold=6.5)
      >>> weight.grad = torch.tensor([3.0, 4.0, 12.0])
      >>> optimizer.step()
      >>> weight.data
      tensor([-1.5000, -2.0000, -6.0000])
      >>> print(clipper.stats)
      clipped 1 of 1 gradients (100 %); last norm 13 -> 6.5; threshold 6.5

    Reference: Pascanu, Mikolov & Bengio 2013, "On the difficulty of training recurrent neural networks", Algorithm 1.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        threshold: Threshold = "auto",
        nonfinite: Literal["skip", "raise", "shrink"] = "skip",
        *,
        named_parameters: Iterable[tuple[str, Tensor]] | None = None,
        recurrent: Iterable[Tensor] | None = None,
        history: int = 1000,
    ) -> None:
        if not isinstance(optimizer, Optimizer):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"optimizer must be a torch.optim.Optimizer, not {type(optimizer).__name__}")
        other: NormClipper | None = getattr(optimizer.step, "_norm_clipper", None)
        if other is not None and other.attached:
            raise ValueError("optimizer must have no other NormClipper attached, and this one has: detach() that first")
        refuse_fsdp1(parameters_of(optimizer))
        self.optimizer = optimizer
        self.nonfinite = checks.one_of("nonfinite", nonfinite, ("skip", "raise", "shrink"))
        self._threshold = threshold
        self._tracker = track(threshold)
        self._ledger = Ledger(checks.whole("history", history, low=0))
        self._names = names_by_id(named_parameters, optimizer)
        if recurrent is not None and nonfinite != "shrink":
            raise ValueError(f"recurrent must be left out unless nonfinite='shrink', and that is {nonfinite!r}")
        self._recurrent: frozenset[int] = frozenset()
        if nonfinite == "shrink":
            self._recurrent = recurrent_ids(recurrent, self._names, optimizer)
        self.attached = True
        self._attach()

    @property
    def threshold(self) -> float:
        """θ for the next update; infinite while an adaptive threshold has seen no norm."""
        return self._tracker.value

    @property
    def stats(self) -> ClipStats:
        """A snapshot of what was seen and done so far."""
        return self._ledger.snapshot(self._tracker.value)

    def detach(self) -> None:
        """Give the optimizer its own step back. Once is enough; again does nothing."""
        self.attached = False
        held = vars(self.optimizer)
        # a scheduler made later holds our step inside its own; there `attached` lets every call through untouched
        if held.get("step") is self._step:
            if self._before is None:
                del held["step"]
            else:
                held["step"] = self._before

    def state_dict(self) -> dict[str, Any]:
        """Counts, history and what an adaptive threshold has gathered, as plain numbers, strings and lists (JSON)."""
        return {**self._ledger.state_dict(), "threshold": self._tracker.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from `state_dict()` of a clipper with the same threshold rule, to the very same numbers.

        A fixed threshold is no state: it stays what this clipper was given.
        """
        missing = self.state_dict().keys() - state.keys()
        if missing:
            raise ValueError(f"state must be a NormClipper's state_dict, but it lacks {', '.join(sorted(missing))}")
        self._tracker.load_state_dict(state["threshold"])
        self._ledger.load_state_dict(state)

    def __repr__(self) -> str:
        optimizer = type(self.optimizer).__name__
        return f"NormClipper({optimizer}, threshold={self._threshold!r}, nonfinite={self.nonfinite!r})"

    def _attach(self) -> None:
        inner: Callable[..., Any] = self.optimizer.step
        self._before: Any = vars(self.optimizer).get("step")

        # wraps() also hands on the marks that schedulers leave on a step they have wrapped
        @functools.wraps(inner)
        def step(optimizer: Optimizer, *args: Any, **kwargs: Any) -> Any:
            if not self.attached:
                return inner(*args, **kwargs)
            closure = args[0] if args else kwargs.get("closure")
            if closure is not None:
                return self._step_with(closure, inner, args, kwargs)
            if self._clip():
                return inner(*args, **kwargs)
            # a scheduler that wrapped the inner step asks whether step() was ever called: it was
            vars(optimizer)["_opt_called"] = True
            return None

        vars(step)["_norm_clipper"] = self
        # a bound method, because schedulers look for its __func__
        self._step = types.MethodType(step, self.optimizer)
        vars(self.optimizer)["step"] = self._step

    def _step_with(
        self, closure: Callable[[], Any], inner: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        losses: list[Any] = []

        def clipped_closure() -> Any:
            losses.append(closure())
            if not self._clip():
                raise _SkippedError
            return losses[-1]

        back = undo(self.optimizer) if self.nonfinite != "shrink" else None
        try:
            if args:
                return inner(clipped_closure, *args[1:], **kwargs)
            return inner(**{**kwargs, "closure": clipped_closure})
        except (_SkippedError, FloatingPointError) as error:
            if back is not None:
                back()
            if isinstance(error, FloatingPointError):
                raise
            return losses[0]

    def _clip(self) -> bool:
        """Clip, and say whether the update may be made."""
        optimizer, ledger = self.optimizer, self._ledger
        with torch.no_grad():
            grads = [g for group in optimizer.param_groups for p in group["params"] if (g := p.grad) is not None]
            # a GradScaler leaves this on fused optimizers, whose gradients are then still scaled
            scale = float(getattr(optimizer, "grad_scale", None) or 1.0)
            norm, groups = measured(grads)
            norm /= scale
            if not math.isfinite(norm) or (self._recurrent and norm > SHRINK_ABOVE):
                return self._without(norm, scale)
            threshold = self._tracker.value
            if norm >= threshold:
                scale_(groups, threshold / norm)
                ledger.clipped += 1
                ledger.enter(norm, threshold)
            else:
                ledger.enter(norm, norm)
            self._tracker.observe(norm)
            return True

    def _without(self, norm: float, scale: float) -> bool:
        """Go on without this gradient, as `nonfinite` says; an overflow that a GradScaler found is always skipped."""
        ledger = self._ledger
        found_inf = bool(getattr(self.optimizer, "found_inf", None))
        (overflow,) = anywhere([found_inf], [p.grad for p in parameters_of(self.optimizer)])
        ledger.last_skipped = at_fault(self.optimizer, self._names) or (f"norm {norm:.3g}",)
        if self._recurrent and not overflow:
            ledger.shrunk += 1
            ledger.enter(norm, self._shrink_(scale))
            return True
        ledger.skipped += 1
        ledger.enter(norm, 0.0)
        if self.nonfinite == "raise" and not overflow:
            raise FloatingPointError(
                f"the gradient norm is {norm} because of {', '.join(ledger.last_skipped)}; no update was made"
            )
        return False

    def _shrink_(self, scale: float) -> float:
        """∂E/∂W_rec ← 0.02 W_rec, all other gradients ← 0; returns the norm of the result."""
        shrinking: list[Tensor] = []
        for p in parameters_of(self.optimizer):
            if p.grad is None:
                continue
            if id(p) in self._recurrent:
                if is_sharded(p.grad):
                    # in the parameter's own placements, since a gradient may have come as a partial sum
                    p.grad = p.detach().clone()
                else:
                    p.grad.copy_(p)
                shrinking.append(p.grad.mul_(SHRINK_BY * scale))
            else:
                p.grad.zero_()
        return measured(shrinking)[0] / scale


class _SkippedError(Exception):
    """Leaves an optimizer's step from within its closure."""
