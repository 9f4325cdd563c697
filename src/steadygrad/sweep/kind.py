"""What a sweep asks of the runs it makes, whatever they train on.

    task       a synthetic task, `training.RunConfig`: solved or not, within a number of updates
    natural    music or text, `natural.NaturalConfig`: a figure of merit, within a number of epochs

A cell holds a config of either, and its kind knows how to run it, when it has come to its end, what its result says
and what a record keeps of it. The rest of the room asks these questions and no other.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from steadygrad.sweep.outcome import Outcome
from steadygrad.training import RunConfig

if TYPE_CHECKING:
    from steadygrad.natural import NaturalConfig

Config: TypeAlias = "RunConfig | NaturalConfig"
Result = Mapping[str, Any]


class Kind(ABC):
    """A kind of runs.

    Attributes:
        name: what cell.json calls it.
        limit: the config's field that says where a run gives up, which is also its argument of `train` and the reason
            of a result that ended there.
        reached: the result's field that is held against it.
        told: the config's fields that stand by themselves in a record.
        kept: the result's fields that a record keeps.
        shape: the config's fields on which the time of an update depends.
    """

    name: ClassVar[str]
    limit: ClassVar[str]
    reached: ClassVar[str]
    told: ClassVar[tuple[str, ...]]
    kept: ClassVar[tuple[str, ...]]
    shape: ClassVar[tuple[str, ...]]

    @abstractmethod
    def config(self, values: dict[str, Any]) -> Any:
        """The config of its `as_dict()`."""

    @abstractmethod
    def usual(self, config: Any) -> dict[str, Any]:
        """What such a config has where nothing else is said; a record leaves it out."""

    @property
    @abstractmethod
    def train(self) -> Callable[..., Any]:
        """Runs a config in a folder, or goes on there."""

    @property
    @abstractmethod
    def test(self) -> Callable[..., Any]:
        """Tests the network in a folder at a length; asked only for cells that have test lengths."""

    @abstractmethod
    def outcome(self, cell: str, result: Result) -> Outcome:
        """What became of a finished cell."""

    @abstractmethod
    def seconds(self, result: Result) -> float:
        """All the time a run took."""

    @abstractmethod
    def beyond(self, tested: Mapping[str, Any]) -> dict[str, Any]:
        """What a record keeps of the tests at other lengths."""

    @abstractmethod
    def alike(self, config: Any) -> tuple[Any, ...]:
        """What two runs that take about the same time share."""

    @abstractmethod
    def work(self, config: Any) -> float:
        """How much there is to do at most, to compare runs that are not alike."""

    @abstractmethod
    def measured(self, config: Any) -> float:
        """Seconds of one unit of `limit`, measured on a few updates."""

    @abstractmethod
    def read(self, folder: Path) -> Any:
        """The config in a run's folder."""

    def can_go_on(self, config: Any, result: Result) -> bool:
        """Whether the run gave up sooner than the config now has it."""
        return result["reason"] == self.limit and result[self.reached] < getattr(config, self.limit)

    def can_grow(self, there: Any, asked: Any) -> bool:
        """Whether the run that is there would have begun no differently with the limit asked for."""
        # Only a schedule that knows its end would have run otherwise from the start.
        endless = not {there.lr_schedule, there.alpha_schedule} & {"linear", "cosine"}
        return endless and getattr(asked, self.limit) > getattr(there, self.limit)

    def pace(self, result: Result) -> float | None:
        """Seconds of one unit of `limit` in a finished run; None where it was too short to tell."""
        return self.seconds(result) / result[self.reached] if result[self.reached] else None
