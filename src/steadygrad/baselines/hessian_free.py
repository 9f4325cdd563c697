"""Hessian-free optimisation with structural damping (Martens 2010; Martens & Sutskever 2011).

    g = ∂E/∂θ on the gradient batch;   G, S on the curvature batch (curvature.py);   n parameters
    A = G + λ I + λ μ S                                          the damped curvature; λ: damping, μ: structural
    q(x) = gᵀx + ½ xᵀG x,   φ(x) = gᵀx + ½ xᵀA x
    x_0 = decay · (last solution);   x_1, x_2, …: conjugate gradients on φ, preconditioned by (diag(mean of g_i²) + λ)^¾
    back-tracking  from the last kept iterate to earlier ones, as long as E(θ + x_j) falls: x
    ρ = (E(θ + x) − E(θ)) / q(x);    ρ < ¼: λ ← 3/2 λ;   ρ > ¾: λ ← 2/3 λ                      (Levenberg-Marquardt)
    line search    η = 1, 0.8, 0.8², …, until E(θ + η x) ≤ E(θ) + 0.01 η gᵀx;   θ ← θ + η x

E is measured on the gradient batch throughout. Where no η will do, θ stays, and the next x_0 is 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor
from torch.optim import Optimizer

from steadygrad import checks

from . import forward_pass, newton_step, output_losses
from .curvature import DISTANCES, flat, split


@dataclass(frozen=True)
class HessianFreeStats:
    """What one step did.

    Attributes:
        step: its number, from 1.
        loss_before, loss_after: E on the gradient batch.
        damping: the λ it used; `next_damping` is that of the next step.
        reduction_ratio: ρ; −∞ where the loss was not finite or the model did not fall, NaN where the gradient was 0.
        cg_iterations: how many conjugate gradients made; `chosen_iteration` is the one back-tracking chose.
        stopped: why they stopped (`Solution.stopped`).
        rate: η of the line search; 0 where the parameters stayed.
    """

    step: int
    loss_before: float
    loss_after: float
    damping: float
    next_damping: float
    reduction_ratio: float
    cg_iterations: int
    chosen_iteration: int
    stopped: str
    rate: float

    def __str__(self) -> str:
        return (
            f"step {self.step}: loss {self.loss_before:.4g} -> {self.loss_after:.4g}; "
            f"CG {self.chosen_iteration} of {self.cg_iterations} iterations, rate {self.rate:.3g}; "
            f"rho {self.reduction_ratio:.3g}, damping {self.damping:.3g} -> {self.next_damping:.3g}"
        )


class HessianFree(Optimizer):
    """Hessian-free optimisation: each step minimises a damped quadratic model of the loss by conjugate gradients.

    The step takes a function `forward(batch)`, where `batch` is "gradient" or "curvature". It runs the network on that batch
    and returns `(outputs, targets)` or `(outputs, targets, hidden)`. It is called several times in a step and must use the same
    data each time; draw new batches between steps. "gradient" may be large; "curvature" may be a part of it. Return the same
    for both to use one batch. No `zero_grad()` and no `backward()` are needed, and gradients in `.grad` are left alone.

    Structural damping holds back what an update does to the hidden states, which a small change of the weights can change
    beyond any quadratic model in a recurrent network.

    The network must be differentiable twice. torch.nn's recurrent layers are on the CPU (not with cuDNN on a GPU), loops are,
    and steadygrad's layers are with every backend, with `alpha=0` and `clip_error=None`. What adds to or clips gradients within
    the backward pass, and what is random in forward (dropout), is refused by a sentence in the first step.

    A layer's `flow` tells of the last product, not of the loss: `layer.record = False` saves the time for it. The curvature
    batch's forward and backward pass are kept in memory for the whole step.

    Args:
        params: the parameters, all to be trained, of one dtype and device; one group.
        loss: "cross-entropy" (outputs [..., classes], targets classes [...] or probabilities), "squared-error" or
            "sigmoid-cross-entropy" (targets of the outputs' shape), each a mean; or a function `loss(outputs, targets)` that is
            convex in the outputs, whatever `targets` are.
        damping: λ at the beginning, above 0.
        structural: μ, the weight of structural damping relative to λ; 0 is none, and then `hidden` is not needed.
        hidden_distance: how a change of hidden states is measured: "squared", or "tanh" or "sigmoid" for the distances that
            match units of that kind (curvature.py).
        cg_iterations: the most iterations of conjugate gradients in a step.
        cg_tolerance: ε of their relative progress (conjugate_gradients.py).
        decay: what the last solution is multiplied by where the next conjugate gradients start; 0 starts from 0.
        pieces: from how many pieces of the curvature batch the preconditioner is estimated, one backward pass each
            (`GaussNewton.mean_square_gradient`); 0 for none.
        batch_first: outputs and hidden states with three axes or more are [B, T, …], not [T, B, …]. With two they are [B, …].
        seed: of the random signs of that estimate.

    Attributes:
        stats: a `HessianFreeStats` of the last step; None before the first and after loading a state.

    `state_dict()` holds λ, the number of steps and the last solution: with the parameters and the same batches, training
    resumes to the same numbers.

    Example:
        >>> import torch, steadygrad as sg
        >>> _ = torch.manual_seed(1)
        >>> rnn, readout = sg.RNN(1, 8), torch.nn.Linear(8, 1)
        >>> inputs = torch.randn(10, 32, 1)
        >>> targets = inputs.mean(0)
        >>> def forward(batch):
        ...     part = slice(None) if batch == "gradient" else slice(16)
        ...     hidden, _ = rnn(inputs[:, part])
        ...     return readout(hidden[-1]), targets[part], hidden
        >>> optimizer = sg.baselines.HessianFree(
        ...     [*rnn.parameters(), *readout.parameters()], "squared-error", damping=0.1, structural=0.1
        ... )
        >>> losses = [optimizer.step(forward) for _ in range(10)]
        >>> losses[-1] < 0.1 * losses[0], optimizer.stats.step
        (True, 10)

    References:
        Martens 2010, "Deep learning via Hessian-free optimization".
        Martens & Sutskever 2011, "Learning recurrent neural networks with Hessian-free optimization".
    """

    def __init__(
        self,
        params: Iterable[Any],
        loss: str | Callable[[Tensor, Any], Tensor] = "cross-entropy",
        *,
        damping: float = 0.1,
        structural: float = 0.0,
        hidden_distance: Literal["squared", "tanh", "sigmoid"] = "squared",
        cg_iterations: int = 100,
        cg_tolerance: float = 5e-4,
        decay: float = 0.95,
        pieces: int = 8,
        batch_first: bool = False,
        seed: int = 0,
    ) -> None:
        self.loss = output_losses.checked(loss)
        self.stats: HessianFreeStats | None = None
        self._is_checked = False
        defaults = _checked(
            {
                "damping": damping,
                "structural": structural,
                "hidden_distance": hidden_distance,
                "cg_iterations": cg_iterations,
                "cg_tolerance": cg_tolerance,
                "decay": decay,
                "pieces": pieces,
                "batch_first": batch_first,
                "seed": seed,
                "steps": 0,
            }
        )
        given = [params] if isinstance(params, Tensor) else list(params)
        if not given:
            raise ValueError("params must hold at least one parameter, and it is empty")
        super().__init__(given, defaults)
        self._trained()

    def __getstate__(self) -> dict[str, Any]:
        # torch's own names three attributes; a copy needs these too
        return {**super().__getstate__(), "loss": self.loss, "stats": self.stats, "_is_checked": False}

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Only the first: there is one quadratic model of all parameters."""
        if self.param_groups:
            raise ValueError("params must be one group: HessianFree makes one quadratic model of all parameters")
        super().add_param_group(param_group)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from `state_dict()`, to the very same numbers."""
        groups = state_dict.get("param_groups", [])
        missing = {"damping", "steps", "seed"} - (groups[0].keys() if groups else set())
        if missing:
            raise ValueError(f"state_dict must be a HessianFree's, but it lacks {', '.join(sorted(missing))}")
        super().load_state_dict(state_dict)
        self.stats = None

    def step(self, forward: forward_pass.Forward | None = None) -> float:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Make one update.

        Args:
            forward: called with "gradient" or "curvature"; see the class.

        Returns:
            E before the update, on the gradient batch.

        Raises:
            FloatingPointError: E or its gradient is not finite at the parameters as they are. Nothing is changed.
        """
        called = forward_pass.checked(forward)
        parameters, settings = self._trained(), _checked(self.param_groups[0])
        found = newton_step.make(
            called, self.loss, parameters, settings, self._previous(parameters), check=not self._is_checked
        )
        self._is_checked = True
        moved = split(flat(parameters) + found.rate * found.x, parameters)
        with torch.no_grad():
            for parameter, part in zip(parameters, moved, strict=True):
                parameter.copy_(part)
        for parameter, part in zip(parameters, split(found.solution.x, parameters), strict=True):
            self.state[parameter]["solution"] = part.clone() if found.rate > 0 else torch.zeros_like(part)
        self.stats = HessianFreeStats(
            step=settings["steps"] + 1,
            loss_before=found.loss_before,
            loss_after=found.loss_after,
            damping=settings["damping"],
            next_damping=newton_step.next_damping(settings["damping"], found.ratio),
            reduction_ratio=found.ratio,
            cg_iterations=found.solution.iterations,
            chosen_iteration=found.chosen,
            stopped=found.solution.stopped,
            rate=found.rate,
        )
        self.param_groups[0].update(damping=self.stats.next_damping, steps=self.stats.step)
        return found.loss_before

    def _trained(self) -> list[Tensor]:
        parameters: list[Tensor] = self.param_groups[0]["params"]
        frozen = [k for k, each in enumerate(parameters) if not each.requires_grad]
        if frozen:
            raise ValueError(
                f"params must all require gradients, and {len(frozen)} of {len(parameters)} do not "
                f"(the first: number {frozen[0]}, counted from 0): leave frozen parameters out"
            )
        kinds = sorted({f"{each.dtype} on {each.device}" for each in parameters})
        if len(kinds) > 1 or not parameters[0].is_floating_point():
            raise ValueError(f"params must be of one floating-point dtype and on one device, not {', '.join(kinds)}")
        return parameters

    def _previous(self, parameters: list[Tensor]) -> Tensor:
        return flat([self.state[each].get("solution", torch.zeros_like(each)) for each in parameters])


def _checked(settings: dict[str, Any]) -> dict[str, Any]:
    """`settings`, each within its bounds. They may have been changed in `param_groups`."""
    checks.number("damping", settings["damping"], low=0, open_low=True)
    checks.number("structural", settings["structural"], low=0)
    checks.one_of("hidden_distance", settings["hidden_distance"], DISTANCES)
    checks.whole("cg_iterations", settings["cg_iterations"])
    checks.number("cg_tolerance", settings["cg_tolerance"], low=0)
    checks.number("decay", settings["decay"], low=0, high=1)
    checks.whole("pieces", settings["pieces"], low=0)
    checks.flag("batch_first", settings["batch_first"])
    checks.whole("seed", settings["seed"], low=0)
    return settings
