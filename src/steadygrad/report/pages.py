"""The pages: of a run, of a sweep, of Fig. 7, of the tasks, of Tables 1 and 2. Each is one HTML file with everything inside."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from steadygrad import __version__
from steadygrad.experiments import Config, Result, files
from steadygrad.experiments.problem import title
from steadygrad.paper import fig7
from steadygrad.paper.tables import TABLES, PaperTable
from steadygrad.paper.tasks_table import CLAIMS
from steadygrad.report import curves, flow, paper_tables, tables
from steadygrad.report.page import Page
from steadygrad.report.tables import Table
from steadygrad.sweep.cell import FAILURE, STARTS, SWEEP, read
from steadygrad.sweep.records import collect

Record = Mapping[str, Any]
NO_RESULT = "Still running, or interrupted: there is no result yet."


def of(directory: Path) -> Page:
    """The page of whatever `directory` is: a sweep or a run."""
    directory = Path(directory)
    if (directory / SWEEP).is_file():
        return of_sweep(directory)
    if (directory / files.CONFIG).is_file():
        return of_run(directory)
    raise FileNotFoundError(
        f"{directory} must be the folder of a sweep or of a run, and holds no {SWEEP} or {files.CONFIG}"
    )


def of_run(directory: Path) -> Page:
    """The page of one run: its result, how it learned, what its gradients did, and its settings."""
    config = files.read_config(directory)
    result = Result.read(directory)
    page = Page(_title(config), NO_RESULT if result is None else _verdict(result))
    seen = curves.metrics(directory)
    if len(seen["updates"]):
        page.heading("How it learned")
        unit = (read(directory / files.DATA) or {}).get("unit", "")
        what = "error" if config.form == "drawn" else f"score ({unit})"
        page.figure(curves.draw_run(seen, unit), f"{what}, loss, gradient norm, Ω, ρ and horizon against updates")
    if (directory / files.FLOW).is_file() and (directory / files.FLOW).stat().st_size:
        _flow(page, directory)
    page.heading("Settings")
    page.table(Table(["setting", "value"], [[key, str(value)] for key, value in config.as_dict().items()], text=2))
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
        page.command("Made by", about["command"])
    _success(page, drawn)
    if drawn:
        page.heading("By problem, lengths and settings")
        page.table(tables.tasks(drawn, _tested(drawn)))
    for table in TABLES.values():
        if paper_tables.figures(table, records).rows:
            page.heading(table.title)
            _paper_table(page, table, records)
    _learning(page, directory, about["cells"])
    links = {
        name: f"{name}/{'index.html' if (directory / name / 'index.html').is_file() else ''}" for name in about["cells"]
    }
    if records:
        page.heading("Every cell")
        page.table(tables.cells(records), links)
    _unfinished(page, directory, [name for name in about["cells"] if name not in {r["id"] for r in records}], links)
    page.footer(source(records))
    return page


def of_fig7(records: Sequence[Record], command: str) -> Page:
    """The page of Fig. 7: the figure, its numbers, and the paper's claim beside what was measured."""
    page = Page(fig7.TITLE, measured(records))
    page.text(f"The paper: {fig7.CLAIM}")
    page.command("Made by", command)
    _success(page, records)
    return _every_run(page, records)


def of_tasks(records: Sequence[Record], command: str) -> Page:
    """The page of the tasks: one table, and what the paper says of each."""
    page = Page("The pathological tasks", f"{sum(map(_solved, records))} of {len(records)} runs solved their task.")
    page.command("Made by", command)
    page.table(tables.tasks(records))
    page.heading("What the paper says of SGD-CR")
    page.table(Table(["task", "claim"], [[task, claim] for task, claim in CLAIMS.items()], text=2))
    return _every_run(page, records)


def of_table(table: PaperTable, records: Sequence[Record], command: str) -> Page:
    """The page of Table 1 or 2: our figures and the paper's, whether its order holds, and what it took."""
    page = Page(table.title, f"Figures are {table.figures}; lower is better.")
    page.text(f"The paper: {table.claim}")
    page.command("Made by", command)
    _paper_table(page, table, records)
    return _every_run(page, records)


def measured(records: Sequence[Record]) -> str:
    """Fig. 7 in one sentence: how far each algorithm got with all of its seeds, and beyond 20 steps with any."""
    data = fig7.data(records)
    lengths = np.asarray(data["lengths"])
    parts = []
    for row, algorithm in enumerate(fig7.ALGORITHMS):
        name = fig7.LOOKS[algorithm][0].split(" ")[0]
        solved, seeds = np.asarray(data["solved"])[row], np.asarray(data["seeds"])[row]
        beyond = (lengths > fig7.BEYOND) & (seeds > 0)
        if beyond.any():
            parts.append(f"{name} {int(solved[beyond].sum())} of {int(seeds[beyond].sum())} runs")
    return (
        f"Measured beyond {fig7.BEYOND} steps: {', '.join(parts)} solved the task." if parts else "Nothing was run yet."
    )


def source(records: Sequence[Record]) -> str:
    """Version, commit, machine and date, each of them once."""
    if not records:
        return f"steadygrad {__version__}"
    cpus = {f"{record['machine']['cpu']}, {record['machine']['threads']} threads" for record in records}
    versions = {f"steadygrad {record['version']}" for record in records}
    commits = {f"commit {record['commit']}" for record in records if record["commit"]}
    dates = {record["date"] for record in records}
    return " · ".join(part for each in (versions, commits, cpus, dates) for part in sorted(each))


def _every_run(page: Page, records: Sequence[Record]) -> Page:
    page.heading("Every run")
    page.table(tables.cells(records))
    page.footer(source(records))
    return page


def _title(config: Config) -> str:
    if config.form == "drawn":
        what = f"{tables.span(config.length)} steps"
    else:
        what = f"{config.ahead} ahead" if config.is_text else f"{config.hidden} units"
    return f"{title(config.problem)}, {what}, {config.algorithm.upper()} with optimizer {config.optimizer}"


def _verdict(result: Result) -> str:
    if result.solved is None:
        known = [(name, getattr(result, name)) for name in ("train", "valid", "test")]
        scores = ", ".join(f"{name} {value:.3f}" for name, value in known if value is not None)
        how = f"after {result.epochs} epochs ({result.seconds / 60:.1f} minutes): {result.reason}"
        return f"{scores or 'No score'}, best at epoch {result.best_epoch}; ended {how}."
    how = f"after {result.updates:,} updates ({tables.minutes(result.seconds)} minutes)"
    wrong = f"best weights: {tables.percent(result.error or 0.0)} wrong"
    return f"Solved {how}; {wrong}." if result.solved else f"Not solved ({result.reason}) {how}; {wrong}."


def _success(page: Page, records: Sequence[Record]) -> None:
    """Fig. 7's picture and table, for each preset that has two lengths or more of temporal order."""
    for preset in sorted({record["preset"] for record in records}):
        mine = [record for record in records if record["preset"] == preset]
        data = fig7.data(mine)
        if len(data["lengths"]) > 1:
            page.heading(f"Success against sequence length, settings “{preset}”")
            alt = "share of seeds that solve temporal order against sequence length for SGD, SGD-C and SGD-CR"
            page.figure(fig7.draw(data), alt, f"Bars are Wilson's 95 % intervals. All runs: {tables.common(mine)}.")
            page.table(tables.success_by_length(mine))


def _paper_table(page: Page, table: PaperTable, records: Sequence[Record]) -> None:
    page.table(paper_tables.figures(table, records))
    for sentence in (*paper_tables.sentences(table, records), *paper_tables.failures(records)):
        page.text(sentence.replace("`", ""))
    page.table(paper_tables.runs(table, records))


def _learning(page: Page, directory: Path, cells: Sequence[str]) -> None:
    runs = []
    for name in cells:
        folder = directory / name
        if not (folder / files.METRICS).is_file() or not (folder / files.METRICS).stat().st_size:
            continue
        config, preset = files.read_config(folder), (read(folder / "cell.json") or {}).get("preset", "")
        what = (
            tables.span(config.length) if config.form == "drawn" else f"{config.ahead} ahead" if config.is_text else ""
        )
        parts = [title(config.problem), *([what] if what else []), preset]
        runs.append((", ".join(parts), config.algorithm, curves.metrics(folder)))
    if runs:
        page.heading("How every run learned")
        alt = "share of test sequences answered wrong, or validation, against updates, one line for each run"
        page.figure(curves.draw_sweep(runs), alt)


def _unfinished(page: Page, directory: Path, names: Sequence[str], links: Mapping[str, str]) -> None:
    """The cells of a sweep in progress that have no result yet."""
    rows = []
    for name in names:
        folder = directory / name
        if (folder / FAILURE).is_file():
            continue
        state = "running, or its worker was killed" if (folder / STARTS).is_file() else "waiting"
        lines = files.read_lines(folder / files.METRICS) if (folder / files.METRICS).is_file() else []
        rows.append([name, state, f"{lines[-1]['updates']:,}" if lines else tables.NOTHING])
    if rows:
        page.heading("Not finished yet")
        page.table(Table(["cell", "state", "updates"], rows, text=2), links)


def _flow(page: Page, directory: Path) -> None:
    seen = flow.read(directory)
    page.heading("What its gradients did")
    caption = "White: the error keeps its norm on the way back. Blue: it vanishes. Red: it explodes."
    page.figure(flow.draw_norms(seen), "norm of the error by lag and training time", caption)
    if np.isfinite(seen.eigenvalues).any():
        alt = "eigenvalues of the recurrent weights in the complex plane, by training time"
        page.figure(flow.draw_spectrum(seen), alt)


def _tested(records: Sequence[Record]) -> list[int]:
    return sorted({int(length) for record in records for length in record.get("generalisation", {})})


def _solved(record: Record) -> bool:
    return bool(record["result"] and record["result"].get("solved"))
