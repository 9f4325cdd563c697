"""Products with the Gauss-Newton matrix of a network, and with that of its hidden states (structural damping).

    z(θ) outputs, h(θ) hidden states, J_z = ∂z/∂θ, J_h = ∂h/∂θ, L = ∂²E/∂z²          (Schraudolph 2002)
    G v = J_zᵀ L J_z v                                     the curvature of the loss
    S v = J_hᵀ L_h J_h v                                   the curvature of D(h(θ), h(θ + v)), Martens & Sutskever 2011
    D = 1/B Σ over sequences of Σ over steps and units of d:

        distance    d(h, h')                                L_h, times B
        squared     ½ (h − h')²                             1
        tanh        cross-entropy of (1 + h)/2, in the      1/(1 − h²): with J_h = diag(1 − h²) J_a this is
                    pre-activation a                        J_aᵀ diag(1 − h²) J_a, the product in their paper
        sigmoid     cross-entropy of h, likewise            1/(h (1 − h))

J v is the forward-mode derivative (Pearlmutter's R-operator). It is computed from reverse mode alone: s(w) = Jᵀw is linear
in w, so the derivative of vᵀs(w) in w is J v, whatever w is. The graph of s is made once for all products of a step. It works
with whatever torch can differentiate twice: loops, torch.nn.RNN on the CPU, every backend of steadygrad's layers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

DISTANCES = ("squared", "tanh", "sigmoid")
LARGE = 1e4
"""The largest error sent back to find out whether a backward pass clips errors."""


class GaussNewton:
    """The products v ↦ G v + c S v at one point θ, from one forward pass.

    Args:
        parameters: θ.
        outputs: z, computed from them with gradients enabled.
        output_product: u ↦ L u.
        hidden: the hidden states, none or several tensors.
        batch_first: see `batch_axis`.
        distance: which D.
    """

    def __init__(
        self,
        parameters: Sequence[Tensor],
        outputs: Tensor,
        output_product: Callable[[Tensor], Tensor],
        hidden: Sequence[Tensor] = (),
        *,
        batch_first: bool = False,
        distance: str = "squared",
    ) -> None:
        self._parameters, self._output_product = list(parameters), output_product
        self._results = [outputs, *hidden]
        self._hidden_curvature = [_hidden_curvature(h.detach(), distance, batch_first) for h in hidden]
        self._w = [torch.zeros_like(each, requires_grad=True) for each in self._results]
        self._s = torch.autograd.grad(
            self._results, self._parameters, self._w, create_graph=True, materialize_grads=True
        )
        self._used = [k for k, each in enumerate(self._s) if each.requires_grad]

    def product(self, v: Tensor, structural: float = 0.0) -> Tensor:
        """G v + `structural` · S v, for a vector [n] of all parameters one after the other."""
        J_v = self.forward(v)
        errors = [self._output_product(J_v[0])]
        if structural > 0:
            errors += [structural * L * u for L, u in zip(self._hidden_curvature, J_v[1:], strict=True)]
        return self.backward(errors)

    def forward(self, v: Tensor) -> tuple[Tensor, ...]:
        """J v of the outputs and of each of the hidden states."""
        parts = split(v, self._parameters)
        s, along = [self._s[k] for k in self._used], [parts[k] for k in self._used]
        return torch.autograd.grad(s, self._w, along, retain_graph=True, materialize_grads=True)

    def backward(self, errors: Sequence[Tensor]) -> Tensor:
        """Jᵀu, [n], of errors of the outputs and, if there are more, of the hidden states."""
        return flat(
            torch.autograd.grad(
                self._results[: len(errors)],
                self._parameters,
                list(errors),
                retain_graph=True,
                materialize_grads=True,
            )
        )

    def mismatch(self) -> float:
        """How far backward and forward are from being each other's transpose: uᵀ(J v) beside (Jᵀu)ᵀv, relative to the larger.

        0 up to rounding for true derivatives; about 1 where a backward pass clips errors or adds to gradients. v is random.
        u is J v made large, so that both are sums of squares, and a rule that clips large errors shows itself.
        """
        like = flat(self._parameters)
        v = torch.randn(like.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64).to(like)
        J_v = self.forward(v)
        size = max(float(each.abs().max()) for each in J_v)
        errors = [each * (LARGE / size) if size > 0 else each for each in J_v]
        there = sum(float((u.double() * each.double()).sum()) for u, each in zip(errors, J_v, strict=True))
        back = float(self.backward(errors).double() @ v.double())
        return abs(there - back) / max(abs(there), abs(back)) if there != back else 0.0

    def mean_square_gradient(self, error: Tensor, signs: Tensor, axis: int, pieces: int) -> Tensor:
        """An estimate of B Σ_i g_i ⊙ g_i, [n]; g_i: what example i contributes to the gradient, B: how many there are.

        Where the loss is a mean over the examples, this is the mean of the squared gradients of single examples. They are
        taken together in `pieces`: the sum over pieces of (Σ_i ε_i g_i)², ε_i = ±1 at random, whose expectation is that of
        single examples. It costs one backward pass for each piece, and is exact where a piece is one example.

        Args:
            error: ∂E/∂z.
            signs: ε, [B].
            axis: of `error`, along which the examples lie.
            pieces: how many, at most B.
        """
        number = len(signs)
        shape = [number if k == axis else 1 for k in range(error.dim())]
        piece = torch.arange(number, device=error.device) * pieces // number
        total = torch.zeros_like(flat(self._parameters))
        for k in range(pieces):
            chosen = (signs * (piece == k)).to(error.dtype).view(shape)
            total += self.backward([error * chosen]).square()
        return number * total


def batch_axis(tensor: Tensor, batch_first: bool) -> int:
    """The axis of the examples: [T, B, …] ([B, T, …] where `batch_first`) with three axes or more, [B, …] with fewer."""
    return 0 if batch_first or tensor.dim() < 3 else 1


def flat(tensors: Sequence[Tensor]) -> Tensor:
    """All of them, one after the other, as one vector [n] that shares no memory with them."""
    return torch.cat([tensor.detach().reshape(-1) for tensor in tensors])


def split(vector: Tensor, like: Sequence[Tensor]) -> list[Tensor]:
    """The parts of a vector [n], each of the shape of its tensor in `like`."""
    parts = vector.split([tensor.numel() for tensor in like])
    return [part.view(tensor.shape) for part, tensor in zip(parts, like, strict=True)]


def _hidden_curvature(h: Tensor, distance: str, batch_first: bool) -> Tensor:
    number = h.shape[batch_axis(h, batch_first)]
    smallest = torch.finfo(h.dtype).eps  # a saturated unit has a slope of 0: then 1/slope must not be infinite
    if distance == "squared":
        return torch.full_like(h, 1 / number)
    low = -1.0 if distance == "tanh" else 0.0
    if bool((h < low).any()) or bool((h > 1).any()):
        raise ValueError(
            f"hidden_distance={distance!r} needs hidden states between {low:g} and 1, and they lie in "
            f"[{float(h.min()):.3g}, {float(h.max()):.3g}]: use 'squared'"
        )
    slope = 1 - h.square() if distance == "tanh" else h * (1 - h)
    return 1 / (number * slope.clamp(min=smallest))
