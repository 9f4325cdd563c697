"""Clipping inside `optimizer.step()`, where it cannot be misplaced.

    ‖g‖ finite:      g ← min(1, θ/‖g‖) g, then the optimizer's own step        (Pascanu et al. 2013, Algorithm 1)
    ‖g‖ not finite:  "skip"    nothing changes
                     "raise"   FloatingPointError
                     "shrink"  ∂E/∂W_rec ← 0.02 W_rec, all other gradients ← 0, then the step

"shrink" is what the authors' own program did.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Literal

from torch import Tensor
from torch.optim import Optimizer

from steadygrad import checks

from .attachment import Attachment, clipper_of, steps_itself
from .judge import Judge
from .norm import refuse_fsdp1
from .stats import ClipStats, Ledger
from .units import PER, Per, Units, fault, names_by_id, parameters_of

if TYPE_CHECKING:
    from .threshold import Threshold


class NormClipper:
    """Makes every `optimizer.step()` clip the gradient norm first, and deal with gradients that are not finite.

        if ‖g‖ ≥ θ:  g ← (θ / ‖g‖) g       g: the gradients of all the optimizer's parameters, as one vector

    Below the threshold no gradient is written. The norm is read to the host once a step. Sharded gradients (FSDP2) are
    measured as a whole, and all ranks decide alike; see `clip_grad_norm_`.

    Schedulers may be made before or after the clipper. With `torch.amp.GradScaler`, θ and the norms are those of the
    unscaled gradients, also for fused optimizers, which unscale inside their step; updates that the scaler skips are
    the scaler's affair (with a fused optimizer they are seen, and counted as skipped). Hooks registered on the
    optimizer's step run after the clipping. Of an optimizer that wraps another (accelerate's, Lightning's) the inner one
    is clipped, when it makes its update: once for all the micro-batches of an accumulated gradient.

    A copy of the clipper (`copy.deepcopy`, `pickle`) comes with a copy of its optimizer and clips that one, with
    statistics of its own; copied together with model and optimizer it belongs to their copies. A copy of the optimizer
    alone has no clipper, as it has none of its hooks. `copy.copy` gives a detached clipper, since the optimizer it shares
    has one already.

    Where `step` is given a closure, the gradient is clipped after each evaluation. LBFGS then sees clipped gradients,
    which say little about curvature: give it a threshold well above its ordinary norms. A step of which any evaluation
    is not finite is undone as a whole (for that, parameters and state are copied before each such step, unless the
    optimizer is one of torch's that evaluate the closure once).

    Args:
      optimizer: any `torch.optim.Optimizer` with dense gradients.
      threshold: θ, a positive number; "auto" (`Auto()`) or an `Auto` for a multiple of the ordinary norms; a
        `Percentile` of the recent norms; or a `Spike`, for norms far above their running mean.
      nonfinite: what to do where ‖g‖ is infinite or NaN. "skip" makes no update at all: neither parameters nor the
        optimizer's state change. "raise" raises FloatingPointError, with nothing changed. "shrink" replaces the
        gradient of the recurrent matrices by 0.02 of themselves and all others by 0, and makes the update; also where
        ‖g‖ > 1e10. "skip" and "raise" name the parameters at fault. After 20 updates in a row without a usable gradient
        comes one RuntimeWarning.
      per: what is clipped by its own norm: "all" gradients together, each "group" of the optimizer's parameters, or each
        "parameter", every one with a θ of its own where that adapts. "entry" clips every entry to [−θ, θ]; θ is then a
        number. What is not finite anywhere concerns the whole update, and so does `Spike(action="skip")`.
      named_parameters: pairs of name and tensor, `model.named_parameters()`, for those names. Without them, the names
        the optimizer was given, or "parameter 3 of group 0 (shape 50x50)".
      recurrent: the recurrent matrices, for "shrink" alone. Without it, those called weight_hh… in `named_parameters`.
      history: how many pairs (norm before, norm after) to keep.

    Example:
      >>> import torch
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
        per: Per = "all",
        named_parameters: Iterable[tuple[str, Tensor]] | None = None,
        recurrent: Iterable[Tensor] | None = None,
        history: int = 1000,
    ) -> None:
        if not isinstance(optimizer, Optimizer):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"optimizer must be a torch.optim.Optimizer, not {type(optimizer).__name__}")
        self._given = optimizer
        self.optimizer = optimizer = steps_itself(optimizer)
        other: NormClipper | None = clipper_of(optimizer)
        if other is not None and other.attached:
            raise ValueError("optimizer must have no other NormClipper attached, and this one has: detach() that first")
        refuse_fsdp1(parameters_of(optimizer))
        self.nonfinite = checks.one_of("nonfinite", nonfinite, ("skip", "raise", "shrink"))
        checks.one_of("per", per, PER)
        self._threshold = threshold
        units = Units(per, threshold, optimizer)
        ledger = Ledger(checks.whole("history", history, low=0))
        names = names_by_id(named_parameters, optimizer)
        if recurrent is not None and nonfinite != "shrink":
            raise ValueError(f"recurrent must be left out unless nonfinite='shrink', and that is {nonfinite!r}")
        shrinking = fault().recurrent_ids(recurrent, names, optimizer) if nonfinite == "shrink" else frozenset[int]()
        self._judge = Judge(optimizer, nonfinite, units, ledger, names, shrinking)
        self._attachment: Attachment | None = None
        self._attach()

    @property
    def attached(self) -> bool:
        """Whether `optimizer.step()` clips."""
        return self._attachment is not None and clipper_of(self.optimizer) is self

    @property
    def threshold(self) -> float:
        """θ for the next update, the smallest if there are several; infinite while it is not known."""
        return min(self._judge.units.thresholds())

    @property
    def stats(self) -> ClipStats:
        """A snapshot of what was seen and done so far."""
        return self._judge.ledger.snapshot(
            self._judge.units.thresholds(), self._judge.units.names(self.optimizer, self._judge.names)
        )

    @property
    def norm_before(self) -> float:
        """`stats.norm_before` alone, without a snapshot of everything: for loops that read it at every update."""
        return self._judge.ledger.last[0]

    def detach(self) -> None:
        """Give the optimizer its own step back. Once is enough; again does nothing."""
        if self._attachment is not None:
            self._attachment.remove()
        # a scheduler made later holds our step inside its own; this lets every call through there untouched
        self._attachment = None

    def state_dict(self) -> dict[str, Any]:
        """Counts, history and what an adaptive threshold has gathered, as plain numbers, strings and lists (JSON)."""
        return {**self._judge.ledger.state_dict(), "per": self._judge.units.per, "threshold": self._judge.units.state()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from `state_dict()` of a clipper with the same threshold rule, to the very same numbers.

        A fixed threshold is no state: it stays what this clipper was given.
        """
        missing = {"threshold", *Ledger.KEYS} - state.keys()
        if missing:
            raise ValueError(f"state must be a NormClipper's state_dict, but it lacks {', '.join(sorted(missing))}")
        per = state.get("per", "all")
        if per != self._judge.units.per:
            raise ValueError(f"state must come from a clipper with per={self._judge.units.per!r}, not {per!r}")
        self._judge.units.load_state(state["threshold"])
        self._judge.ledger.load_state_dict(state)

    def __repr__(self) -> str:
        optimizer = type(self.optimizer).__name__
        per = "" if self._judge.units.per == "all" else f", per={self._judge.units.per!r}"
        return f"NormClipper({optimizer}, threshold={self._threshold!r}, nonfinite={self.nonfinite!r}{per})"

    def __copy__(self) -> NormClipper:
        new = NormClipper.__new__(NormClipper)
        new.__setstate__({**self.__getstate__(), "_judge": copy.copy(self._judge), "_attachment": False})
        return new

    def __getstate__(self) -> dict[str, Any]:
        # the wrapped step is made anew for the copy
        return {**vars(self), "_attachment": self.attached}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update({**state, "_attachment": None})
        if state["_attachment"]:
            self._attach()

    def _attach(self) -> None:
        def around(inner: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            if self._attachment is None:
                return inner(*args, **kwargs)
            closure = args[0] if args else kwargs.get("closure")
            if closure is not None:
                return self._step_with(closure, inner, args, kwargs)
            if self._judge.clip():
                return inner(*args, **kwargs)
            # a scheduler that wrapped the inner step asks whether step() was ever called: it was
            vars(self.optimizer)["_opt_called"] = True
            return None

        self._attachment = Attachment(self._given, self.optimizer, self, around)

    def _step_with(
        self, closure: Callable[[], Any], inner: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        losses: list[Any] = []

        def clipped_closure() -> Any:
            losses.append(closure())
            if not self._judge.clip():
                raise _SkippedError
            return losses[-1]

        back = fault().undo(self.optimizer) if self._judge.may_skip else None
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


class _SkippedError(Exception):
    """Leaves an optimizer's step from within its closure."""
