"""What the settings must be, one with another, and the sentence for each fault.

Settings that are None get their usual value here: `hidden` the problem's, `momentum` the optimizer's, `nonfinite` 'skip'
where gradients are clipped, `time_step` a quarter of a second for the user's own music.
"""

from __future__ import annotations

import os
from typing import Any

from pydantic.fields import FieldInfo

from .. import checks
from . import config
from . import problem as problems
from .config import CLIPPING, DATA, DRAWN, OF_GATED, OF_MUSIC, OF_TEXT, OWN_DATA, REGULARISING, TEXTS, absolute

BY_EPOCHS = ("1/t", "half-when-worse")
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

    Args:
        values: of all fields.
        bad: fields already found wrong by themselves; nothing more is said of them.
    """
    found = _Examination(values, bad)
    for check in (found.problem, found.network, found.momentum, found.clipping, found.regulariser, found.schedules):
        check()
    return found.settled, found.faults


class _Examination:
    """The faults found so far, and the values settled so far."""

    def __init__(self, values: dict[str, Any], bad: set[str]) -> None:
        self.values, self.bad = values, bad
        self.faults: list[str] = []
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
            self.left_out("without a curriculum", "growth", "curriculum_patience", "curriculum_loss")
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
        if name != "rnn":
            why = f"with network {name!r}, which has its own"
            self.left_out(why, "nonlinearity", "leak")
            if self.init == config.default("init"):
                self.settled["init"] = "uniform"
            elif self.init not in OF_GATED:
                self.left_out(why, "init")
        elif opens_gates:
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
        elif self.optimizer == "sgd":
            self.left_out("with optimizer 'sgd', which has none", "momentum")

    def clipping(self) -> None:
        """A threshold is there where gradients are clipped, and nowhere else."""
        if "algorithm" in self.bad:
            return
        if self.algorithm not in CLIPPING:
            self.left_out(f"with {self._algorithm()}", "threshold", "nonfinite")
            return
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
