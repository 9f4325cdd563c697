"""How a clipper comes into an optimizer's step, and out of it again.

`step` is wrapped on the instance: a hook that runs before the step could clip, but it could not keep the step from
decaying weights, moving momentum or counting.
"""

# pyright: reportUnknownMemberType=false, reportPrivateUsage=false
# (hooks of an optimizer's step have no public names)

from __future__ import annotations

import functools
import inspect
import sys
import types
from collections.abc import Callable
from typing import Any

import torch
from torch.optim import Optimizer

# accelerate's wrappers around engines that make the update inside backward(); their own step() does nothing
STEPLESS = ("DeepSpeedOptimizerWrapper", "MegatronLMOptimizerWrapper")

Around = Callable[[Callable[..., Any], tuple[Any, ...], dict[str, Any]], Any]


def steps_itself(optimizer: Optimizer) -> Optimizer:
    """The optimizer that makes the update: the one inside, if this one (accelerate's, Lightning's) only passes calls on.

    Such a wrapper's step is called for every micro-batch and may not update at all, and its gradients may still be
    scaled by a GradScaler. The step of the optimizer inside is called when the gradient is complete.
    """
    if type(optimizer).__name__ in STEPLESS:
        raise ValueError(
            f"optimizer must make its updates in step(), and a {type(optimizer).__name__} makes them in backward(): "
            "set clipping in the configuration of its engine"
        )
    inside = getattr(optimizer, "optimizer", None)
    if isinstance(inside, Optimizer) and inside is not optimizer and inside.param_groups is optimizer.param_groups:
        return steps_itself(inside)
    return optimizer


def clipper_of(optimizer: Optimizer) -> Any:
    """The clipper in the optimizer's step, if there is one."""
    found = getattr(optimizer.step, "_norm_clipper", None)
    return found if found is not None and found.optimizer is optimizer else None


_HOOKS_OF_ALL: Any = [
    getattr(sys.modules[Optimizer.__module__], f"_global_optimizer_{when}_hooks", None) for when in ("pre", "post")
]
_is_profiling: Any = getattr(torch.autograd, "_profiler_enabled", None)


def without_listeners(optimizer: Optimizer, step: Callable[..., Any]) -> Callable[..., Any] | None:
    """The step inside the wrapper that torch puts around it for hooks and the profiler, a fifth of a small model's step.

    None where that is not the outermost one, or where it can't be known who listens.
    """
    kind: Any = type(optimizer).step
    if getattr(step, "__func__", None) is not kind or not getattr(kind, "hooked", False) or _is_profiling is None:
        return None
    inside: Any = getattr(kind, "__wrapped__", None)
    if inside is None or None in _HOOKS_OF_ALL or "_optimizer_step_code" in vars(type(optimizer)):
        return None
    return types.MethodType(inside, optimizer)


def nobody_listens(optimizer: Any) -> bool:
    """Whether no hook is registered on the step, and no profiler is on."""
    if any(_HOOKS_OF_ALL) or optimizer._optimizer_step_pre_hooks or optimizer._optimizer_step_post_hooks:
        return False
    return not _is_profiling()


class Attachment:
    """An optimizer's step, wrapped on the instance: `around(inner, args, kwargs)` is called in its place."""

    def __init__(self, given: Optimizer, optimizer: Optimizer, clipper: object, around: Around) -> None:
        self._held = vars(optimizer)
        self._before: Any = self._held.get("step")
        inner: Callable[..., Any] = optimizer.step
        bare = without_listeners(optimizer, inner)

        # wraps() also hands on the marks that schedulers leave on a step they have wrapped
        @functools.wraps(inner)
        def step(called: Optimizer, *args: Any, **kwargs: Any) -> Any:
            if called is not optimizer:  # a copy of its __dict__ has this step, but no clipper
                plain: Callable[..., Any] = type(called).step
                return plain(called, *args, **kwargs)
            return around(bare if bare is not None and nobody_listens(optimizer) else inner, args, kwargs)

        marks = vars(step)
        marks["_norm_clipper"] = clipper
        seen = inspect.signature(inner)
        itself = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
        if "self" not in seen.parameters:  # binding takes the first parameter away
            marks["__signature__"] = seen.replace(parameters=[itself, *seen.parameters.values()])
        # a bound method, because schedulers look for its __func__
        self._step = types.MethodType(step, optimizer)
        self._held["step"] = self._step
        self._tell(given)

    def remove(self) -> None:
        """Give the optimizer its own step back, unless something else has wrapped it since."""
        if self._held.get("step") is self._step:
            if self._before is None:
                del self._held["step"]
            else:
                self._held["step"] = self._before

    def _tell(self, given: Optimizer) -> None:
        """accelerate's optimizer, if it has a GradScaler, puts back the step it once found: let that be this one."""
        held = vars(given)
        if "_optimizer_original_step_method" in held:
            patch = sys.modules[type(given).__module__].patch_optimizer_step
            held["_optimizer_original_step_method"] = self._step
            held["_optimizer_patched_step_method"] = patch(given, self._step)
