"""The pages of music and text: of a run, of a sweep, and of Tables 1 and 2."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from steadygrad import __version__
from steadygrad.natural.saved import read_config
from steadygrad.paper.natural_tables import PaperTable
from steadygrad.report import natural, natural_curves
from steadygrad.report.page import Page
from steadygrad.report.table import Table
from steadygrad.sweep.cell import read
from steadygrad.training import files

Record = Mapping[str, Any]


def of_run(directory: Path) -> Page:
    """The page of one run on music or text: its figures, how it learned, and its settings."""
    config = read_config(directory)
    result = read(directory / files.RESULT)
    ahead = f", {config.ahead} ahead" if config.is_text else ""
    page = Page(f"{config.data}{ahead}, {config.algorithm.upper()}", _verdict(result))
    seen = natural_curves.metrics(directory)
    if len(seen["updates"]):
        merit = "bits per character" if config.is_text else "negative log-likelihood per step"
        page.heading("How it learned")
        page.figure(natural_curves.draw_run(seen, merit), f"{merit}, gradient norm, Ω and ρ against updates")
    page.heading("Settings")
    page.table(Table(["setting", "value"], [[key, str(value)] for key, value in config.as_dict().items()], text=2))
    page.footer(f"steadygrad {(result or {}).get('version', __version__)} · {directory.name}")
    return page


def of_sweep(about: Mapping[str, Any], records: Sequence[Record], source: str) -> Page:
    """The page of a sweep of music or text: the tables its records fill, and every cell.

    Args:
        about: what sweep.json says.
        records: of `steadygrad.sweep.collect`.
        source: version, commit, machine and date.
    """
    ended = sum(record["result"] is not None for record in records)
    failed, left = len(records) - ended, len(about["cells"]) - len(records)
    lead = [f"{ended} runs are finished"]
    lead += [f"{failed} failed"] if failed else []
    lead += [f"{left} are left to run"] if left else []
    page = Page(f"Sweep {about['grid']}", "; ".join(lead) + ".")
    if about["command"]:
        page.command("Made by", about["command"])
    for table in natural.TABLES.values():
        if natural.figures(table, records).rows:
            page.heading(table.title)
            _table(page, table, records)
    page.heading("Every cell")
    page.table(natural.cells(records))
    page.footer(source)
    return page


def of_table(table: PaperTable, records: Sequence[Record], command: str, source: str) -> Page:
    """The page of Table 1 or 2: our figures and the paper's, whether its order holds, and what it took.

    Args:
        table: of `report.natural.TABLES`.
        records: of `steadygrad.sweep.collect`.
        command: what made them.
        source: version, commit, machine and date.
    """
    page = Page(table.title, f"Figures are {table.figures}; lower is better.")
    page.text(f"The paper: {table.claim}")
    page.command("Made by", command)
    _table(page, table, records)
    page.heading("Every run")
    page.table(natural.cells(records))
    page.footer(source)
    return page


def _table(page: Page, table: PaperTable, records: Sequence[Record]) -> None:
    page.table(natural.figures(table, records))
    for sentence in (*natural.sentences(table, records), *natural.failures(records)):
        page.text(sentence.replace("`", ""))
    page.table(natural.runs(table, records))


def _verdict(result: Mapping[str, Any] | None) -> str:
    if result is None:
        return "Still running, or interrupted: there is no verdict yet."
    merits = ", ".join(f"{name} {result[name]:.3f}" for name in ("train", "valid", "test") if result[name] is not None)
    how = f"after {result['epochs']} epochs ({result['seconds'] / 60:.1f} minutes): {result['reason']}"
    return f"{merits or 'No figure'}, best at epoch {result['best_epoch']}; ended {how}."
