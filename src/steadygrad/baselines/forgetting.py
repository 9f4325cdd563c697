"""What a penalty on W_rec does to memory: a network is trained with it, and ‖∂h_t/∂h_0‖ is measured over time.

    h_t = tanh(W h_{t−1} + W_in u_t + b)
    P_t = ∂h_t/∂h_0 = J_t ⋯ J_1,    J_t = diag(1 − h_t²) W                                      (Pascanu et al. 2013, eq. 5)
    ‖P_t‖ ≤ σ_max(W)^t;    at the fixed point 0 without input, ‖P_t‖^(1/t) → ρ(W)

A penalty strong enough to keep ρ(W) below 1 leaves the network "a single point attractor at the origin, where any information
inserted in the model has to die out exponentially fast" (section 3.1 of the paper). The picture and its numbers:

    python -m steadygrad.baselines.forgetting docs/forgetting.png --numbers results/forgetting.json
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from .. import checks
from ..init import orthogonal_
from ..layers.rnn import RNN
from . import penalty

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

KINDS = {"l1": penalty.add_l1, "l2": penalty.add_l2}
STRENGTHS = {"l1": (0.0, 0.0003, 0.001, 0.003), "l2": (0.0, 0.003, 0.005, 0.02)}
FLOOR = -30.0
"""Below 10^−30 a line leaves the picture."""


@dataclass(frozen=True)
class Memory:
    """One trained network.

    Args:
        strength: λ of the penalty it was trained with.
        radius, largest: ρ(W) and σ_max(W) after training.
        right: the share of test sequences whose first token it recalls, at the length it was trained on.
        log_norms: log ‖P_t‖ for t = 0, 1, …, the mean over sequences; −inf once it is 0.
    """

    strength: float
    radius: float
    largest: float
    right: float
    log_norms: tuple[float, ...]


@dataclass(frozen=True)
class Forgetting:
    """What `forgetting` measured: the settings, and one `Memory` for each strength."""

    kind: str
    length: int
    updates: int
    hidden_size: int
    seed: int
    networks: tuple[Memory, ...]

    def plot(self, ax: Axes) -> None:
        """Draws log ‖P_t‖ against t, one line for each strength; dotted, ρ^t where ρ < 1."""
        for each, colour in zip(self.networks, ("#0072B2", "#009E73", "#E69F00", "#D55E00", "#000000"), strict=False):
            powers = [value / math.log(10) for value in each.log_norms]
            shown = [power if power >= FLOOR else math.nan for power in powers]
            label = f"λ = {each.strength:g}: ρ = {each.radius:.2g}, {100 * each.right:.0f} % right"
            ax.plot(range(len(powers)), shown, color=colour, label=label, linewidth=1.6)
            if each.radius < 1:
                line = [t * math.log10(each.radius) for t in range(len(powers))]
                ax.plot(
                    [power if power >= FLOOR else math.nan for power in line],
                    color=colour,
                    linestyle=":",
                    linewidth=1.2,
                )
        ax.axhline(0.0, color="#8A8A8A", linewidth=0.8)
        ax.axvline(self.length, color="#8A8A8A", linewidth=0.8, linestyle=":")
        ax.text(self.length + 1.5, 3.0, "trained up to here", color="#5A5A5A", fontsize=8, va="center")
        ax.set(xlabel="step t", ylim=(FLOOR, 5.0), xlim=(0, len(self.networks[0].log_norms) - 1))
        ax.set_title(f"{self.kind.upper()} penalty on the recurrent weights", fontsize=11)
        ax.yaxis.set_major_formatter(lambda value, _: f"$10^{{{value:.0f}}}$")
        ax.legend(
            frameon=False,
            fontsize=8,
            loc="lower right",
            bbox_to_anchor=(1.0, 0.3),
            title="dotted: $\\rho^t$",
            title_fontsize=8,
        )


@torch.no_grad()
def jacobian_growth(rnn: RNN, inputs: Tensor) -> Tensor:
    """log ‖∂h_t/∂h_0‖₂ for t = 0 … T and every sequence, float64 [T + 1, B], from h_0 = 0.

    Args:
        rnn: a plain tanh layer: one layer, one direction, no leak.
        inputs: [T, B, I] or tokens [T, B].
    """
    if rnn.nonlinearity != "tanh" or rnn.leak or rnn.num_layers > 1 or rnn.bidirectional or rnn.batch_first:
        raise ValueError(f"rnn must be one plain tanh layer in one direction, without leak, not {rnn!r}")
    h, W = rnn(inputs)[0].double(), rnn.get_parameter("weight_hh_l0").detach().double()
    P = torch.eye(len(W), dtype=torch.float64).repeat(h.shape[1], 1, 1)
    log = torch.zeros(h.shape[1], dtype=torch.float64)
    found = [log]
    for state in h:
        P = (1 - state.square()).unsqueeze(-1) * (W @ P)
        norm = torch.linalg.matrix_norm(P, 2)
        # The size of P goes into the logarithm at every step: the product itself would leave the range of float64.
        log = log + norm.log()
        P = P / torch.where(norm > 0, norm, 1.0).view(-1, 1, 1)
        found.append(log)
    return torch.stack(found)


def forgetting(
    kind: str = "l2",
    strengths: Sequence[float] | None = None,
    *,
    length: int = 20,
    steps: int = 60,
    updates: int = 800,
    hidden_size: int = 30,
    seed: int = 1,
) -> Forgetting:
    """Trains a small tanh network to recall the first of `length` tokens, once for each strength, and measures its memory.

    Adam at 0.002, batches of 32, gradients clipped to norm 1, W_rec begins as 0.9 times an orthogonal matrix.

    Args:
        kind: "l1" or "l2".
        strengths: the λ to compare.
        length: of the sequences it is trained on.
        steps: how far ‖∂h_t/∂h_0‖ is followed, on sequences of that length.
        updates: how long it is trained.
        hidden_size: its units.
        seed: of weights and sequences, the same for every strength.
    """
    checks.one_of("kind", kind, KINDS)
    chosen = STRENGTHS[kind] if strengths is None else tuple(strengths)
    if not chosen:
        raise ValueError("strengths must hold one at least, not be empty")
    for name, value in (("steps", steps), ("updates", updates), ("hidden_size", hidden_size)):
        checks.whole(name, value)
    networks = [_train(kind, strength, length, steps, updates, hidden_size, seed) for strength in chosen]
    return Forgetting(kind, length, updates, hidden_size, seed, tuple(networks))


def _train(kind: str, strength: float, length: int, steps: int, updates: int, units: int, seed: int) -> Memory:
    from ..tasks.recall import Recall

    task, generator = Recall(), torch.Generator().manual_seed(seed)
    rnn, readout = RNN(task.input_size, units), nn.Linear(units, task.output_size)
    parameters = [*rnn.parameters(), *readout.parameters()]
    with torch.no_grad():
        for parameter in parameters:
            parameter.uniform_(-(units**-0.5), units**-0.5, generator=generator)
    orthogonal_(rnn, 0.9, generator=generator)
    optimizer = torch.optim.Adam(parameters, lr=0.002)
    for _ in range(updates):
        batch = task.sample(32, length, generator)
        optimizer.zero_grad()
        task.loss(readout(rnn(batch.inputs)[0][batch.steps]), batch).backward()
        KINDS[kind](rnn, strength)
        nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
    test = task.sample(1000, length, generator)
    with torch.no_grad():
        right = task.is_correct(readout(rnn(test.inputs)[0][test.steps]), test).double().mean().item()
    W = rnn.get_parameter("weight_hh_l0").detach().double()
    growth = jacobian_growth(rnn, task.sample(20, steps, generator).inputs).mean(1)
    radius = penalty.radii(rnn)["weight_hh_l0"]
    return Memory(strength, radius, torch.linalg.matrix_norm(W, 2).item(), right, tuple(growth.tolist()))


def draw(measured: Sequence[Forgetting]) -> Figure:
    """One panel for each kind of penalty."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.2 * len(measured), 4.2), layout="constrained")
    axes: Any = figure.subplots(1, len(measured), sharey=True, squeeze=False)[0]
    for each, ax in zip(measured, axes, strict=True):
        each.plot(ax)
    axes[0].set_ylabel("norm of $\\partial h_t / \\partial h_0$")
    return figure


def main(arguments: Sequence[str] | None = None) -> None:
    """The command at the top of this file."""
    parser = argparse.ArgumentParser(prog="python -m steadygrad.baselines.forgetting", description="Draw the picture.")
    parser.add_argument("picture", type=Path, help="where to write it: a .png, .svg or .pdf")
    parser.add_argument(
        "--numbers", type=Path, help="where to write its numbers as JSON; beside the picture if not given"
    )
    parser.add_argument("--updates", type=int, default=800, help="how long each network is trained")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args(arguments)
    measured = [forgetting(kind, updates=given.updates, seed=given.seed) for kind in KINDS]
    draw(measured).savefig(given.picture, dpi=150)
    numbers: Path = given.numbers or given.picture.with_suffix(".json")
    numbers.write_text(json.dumps([asdict(each) for each in measured]) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
