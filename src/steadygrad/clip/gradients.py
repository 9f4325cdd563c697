"""Algorithm 1 of Pascanu et al. 2013 as a function on gradients, and two functions that only look at them.

if ‖g‖ ≥ θ:  g ← (θ / ‖g‖) g       otherwise g keeps its bits
"""

from __future__ import annotations

import math
import types
import warnings
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from steadygrad import checks

from .norm import measured, refuse_fsdp1, scale_
from .sharded import all_finite, anywhere, count_nonfinite, processes_joined

DOUBLE = (torch.float64, torch.complex128)
FLOAT32_MAX = torch.finfo(torch.float32).max


def clip_grad_norm_(
    parameters: Tensor | Iterable[Tensor],
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Scale the gradients of `parameters` in place so that their joint norm is at most `max_norm`.

        if ‖g‖ ≥ max_norm:  g ← (max_norm / ‖g‖) g

    A drop-in for `torch.nn.utils.clip_grad_norm_`, and different from it in four ways:

    - the factor is exactly max_norm / ‖g‖ (torch adds 1e-6 to ‖g‖), and below the threshold no entry is written;
    - huge finite gradients are clipped and tiny ones measured (torch's float32 sum of squares overflows, and
      everything becomes 0; or it underflows, and the norm is 0);
    - where an entry is infinite or NaN the gradients stay as they are and the non-finite norm is returned (torch turns
      them into NaN and zeros), so that the caller can still see which gradient it was;
    - the norm is read to the host once a call: the "if" above needs it.

    Sharded gradients (DTensor: FSDP2, tensor parallelism) have the norm of the whole gradient, also beside plain ones,
    which must then be equal on all ranks. All ranks must call it, and each gets the same number, as a plain tensor.
    FSDP1's are refused: its shards are plain tensors. Parameters that are split between processes as plain tensors in
    other ways (pipeline stages, ZeRO partitions) cannot be told from replicated ones: their norm is not joined.

    Args:
      parameters: a tensor or an iterable of tensors, of any shapes, dtypes and devices. Those without a gradient are
        passed over. Sparse gradients are refused.
      max_norm: the threshold θ, at least 0; infinity measures without clipping.
      norm_type: p, above 0; infinity (or "inf") for the largest absolute entry.
      error_if_nonfinite: raise RuntimeError, before anything is changed, where the norm is infinite or NaN.
      foreach: None uses torch's foreach kernels where the device has them, True demands them, False loops.

    Returns:
      The norm before clipping, a 0-d tensor on the first gradient's device: float64 if any gradient is, else float32
      (float64 also where the norm is too large for float32). 0 if no parameter has a gradient.

    Example:
      >>> weight = torch.nn.Parameter(torch.zeros(3))
      >>> weight.grad = torch.tensor([3.0, 4.0, 12.0])
      >>> clip_grad_norm_(weight, max_norm=6.5)
      tensor(13.)
      >>> weight.grad
      tensor([1.5000, 2.0000, 6.0000])

    Reference: Pascanu, Mikolov & Bengio 2013, Algorithm 1.
    """
    threshold = _bound("max_norm", max_norm, open_low=False)
    p = _bound("norm_type", norm_type, open_low=True)
    gradients = _gradients(parameters)
    with torch.no_grad():
        norm, groups = measured(gradients, p, foreach)
        if not math.isfinite(norm):
            if error_if_nonfinite:
                raise RuntimeError(_nonfinite_sentence(gradients, p, norm))
        elif norm >= threshold and norm > 0:
            scale_(groups, threshold / norm, foreach)
    return _as_tensor(norm, groups)


def grad_norm(parameters: Tensor | Iterable[Tensor], norm_type: float = 2.0) -> Tensor:
    """The joint norm of the gradients of `parameters`; nothing is changed.

        ‖g‖_p = (Σ_i |g_i|^p)^(1/p)

    Sharded gradients are measured as in `clip_grad_norm_`: all ranks must call it.

    Args:
      parameters: a tensor or an iterable of tensors; those without a gradient are passed over.
      norm_type: p, above 0; infinity (or "inf") for the largest absolute entry.

    Returns:
      The norm, a 0-d tensor, free of overflow and underflow as in `clip_grad_norm_`. Infinite or NaN where an entry is.

    Example:
      >>> weight = torch.nn.Parameter(torch.zeros(2))
      >>> weight.grad = torch.tensor([3e30, 4e30])
      >>> grad_norm(weight)
      tensor(5.0000e+30)
    """
    p = _bound("norm_type", norm_type, open_low=True)
    gradients = _gradients(parameters)
    with torch.no_grad():
        return _as_tensor(*measured(gradients, p))


def nonfinite_parameters(named_parameters: Iterable[tuple[str, Tensor]]) -> list[str]:
    """The names of those parameters whose gradient has an infinite or NaN entry.

    Of sharded gradients an entry on any rank counts: all ranks must call it, and get the same names.

    Args:
      named_parameters: pairs (name, tensor), such as `model.named_parameters()`.

    Returns:
      The names, in the order they came; those without a gradient are passed over.

    Example:
      >>> model = torch.nn.Linear(2, 1)
      >>> model(torch.tensor([1.0, float("inf")])).backward()
      >>> nonfinite_parameters(model.named_parameters())
      ['weight']
    """
    if isinstance(named_parameters, torch.nn.Module):
        raise TypeError(
            "named_parameters must be pairs of name and tensor, as from model.named_parameters(), not a module"
        )
    listed = list(named_parameters)
    if processes_joined():
        refuse_fsdp1(tensor for _, tensor in listed)
    gradients = [tensor.grad for _, tensor in listed]
    with torch.no_grad():
        at_fault = anywhere([g is not None and not all_finite(g) for g in gradients], gradients)
    return [name for (name, _), bad in zip(listed, at_fault, strict=True) if bad]


def _gradients(parameters: Tensor | Iterable[Tensor]) -> list[Tensor]:
    if isinstance(parameters, Tensor):
        parameters = (parameters,)
    try:
        listed = list(parameters)
        gradients = [g for tensor in listed if (g := tensor.grad) is not None]
    except (TypeError, AttributeError) as error:
        came = type(parameters).__name__
        raise TypeError(
            f"parameters must be a tensor or an iterable of tensors, as from model.parameters(), not {came}"
        ) from error
    if not listed and isinstance(parameters, types.GeneratorType):
        warnings.warn("parameters is an empty generator (used up before?): no gradient is clipped", stacklevel=3)
    if processes_joined():
        refuse_fsdp1(listed)
    return gradients


def _bound(name: str, value: Any, *, open_low: bool) -> float:
    if value == math.inf or value == "inf":
        return math.inf
    return checks.number(name, value.item() if isinstance(value, Tensor) else value, low=0, open_low=open_low)


def _as_tensor(norm: float, groups: list[list[Tensor]]) -> Tensor:
    if not groups:
        return torch.tensor(0.0)
    wide = any(group[0].dtype in DOUBLE for group in groups) or FLOAT32_MAX < norm < math.inf
    return torch.scalar_tensor(norm, dtype=torch.float64 if wide else torch.float32, device=groups[0][0].device)


def _nonfinite_sentence(gradients: list[Tensor], p: float, norm: float) -> str:
    entries, bad = sum(g.numel() for g in gradients), count_nonfinite(gradients)
    return (
        f"the gradients' norm of order {p:g} is {norm}: {bad:,} of {entries:,} entries are infinite or NaN; "
        "nothing was clipped (error_if_nonfinite=False returns such a norm and leaves the gradients as they are)"
    )
