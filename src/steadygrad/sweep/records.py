"""What is kept of a sweep: one JSON line for each cell, small enough for version control; and the rate of success in it.

    {"id": …, "grid": …, "command": …, "problem": …, "length": [low, high], "algorithm": …, "preset": …, "seed": …,
     "config": {…}, "result": {…}, "generalisation": {"250": …, "300": …, "400": …},
     "commit": …, "version": …, "machine": {"cpu": …, "threads": …}, "date": …}

A cell of a data set has no `length` and no `generalisation`, one of text says how far `"ahead"` it predicts. `config` holds
the fields that are not a run's defaults. A cell that failed has `"result": null` and `"failed": reason`. Lines are sorted by
id and keys always come in the same order, so two collections of the same folder are the same file. Of k in n seeds:

    p̂ = k / n                                                           the rate of success
    low, high = (k + z²/2 ± z √(k (n − k)/n + z²/4)) / (n + z²)          Wilson's interval (1927), z = 1.959964 for 95 %

It is right where the usual p̂ ± z √(p̂ (1 − p̂)/n) is worst: few seeds, and rates of 0 or 100 %, which is where every claim
of Pascanu et al. 2013 lies. 5 of 5 means 57 to 100 %.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import NormalDist
from typing import Any

from steadygrad.checks import number, whole
from steadygrad.experiments import Config, Result, files
from steadygrad.sweep.cell import DESCRIPTION, FAILURE, GENERALISATION, SWEEP, read

DIGITS = 4  # of every fraction and time: 10,000 test sequences don't tell more
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
    files.write(path, "".join(f"{line}\n" for line in lines).encode())
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
    fields = config.as_dict()
    usual = {**Config(config.problem, "sgd", path=config.path).as_dict(), "path": None}
    told = [name for name in ("problem", "length", "ahead", "algorithm") if name in fields]
    record: Record = {key: about.get(key) for key in ("id", "grid", "command")}
    record |= {name: fields[name] for name in told}
    record |= {"preset": about["preset"], "seed": config.seed}
    elsewhere = (*told, "seed")
    record["config"] = {name: value for name, value in fields.items() if name not in elsewhere and value != usual[name]}
    if result is None:
        record |= {"result": None, "failed": failure["reason"]}
    else:
        record["result"] = _rounded(result.told())
        if config.form == "drawn":
            record |= _rounded(_beyond(read(folder / GENERALISATION) or {}))
    return record | {key: about.get(key) for key in ("commit", "version", "machine", "date")}


def _beyond(tested: Mapping[str, Any]) -> Record:
    """The errors at other lengths; for regression by the squared error too."""
    errors = {length: each["error"] for length, each in tested.items()}
    squared = {length: each["errors"]["squared"] for length, each in tested.items() if "squared" in each["errors"]}
    return {"generalisation": errors, **({"generalisation_squared": squared} if squared else {})}


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _rounded(each) for key, each in value.items()}
    return round(value, DIGITS) if isinstance(value, float) else value


def wilson(solved: int, seeds: int, confidence: float = 0.95) -> tuple[float, float]:
    """Wilson's interval for a rate of which `solved` of `seeds` trials were seen; `confidence` is in (0, 1).

    >>> low, high = wilson(5, 5)
    >>> f"{low:.3f} {high:.3f}"
    '0.566 1.000'

    Reference: E. B. Wilson 1927, "Probable inference, the law of succession, and statistical inference", JASA 22.
    """
    n, k = whole("seeds", seeds), whole("solved", solved, low=0)
    if k > n:
        raise ValueError(f"solved must be at most the number of seeds, {n}, not {k}")
    confidence = number("confidence", confidence, low=0, high=1, open_low=True, open_high=True)
    z = NormalDist().inv_cdf(0.5 + confidence / 2)
    centre, reach = k + z * z / 2, z * math.sqrt(k * (n - k) / n + z * z / 4)
    # At k = 0 and k = n an end is exactly 0 or 1; rounding must not push it past.
    low = 0.0 if k == 0 else (centre - reach) / (n + z * z)
    high = 1.0 if k == n else (centre + reach) / (n + z * z)
    return low, high


@dataclass(frozen=True)
class SuccessRate:
    """So many of so many seeds solved it.

    >>> print(SuccessRate.of([True, True, False]))
    2/3
    >>> SuccessRate.of([]).rate is None
    True
    """

    solved: int
    seeds: int

    @classmethod
    def of(cls, verdicts: Iterable[bool]) -> SuccessRate:
        """Of one verdict for each seed."""
        each = [bool(verdict) for verdict in verdicts]
        return cls(sum(each), len(each))

    @property
    def rate(self) -> float | None:
        """k / n; None where there is no seed."""
        return self.solved / self.seeds if self.seeds else None

    @property
    def interval(self) -> tuple[float, float]:
        """Wilson's 95 % interval; without a seed nothing is known: 0 to 1."""
        return wilson(self.solved, self.seeds) if self.seeds else (0.0, 1.0)

    def __str__(self) -> str:
        return f"{self.solved}/{self.seeds}" if self.seeds else "–"
