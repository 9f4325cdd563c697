"""What the settings must be, one with another, and the sentence for each fault.

Settings that are None get their usual value here: `hidden` the problem's, `momentum` the optimizer's, `nonfinite` 'skip'
where gradients are clipped, `time_step` a quarter of a second for the user's own music.
"""

from __future__ import annotations

import os
from typing import Any

from pydantic.fields import FieldInfo

from .. import checks
from . import problem as problems
from .config import (
    ALGORITHMS,
    DATA,
    DRAWN,
    LARGEST_SEED,
    OF_MUSIC,
    OF_TEXT,
    OWN_DATA,
    SCHEDULES,
    SCHEDULES_BY_LENGTH,
    TEXTS,
    TIME_STEP,
    USUAL_MOMENTUM,
    Config,
    absolute,
    choices,
    kind,
    of,
)

OF_GATES = ("remember", "chrono")
BY_EPOCHS = ("1/t", "half-when-worse")
RENAMED = {"task": "problem", "data": "problem", "task_options": "options"}
"""Fields of version 0.1.0."""


def applies(name: str, problem: str) -> bool:
    """Whether a setting is for this problem."""
    wanted = of(name)
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
    if name in ("length", "curriculum") and isinstance(value, list):
        return tuple(value)
    if name == "path" and isinstance(value, os.PathLike):
        return os.fspath(value)
    if name == "problem":
        return problems.name_of(value)
    return value


def sentence(name: str, field: FieldInfo, value: Any) -> str:
    """What a field must be, and what came."""
    bounds = _bounds(field)
    try:
        if names := [each for each in choices(field) if name != "threshold"]:
            checks.one_of(name, value, names)
        elif name == "threshold" and isinstance(value, str):
            return f"threshold must be a number or 'auto', not {value!r}"
        elif kind(field) is int:
            whole = checks.whole(name, value, low=bounds.get("low", 0))
            return f"{name} must be a whole number of at most {LARGEST_SEED:,}, not {whole}"
        elif kind(field) is float:
            checks.number(name, value, **bounds)
    except (ValueError, TypeError) as error:
        return str(error)
    allowed = {
        bool: "True or False",
        tuple: "a pair of whole numbers, low before high",
        dict: "a dict of the problem's own options",
        str: "a path" if name == "path" else "a name",
    }
    return f"{name} must be {allowed.get(kind(field), 'otherwise')}, not {value!r}"


def examine(values: dict[str, Any], bad: set[str]) -> tuple[dict[str, Any], list[str]]:
    """The values that fields shall have in place of what was given, and one sentence for each fault.

    Args:
        values: of all fields, each by itself as it should be but for
        bad: those already found wrong, of which nothing more is said.
    """
    found = _Examination(values, bad)
    found.problem()
    found.network()
    found.momentum()
    found.clipping()
    found.regulariser()
    found.schedules()
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

    def left_out(self, name: str, why: str) -> None:
        """A setting that nothing would read is refused, not ignored."""
        if self.values[name] != Config.model_fields[name].get_default(call_default_factory=True):
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
                self.left_out(field, _why(field, name))
        if form == DRAWN:
            self.lengths(made)
        else:
            self.data(name)
        if self.hidden is None:
            self.settled["hidden"] = problems.units(name, made)

    def lengths(self, made: Any) -> None:
        """Whether the lengths, and those of a curriculum, are in order and long enough."""
        for field in ("length", "curriculum"):
            pair = self.values[field]
            if pair is None or field in self.bad:
                continue
            least = getattr(made, "minimum_length", 1)
            if pair[0] > pair[1]:
                self.fault(field, f"be a pair of whole numbers, low before high, not {pair!r}")
                self.bad.add(field)
            elif made is not None and pair[0] < least:
                shortest = f"the shortest {problems.title(self.values['problem'])} can be"
                self.fault(field, f"begin at {least} or more, {shortest}, not at {pair[0]}")
        start, target = self.curriculum, self.length
        if start is None:
            for field in ("growth", "curriculum_patience", "curriculum_loss"):
                self.left_out(field, "without a curriculum")
        elif not {"length", "curriculum"} & self.bad and any(a > b for a, b in zip(start, target, strict=True)):
            self.fault("curriculum", f"begin below length, {target}, to grow into it, not at {start}")
        if self.after_success == "stop":
            self.left_out("polish", "with after_success='stop'")
        if self.lr_schedule not in BY_EPOCHS and self.alpha_schedule not in BY_EPOCHS:
            self.left_out("epoch", f"unless a schedule is {' or '.join(map(repr, BY_EPOCHS))}")

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
            self.settled["time_step"] = TIME_STEP

    def network(self) -> None:
        """A gated network has its own nonlinearities and initial weights."""
        if "network" in self.bad:
            return
        gated = self.values["network"] != "rnn"
        why = f"with network {self.values['network']!r}, which has its own"
        if gated:
            for field in ("nonlinearity", "leak"):
                self.left_out(field, why)
            if self.init == Config.model_fields["init"].default:
                self.settled["init"] = "uniform"
            elif self.init not in ("uniform", *OF_GATES):
                self.left_out("init", why)
        elif self.init in OF_GATES:
            self.fault("init", f"be another than {self.init!r} with network 'rnn', which has no gates")
        if self.init in OF_GATES and not self.bias:
            self.fault("init", f"be another than {self.init!r} without biases, which it sets")
        if self.init != "chrono":
            self.left_out("longest", "unless init is 'chrono'")
        elif self.longest is None:
            self.fault("longest", "be given with init 'chrono'")

    def momentum(self) -> None:
        if self.values["momentum"] is None:
            self.settled["momentum"] = USUAL_MOMENTUM.get(self.optimizer)
        elif self.optimizer == "sgd":
            self.left_out("momentum", "with optimizer 'sgd', which has none")

    def clipping(self) -> None:
        """A threshold is there where gradients are clipped, and nowhere else."""
        if "algorithm" in self.bad:
            return
        if self.algorithm not in ("sgd-c", "sgd-cr"):
            for field in ("threshold", "nonfinite"):
                self.left_out(field, f"with {self._algorithm()}")
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
        regularises = self.algorithm in ("sgd-r", "sgd-cr")
        if regularises and self.alpha == 0:
            self.fault("alpha", f"be above 0 with {self._algorithm()}")
        if not regularises:
            if self.alpha != 0:
                self.fault("alpha", f"be 0 with {self._algorithm()}, not {self.alpha!r}")
            self.left_out("alpha_schedule", f"with {self.algorithm!r}, which has no Ω")

    def schedules(self) -> None:
        name = self.values["problem"]
        drawn = "problem" in self.bad or not problems.is_known(name) or problems.form(name) == DRAWN
        if self.lr_schedule in SCHEDULES_BY_LENGTH and not drawn:
            names = ", ".join(map(repr, SCHEDULES))
            self.fault(
                "lr_schedule", f"be one of {names} with {name!r}, whose lengths are given, not {self.lr_schedule!r}"
            )

    def _algorithm(self) -> str:
        return f"algorithm {self.algorithm!r} ({ALGORITHMS[self.algorithm]})"


def _why(field: str, problem: str) -> str:
    if field == "patience":
        return f"with {problem!r}, which has no epochs (curriculum_patience is the curriculum's)"
    if field == "path":
        return f"with {problem!r}, which is known by name"
    if field == "ahead" and problems.form(problem) == DATA:
        return f"with {problem!r}, which is music"
    if field == "time_step":
        return f"with {problem!r}, whose steps are given"
    return f"with {problem!r}, which has no such setting"


def _bounds(field: FieldInfo) -> dict[str, Any]:
    """What `checks.number` calls the bounds of a field."""
    found: dict[str, Any] = {}
    for each in field.metadata:
        for name, bound, is_open in (
            ("gt", "low", True),
            ("ge", "low", False),
            ("lt", "high", True),
            ("le", "high", False),
        ):
            if getattr(each, name, None) is not None:
                found[bound] = getattr(each, name)
                if is_open:
                    found[f"open_{bound}"] = True
    return found
