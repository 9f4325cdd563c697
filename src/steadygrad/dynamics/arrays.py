"""What an array argument of this room must be: finite reals, in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def real_array(name: str, value: Any, *, dims: int | None = None) -> Array:
    """`value` as a float64 array of finite reals, of `dims` dimensions where that is given.

    >>> real_array("inputs", [1, 2], dims=1)
    array([1., 2.])
    >>> real_array("inputs", [[1.0]], dims=1)
    Traceback (most recent call last):
    ValueError: inputs must be a 1-dimensional array of finite numbers, not one of shape (1, 1)
    """
    kind = "an array" if dims is None else f"a {dims}-dimensional array"
    try:
        given = np.asarray(value)
    except (TypeError, ValueError, RuntimeError):
        given = np.asarray(None)
    if given.dtype.kind not in "iuf":
        raise ValueError(f"{name} must be {kind} of finite numbers, not {value!r}")
    array = given.astype(np.float64)
    if dims is not None and array.ndim != dims:
        raise ValueError(f"{name} must be {kind} of finite numbers, not one of shape {array.shape}")
    bad = int(np.count_nonzero(~np.isfinite(array)))
    if bad:
        raise ValueError(f"{name} must be {kind} of finite numbers, not one with {bad} of {array.size} non-finite")
    return array
