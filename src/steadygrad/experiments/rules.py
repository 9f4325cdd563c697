"""What the settings must be, one with another, and the sentence for each fault.

Settings that are None get their usual value here: `hidden` the problem's, `momentum` the optimizer's, `nonfinite` 'skip'
where gradients are clipped, `radius` 0.9 for an echo state network, `time_step` a quarter of a second for the user's own music.
"""

from __future__ import annotations

import os
from typing import Any

from .. import checks
from ..schedules import SCHEDULES, SCHEDULES_BY_LENGTH
from . import config
from . import problem as problems
from .config import CLIPPING, DATA, DRAWN, GATED, OF_GATED, OWN_DATA, REGULARISING, absolute

BY_EPOCHS = ("1/t", "half-when-worse")
OF_HESSIAN_FREE = ("damping", "structural", "curvature_batch")
OF_GRADIENT = ("lr", "lr_schedule", "clip_error", "l1", "l2", "truncate", "noise", "latch")
"""What changes a step down the gradient; neither Hessian-free optimisation nor an echo state network makes one."""
OF_CURRICULUM = ("growth", "growth_steps", "curriculum_patience", "curriculum_loss", "curriculum_lost", "latch")
NO_STEP, NO_GRADIENT = "which has no step down the gradient", "which has no gradient"
RENAMED = {"task": "problem", "data": "problem", "task_options": "options"}
"""Fields of version 0.1.0."""


def applies(name: str, problem: str) -> bool:
    """Whether a setting is for this problem."""
    wanted = config.of(name)
    if wanted in (None, problems.form(problem)):
        return name != "path" or problem in OWN_DATA or ":" in problem
    named = {config.OF_TEXT: config.TEXTS, config.OF_MUSIC: config.MUSIC, config.OWN_MUSIC: ("music",)}
    return problem in named.get(wanted, ())


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


def sentence(name: str, value: Any) -> str:
    """What a field must be, and what came."""
    (kind, names), bounds = config.kind(name), _bounds(name)
    try:
        if name == "threshold" and isinstance(value, str):
            return f"threshold must be a number or 'auto', not {value!r}"
        if names:
            checks.one_of(name, value, names)
        elif kind is int:
            checks.whole(name, value, low=bounds.get("low", 0))
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
    for name, value in values.items():
        numbers = value if isinstance(value, tuple) else (value,)
        if name not in bad and any(isinstance(number, int) and number > checks.LARGEST for number in numbers):
            found.fault(name, f"be at most {checks.LARGEST:,}, not {value}")
            bad.add(name)
    for check in (_problem, _combined, _unread, _without_gradient, _teacher):
        check(found)
    for case, name, value in (
        (found.problem == "music" and found.time_step is None, "time_step", config.TIME_STEP),
        (found.network in GATED and found.init == config.default("init"), "init", "uniform"),
        (found.network == "echo-state" and found.radius is None, "radius", config.USUAL_RADIUS),
        (found.algorithm in CLIPPING and found.nonfinite is None, "nonfinite", "skip"),
        (found.momentum is None, "momentum", config.USUAL_MOMENTUM.get(str(found.optimizer))),
    ):
        if case:
            found.settled[name] = value
    return found.settled, found.faults


class _Examination:
    """The settings, those known to be wrong (`bad`), the faults found so far, and the values settled so far."""

    def __init__(self, values: dict[str, Any], bad: set[str]) -> None:
        self.values, self.bad = values, bad
        self.faults: list[str] = []
        self.made: Any = None  # the problem, if it draws its sequences and has no fault
        self.form: str | None = None  # of the problem, if it is known
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

    @property
    def named_algorithm(self) -> str:
        return f"algorithm {self.algorithm!r} ({config.ALGORITHMS.get(self.algorithm)})"


def _problem(v: _Examination) -> None:
    if "problem" in v.bad:
        return
    name = v.problem
    try:
        v.form = problems.form(name)
        made = problems.drawn(name, v.options) if v.form == DRAWN and "options" not in v.bad else None
    except (ValueError, TypeError) as error:
        known = str(error).split()[0] in v.values
        v.faults.append(str(error) if known else f"options must fit {problems.title(name)}: {error}")
        return
    for field in v.values:
        if not applies(field, name):
            v.left_out(_why(field, name), field)
    if v.form == DRAWN:
        _lengths(v, made)
        v.made = made
    elif v.lr_schedule in SCHEDULES_BY_LENGTH:
        given = f"with {name!r}, whose lengths are given, not {v.lr_schedule!r}"
        v.fault("lr_schedule", f"be one of {', '.join(map(repr, SCHEDULES))} {given}")
    if name in OWN_DATA and v.path:
        v.settled["path"] = absolute(v.path)
    elif name in OWN_DATA:
        given = f"be given with {name!r}: {OWN_DATA[name]}"
        v.fault("path", given if v.path is None else f"be a path, not {v.path!r}")
    if v.hidden is None:
        v.settled["hidden"] = problems.UNITS.get(name) or getattr(made, "hidden_size", problems.DEFAULT_UNITS)


def _lengths(v: _Examination, made: Any) -> None:
    """Whether the lengths, and those of a curriculum, are in order and long enough."""
    least = getattr(made, "minimum_length", 1)
    for field in ("length", "curriculum"):
        pair = v.values[field]
        if pair is None or field in v.bad:
            continue
        if pair[0] > pair[1]:
            v.fault(field, f"be a pair of whole numbers, low before high, not {pair!r}")
            v.bad.add(field)
        elif made is not None and pair[0] < least:
            v.fault(
                field, f"begin at {least} or more, the shortest {problems.title(v.problem)} can be, not at {pair[0]}"
            )
    start, target = v.curriculum, v.length
    if start is not None and not {"length", "curriculum"} & v.bad and (start[0] > target[0] or start[1] > target[1]):
        v.fault("curriculum", f"begin below length, {target}, to grow into it, not at {start}")


def _combined(v: _Examination) -> None:
    """What one setting demands of another: the case, the field, and what it must be."""
    is_algorithm, clips, regularises = "algorithm" not in v.bad, v.algorithm in CLIPPING, v.algorithm in REGULARISING
    too_low = isinstance(v.threshold, (int, float)) and v.threshold <= 0
    opens_gates = v.init in OF_GATED[1:] and "network" not in v.bad
    for case, name, text in (
        (
            opens_gates and v.network == "rnn",
            "init",
            f"be another than {v.init!r} with network 'rnn', which has no gates",
        ),
        (opens_gates and not v.bias, "init", f"be another than {v.init!r} without biases, which it sets"),
        (opens_gates and v.init == "chrono" and v.longest is None, "longest", "be given with init 'chrono'"),
        (regularises and v.alpha == 0, "alpha", f"be above 0 with {v.named_algorithm}"),
        (is_algorithm and not regularises and v.alpha != 0, "alpha", f"be 0 with {v.named_algorithm}, not {v.alpha!r}"),
        (clips and v.threshold is None, "threshold", f"be given with {v.named_algorithm}"),
        (clips and too_low, "threshold", f"be a finite number above 0, not {v.threshold!r}"),
        (v.clock == "core" and v.threads != 1, "clock", f"be 'wall' with {v.threads} threads: 'core' counts one"),
        (clips and (v.per, v.threshold) == ("entry", "auto"), "threshold", "be a number with per 'entry', not 'auto'"),
    ):
        if case:
            v.fault(name, text)


def _unread(v: _Examination) -> None:
    """Where a setting would be read by nothing: the case, why, and the settings."""
    network, optimizer = f"network {v.network!r}", f"optimizer {v.optimizer!r}"
    plain_starts = () if v.init in OF_GATED else ("init",)
    is_gated, is_echo = (v.network in names and "network" not in v.bad for names in (GATED, ("echo-state",)))
    is_newton = v.optimizer == "hessian-free" and "optimizer" not in v.bad
    algorithm = "sgd-cr" if "algorithm" in v.bad else v.algorithm  # which reads all
    by_epochs = {v.lr_schedule, v.alpha_schedule} & set(BY_EPOCHS)
    for case, why, names in (
        (v.form == DRAWN and v.curriculum is None, "without a curriculum", OF_CURRICULUM),
        (v.form == DRAWN and v.after_success == "stop", "with after_success='stop'", ("polish",)),
        (v.latch is not None, "with latch, which ends the run itself", ("after_success",)),
        (v.form == DRAWN and not by_epochs, f"unless a schedule is {' or '.join(map(repr, BY_EPOCHS))}", ("epoch",)),
        (is_gated, f"with {network}, whose gates have no one spectral radius", ("radius",)),
        (is_gated, f"with {network}, which has its own", ("nonlinearity", "leak", *plain_starts)),
        (is_gated, f"with {network}: it is for plain units", ("noise",)),
        (v.init != "chrono" and "network" not in v.bad, "unless init is 'chrono'", ("longest",)),
        (v.optimizer in ("sgd", "hessian-free"), f"with {optimizer}, which has none", ("momentum",)),
        (algorithm not in CLIPPING, f"with {v.named_algorithm}", ("threshold", "per", "nonfinite")),
        (algorithm not in REGULARISING, f"with {v.algorithm!r}, which has no Ω", ("alpha_schedule",)),
        (not is_newton, "unless optimizer is 'hessian-free'", OF_HESSIAN_FREE),
        (is_newton, f"with {optimizer}, {NO_STEP}", OF_GRADIENT),
        (not is_echo, "unless network is 'echo-state'", ("input_scaling",)),
        (is_echo, f"with {network}, whose reservoir has its own", ("nonlinearity", "init", "bias")),
        (is_echo, f"with {network}, {NO_GRADIENT}", (*OF_GRADIENT, "optimizer", "curriculum", "average")),
    ):
        if case:
            v.left_out(why, *names)


def _without_gradient(v: _Examination) -> None:
    """Hessian-free optimisation and echo states: nothing is done to a gradient, and no state is carried on."""
    number = v.curvature_batch
    for field, name, why in (("optimizer", "hessian-free", NO_STEP), ("network", "echo-state", NO_GRADIENT)):
        if v.values[field] != name or field in v.bad:
            continue
        if "algorithm" not in v.bad and v.algorithm != "sgd":
            v.fault("algorithm", f"be 'sgd' with {field} {name!r}, {why}, not {v.algorithm!r}")
        if v.form == DATA:
            carried = f"with {v.problem!r}, whose state is carried on from update to update"
            v.fault(field, f"be another than {name!r} {carried}")
        if number is not None and not {"batch", "curvature_batch"} & v.bad and number > v.batch:
            v.fault("curvature_batch", f"be at most batch, {v.batch}, not {number}")


def _teacher(v: _Examination) -> None:
    """Teacher forcing needs targets to give, and is for plain units whose error goes back as it is."""
    if v.teacher_forcing is None or "teacher_forcing" in v.bad:
        return
    known = v.made is not None and not {"length", "options"} & v.bad
    if known and not problems.is_taught(v.made, v.length):
        why = "which has no target at every step (memorization has with counted=all)"
        v.left_out(f"with {problems.title(v.problem)!r} and these options, {why}", "teacher_forcing")
    allowed = {"network": ("rnn",), "algorithm": ("sgd", "sgd-c"), "optimizer": tuple(config.USUAL_MOMENTUM)}
    for name, values in allowed.items():
        if v.values[name] not in values:
            v.fault(name, f"be {' or '.join(map(repr, values))} with teacher_forcing, not {v.values[name]!r}")
    v.left_out("with teacher_forcing", "leak", "noise", "bias", "clip_error", "truncate", "backend")


def _why(field: str, problem: str) -> str:
    why = {
        "patience": "which has no epochs (curriculum_patience is the curriculum's)",
        "path": "which is known by name",
        "time_step": "whose steps are given",
    }
    if problems.form(problem) == DATA:
        why["ahead"] = "which is music"
    return f"with {problem!r}, {why.get(field, 'which has no such setting')}"


def _bounds(field: str) -> dict[str, Any]:
    """What `checks.number` calls the bounds of a field."""
    found: dict[str, Any] = {}
    for each in config.Config.model_fields[field].metadata:
        for name, bound in (("gt", "low"), ("ge", "low"), ("lt", "high"), ("le", "high")):
            if hasattr(each, name):
                found |= {bound: getattr(each, name), f"open_{bound}": name in ("gt", "lt")}
    return found
