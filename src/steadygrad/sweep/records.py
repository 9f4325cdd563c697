"""What is kept of a sweep: one JSON line for each cell, small enough for version control.

    {"id": …, "grid": …, "command": …, "problem": …, "length": [low, high], "algorithm": …, "preset": …, "seed": …,
     "config": {…}, "result": {…}, "generalisation": {"250": …, "300": …, "400": …},
     "flow": {"steps": …, "stride": …, "norms": […]},
     "commit": …, "version": …, "machine": {"cpu": …, "threads": …}, "date": …}

A cell of a data set has no `length` and no `generalisation`, one of text says how far `"ahead"` it predicts. `config` holds
the fields that are not a run's defaults, `flow` the error's norm against lag at the end (`steadygrad.snapshots`). A cell that
failed has `"result": null` and `"failed": reason`. Lines are sorted by id and keys always come in the same order, so two
collections of the same folder are the same file.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from steadygrad import storage
from steadygrad.experiments import Config, Result, files
from steadygrad.sweep.cell import DESCRIPTION, FAILURE, GENERALISATION, SWEEP, read
from steadygrad.sweep.grid import Cell, Grid

DIGITS = 4  # of every fraction and time: 10,000 test sequences don't tell more
LAGS = 40  # at so many the error's norm is kept
Record = dict[str, Any]


def collect(directory: Path) -> list[Record]:
    """The records of the sweep in `directory`, of every cell that has a result or failed, sorted by id."""
    directory = Path(directory)
    if read(directory / SWEEP) is None:
        raise FileNotFoundError(f"{directory} must be the folder of a sweep, and holds no {SWEEP}")
    found = [_record(path.parent) for path in directory.glob(f"*/{DESCRIPTION}")]
    return sorted((record for record in found if record is not None), key=_order)


def write_records(path: Path, records: Iterable[Mapping[str, Any]]) -> Path:
    """Adds records to a file of JSON lines; one of the same grid and id takes the place of the old one. Returns `path`."""
    path = Path(path)
    there: list[Mapping[str, Any]] = [*(read_records(path) if path.exists() else []), *records]
    kept = {(str(record.get("grid", "")), record["id"]): record for record in there}
    lines = [json.dumps(record, ensure_ascii=False, allow_nan=False) for record in sorted(kept.values(), key=_order)]
    path.parent.mkdir(parents=True, exist_ok=True)
    storage.write(path, "".join(f"{line}\n" for line in lines).encode())
    return path


def read_records(path: Path) -> list[Record]:
    """The records of a file of JSON lines. Raises ValueError with the number of a line that is no record."""
    records = []
    for count, line in enumerate(Path(path).read_text(encoding="utf-8").splitlines(), start=1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
            missing = {"id", "problem", "result"} - record.keys()
            if missing:
                raise KeyError(", ".join(sorted(missing)))
        except (ValueError, KeyError, AttributeError) as error:
            why = f"{type(error).__name__}: {error}"
            raise ValueError(f"{path}, line {count}, must be a record of a sweep ({why})") from None
        records.append(record)
    return records


def unrecorded(grid: Grid, path: Path) -> tuple[Cell, ...]:
    """The cells of a grid of which a file of records, which may not be there yet, has no result by the same settings."""
    records = read_records(path) if Path(path).exists() else []
    there = {record["id"]: record for record in records if record["result"]}

    def is_there(cell: Cell) -> bool:
        record = there.get(cell.id, {})
        return all(record.get(name) == value for name, value in _settings(cell.config).items())

    return tuple(cell for cell in grid.cells if not is_there(cell))


def _order(record: Mapping[str, Any]) -> list[Any]:
    """By id, numbers in it by their value.

    >>> sorted(["a_seed10", "a_seed9", "a-2_seed1"], key=lambda name: _order({"id": name}))
    ['a-2_seed1', 'a_seed9', 'a_seed10']
    """
    parts = re.split(r"(\d+)", record["id"])
    return [(int(part), "") if part.isdigit() else (-1, part) for part in parts]


def _record(folder: Path) -> Record | None:
    about, result, failure = read(folder / DESCRIPTION), Result.read(folder), read(folder / FAILURE)
    if result is None and failure is None:
        return None
    config = Config.from_dict(about["config"])
    settings = _settings(config)
    own = {"seed": settings.pop("seed"), "config": settings.pop("config")}
    record: Record = {key: about.get(key) for key in ("id", "grid", "command")}
    record |= {**settings, "preset": about["preset"], **own}
    if result is None:
        record |= {"result": None, "failed": failure["reason"]}
    else:
        record["result"] = _rounded(result.told())
        if config.form == "drawn":
            record |= _rounded(_beyond(read(folder / GENERALISATION) or {})) | _flow(folder)
    return record | {key: about.get(key) for key in ("commit", "version", "machine", "date")}


def _settings(config: Config) -> Record:
    """The fields of a record that say how the cell is run."""
    fields = config.as_dict()
    usual = {**Config(config.problem, "sgd", path=config.path).as_dict(), "path": None}
    told = {name: fields.pop(name) for name in ("problem", "length", "ahead", "algorithm", "seed") if name in fields}
    return {**told, "config": {name: value for name, value in fields.items() if value != usual[name]}}


def _beyond(tested: Mapping[str, Any]) -> Record:
    """The errors at other lengths; for regression by the squared error too."""
    errors = {length: each["error"] for length, each in tested.items()}
    squared = {length: each["errors"]["squared"] for length, each in tested.items() if "squared" in each["errors"]}
    return {"generalisation": errors, **({"generalisation_squared": squared} if squared else {})}


def _flow(folder: Path) -> Record:
    """The error's norm against lag in the last snapshot of a run; nothing where it has none."""
    snapshots = storage.read_lines(folder / files.FLOW) if (folder / files.FLOW).is_file() else []
    if not snapshots:
        return {}
    last = snapshots[-1]
    thin = -(-len(last["norms"]) // LAGS)
    norms = [None if norm is None else float(f"{norm:.3g}") for norm in last["norms"][::thin]]
    return {"flow": {"steps": last["steps"], "stride": thin * last["stride"], "norms": norms}}


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _rounded(each) for key, each in value.items()}
    return round(value, DIGITS) if isinstance(value, float) else value
