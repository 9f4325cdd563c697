"""What the settings must be, one with another, and the sentence for each fault.

Settings that are None get their usual value here: `hidden` the problem's, `momentum` the optimizer's, `nonfinite` 'skip'
where gradients are clipped, `radius` 0.9 for an echo state network, `time_step` a quarter of a second for the user's own music.
"""

from __future__ import annotations

import os
from typing import Any

from pydantic.fields import FieldInfo

from .. import checks
from . import config
from . import problem as problems
from .config import CLIPPING, DATA, DRAWN, GATED, OF_GATED, OF_MUSIC, OF_TEXT, OWN_DATA, REGULARISING, TEXTS, absolute

BY_EPOCHS = ("1/t", "half-when-worse")
OF_HESSIAN_FREE = ("damping", "structural", "curvature_batch")
OF_GRADIENT = ("lr", "lr_schedule", "clip_error", "l1", "l2", "truncate")
"""What changes a step down the gradient; neither Hessian-free optimisation nor an echo state network makes one."""
RENAMED = {"task": "problem", "data": "problem", "task_options": "options"}
"""Fields of version 0.1.0."""


def applies(name: str, problem: str) -> bool:
    """Whether a setting is for this problem."""
    wanted = config.of(name)
    if wanted in (None, problems.form(problem)):
        return name != "path" or problem in OWN_DATA or ":" in problem
    return (wanted == OF_TEXT and problem in TEXTS) or (wanted == OF_MUSIC and problem == "music")


def renamed(values: dict[str, Any]) -> dict[str, Any]:
    """Values of a config.json with the names of now."""
    if "task" in values and "patience" in values:
        values = {"curriculum_patience" if name == "patience" else name: value for name, value in values.items()}
    return {RENAMED.get(name, name): value for name, value in values.items()}


def plain(name: str, value: Any) -> Any:
    """A value as the config keeps it: pairs are tuples, paths and classes are strings."""
    if name == "problem":
        return problems.name_of(value)
    if name in ("length", "curriculum") and isinstance(value, list):
        return tuple(value)
    return os.fspath(value) if name == "path" and isinstance(value, os.PathLike) else value


def sentence(name: str, field: FieldInfo, value: Any) -> str:
    """What a field must be, and what came."""
    kind, bounds = config.kind(field), _bounds(field)
    try:
        if name == "threshold" and isinstance(value, str):
            return f"threshold must be a number or 'auto', not {value!r}"
        if name != "threshold" and config.choices(field):
            checks.one_of(name, value, config.choices(field))
        elif kind is int:
            checks.whole(name, value, low=bounds.get("low", 0))
            return f"{name} must be a whole number of at most {config.LARGEST_SEED:,}, not {value}"
        elif kind is float:
            checks.number(name, value, **bounds)
    except (ValueError, TypeError) as error:
        return str(error)
    allowed = {
        bool: "True or False",
        tuple: "a pair of whole numbers, low before high",
        dict: "a dict of the problem's own options",
        str: "a path" if name == "path" else "a name",
    }
    return f"{name} must be {allowed.get(kind, 'otherwise')}, not {value!r}"


def examine(values: dict[str, Any], bad: set[str]) -> tuple[dict[str, Any], list[str]]:
    """The values that fields get in place of what was given, and one sentence for each fault.

    `bad` are fields already found wrong by themselves; nothing more is said of them.
    """
    found = _Examination(values, bad)
    for check in (found.problem, found.network, found.momentum, found.clipping, found.regulariser, found.schedules):
        check()
    found.hessian_free()
    found.echo_state()
    found.teacher()
    return found.settled, found.faults


class _Examination:
    """The faults found so far, and the values settled so far."""

    def __init__(self, values: dict[str, Any], bad: set[str]) -> None:
        self.values, self.bad = values, bad
        self.faults: list[str] = []
        self.made: Any = None  # the problem, if it draws its sequences and has no fault
        self.settled: dict[str, Any] = {}

    def __getattr__(self, name: str) -> Any:
        return self.values[name]

    def fault(self, name: str, text: str) -> None:
        if name not in self.bad:
            self.faults.append(f"{name} must {text}")

    def left_out(self, why: str, *names: str) -> None:
        """Settings that nothing would read are refused, not ignored."""
        for name in names:
            if self.values[name] != config.default(name):
                self.fault(name, f"be left out {why}, not {self.values[name]!r}")
                self.bad.add(name)  # once is enough

    def problem(self) -> None:
        if "problem" in self.bad:
            return
        name = self.values["problem"]
        try:
            form = problems.form(name)
            made = problems.drawn(name, self.options) if form == DRAWN and "options" not in self.bad else None
        except (ValueError, TypeError) as error:
            text = str(error)
            known = text.split()[0] in self.values
            self.faults.append(text if known else f"options must fit {problems.title(name)}: {text}")
            return
        for field in self.values:
            if not applies(field, name):
                self.left_out(_why(field, name), field)
        if form == DRAWN:
            self.lengths(made)
            self.made = made
        else:
            self.data(name)
        if self.hidden is None:
            self.settled["hidden"] = problems.UNITS.get(name) or getattr(made, "hidden_size", problems.DEFAULT_UNITS)

    def lengths(self, made: Any) -> None:
        """Whether the lengths, and those of a curriculum, are in order and long enough."""
        for field in ("length", "curriculum"):
            pair, least = self.values[field], getattr(made, "minimum_length", 1)
            if pair is None or field in self.bad:
                continue
            if pair[0] > pair[1]:
                self.fault(field, f"be a pair of whole numbers, low before high, not {pair!r}")
                self.bad.add(field)
            elif made is not None and pair[0] < least:
                shortest = f"the shortest {problems.title(self.values['problem'])} can be"
                self.fault(field, f"begin at {least} or more, {shortest}, not at {pair[0]}")
        start, target = self.curriculum, self.length
        if start is None:
            self.left_out("without a curriculum", "growth", "curriculum_patience", "curriculum_loss", "curriculum_lost")
        elif not {"length", "curriculum"} & self.bad and any(a > b for a, b in zip(start, target, strict=True)):
            self.fault("curriculum", f"begin below length, {target}, to grow into it, not at {start}")
        if self.after_success == "stop":
            self.left_out("with after_success='stop'", "polish")
        if self.lr_schedule not in BY_EPOCHS and self.alpha_schedule not in BY_EPOCHS:
            self.left_out(f"unless a schedule is {' or '.join(map(repr, BY_EPOCHS))}", "epoch")

    def data(self, name: str) -> None:
        """Whether the user's own data are named."""
        if name in OWN_DATA:
            if self.path is None:
                self.fault("path", f"be given with {name!r}: {OWN_DATA[name]}")
            elif not self.path:
                self.fault("path", f"be a path, not {self.path!r}")
            else:
                self.settled["path"] = absolute(self.path)
        if name == "music" and self.time_step is None:
            self.settled["time_step"] = config.TIME_STEP

    def network(self) -> None:
        """A gated network has its own nonlinearities and initial weights."""
        if "network" in self.bad:
            return
        name, opens_gates = self.values["network"], self.init in OF_GATED[1:]
        if name in GATED:
            self.left_out(f"with network {name!r}, whose gates have no one spectral radius", "radius")
            why = f"with network {name!r}, which has its own"
            self.left_out(why, "nonlinearity", "leak")
            if self.init == config.default("init"):
                self.settled["init"] = "uniform"
            elif self.init not in OF_GATED:
                self.left_out(why, "init")
        elif opens_gates and name == "rnn":
            self.fault("init", f"be another than {self.init!r} with network 'rnn', which has no gates")
        if opens_gates and not self.bias:
            self.fault("init", f"be another than {self.init!r} without biases, which it sets")
        if self.init != "chrono":
            self.left_out("unless init is 'chrono'", "longest")
        elif self.longest is None:
            self.fault("longest", "be given with init 'chrono'")

    def momentum(self) -> None:
        if self.values["momentum"] is None:
            self.settled["momentum"] = config.USUAL_MOMENTUM.get(self.optimizer)
        elif self.optimizer in ("sgd", "hessian-free"):
            self.left_out(f"with optimizer {self.optimizer!r}, which has none", "momentum")

    def clipping(self) -> None:
        """A threshold is there where gradients are clipped, and nowhere else."""
        if "algorithm" in self.bad:
            return
        if self.algorithm not in CLIPPING:
            self.left_out(f"with {self._algorithm()}", "threshold", "per", "nonfinite")
            return
        if self.per == "entry" and self.threshold == "auto":
            self.fault("threshold", "be a number with per 'entry', not 'auto'")
        if self.nonfinite is None:
            self.settled["nonfinite"] = "skip"
        if self.threshold is None:
            self.fault("threshold", f"be given with {self._algorithm()}")
        elif not isinstance(self.threshold, str) and "threshold" not in self.bad:
            try:
                checks.number("threshold", self.threshold, low=0, open_low=True)
            except ValueError as error:
                self.faults.append(str(error))

    def regulariser(self) -> None:
        """α is above 0 where Ω is added, and nowhere else."""
        if "algorithm" in self.bad:
            return
        if self.algorithm in REGULARISING:
            if self.alpha == 0:
                self.fault("alpha", f"be above 0 with {self._algorithm()}")
            return
        if self.alpha != 0:
            self.fault("alpha", f"be 0 with {self._algorithm()}, not {self.alpha!r}")
        self.left_out(f"with {self.algorithm!r}, which has no Ω", "alpha_schedule")

    def schedules(self) -> None:
        name = self.values["problem"]
        drawn = "problem" in self.bad or not problems.is_known(name) or problems.form(name) == DRAWN
        if self.lr_schedule in config.SCHEDULES_BY_LENGTH and not drawn:
            given = f"with {name!r}, whose lengths are given, not {self.lr_schedule!r}"
            self.fault("lr_schedule", f"be one of {', '.join(map(repr, config.SCHEDULES))} {given}")

    def hessian_free(self) -> None:
        """It takes the gradient as it is, and has no learning rate."""
        if self.optimizer != "hessian-free" or "optimizer" in self.bad:
            self.left_out("unless optimizer is 'hessian-free'", *OF_HESSIAN_FREE)
            return
        self._without_gradient("optimizer", "which has no step down the gradient")
        number = self.curvature_batch
        if number is not None and not {"batch", "curvature_batch"} & self.bad and number > self.batch:
            self.fault("curvature_batch", f"be at most batch, {self.batch}, not {number}")

    def echo_state(self) -> None:
        """Its read-out is solved for; nothing else of it is learned."""
        name = self.values["network"]
        if name != "echo-state" or "network" in self.bad:
            self.left_out("unless network is 'echo-state'", "input_scaling")
            return
        if self.radius is None:
            self.settled["radius"] = config.USUAL_RADIUS
        self.left_out("with network 'echo-state', whose reservoir has its own", "nonlinearity", "init", "bias")
        self._without_gradient("network", "which has no gradient", "optimizer", "curriculum", "average")

    def teacher(self) -> None:
        """Teacher forcing needs targets to give, and is for plain units whose error goes back as it is."""
        if self.teacher_forcing is None or "teacher_forcing" in self.bad:
            return
        if (
            self.made is not None
            and not {"length", "options"} & self.bad
            and not problems.is_taught(self.made, self.length)
        ):
            name = problems.title(self.values["problem"])
            why = f"with {name!r} and these options, which has no target at every step (memorization has with counted=all)"
            self.left_out(why, "teacher_forcing")
        allowed = {"network": ("rnn",), "algorithm": ("sgd", "sgd-c"), "optimizer": tuple(config.USUAL_MOMENTUM)}
        for name, values in allowed.items():
            if self.values[name] not in values:
                names = " or ".join(map(repr, values))
                self.fault(name, f"be {names} with teacher_forcing, not {self.values[name]!r}")
        self.left_out("with teacher_forcing", "leak", "bias", "clip_error", "truncate", "backend")

    def _without_gradient(self, field: str, why: str, *more: str) -> None:
        """Refuse all that would be done to a gradient, and data sets, whose state is carried on from update to update."""
        name, value = self.values["problem"], self.values[field]
        if "algorithm" not in self.bad and self.algorithm != "sgd":
            self.fault("algorithm", f"be 'sgd' with {field} {value!r}, {why}, not {self.algorithm!r}")
        self.left_out(f"with {field} {value!r}, {why}", *OF_GRADIENT, *more)
        if "problem" not in self.bad and problems.is_known(name) and problems.form(name) == DATA:
            self.fault(
                field, f"be another than {value!r} with {name!r}, whose state is carried on from update to update"
            )

    def _algorithm(self) -> str:
        return f"algorithm {self.algorithm!r} ({config.ALGORITHMS[self.algorithm]})"


def _why(field: str, problem: str) -> str:
    why = {
        "patience": "which has no epochs (curriculum_patience is the curriculum's)",
        "path": "which is known by name",
        "time_step": "whose steps are given",
    }
    if problems.form(problem) == DATA:
        why["ahead"] = "which is music"
    return f"with {problem!r}, {why.get(field, 'which has no such setting')}"


def _bounds(field: FieldInfo) -> dict[str, Any]:
    """What `checks.number` calls the bounds of a field."""
    found: dict[str, Any] = {}
    for name, bound in (("gt", "low"), ("ge", "low"), ("lt", "high"), ("le", "high")):
        for value in (getattr(each, name, None) for each in field.metadata):
            if value is not None:
                found |= {bound: value, f"open_{bound}": name in ("gt", "lt")}
    return found
