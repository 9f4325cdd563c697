"""The pages: of a run, of a sweep, of Fig. 7, of the tasks, of Tables 1 and 2. Each is one HTML file with everything inside."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from steadygrad import __version__
from steadygrad.analysis import history
from steadygrad.experiments import Config, Result, files
from steadygrad.experiments.config import SPLITS
from steadygrad.experiments.problem import title
from steadygrad.page import Page
from steadygrad.paper import PRINTED, comparison, fig7
from steadygrad.paper.rows import CLAIMS, Record
from steadygrad.paper.tables import TABLES, PaperTable
from steadygrad.report import curves, tables
from steadygrad.sweep.cell import STARTS, SWEEP, read
from steadygrad.sweep.records import collect
from steadygrad.table import NOTHING, Table
from steadygrad.wording import minutes, percent, span

NO_RESULT = "Still running, or interrupted: there is no result yet."


def of(directory: Path) -> Page:
    """The page of `directory`, which holds a sweep or a run."""
    directory = Path(directory)
    if (directory / SWEEP).is_file():
        return of_sweep(directory)
    if (directory / files.CONFIG).is_file():
        return of_run(directory)
    kinds = "the folder of a sweep or of a run"
    raise FileNotFoundError(f"{directory} must be {kinds}, and holds no {SWEEP} or {files.CONFIG}")


def of_run(directory: Path) -> Page:
    """The page of one run: its result, how it learned, what its gradients did, and its settings."""
    config = files.read_config(directory)
    result = Result.read(directory)
    what = _what(config) + (" steps" if config.form == "drawn" else "") or f"{config.hidden} units"
    named = f"{title(config.problem)}, {what}, {config.algorithm.upper()} with optimizer {config.optimizer}"
    page = Page(named, NO_RESULT if result is None else _verdict(result))
    seen = curves.metrics(directory)
    if len(seen["updates"]):
        page.heading("How it learned")
        unit = (read(directory / files.DATA) or {}).get("unit", "")
        score = "error" if config.form == "drawn" else f"score ({unit})"
        page.figure(curves.draw_run(seen, unit), f"{score}, loss, gradient norm, Ω, ρ and horizon against updates")
    if _holds(directory / files.FLOW):
        gradients = curves.gradients(directory)
        page.heading("What its gradients did")
        caption = "White: the error keeps its norm on the way back. Blue: it vanishes. Red: it explodes."
        page.figure(history.draw_norms(gradients), "norm of the error by lag and training time", caption)
        if np.isfinite(gradients.eigenvalues).any():
            alt = "eigenvalues of the recurrent weights in the complex plane, by training time"
            page.figure(history.draw_spectrum(gradients), alt)
    settings = [[key, str(value)] for key, value in config.as_dict().items()]
    page.table(Table(["setting", "value"], settings, text=2), "Settings")
    version = (read(directory / files.RESULT) or {}).get("version", __version__)
    page.footer(f"steadygrad {version} · {directory.name}")
    return page


def of_sweep(directory: Path) -> Page:
    """The page of a sweep: what succeeded, how every run learned, and a table of all cells."""
    about, records = read(directory / SWEEP), collect(directory)
    ended = [record for record in records if record["result"] is not None]
    drawn = [record for record in records if "length" in record]
    can_be_solved = [record for record in ended if "solved" in record["result"]]
    failed, left = len(records) - len(ended), len(about["cells"]) - len(records)
    lead = [f"{len(ended)} runs are finished"]
    if can_be_solved:
        lead = [f"{sum(map(_solved, records))} of {len(can_be_solved)} finished runs solved their problem"]
    lead += [f"{failed} failed"] if failed else []
    lead += [f"{left} are left to run"] if left else []
    page = Page(f"Sweep {about['grid']}", "; ".join(lead) + ".")
    if about["command"]:
        page.text("Made by", about["command"])
    _success(page, drawn)
    page.table(tables.tasks(drawn, tables.tested(drawn)), "By problem, lengths and settings")
    for table in TABLES.values():
        if tables.figures(table, records).rows:
            page.heading(table.title)
            _paper_table(page, table, records)
    runs = [_learned(directory / name) for name in about["cells"] if _holds(directory / name / files.METRICS)]
    if runs:
        page.heading("How every run learned")
        alt = "share of test sequences answered wrong, or validation, against updates, one line for each run"
        page.figure(curves.draw_sweep(runs), alt)
    pages = {name: f"{name}/index.html" for name in about["cells"]}
    links = {name: page if (directory / page).is_file() else f"{name}/" for name, page in pages.items()}
    page.table(tables.cells(records), "Every cell", links)
    known = {record["id"] for record in records}
    page.table(
        _unfinished([directory / name for name in about["cells"] if name not in known]), "Not finished yet", links
    )
    page.footer(source(records))
    return page


def of_grid(what: str, records: Sequence[Record], command: str) -> Page:
    """The page of what `steadygrad reproduce` swept: 'fig7', 'panels', 'tasks', 'comparison', 'table1' or 'table2'."""
    printed = {"title": "The pathological tasks", **(PRINTED[what] if what != "tasks" else {})}
    lead = f"{sum(map(_solved, records))} of {len(records)} runs solved their task."
    if what in ("fig7", "panels"):
        lead = measured(records)
    elif what in TABLES:
        lead = f"Figures are {TABLES[what].figures}; lower is better."
    page = Page(printed["title"], lead)
    if "claim" in printed:
        page.text(f"The paper: {printed['claim']}")
    page.text("Made by", command)
    if what in ("fig7", "panels"):
        _success(page, records)
    elif what == "comparison":
        page.figure(comparison.draw(comparison.rows(records)), "share of seeds that solve each problem, by method")
        page.table(tables.comparison(records))
    elif what == "tasks":
        page.table(tables.tasks(records))
        page.table(Table(["task", "claim"], list(CLAIMS.items()), text=2), "What the paper says of SGD-CR")
    else:
        _paper_table(page, TABLES[what], records)
    page.table(tables.cells(records), "Every run")
    page.footer(source(records))
    return page


def measured(records: Sequence[Record]) -> str:
    """Fig. 7 in one sentence: how far each algorithm got with all of its seeds, and beyond 20 steps with any."""
    data = fig7.data(records)
    beyond = data["lengths"] > fig7.BEYOND
    parts = []
    for (label, *_), solved, seeds in zip(fig7.LOOKS.values(), data["solved"], data["seeds"], strict=True):
        if seeds[beyond].any():
            parts.append(f"{label.split(' ')[0]} {solved[beyond].sum()} of {seeds[beyond].sum()} runs")
    measured = f"Measured beyond {fig7.BEYOND} steps: {', '.join(parts)} solved the task."
    return measured if parts else "Nothing was run yet."


def source(records: Sequence[Record]) -> str:
    """Version, commit, machine and date, each of them once."""
    if not records:
        return f"steadygrad {__version__}"
    cpus = {f"{record['machine']['cpu']}, {record['machine']['threads']} threads" for record in records}
    versions = {f"steadygrad {record['version']}" for record in records}
    commits = {f"commit {record['commit']}" for record in records if record["commit"]}
    dates = {record["date"] for record in records}
    return " · ".join(part for each in (versions, commits, cpus, dates) for part in sorted(each))


def _what(config: Config) -> str:
    """The lengths, or how far ahead a text is predicted; of music nothing."""
    if config.form == "drawn":
        return span(config.length)
    return f"{config.ahead} ahead" if config.is_text else ""


def _verdict(result: Result) -> str:
    took, best = f"({minutes(result.seconds)} minutes)", percent(result.error or 0.0)
    if result.solved is not None:
        return f"{result.verdict.capitalize()} {took}; best weights: {best} wrong."
    known = [name for name in SPLITS if getattr(result, name) is not None]
    scores = ", ".join(f"{name} {getattr(result, name):.3f}" for name in known) or "No score"
    return f"{scores}, best at epoch {result.best_epoch}; ended after {result.epochs} epochs {took}: {result.reason}."


def _success(page: Page, records: Sequence[Record]) -> None:
    """Fig. 7's picture and table, for each panel that has two lengths or more of temporal order."""
    for name, mine in fig7.panels(records).items():
        data = fig7.data(mine)
        if len(data["lengths"]) > 1:
            page.heading(f"Success against sequence length, settings “{name}”")
            alt = "share of seeds that solve temporal order against sequence length for SGD, SGD-C and SGD-CR"
            page.figure(fig7.draw(data), alt, f"Bars are Wilson's 95 % intervals. All runs: {tables.common(mine)}.")
            page.table(tables.success_by_length(mine))


def _paper_table(page: Page, table: PaperTable, records: Sequence[Record]) -> None:
    page.table(tables.figures(table, records))
    for sentence in (*tables.sentences(table, records), *tables.failures(records)):
        page.text(sentence.replace("`", ""))
    page.table(tables.runs(table, records))


def _learned(folder: Path) -> tuple[str, str, dict[str, Any]]:
    config, preset = files.read_config(folder), (read(folder / "cell.json") or {}).get("preset", "")
    parts = [title(config.problem), *filter(None, [_what(config)]), preset]
    return ", ".join(parts), config.algorithm, curves.metrics(folder)


def _unfinished(folders: Sequence[Path]) -> Table:
    """The cells of a sweep in progress that have no result yet."""
    rows = []
    for folder in folders:
        state = "running, or its worker was killed" if (folder / STARTS).is_file() else "waiting"
        lines = files.read_metrics(folder) if _holds(folder / files.METRICS) else []
        rows.append([folder.name, state, f"{lines[-1]['updates']:,}" if lines else NOTHING])
    return Table(["cell", "state", "updates"], rows, text=2)


def _holds(path: Path) -> bool:
    return path.is_file() and path.stat().st_size > 0


def _solved(record: Record) -> bool:
    return bool(record["result"] and record["result"].get("solved"))
