"""RESULTS.md, made of the records in results/ (GRID.jsonl, and bench.json for the speed) and of results.md, which has the text
around their tables.
"""

from __future__ import annotations

import json
import re
import statistics
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from string import Template
from typing import Any

from steadygrad import provenance
from steadygrad.paper import comparison, fig7
from steadygrad.paper.tables import TABLES, PaperTable
from steadygrad.report import tables
from steadygrad.success import grouped
from steadygrad.sweep.named import GRIDS
from steadygrad.sweep.records import read_records
from steadygrad.table import Table

OURS = "steadygrad with Ω"
COMPARED = {
    "torch.nn.RNN": "torch.nn.RNN, without Ω",
    "Ω by an RNNCell loop": "Ω by an RNNCell loop and autograd",
    "JAX scan": "a jitted JAX scan, without Ω",
}
RATIOS = {
    "Ω on / off": "a step with Ω, of one without",
    "recording on / off": "a step that records its flow, of one that does not",
}


def speed(folder: Path) -> str:
    """The table of `folder`/bench.json as Markdown; one sentence where it is missing.

    >>> speed(Path("nowhere"))
    'Not measured yet: `make bench`\\n'
    """
    path = folder / "bench.json"
    if not path.is_file():
        return "Not measured yet: `make bench`\n"
    record: Record = json.loads(path.read_text(encoding="utf-8"))
    sizes = list(record["milliseconds"])
    times = [record["milliseconds"][size] for size in sizes]
    rows = [[f"**{OURS}**", *(f"**{each[OURS]:.2f} ms**" for each in times)]]
    for name, label in COMPARED.items():
        if all(name in each for each in times):
            rows.append([label, *(f"{each[name]:.2f} ms ({each[name] / each[OURS]:.2f}×)" for each in times)])
    shares = [each[OURS] / each["torch.nn.RNN"] for each in (record["peak_bytes"][size] for size in sizes)]
    rows.append(["peak memory, of torch.nn.RNN's", *(f"{share:.2f}" for share in shares)])
    for name, label in RATIOS.items():
        if "ratios" in record:
            rows.append([label, *(f"{record['ratios'][size][name]:.2f}×" for size in sizes)])
    source = TEXTS["bench"].template.format(**record["environment"], command=record["command"])
    table = Table(["", *sizes], rows).markdown()
    return "\n".join([table, "", *_gated(record.get("gated", {})), *_training(record), source, ""])


def _gated(record: Record) -> list[str]:
    """The gated layers beside torch's, as a table; records made before they were measured have none."""
    head = ["", "time", "torch's, without Ω", "with Ω, of without", "peak memory, of torch's", "its products at peak"]
    rows: list[list[str]] = []
    for kind, size, found in ((kind, size, found) for kind, sizes in record.items() for size, found in sizes.items()):
        times = f"**{found['omega_ms']:.2f} ms**", f"{found['torch_ms']:.2f} ms ({found['times_quicker']:.2f}×)"
        shares = f"{found['omega_on_off']:.2f}×", f"{found['memory_of_torchs']:.2f}"
        at_peak = found.get("products_at_peak_ms")
        rows.append([f"**sg.{kind} with Ω**, {size}", *times, *shares, f"{at_peak:.2f} ms" if at_peak else "–"])
    said = "At peak: what the matrix products of such a step would take at the speed of torch's product of two large matrices."
    return [Table(head, rows).markdown(), "", said, ""] if record else []


def _training(record: Record) -> list[str]:
    """Of whole training updates, one sentence each; records made before they were measured have none."""
    said: list[str] = []
    if around := record.get("overhead"):
        said.append(TEXTS["overhead"].template.format(**around))
    if text := record.get("tokens"):
        said.append(TEXTS["tokens"].template.format(**text, ours=text[OURS], torchs=text["torch.nn.RNN"]))
    if watched := record.get("watch"):
        costs = {(layer, size): of["cost"] for size, layers in watched.items() for layer, of in layers.items()}
        (layer, size), most = max(costs.items(), key=lambda item: item[1])
        found = {"layer": layer, "size": size, "number": len(costs), "median": 100 * statistics.median(costs.values())}
        said.append(TEXTS["watch"].template.format(**found, most=100 * most))
    return [line for sentence in said for line in (sentence, "")]


_page, *_texts = re.split(r"<!-- text: (\w+) -->\n", (Path(__file__).parent / "results.md").read_text(encoding="utf-8"))
PAGE = Template(_page.rpartition("<!--")[0])
TEXTS = {name: Template(text.removesuffix("\n")) for name, text in zip(_texts[::2], _texts[1::2], strict=True)}
"""The page, and the texts of tables that have records, by name."""
COMMAND = "make results"
Record = Mapping[str, Any]


def render(folder: Path) -> str:
    """The page of the records in `folder`, as Markdown; a grid without records is reported as not run yet."""

    def section(table: Callable[[Any], Table], *grids: str, said: str = "", command: str = "") -> str:
        found = records(folder, *grids)
        return _made(found, *([TEXTS[said].template] if said else []), table(found)) or (
            not_run(command) if command else ""
        )

    gated = [
        section(tables.recall, "recall", command="sweep recall --budget hours --out runs/recall"),
        section(tables.gated_text, "gated_text", said="gated_text"),
        section(tables.digits, "digits", said="digits"),
    ]
    compare = "reproduce comparison --budget hours --out runs/comparison"
    return PAGE.substitute(
        claim=fig7.CLAIM,
        fig7=_by_length(records(folder, "fig7"), "reproduce fig7 --budget hours"),
        panels=_by_length(records(folder, "panels"), "sweep panels --budget hours --out runs/panels"),
        tasks=section(tables.tasks, "tasks", "ablation", "claims", command="reproduce tasks --budget hours"),
        **{name: _printed(table, records(folder, name)) for name, table in TABLES.items()},
        longest=section(tables.longest, "longest", command="sweep longest --out runs/longest"),
        recall="\n".join(filter(None, gated)),
        compared=comparison.CLAIM,
        comparison=section(tables.comparison, "comparison", said="comparison", command=compare),
        costs=(took.markdown() if (took := costs(folder)).rows else "No run is recorded yet.") + "\n",
        speed=speed(folder).removesuffix("\n"),
    )


def _by_length(found: Sequence[Record], command: str) -> str:
    made = [
        _made(mine, TEXTS["fig7"].substitute(panel=name, settings=tables.common(mine)), tables.success_by_length(mine))
        for name, mine in fig7.panels(found).items()
    ]
    return "\n".join(made) or not_run(command)


def _printed(table: PaperTable, found: Sequence[Record]) -> str:
    said = "\n".join(f"- {each}" for each in (*tables.sentences(table, found), *tables.failures(found)))
    parts = (tables.figures(table, found), said, "What it took:", tables.runs(table, found))
    more = f"{TEXTS[table.name].template} " if table.name in TEXTS else ""
    said_first = TEXTS["printed"].substitute(figures=table.figures, more=more)
    made = _made(found, said_first, *parts) or not_run(f"reproduce {table.name} --budget hours")
    return f"## {table.title}\n\nThe paper: {table.claim}\n\n{made}"


def not_run(command: str) -> str:
    """The text in place of a table without records."""
    return f"Not run yet: `steadygrad {command} --records results`\n"


def records(folder: Path, *grids: str) -> list[Record]:
    """What `folder` has of some grids; of a cell that was run twice, in two grids or two sweeps, the last record counts."""
    paths = [folder / f"{grid}.jsonl" for grid in grids]
    return list({record["id"]: record for path in paths if path.is_file() for record in read_records(path)}.values())


def _made(records: Sequence[Record], *parts: str | Table) -> str:
    """The parts of a section, and where its numbers come from in small print; nothing without records."""
    if not records:
        return ""

    def each(values: Any) -> str:
        return ", ".join(sorted({str(value) for value in values if value}))

    machines = each(f"{machine['cpu']} ({machine['threads']} threads)" for r in records if (machine := r["machine"]))
    commands = "`, `".join(provenance.merged(record["command"] for record in records if record["command"]))
    dates = sorted({record["date"] for record in records})
    days = dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"
    commit = each(record["commit"] for record in records) or "unknown"
    facts = f"{len(records)} runs, {_core_hours(records)} core-hours, {days}, on {machines}, commit {commit}"
    source = f"<sub>{facts}. Made by `{commands}`.</sub>"
    return "\n".join(f"{part.markdown() if isinstance(part, Table) else part}\n" for part in (*parts, source))


def _core_hours(records: Sequence[Record]) -> str:
    results = [record["result"] for record in records if record["result"]]
    return f"{sum(result.get('total_seconds', result['seconds']) for result in results) / 3600:.1f}"


def costs(folder: Path) -> Table:
    """What the runs of each grid took, by settings and algorithm."""
    found = {(grid, record["id"]): record for grid in GRIDS for record in records(folder, grid)}
    groups = grouped(found.items(), lambda item: (item[0][0], item[1]["preset"], item[1]["algorithm"]))
    body = [[*key, str(len(runs)), _core_hours([run for _, run in runs])] for key, runs in sorted(groups.items())]
    return Table(["grid", "settings", "algorithm", "runs", "core-hours"], body, text=3)
