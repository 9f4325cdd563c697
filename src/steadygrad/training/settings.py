"""What the settings of every kind of run share: checked as a whole, written as JSON, enough to run again.

A kind of run is a frozen dataclass that builds on `Settings` and says in `examined` what its fields must be, one with
another. All faults are reported at once, each by name.
"""

from __future__ import annotations

import dataclasses
import difflib
import json
from abc import ABC, abstractmethod
from dataclasses import MISSING, Field, fields
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from typing_extensions import Self


class ConfigError(ValueError):
    """All faults of a config at once; `faults` has one sentence for each."""

    def __init__(self, faults: list[str]) -> None:
        self.faults = tuple(faults)
        text = faults[0] if len(faults) == 1 else "\n  ".join([f"the config has {len(faults)} faults:", *faults])
        super().__init__(text)


class Settings(ABC):
    """The settings of a run, for a frozen dataclass to build on."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]
    algorithm: str
    """'sgd', 'sgd-c', 'sgd-r' or 'sgd-cr'."""

    def __post_init__(self) -> None:
        settled, faults = self.examined()
        if faults:
            raise ConfigError(faults)
        for name, value in settled.items():
            object.__setattr__(self, name, value)

    @abstractmethod
    def examined(self) -> tuple[dict[str, Any], list[str]]:
        """The values that fields shall have in place of what was given, and one sentence for each fault."""

    @property
    def clips(self) -> bool:
        """Whether the algorithm clips the gradient's norm."""
        return self.algorithm in ("sgd-c", "sgd-cr")

    @property
    def regularises(self) -> bool:
        """Whether the algorithm adds Ω."""
        return self.algorithm in ("sgd-r", "sgd-cr")

    def as_dict(self) -> dict[str, Any]:
        """All fields as JSON has them: pairs are lists."""
        return {name: list(value) if isinstance(value, tuple) else value for name, value in self._items()}

    def to_json(self) -> str:
        """All fields as a JSON object, one a line."""
        return json.dumps(self.as_dict(), indent=1, ensure_ascii=False) + "\n"

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Self:
        """The config of `as_dict()`. A field that is not there has its default; one that does not exist is a fault."""
        if not isinstance(values, dict):
            raise ConfigError([f"a config must be a JSON object, not {type(values).__name__}"])
        known = [each.name for each in fields(cls)]
        faults = [f"the config has no field {name!r}{_near(name, known)}" for name in values if name not in known]
        required = [each.name for each in fields(cls) if each.default is MISSING and each.default_factory is MISSING]
        faults += [f"{name} must be given" for name in required if name not in values]
        if faults:
            raise ConfigError(faults)
        given: dict[str, Any] = {name: tuple(v) if isinstance(v, list) else v for name, v in values.items()}
        return cls(**given)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """The config of `to_json()`."""
        try:
            values = json.loads(text)
        except ValueError as error:
            raise ConfigError([f"a config must be JSON, and this is not: {error}"]) from error
        return cls.from_dict(values)

    def changed(self, **overrides: Any) -> Self:
        """This config with other values in some fields, checked again."""
        return dataclasses.replace(self, **overrides)

    def differences(self, other: Self) -> list[str]:
        """What `other` has otherwise, field by field: 'seed is 1, not 2'."""
        theirs = dict(other._items())
        return [f"{name} is {mine!r}, not {theirs[name]!r}" for name, mine in self._items() if mine != theirs[name]]

    def _items(self) -> list[tuple[str, Any]]:
        return [(each.name, getattr(self, each.name)) for each in fields(self)]


def _near(name: str, known: list[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1)
    return f" (did you mean {near[0]!r}?)" if near else ""
