"""Everything a run on music or text needs, in one frozen record that is enough to run it again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..training.settings import Settings
from . import rules
from .rules import TEXTS


@dataclass(frozen=True)
class NaturalConfig(Settings):
    """The settings of one run on music or text (`steadygrad.natural.preset` fills them in by name).

    Args:
        data: 'piano-midi', 'nottingham', 'musedata' or 'jsb' (music), 'ptb' (the Penn Treebank's characters), or the
            user's own: 'text', a file, or 'music', a folder of MIDI files.
        algorithm: 'sgd', 'sgd-c' (clipped: needs `threshold`), 'sgd-r' (Ω: needs `alpha`) or 'sgd-cr' (both). It says
            what is done to the gradient; `optimizer` says what is done with it.
        seed: of the initial weights and of the order of the pieces, each with its own stream.
        path: of the user's own data, kept as an absolute path.
        ahead: text alone: how far ahead of its input the predicted character is. The paper has 1 and 5.
        time_step: seconds of a step of the user's own music; None is 0.25.
        hidden, nonlinearity, bias, leak: the recurrent layer; `hidden` None is the paper's number for the data. Without
            `bias` neither the layer nor the read-out has one.
        init: a name of `steadygrad.init`; 'orthogonal' and 'identity' are W_rec's, the rest being as in 'basic_tanh'.
        steps: the longest chunk that gradients go back through; the state is carried on to the next.
        batch: pieces, or streams of the text, side by side.
        cost: 'mean' or 'sum' over the steps of a row; always the mean over the rows.
        optimizer, lr, momentum: 'sgd', 'momentum', 'nesterov', 'rmsprop' or 'adam' (whose β₁ is `momentum`); momentum
            None is the usual one of the optimizer.
        threshold: the norm above which the gradient is clipped, or 'auto'.
        nonfinite: what the clipper does where the gradient is not finite: 'skip' (None), 'shrink' or 'raise'. A run
            without clipping ends there.
        alpha, omega: the factor of Ω, and its convention, 'paper' or 'program'.
        lr_schedule, alpha_schedule: a name of schedule.py. Its t counts epochs, and `epochs` is where it ends.
        epochs, max_seconds: where to stop.
        patience: stop after so many epochs without a better validation; None is never.
        backend, dtype, threads: how it is computed. `threads` are those of the recurrent layer, whose
            kernel gives the same bits on any number of them; all else runs on one.

    Example:
        >>> config = NaturalConfig("nottingham", "sgd-c", threshold=8.0, lr=1.0)
        >>> config.hidden, NaturalConfig.from_json(config.to_json()) == config
        (300, True)
        >>> NaturalConfig("jsb", "sgd", ahead=5)
        Traceback (most recent call last):
        steadygrad.training.settings.ConfigError: ahead must be left out with 'jsb', which is music, not 5

    Reference: Pascanu, Mikolov & Bengio 2013, supplement, "Natural tasks".
    """

    data: str
    algorithm: str = "sgd-cr"
    seed: int = 1
    path: str | None = None
    ahead: int = 1
    time_step: float | None = None
    hidden: int | None = None
    nonlinearity: str = "sigmoid"
    bias: bool = True
    leak: float = 0.0
    init: str = "sigmoid"
    steps: int = 200
    batch: int = 1
    cost: str = "mean"
    optimizer: str = "sgd"
    lr: float = 0.1
    momentum: float | None = None
    threshold: float | str | None = None
    nonfinite: str | None = None
    alpha: float = 0.0
    omega: str = "paper"
    lr_schedule: str = "constant"
    alpha_schedule: str = "constant"
    epochs: int = 50
    patience: int | None = None
    max_seconds: float | None = None
    backend: str = "auto"
    dtype: str = "float32"
    threads: int = 1

    def examined(self) -> tuple[dict[str, Any], list[str]]:
        """The values that fields shall have in place of what was given, and one sentence for each fault."""
        return rules.examine(self)

    @property
    def is_text(self) -> bool:
        """Whether the data are characters; else they are music."""
        return self.data in TEXTS
