"""What a run leaves on disk. Nothing is pickled.

    DIR/config.json           the settings
    DIR/data.json             what a run on a data set was trained on: width, symbols (the characters; null for music), unit,
                              parts, and a sha256, which tells whether the user's own file is still the same, wherever it is
    DIR/metrics.jsonl         one line for each check: updates, loss, gradient_norm, gradient_norm_max, clip_rate, skipped,
                              omega, active, spectral_radius, horizon, lr, alpha, updates_per_second, seconds
        drawn problems        test_loss, error, errors, tested, beyond (the error at twice the longest length, once it is
                              solved), low, high
        data sets             epoch, tokens, train, valid, tokens_per_second
    DIR/flow.jsonl            snapshots of the error's norm against lag, and of W_rec's eigenvalues (snapshots.py): updates,
                              steps, stride, norms, eigenvalues
    DIR/weights.safetensors   the best weights so far
    DIR/checkpoints/          the last two states, such as 000012000.safetensors: weights, best weights, optimizer state and
                              generator state; in the header config, counters, schedules … and a sha256 over all of it
    DIR/result.json           the result, once there is one

Every file is whole or not there (storage.py); of the two that grow line by line, what was written after the checkpoint that a
run goes on from is cut off. A checkpoint that is truncated, altered, or of another config is refused by name, and the one
before it is used. Numbers that are not finite are null. A run never touches another's folder.
"""

from __future__ import annotations

import logging
import math
import os
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import __version__, storage
from ..storage import FolderError, State
from .config import SPLITS, Config, ConfigError

if TYPE_CHECKING:
    import torch

    from ..snapshots import Snapshot

CONFIG, DATA, METRICS, FLOW = "config.json", "data.json", "metrics.jsonl", "flow.jsonl"
WEIGHTS, RESULT, CHECKPOINTS = "weights.safetensors", "result.json", "checkpoints"
OWN = (CONFIG, DATA, METRICS, FLOW, WEIGHTS, RESULT, CHECKPOINTS)
OF_SNAPSHOTS = ("steps", "stride", "norms", "eigenvalues")
THINNING = 1.015
"""The next snapshot is due once the updates have grown by this factor: a long run has a few hundred."""
KEPT = 2  # checkpoints
FORMAT = "steadygrad run, 2"  # of a checkpoint
_log = logging.getLogger("steadygrad")


def read_weights(network: torch.nn.Module, directory: str | Path) -> None:
    """Give a network the best weights of the run in `directory`.

    They are compared with the sha256 in the file; runs of version 0.1.0 have none there, and are read without.
    """
    path = Path(directory) / WEIGHTS
    try:
        weights, _, whole = storage.read_tensors(path)
        if whole is False:
            raise ValueError(f"{path} is altered: its checksum does not fit its weights")
        network.load_state_dict(weights)
    except FileNotFoundError:
        raise FileNotFoundError(f"{path} is not there: the run has not been tested yet") from None
    except (storage.safetensors().SafetensorError, RuntimeError, OSError) as error:
        raise ValueError(f"{path} does not hold the weights of this run: {str(error).splitlines()[0]}") from error


def read_config(directory: str | Path) -> Config:
    """The settings of the run in `directory`."""
    return config_in(Path(directory) / CONFIG)


def config_in(path: Path) -> Config:
    """The settings in a config.json; every fault names the file."""
    try:
        return Config.from_json(storage.read_text(path))
    except ConfigError as error:
        raise ConfigError([f"{path}: {fault}" for fault in error.faults]) from error
    except UnicodeError as error:
        raise ConfigError([str(error)]) from error


def read_snapshots(directory: Path) -> list[dict[str, Any]]:
    """The lines of a run's flow.jsonl; ValueError where there is none yet."""
    lines = storage.read_lines(directory / FLOW, ("updates", *OF_SNAPSHOTS))
    if not lines:
        raise ValueError(f"{directory / FLOW} must have a snapshot, and has none yet: wait for the first check")
    return lines


def read_metrics(directory: Path, *fields: str) -> list[dict[str, Any]]:
    """The lines of a run's metrics.jsonl; ValueError where one has no `updates`, or none of these fields."""
    return storage.read_lines(directory / METRICS, ("updates", *fields))


def claim(directory: Path, config: Config, resume: bool) -> None:
    """Make the folder this run's own: create it if needed, and write DIR/config.json.

    Raises FolderError if another run is there, or this one and not `resume`.
    """
    there = [name for name in OWN if (directory / name).exists()]
    if CONFIG in there:
        try:
            differences = config.differences(read_config(directory))
        except ConfigError as error:
            raise FolderError(f"{directory} holds a run of another kind: give another folder ({error})") from error
        if differences:
            others = f"{directory} holds another run ({', '.join(differences)} here)"
            raise FolderError(f"{others}: give another folder, or go on with that run: steadygrad resume {directory}")
        if not resume:
            raise FolderError(f"{directory} holds this run already: go on with it (steadygrad resume {directory})")
        return
    if there:
        raise FolderError(f"{directory} holds {there[0]} of a run without its {CONFIG}: give another folder")
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise FolderError(f"{directory} must be a folder, and a file is in its place") from None
    storage.write(directory / CONFIG, config.to_json().encode())


def keep_data(directory: Path, problem: Any) -> None:
    """Write down what the run is trained on, or see that it is still the same."""
    from ..data.datasets import DataSet

    if (directory / DATA).exists():
        verify_data(directory, problem)
        return
    storage.write_json(directory / DATA, DataSet.about(problem))


def with_data(config: Config, path: Any, directory: Path | None) -> Config:
    """The settings with `path`, where the run's own data are now; without it, those of a run are where they were."""
    if path is not None:
        return config.changed(path=path)
    if directory is not None and config.path is not None and not os.path.exists(config.path):
        from ..data.sources import DataError

        why = "it is not there any more; if it was moved, give --data PATH"
        raise DataError(f"cannot read {config.path}, the data of {directory}: {why}")
    return config


def verify_data(directory: Path, problem: Any) -> None:
    """Refuse data that are not those of the run in `directory`."""
    if read_about(directory)["sha256"] != problem.checksum():
        where = f"{problem.config.path or problem.config.problem} has changed since the run in {directory} was begun"
        raise FolderError(f"{where}: put it back, or begin another run")


def read_about(directory: Path) -> dict[str, Any]:
    """What a run on a data set was trained on."""
    path = directory / DATA
    try:
        about: dict[str, Any] | None = storage.read_json(path)
        if about is None:
            raise FileNotFoundError(f"{path} is not there: the run has not begun to train yet")
        _ = about["width"], about["symbols"], about["sha256"]
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path} does not tell what the run was trained on ({type(error).__name__})") from error
    return about


class Record:
    """The two files of lines in a run's folder.

    `sizes` are their sizes in bytes at the checkpoint that the run goes on from; None begins them anew.
    """

    def __init__(self, directory: Path, sizes: dict[str, int] | None = None) -> None:
        self._files = {name: storage.Lines(directory / name, (sizes or {}).get(name, 0)) for name in (METRICS, FLOW)}
        self.next_snapshot = 0

    def append(self, name: str, line: dict[str, Any]) -> None:
        """Add a line to metrics.jsonl or flow.jsonl."""
        self._files[name].append(line)

    def snapshot(self, updates: int, seen: Snapshot) -> None:
        """Add a line to flow.jsonl, if one is due."""
        if updates < self.next_snapshot:
            return
        shown = {name: getattr(seen, name) for name in OF_SNAPSHOTS}
        self.append(FLOW, {"updates": updates, **shown})
        self.next_snapshot = math.ceil(updates * THINNING)

    def settle(self) -> dict[str, int]:
        """Make sure that all lines are on the disk, and return the sizes of the files."""
        return {name: file.settle() for name, file in self._files.items()}

    def close(self) -> None:
        for file in self._files.values():
            file.close()


@dataclass(frozen=True)
class Result:
    """How a run ended. What a problem does not have is None.

    `train`, `valid` and `test` are the scores of the weights that were best on validation, over each whole part; None if
    unknown: the test part is read once, at the end, and a run that diverged in its first epoch has no weights.
    """

    reason: str  # 'solved', 'max_updates', 'epochs', 'patience', 'max_seconds', 'interrupted' or 'diverged: …'
    updates: int  # until the first success, or all there were; so are the seconds
    seconds: float
    total_updates: int  # all there were, polishing included
    total_seconds: float
    best_updates: int | None = None  # when the best weights were tested
    solved: bool | None = None  # whether a test found at most the share `success` of the test sequences wrong
    error: float | None = None  # of the best weights on the test sequences, by the problem's criterion
    errors: dict[str, float] = field(default_factory=dict[str, float])  # by every criterion
    train: float | None = None
    valid: float | None = None
    test: float | None = None
    best_epoch: int | None = None  # at which they were validated; 0: none
    epochs: int | None = None  # that were completed
    tokens_per_second: float | None = None  # predictions learned from in a second of training, validation left out
    horizon: int | None = None  # how many steps back the error came at the last test of a drawn problem

    @property
    def diverged(self) -> bool:
        return self.reason.startswith("diverged")

    @property
    def interrupted(self) -> bool:
        """Whether it was stopped from outside, and can be resumed."""
        return self.reason.startswith("interrupted")

    def reached(self, limit: str) -> int:
        """How far it came: the updates of 'max_updates', or the epochs of 'epochs'."""
        return self.total_updates if limit == "max_updates" else self.epochs or 0

    def can_go_on(self, limit: int, max_seconds: float | None) -> bool:
        """Whether the limit that the run ended at, of updates or epochs or seconds, is now higher."""
        if self.reason == "max_seconds":
            return max_seconds is None or max_seconds > self.total_seconds
        return self.reason in ("max_updates", "epochs") and limit > self.reached(self.reason)

    def write(self, directory: Path, config: Config) -> None:
        """Put the result, the settings and the versions into DIR/result.json."""
        import torch

        about = {"config": config.as_dict(), "version": __version__, "torch": torch.__version__}
        storage.write_json(directory / RESULT, {**asdict(self), **about})

    @classmethod
    def read(cls, directory: str | Path) -> Result | None:
        """The result in `directory`, or None if there is none yet."""
        path = Path(directory) / RESULT
        try:
            values = storage.read_json(path)
            return None if values is None else cls.of(values)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"{path} is not the result of a run ({type(error).__name__}: {error})") from error

    @classmethod
    def of(cls, values: dict[str, Any]) -> Result:
        """The result in a dict, such as a record's or result.json's; those of version 0.1.0 have no totals for data."""
        given = {each.name: values[each.name] for each in fields(cls) if each.name in values}
        given.setdefault("total_updates", given.get("updates"))
        given.setdefault("total_seconds", given.get("seconds"))
        return cls(**given)

    def told(self) -> dict[str, Any]:
        """The fields that say something, for a record."""
        kept = {name: value for name, value in asdict(self).items() if value is not None and value != {}}
        if self.solved is None:  # of a data set all scores are kept, unknown ones too
            kept |= {split: getattr(self, split) for split in SPLITS}
        return kept

    @property
    def verdict(self) -> str:
        """The result in words: 'solved after 12,000 updates'."""
        if self.solved is None:
            scores = {part: getattr(self, part) for part in ("test", "train")}
            told = (f"{part} {'–' if value is None else f'{value:.3f}'}" for part, value in scores.items())
            return f"{', '.join(told)} after {self.epochs:,} epochs"
        verdict = "solved" if self.solved else f"not solved: {self.reason}"
        return verdict if verdict.endswith(" updates") else f"{verdict} after {self.updates:,} updates"


class CheckpointError(ValueError):
    """A checkpoint can't be used; the message names the file and why."""


def write_checkpoint(directory: Path, config: Config, updates: int, state: State) -> None:
    """Write the state of the run in `directory` after `updates` updates, and remove all but the last two."""
    folder = directory / CHECKPOINTS
    folder.mkdir(exist_ok=True)
    header = {"format": FORMAT, "config": config.to_json()}
    storage.write_state(folder / f"{updates:09d}.safetensors", state, header)
    for old in _newest_first(folder)[KEPT:]:
        old.unlink(missing_ok=True)


def newest_checkpoint(directory: Path, config: Config) -> State | None:
    """The newest usable state of the run in `directory`, or None if none was written; a warning names those refused."""
    refused: list[str] = []
    folder = directory / CHECKPOINTS
    for path in _newest_first(folder):
        try:
            found = read_checkpoint(path, config)
        except CheckpointError as error:
            refused.append(str(error))
            continue
        for sentence in refused:
            _log.warning("%s; the one before it is used", sentence)
        return found
    if refused:
        raise CheckpointError(f"{'; '.join(refused)}; no other is left (to begin anew, remove {folder})")
    return None


def read_checkpoint(path: Path, config: Config) -> State:
    """One checkpoint, verified."""
    try:
        state, header, whole = storage.read_state(path)
    except (storage.safetensors().SafetensorError, OSError, ValueError) as error:
        raise CheckpointError(f"{path} is refused, it is truncated or altered ({error})") from error
    if header.get("format") != FORMAT:
        raise CheckpointError(f"{path} is refused, it is no checkpoint of this version ({FORMAT})")
    if not whole:
        raise CheckpointError(f"{path} is refused, it is altered: its checksum does not fit")
    try:
        differences = config.differences(Config.from_json(header["config"]))
    except ConfigError as error:
        raise CheckpointError(f"{path} is refused, its config is not this version's ({error})") from error
    if differences:
        raise CheckpointError(f"{path} is refused, it is of another run: here {', '.join(differences)}")
    return state


def _newest_first(folder: Path) -> list[Path]:
    return sorted(folder.glob("[0-9]*.safetensors"), reverse=True)
