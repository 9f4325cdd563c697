"""A module that is fitted in closed form: settings by name as in scikit-learn, one file, and no gradients.

What it has learned is kept in buffers that are None until there is something in them. Some take the module's dtype, the
others stay float64 whatever `.to(dtype)` says, because they hold sums over all that was ever seen.
"""

from __future__ import annotations

import inspect
import json
from os import PathLike
from typing import Any, ClassVar, TypeVar

import torch
from torch import Tensor, nn

from .. import checks

Self = TypeVar("Self", bound="Estimator")
DTYPES = (torch.float32, torch.float64)


class Estimator(nn.Module):
    """What such a module needs beside fitting: a subclass names its buffers and calls `make_room` last in `__init__`.

    Its settings are the arguments of its `__init__`, each kept as an attribute of the same name; `dtype` is one of them.
    """

    NO_GRADIENTS: ClassVar[str]
    TAKES_DTYPE: ClassVar[tuple[str, ...]]
    STAYS_DOUBLE: ClassVar[tuple[str, ...]]

    def make_room(self, dtype: torch.dtype) -> None:
        """Registers the buffers, all None."""
        if dtype not in DTYPES:
            raise ValueError(f"dtype must be torch.float32 or torch.float64, not {dtype!r}")
        self.dtype = dtype
        for name in (*self.TAKES_DTYPE, *self.STAYS_DOUBLE):
            self.register_buffer(name, None)

    def check_state(self, state: dict[str, Any]) -> None:
        """Raises ValueError where a state, buffers by name, does not fit these settings."""

    def solve(self: Self) -> Self:
        """Computes what is still to be computed; called before saving."""
        return self

    # Settings

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The settings by name, as scikit-learn asks for them."""
        return {name: getattr(self, name) for name in list(inspect.signature(type(self).__init__).parameters)[1:]}

    def set_params(self: Self, **settings: Any) -> Self:
        """Change settings by name; all that was drawn or fitted is forgotten."""
        for name in settings:
            checks.one_of(f"a setting of {type(self).__name__}", name, self.get_params())
        type(self).__init__(self, **{**self.get_params(), **settings})
        return self

    # Files

    def save(self, path: str | PathLike[str]) -> None:
        """Write settings and all that was drawn and fitted to one safetensors file (needs safetensors)."""
        from safetensors.torch import save_file

        tensors = {name: tensor.contiguous() for name, tensor in self.solve().state_dict().items()}
        settings = {**self.get_params(), "dtype": str(self.dtype).removeprefix("torch.")}
        save_file(tensors, path, {type(self).__name__: json.dumps(settings)})

    @classmethod
    def load(cls: type[Self], path: str | PathLike[str]) -> Self:
        """What `save` wrote; it can be used, and fitted to more."""
        from safetensors import safe_open

        with safe_open(path, "pt") as file:
            header = (file.metadata() or {}).get(cls.__name__)
            if header is None:
                raise ValueError(f"path must be a file written by {cls.__name__}.save, and {path} is not")
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (it is no mapping)
        settings = json.loads(header)
        made = cls(**{**settings, "dtype": getattr(torch, settings["dtype"])})
        made.load_state_dict(tensors)
        return made

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *rest: Any, **named: Any) -> None:
        given = {name: state_dict.get(prefix + name) for name in (*self.TAKES_DTYPE, *self.STAYS_DOUBLE)}
        self.check_state(given)
        # Where a buffer is None, torch takes no tensor for it: make room of the right shape first.
        for name, tensor in given.items():
            dtype = self.dtype if name in self.TAKES_DTYPE else torch.float64
            setattr(self, name, None if tensor is None else torch.empty_like(tensor, dtype=dtype))
        super()._load_from_state_dict(state_dict, prefix, *rest, **named)

    # Dtypes and gradients

    def _apply(self: Self, fn: Any, recurse: bool = True) -> Self:
        probe = fn(torch.empty(0, dtype=self.dtype))
        if probe.dtype not in DTYPES:
            raise ValueError(
                f"dtype of an {type(self).__name__} must be torch.float32 or torch.float64, not {probe.dtype}"
            )
        summed = {name: getattr(self, name) for name in self.STAYS_DOUBLE}
        super()._apply(fn, recurse)
        self.dtype = probe.dtype
        for name, tensor in summed.items():
            setattr(self, name, None if tensor is None else tensor.to(probe.device))
        return self

    def requires_grad_(self: Self, requires_grad: bool = True) -> Self:
        """Refused, unless with False."""
        if requires_grad:
            raise RuntimeError(self.NO_GRADIENTS)
        return self

    def without_gradient(self, outputs: Tensor) -> Tensor:
        """The outputs; where gradients are recorded, a backward pass that comes to them is refused."""
        if not torch.is_grad_enabled():
            return outputs
        refusing: Any = _Refusing.apply(outputs, outputs.new_zeros((), requires_grad=True), self.NO_GRADIENTS)
        return refusing


class _Refusing(torch.autograd.Function):
    """The identity, with a sentence in place of a derivative."""

    @staticmethod
    def forward(ctx: Any, outputs: Tensor, anchor: Tensor, sentence: str) -> Tensor:
        ctx.sentence = sentence
        return outputs.clone()

    @staticmethod
    def backward(ctx: Any, *errors: Tensor) -> Any:
        raise RuntimeError(ctx.sentence)
