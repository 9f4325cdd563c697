"""Every setting of an experiment, declared once: name, type, bounds, default and help text.

The checks, config.json, the command line and docs/settings.md (tests/experiments/settings_page.py) are made from these. This
file needs pydantic and no torch, so that `steadygrad train --help` is quick; the names of what the core registers (such as
initialisations) stand here as well, and a test compares them with the core's own.
"""

from __future__ import annotations

import json
import os
import types
import typing
from typing import TYPE_CHECKING, Any, ClassVar, Literal

try:
    from pydantic import BaseModel, ConfigDict, Field, ValidationError
except ImportError:
    raise ImportError("experiments need pydantic: pip install 'steadygrad[train]'") from None

from ..schedules import ByLength, ScheduleName

if TYPE_CHECKING:
    from typing_extensions import Self

TASKS = (
    *("temporal-order", "temporal-order-3bit", "addition", "multiplication", "random-permutation"),
    *("memorization-5bit", "memorization-20bit", "recall"),
)
MUSIC = ("piano-midi", "nottingham", "musedata", "jsb", "music")
TEXTS = ("ptb", "text")
PROBLEMS = (*TASKS, *MUSIC, *TEXTS)
OWN_DATA = {"text": "a text file", "music": "a folder of MIDI files"}
"""Problems whose data the user brings: `path` names it."""
ALGORITHMS = {
    "sgd": "plain gradient",
    "sgd-c": "norm clipping",
    "sgd-r": "Ω, no clipping",
    "sgd-cr": "norm clipping and Ω",
}
CLIPPING, REGULARISING = ("sgd-c", "sgd-cr"), ("sgd-r", "sgd-cr")
NETWORKS = {"rnn": "RNN", "gru": "GRU", "lstm": "LSTM", "echo-state": "RNN"}
"""Name to class of the steadygrad package. Another recurrent layer is one more entry."""
GATED = ("gru", "lstm")
PlainInit = Literal["basic_tanh", "smart_tanh", "sigmoid", "orthogonal", "identity", "hold", "cycle", "input_driven"]
GatedInit = Literal["uniform", "remember", "chrono"]
"""What gated layers can begin with; the last two open their gates and are for these alone."""
OF_GATED = typing.get_args(GatedInit)
USUAL_MOMENTUM: dict[str, float | None] = {"sgd": None, "momentum": 0.9, "nesterov": 0.9, "rmsprop": 0.0, "adam": 0.9}
USUAL_RADIUS = 0.9
"""ρ of the reservoir of an echo state network."""
TIME_STEP, SHORTEST_STEP = 0.25, 0.001
"""Seconds: the usual step of a user's own music, and the shortest."""
LARGEST_SEED = 2**63 - 1
SPLITS = ("train", "valid", "test")
"""The parts of a data set."""

DRAWN, DATA, OF_TEXT, OF_MUSIC, OWN_MUSIC = "drawn", "data", "text", "music", "own music"
"""Which problems a setting is for: those that draw sequences, those with a data set; of these text, music, the user's own."""


class ConfigError(ValueError):
    """All faults of a config at once; `faults` has one sentence for each."""

    def __init__(self, faults: list[str]) -> None:
        self.faults = tuple(faults)
        several = [f"the config has {len(faults)} faults:"] if len(faults) > 1 else []
        super().__init__("\n  ".join([*several, *faults]))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (list(self.faults),)


def field(default: Any, help: str, of: str | None = None, metavar: str | None = None, **bounds: Any) -> Any:
    """One setting: its default, its help text, the problems it is for, what its value is called in help texts (as fits
    its type, if None), and pydantic's bounds (gt, ge, lt, le)."""
    return Field(default, description=help, json_schema_extra={"metavar": metavar, "of": of}, **bounds)


class _Settings(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class ProblemSettings(_Settings):
    """Where sequences come from."""

    problem: str = field("", f"{', '.join(PROBLEMS)}, or a class of your own: FILE.py:CLASS")
    options: dict[str, Any] = field({}, "the problem's own options, such as positions=program", DRAWN)
    length: tuple[int, int] = field((50, 200), "lengths to draw from, both included, or one length", DRAWN)
    path: str | None = field(None, "your own text file, or folder of MIDI files", DATA, "PATH")
    ahead: int = field(1, "predict the character so many ahead", OF_TEXT, ge=1)
    time_step: float | None = field(
        None, "seconds of a step, of music of your own (0.25)", OWN_MUSIC, "S", ge=SHORTEST_STEP
    )
    faults: Literal["raise", "skip"] = field("raise", "what to do with MIDI files that cannot be read", OWN_MUSIC)
    transpose: int = field(
        0,
        "move every piece of the training part by up to N keys up or down, drawn anew in each epoch, as far as no note leaves "
        "the keyboard",
        OF_MUSIC,
        ge=0,
    )
    seed: int = field(1, "of data, initial weights and test sequences", ge=0, le=LARGEST_SEED)


class NetworkSettings(_Settings):
    """The recurrent layer and its read-out."""

    network: Literal["rnn", "gru", "lstm", "echo-state"] = field(
        "rnn", "the recurrent layer (echo-state: a random one that stays as it is, with a read-out by ridge regression)"
    )
    hidden: int | None = field(None, "units of the recurrent layer (the paper's number for the problem)", ge=1)
    nonlinearity: Literal["tanh", "relu", "sigmoid", "identity"] = field("tanh", "of the units, for rnn")
    leak: float = field(
        0.0, "λ of leaky units, the share of the state that is kept, for rnn and echo-state", metavar="λ", ge=0, lt=1
    )
    noise: float = field(
        0.0,
        "standard deviation of noise that is added before the units' nonlinearity in training, for rnn",
        metavar="σ",
        ge=0,
    )
    dropout: float = field(0.0, "share of the states that the read-out does not see in training", DATA, "P", ge=0, lt=1)
    bias: bool = field(True, "whether the network has biases")
    init: Literal[PlainInit, GatedInit] = field(
        "basic_tanh",
        "initial weights (uniform: as torch draws them, the start of gru and lstm; these alone have the last two, uniform "
        "with the gates that remember begun open)",
    )
    longest: int | None = field(None, "steps that the gates of init chrono are told to remember", ge=3)
    radius: float | None = field(
        None, "scale the initial W_rec to this ρ, for rnn and echo-state (there 0.9)", metavar="ρ", gt=0
    )
    input_scaling: float = field(1.0, "largest |weight| of the inputs of echo-state", gt=0)


class MethodSettings(_Settings):
    """What is done with the gradient."""

    algorithm: Literal["sgd", "sgd-c", "sgd-r", "sgd-cr"] = field(
        "sgd-cr",
        f"what is done to the gradient ({', '.join(map(': '.join, ALGORITHMS.items()))}), whatever the optimizer",
    )
    optimizer: Literal["sgd", "momentum", "nesterov", "rmsprop", "adam", "hessian-free"] = field(
        "sgd", "how weights are updated"
    )
    lr: float = field(0.01, "learning rate", gt=0)
    momentum: float | None = field(None, "of the optimizer; β₁ of adam", ge=0, lt=1)
    batch: int = field(20, "sequences in an update", ge=1)
    steps: int = field(200, "longest chunk that gradients go back through; the state is carried on", DATA, ge=1)
    cost: Literal["mean", "sum"] = field("mean", "over the steps of a sequence", DATA)
    threshold: float | Literal["auto"] | None = field(None, "norm above which the gradient is clipped, or auto")
    per: Literal["all", "parameter", "entry"] = field(
        "all",
        "what is clipped by itself: the whole gradient, each parameter's, or each entry to [−threshold, threshold]",
    )
    nonfinite: Literal["skip", "shrink", "raise"] | None = field(None, "where a clipped gradient is not finite (skip)")
    clip_error: float | None = field(
        None, "clip every entry of the error to [−X, X] at every step of the way back", gt=0
    )
    l1: float = field(0.0, "factor of the penalty Σ |w| on W_rec", ge=0)
    l2: float = field(0.0, "factor of the penalty Σ w² on W_rec", ge=0)
    truncate: int | None = field(
        None,
        "truncated BPTT: cut the gradient every N steps, counted from the last; the state is carried on",
        DRAWN,
        ge=1,
    )
    teacher_forcing: float | None = field(
        None,
        "probability with which output units take their target as their value in training (1: always), for problems that have "
        "a target at every step",
        DRAWN,
        "P",
        ge=0,
        le=1,
    )
    damping: float = field(0.1, "λ at first, of hessian-free", DRAWN, "λ", gt=0)
    structural: float = field(0.0, "μ, the weight of structural damping, of hessian-free", DRAWN, "μ", ge=0)
    curvature_batch: int | None = field(
        None, "sequences of the batch that hessian-free takes the curvature from (all)", DRAWN, ge=1
    )
    alpha: float = field(0.0, "factor of Ω", ge=0)
    omega: Literal["paper", "proceedings", "program"] = field(
        "paper", "Ω as in the paper, as in its final edition, or as in its authors' program"
    )
    lr_schedule: Literal[ScheduleName, ByLength] = field(
        "constant", "how the learning rate changes; the last two where lengths are drawn"
    )
    alpha_schedule: ScheduleName = field("constant", "how α changes")
    epoch: int = field(10_000, "updates that make an epoch in 1/t and half-when-worse", DRAWN, ge=1)
    curriculum: tuple[int, int] | None = field(
        None, "lengths to begin with, which grow as the loss falls, or none", DRAWN
    )
    growth: float = field(1.15, "factor by which they grow", DRAWN, gt=1)
    growth_steps: int | None = field(None, "grow by at most so many steps at once", DRAWN, ge=1)
    curriculum_patience: int = field(500, "updates whose mean loss decides whether they grow", DRAWN, ge=1)
    curriculum_loss: float = field(0.15, "mean loss below which they grow", DRAWN, gt=0)
    curriculum_lost: float | None = field(
        None, "mean loss above which the weights of the last growth come back, and the rate falls", DRAWN, gt=0
    )
    latch: float | None = field(
        None,
        "share of the longest length up to which Ω is used: from there on the network is trained without it, until its memory "
        "lasts for ten times the longest length, and the run ends (docs/reproduction.md)",
        DRAWN,
        gt=0,
        le=1,
    )


class Limits(_Settings):
    """When to test, when to stop, and how it is computed."""

    max_updates: int = field(5_000_000, "give up after so many updates", DRAWN, ge=1)
    epochs: int = field(50, "stop after so many passes over the data", DATA, ge=1)
    patience: int | None = field(None, "stop after so many epochs without a better validation", DATA, ge=1)
    max_seconds: float | None = field(None, "stop after so many seconds", metavar="S", gt=0)
    clock: Literal["wall", "core"] = field(
        "wall", "what counts seconds: the time that passes, or the time that a core works for the run, on one thread"
    )
    check_every: int = field(1000, "updates between two tests", DRAWN, ge=1)
    check_sequences: int = field(1000, "sequences a test begins with", DRAWN, ge=1)
    test_sequences: int = field(10_000, "sequences of a whole test", DRAWN, ge=1)
    success: float = field(0.01, "solved when at most this share is wrong", DRAWN, ge=0, lt=1)
    average: int = field(1, "test and keep the mean of the weights over the N updates before a test", DRAWN, ge=1)
    after_success: Literal["stop", "polish"] = field(
        "stop", "polish: train on and keep the weights that err least at twice the length", DRAWN
    )
    polish: float = field(0.5, "polish for so many times the updates until success", DRAWN, gt=0)
    backend: Literal["auto", "reference", "torch", "native", "triton"] = field(
        "auto", "what computes the recurrent layer"
    )
    dtype: Literal["float32", "float64"] = field("float32", "of weights and states")
    threads: int = field(
        1, "of the recurrent layer; results do not depend on them, small networks run best on one", ge=1
    )


class Config(Limits, MethodSettings, NetworkSettings, ProblemSettings):
    """The settings of one experiment, checked as a whole; all faults are reported at once (`ConfigError`).

    Args:
        problem: a name, or 'FILE.py:CLASS'; or a class of one's own.
        algorithm: 'sgd', 'sgd-c' (clipped: needs `threshold`), 'sgd-r' (Ω: needs `alpha`) or 'sgd-cr' (both).
        length: of problems that draw their sequences.
        **settings: the other fields; docs/settings.md lists them.

    Example:
        >>> config = Config("temporal-order", "sgd-c", (50, 200), threshold=6.0, lr=0.001)
        >>> config.hidden, Config.from_json(config.to_json()) == config
        (50, True)
        >>> Config("addition", "sgd", length=(200, 50), lr=-1.0)
        Traceback (most recent call last):
        steadygrad.experiments.config.ConfigError: the config has 2 faults:
          length must be a pair of whole numbers, low before high, not (200, 50)
          lr must be a finite number above 0, not -1.0

    Reference: Pascanu, Mikolov & Bengio 2013, supplement, "Experimental setup" and "Natural tasks".
    """

    PARTS: ClassVar[dict[str, type[_Settings]]] = {
        "problem": ProblemSettings,
        "network": NetworkSettings,
        "method": MethodSettings,
        "limits": Limits,
    }

    def __init__(self, problem: Any = None, algorithm: Any = None, length: Any = None, **settings: Any) -> None:
        from ..checks import near_match
        from . import rules

        positional = {"problem": problem, "algorithm": algorithm, "length": length}
        given = {**{name: value for name, value in positional.items() if value is not None}, **settings}
        known = list(type(self).model_fields)
        faults = [f"the config has no field {name!r}{near_match(name, known)}" for name in given if name not in known]
        if "problem" not in given:
            faults.append("problem must be given")
        if faults:
            raise ConfigError(faults)
        given = {name: rules.plain(name, value) for name, value in given.items()}
        bad: dict[str, str] = {}
        try:
            super().__init__(**given)
        except ValidationError as error:
            names = [str(each["loc"][0]) for each in error.errors()]
            bad = {name: rules.sentence(name, given[name]) for name in names}
        settled, found = rules.examine({name: given.get(name, default(name)) for name in known}, set(bad))
        if faults := sorted([*bad.values(), *found], key=lambda fault: known.index(fault.split()[0])):
            raise ConfigError(faults)
        for name, value in settled.items():
            object.__setattr__(self, name, value)  # frozen for others

    @property
    def form(self) -> str:
        """'drawn' for a problem that draws its sequences, 'data' for one with a data set."""
        from . import problem

        return problem.form(self.problem)

    @property
    def is_text(self) -> bool:
        """Whether the data are characters."""
        return self.problem in TEXTS

    @property
    def limit(self) -> str:
        """The field that says where a run gives up: 'max_updates' or 'epochs'."""
        return "max_updates" if self.form == DRAWN else "epochs"

    def as_dict(self) -> dict[str, Any]:
        """The fields that are for this problem, as JSON has them: pairs are lists."""
        from . import rules

        fields = ((name, value) for name, value in self.__dict__.items() if rules.applies(name, self.problem))
        return {name: list(value) if isinstance(value, tuple) else value for name, value in fields}

    def to_json(self) -> str:
        """The fields as a JSON object, one a line."""
        return json.dumps(self.as_dict(), indent=1, ensure_ascii=False) + "\n"

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Self:
        """The config of `as_dict()`. A field that is not there has its default; one that does not exist is a fault.

        Runs of version 0.1.0 called the problem `task` or `data`; these are read too.
        """
        from . import rules

        if not isinstance(values, dict):
            raise ConfigError([f"a config must be a JSON object, not {type(values).__name__}"])
        return cls(**{name: tuple(v) if isinstance(v, list) else v for name, v in rules.renamed(values).items()})

    @classmethod
    def from_json(cls, text: str) -> Self:
        try:
            values = json.loads(text)
        except ValueError as error:
            raise ConfigError([f"a config must be JSON, and this is not: {error}"]) from error
        return cls.from_dict(values)

    def changed(self, **overrides: Any) -> Self:
        """This config with other values in some fields, checked again."""
        return type(self)(**{**self.__dict__, **overrides})

    def differences(self, other: Self) -> list[str]:
        """What `other` has otherwise, field by field: 'seed is 1, not 2'."""
        pairs = ((name, mine, other.__dict__[name]) for name, mine in self.__dict__.items())
        return [f"{name} is {mine!r}, not {theirs!r}" for name, mine, theirs in pairs if mine != theirs]


def absolute(path: str | os.PathLike[str]) -> str:
    """A path that still holds when the run is continued from another folder."""
    return os.path.abspath(os.path.expanduser(os.fspath(path)))


def kind(name: str) -> tuple[Any, tuple[str, ...]]:
    """The type of a setting that is not None (int, float, str, bool, dict, tuple or Literal), and the names of a Literal."""
    annotation: Any = Config.model_fields[name].annotation
    if typing.get_origin(annotation) in (types.UnionType, typing.Union):
        annotation = typing.get_args(annotation)[0]
    origin = typing.get_origin(annotation)
    return origin or annotation, typing.get_args(annotation) if origin is Literal else ()


def default(name: str) -> Any:
    return Config.model_fields[name].get_default(call_default_factory=True)


def of(name: str) -> str | None:
    """Which problems a setting is for: 'drawn', 'data', 'text' or 'music'; None for all."""
    return typing.cast(Any, Config.model_fields[name].json_schema_extra)["of"]
