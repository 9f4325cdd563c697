"""The pages: of a run, of a sweep, of Fig. 7 and of the tasks. Each is one HTML file with everything inside.

Those of music and text are in `natural_pages`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from steadygrad import __version__
from steadygrad.natural.saved import holds_run
from steadygrad.paper import fig7
from steadygrad.paper.tasks_table import CLAIMS
from steadygrad.report import curves, flow, natural_pages, tables
from steadygrad.report.page import Page
from steadygrad.report.table import Table
from steadygrad.sweep.cell import SWEEP, read
from steadygrad.sweep.records import collect
from steadygrad.training import files

Record = Mapping[str, Any]


def of(directory: Path) -> Page:
    """The page of whatever `directory` is: a sweep or a run."""
    directory = Path(directory)
    if (directory / SWEEP).is_file():
        return of_sweep(directory)
    if (directory / files.CONFIG).is_file():
        return natural_pages.of_run(directory) if holds_run(directory) else of_run(directory)
    raise FileNotFoundError(
        f"{directory} must be the folder of a sweep or of a run, and holds no {SWEEP} or {files.CONFIG}"
    )


def of_run(directory: Path) -> Page:
    """The page of one run: its verdict, how it learned, what its gradients did, and its settings."""
    config = files.read_config(directory)
    result = read(directory / files.RESULT)
    page = Page(f"{config.task}, {tables.span(config.length)} steps, {config.algorithm.upper()}", _verdict(result))
    seen = curves.metrics(directory)
    if len(seen["updates"]):
        page.heading("How it learned")
        page.figure(curves.draw_run(seen), "error, loss, gradient norm, Ω, spectral radius and horizon against updates")
    if (directory / files.FLOW).is_file() and (directory / files.FLOW).stat().st_size:
        _flow(page, directory)
    page.heading("Settings")
    page.table(Table(["setting", "value"], [[key, str(value)] for key, value in config.as_dict().items()], text=2))
    page.footer(f"steadygrad {(result or {}).get('version', __version__)} · {directory.name}")
    return page


def of_sweep(directory: Path) -> Page:
    """The page of a sweep: what succeeded, how every run learned, and a table of all cells."""
    about, records = read(directory / SWEEP), collect(directory)
    if any("data" in record for record in records):
        return natural_pages.of_sweep(about, records, source(records))
    solved, ended = sum(map(_solved, records)), sum(record["result"] is not None for record in records)
    failed = len(records) - ended
    left = len(about["cells"]) - len(records)
    lead = [f"{solved} of {ended} finished runs solved their task"]
    lead += [f"{failed} failed"] if failed else []
    lead += [f"{left} are left to run"] if left else []
    page = Page(f"Sweep {about['grid']}", "; ".join(lead) + ".")
    if about["command"]:
        page.command("Made by", about["command"])
    if records:
        _success(page, records)
        page.heading("By task, lengths and settings")
        page.table(tables.tasks(records, _tested(records)))
        _learning(page, directory, records)
        page.heading("Every cell")
        page.table(tables.cells(records))
        page.footer(source(records))
    return page


def of_fig7(records: Sequence[Record], command: str) -> Page:
    """The page of Fig. 7: the figure, its numbers, and the paper's claim beside what was measured."""
    page = Page(fig7.TITLE, measured(records))
    page.text(f"The paper: {fig7.CLAIM}")
    page.command("Made by", command)
    _success(page, records)
    page.heading("Every run")
    page.table(tables.cells(records))
    page.footer(source(records))
    return page


def of_tasks(records: Sequence[Record], command: str) -> Page:
    """The page of the tasks: one table, and what the paper says of each."""
    page = Page("The pathological tasks", f"{sum(map(_solved, records))} of {len(records)} runs solved their task.")
    page.command("Made by", command)
    page.table(tables.tasks(records))
    page.heading("What the paper says of SGD-CR")
    page.table(Table(["task", "claim"], [[task, claim] for task, claim in CLAIMS.items()], text=2))
    page.heading("Every run")
    page.table(tables.cells(records))
    page.footer(source(records))
    return page


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


def _learning(page: Page, directory: Path, records: Sequence[Record]) -> None:
    runs = []
    for record in records:
        if (directory / record["id"] / files.METRICS).is_file():
            title = f"{record['task']}, {tables.span(record['length'])}, {record['preset']}"
            runs.append((title, record["algorithm"], curves.metrics(directory / record["id"])))
    if runs:
        page.heading("How every run learned")
        page.figure(
            curves.draw_sweep(runs), "share of test sequences answered wrong against updates, one line for each run"
        )


def _flow(page: Page, directory: Path) -> None:
    seen = flow.read(directory)
    page.heading("What its gradients did")
    caption = "White: the error keeps its norm on the way back. Blue: it vanishes. Red: it explodes."
    page.figure(flow.draw_norms(seen), "norm of the error by lag and training time", caption)
    page.figure(flow.draw_spectrum(seen), "eigenvalues of the recurrent weights in the complex plane, by training time")


def _tested(records: Sequence[Record]) -> list[int]:
    return sorted({int(length) for record in records for length in record.get("generalisation", {})})


def _verdict(result: Mapping[str, Any] | None) -> str:
    if result is None:
        return "Still running, or interrupted: there is no verdict yet."
    how = f"after {result['updates']:,} updates ({tables.minutes(result['seconds'])} minutes)"
    wrong = f"best weights: {tables.percent(result['error'])} wrong"
    return f"Solved {how}; {wrong}." if result["solved"] else f"Not solved ({result['reason']}) {how}; {wrong}."


def _solved(record: Record) -> bool:
    return bool(record["result"] and record["result"]["solved"])


def source(records: Sequence[Record]) -> str:
    """Version, commit, machine and date, each of them once."""
    if not records:
        return f"steadygrad {__version__}"
    cpus = {f"{record['machine']['cpu']}, {record['machine']['threads']} threads" for record in records}
    versions = {f"steadygrad {record['version']}" for record in records}
    commits = {f"commit {record['commit']}" for record in records if record["commit"]}
    dates = {record["date"] for record in records}
    return " · ".join(part for each in (versions, commits, cpus, dates) for part in sorted(each))
