"""What the settings of a run on music or text must be, one with another. All faults are found at once, each by name.

`hidden` and `time_step` are None until here, and get the paper's number of units for the data, and a quarter of a second
for the user's own music; for what else gets its usual value see training/examination.py.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ..training import examination
from ..training.examination import Examination

if TYPE_CHECKING:
    from .config import NaturalConfig

UNITS = {"piano-midi": 300, "nottingham": 300, "musedata": 400, "jsb": 300, "ptb": 500, "text": 500, "music": 300}
"""The data, and the paper's number of units for each; those it does not have are as those it has."""
NAMES_OF_DATA = tuple(UNITS)
TEXTS = ("ptb", "text")
OWN = {"text": "a text file", "music": "a folder of MIDI files"}
"""What the user brings: `path` names it."""
TIME_STEP, SHORTEST_STEP = 0.25, 0.001
"""Seconds: the usual step of a user's own music, and the shortest."""

NAMES: dict[str, Iterable[str]] = {"data": NAMES_OF_DATA, **examination.NAMES, "cost": ("mean", "sum")}
COUNTS = {**examination.COUNTS, "ahead": 1, "steps": 1, "epochs": 1, "patience": 1}
MAY_BE_NONE = ("hidden", "momentum", "patience", "max_seconds")


def examine(config: NaturalConfig) -> tuple[dict[str, Any], list[str]]:
    """The values that fields shall have in place of what was given, and one sentence for each fault."""
    found = _Examination(config, MAY_BE_NONE)
    found.names(NAMES)
    found.counts(COUNTS)
    found.numbers(examination.NUMBERS)
    if not isinstance(config.bias, bool):
        found.faults.append(f"bias must be True or False, not {config.bias!r}")
    if config.data in NAMES_OF_DATA:
        found.data()
    found.algorithm()
    found.unused({"alpha_schedule": (not config.regularises, f"with {config.algorithm!r}, which has no Ω")})
    return found.settled, found.faults


class _Examination(Examination):
    """With what only a run on music or text has."""

    def data(self) -> None:
        config = self.config
        if config.hidden is None:
            self.settled["hidden"] = UNITS[config.data]
        self._path()
        kind = "text" if config.is_text else "music"
        if config.data != "music":
            self.unused({"time_step": (True, f"with {config.data!r}, whose steps are given")})
        elif config.time_step is None:
            self.settled["time_step"] = TIME_STEP
        else:
            self.numbers({"time_step": {"low": SHORTEST_STEP}})
        self.unused({"ahead": (not config.is_text, f"with {config.data!r}, which is {kind}")})

    def _path(self) -> None:
        path, data = self.config.path, self.config.data
        if data not in OWN:
            self.unused({"path": (True, f"with {data!r}, which is known by name")})
        elif path is None:
            self.faults.append(f"path must be given with {data!r}: {OWN[data]}")
        elif not isinstance(path, (str, os.PathLike)) or not os.fspath(path):
            self.faults.append(f"path must be a path, not {path!r}")
        else:
            # a run may be gone on with from another folder
            self.settled["path"] = os.path.abspath(os.path.expanduser(os.fspath(path)))
