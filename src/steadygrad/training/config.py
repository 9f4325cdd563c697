"""Everything a run needs, in one frozen record that is enough to run it again.

A config is checked as a whole when it is made: all its faults are reported at once, each by name. It is written beside
the run's results as JSON and reads back to an equal config.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from . import rules
from .rules import ALGORITHMS as ALGORITHMS
from .settings import ConfigError as ConfigError
from .settings import Settings


@dataclass(frozen=True)
class RunConfig(Settings):
    """The settings of one training run (`steadygrad.training.preset` fills them in by name).

    Args:
        task: a name of `steadygrad.tasks`.
        algorithm: 'sgd', 'sgd-c' (clipped: needs `threshold`), 'sgd-r' (Ω: needs `alpha`) or 'sgd-cr' (both). It says
            what is done to the gradient; `optimizer` says what is done with it.
        length: each update draws one length T uniformly from low … high, both included.
        seed: of the data, of the initial weights and of the test sequences, each with its own stream.
        task_options: the task's own, such as {'positions': 'program'}.
        batch: sequences in an update.
        hidden, nonlinearity, leak: the recurrent layer; `hidden` None is the paper's number for the task.
        init: a name of `steadygrad.init`; 'orthogonal' and 'identity' are W_rec's, the rest being as in 'basic_tanh'.
        optimizer, lr, momentum: 'sgd', 'momentum', 'nesterov', 'rmsprop' or 'adam' (whose β₁ is `momentum`); momentum
            None is the usual one of the optimizer.
        threshold: the norm above which the gradient is clipped, or 'auto'.
        nonfinite: what the clipper does where the gradient is not finite: 'skip' (None), 'shrink' or 'raise'. A run
            without clipping ends there.
        alpha, omega: the factor of Ω, and its convention, 'paper' or 'program'.
        lr_schedule, alpha_schedule: a name of schedule.py, and `epoch`, the updates that make one unit of its t.
        curriculum: lengths to begin with, or None for `length` from the start; then they grow by the factor `growth`
            whenever the mean loss of the last `patience` updates is below `curriculum_loss`.
        max_updates, max_seconds: where to give up.
        check_every: updates between two tests on fresh sequences.
        check_sequences: how many of them a test begins with; it goes on to all `test_sequences` if these promise success.
        test_sequences, success: solved when at most the share `success` of `test_sequences` is answered wrong.
        average: the weights that are tested and kept are the mean over so many updates before each check, but not beyond
            the check before; 1 is the last alone.
        after_success: 'stop', or 'polish': train on at all lengths for `polish` times the updates so far, or until
            `check_sequences` of twice the longest length are all answered right, and keep the weights that solve the
            task and err least there.
        backend, dtype, threads: how it is computed. `threads` are those of the recurrent layer, whose
            kernel gives the same bits on any number of them; all else runs on one.

    Example:
        >>> config = RunConfig("temporal-order", "sgd-c", (50, 200), threshold=6.0, lr=0.001)
        >>> config.hidden, RunConfig.from_json(config.to_json()) == config
        (50, True)
        >>> RunConfig("addition", "sgd", length=(200, 50), lr=-1.0)
        Traceback (most recent call last):
        steadygrad.training.settings.ConfigError: the config has 2 faults:
          length must be a pair of whole numbers, low before high, not (200, 50)
          lr must be a finite number above 0, not -1.0

    Reference: Pascanu, Mikolov & Bengio 2013, supplement, "Experimental setup".
    """

    task: str
    algorithm: str = "sgd-cr"
    length: tuple[int, int] = (50, 200)
    seed: int = 1
    task_options: dict[str, Any] = field(default_factory=dict[str, Any])
    batch: int = 20
    hidden: int | None = None
    nonlinearity: str = "tanh"
    leak: float = 0.0
    init: str = "basic_tanh"
    optimizer: str = "sgd"
    lr: float = 0.01
    momentum: float | None = None
    threshold: float | str | None = None
    nonfinite: str | None = None
    alpha: float = 0.0
    omega: str = "paper"
    lr_schedule: str = "constant"
    alpha_schedule: str = "constant"
    epoch: int = 10_000
    curriculum: tuple[int, int] | None = None
    growth: float = 1.15
    patience: int = 500
    curriculum_loss: float = 0.15
    max_updates: int = 5_000_000
    max_seconds: float | None = None
    check_every: int = 1000
    check_sequences: int = 1000
    test_sequences: int = 10_000
    success: float = 0.01
    average: int = 1
    after_success: str = "stop"
    polish: float = 0.5
    backend: str = "auto"
    dtype: str = "float32"
    threads: int = 1

    def examined(self) -> tuple[dict[str, Any], list[str]]:
        """The values that fields shall have in place of what was given, and one sentence for each fault."""
        return rules.examine(self)
