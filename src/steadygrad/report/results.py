"""RESULTS.md, made of the records in results/ and of nothing else.

    results/fig7.jsonl       Fig. 7
    results/tasks.jsonl      the tasks, and what is left of them without Ω or clipping (or in results/ablation.jsonl)
    results/table1.jsonl     music
    results/table2.jsonl     Penn Treebank characters
    results/longest.jsonl    past the paper
    results/recall.jsonl     Ω for gated cells; results/gated_text.jsonl on real text
    results/bench.json       the speed of a training step

The page can be made again at any time; `stale` says whether it would come out otherwise.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from steadygrad.paper import fig7
from steadygrad.paper.tables import TABLES
from steadygrad.report import tables
from steadygrad.report.page import Table
from steadygrad.sweep.records import read_records

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
    rows = [["", *sizes], ["---", *["---:"] * len(sizes)]]
    rows.append([f"**{OURS}**", *(f"**{each[OURS]:.2f} ms**" for each in times)])
    for name, label in COMPARED.items():
        if all(name in each for each in times):
            rows.append([label, *(f"{each[name]:.2f} ms ({each[name] / each[OURS]:.2f}×)" for each in times)])
    shares = [each[OURS] / each["torch.nn.RNN"] for each in (record["peak_bytes"][size] for size in sizes)]
    rows.append(["peak memory, of torch.nn.RNN's", *(f"{share:.2f}" for share in shares)])
    for name, label in RATIOS.items():
        if "ratios" in record:
            rows.append([label, *(f"{record['ratios'][size][name]:.2f}×" for size in sizes)])
    machine = record["environment"]
    source = (
        f"<sub>{machine['cpu']}, {machine['threads']} threads, kernel {machine['kernel']}, torch {machine['torch']}, "
        f"commit {machine['commit']}; float32, minimum of repeats (the last two rows: medians of steps that "
        f"alternate), all in one run: `{record['command']}`.</sub>"
    )
    return "\n".join([*("| " + " | ".join(row) + " |" for row in rows), "", *_training(record), source, ""])


def _training(record: Record) -> list[str]:
    """Of whole training updates, one sentence each; records made before they were measured have none."""
    said: list[str] = []
    for kind, sizes in record.get("gated", {}).items():
        parts = [
            f"{found['omega_ms']:.2f} ms at {size} ({found['times_quicker']:.2f} times as fast, a step with Ω takes "
            f"{found['omega_on_off']:.2f} of one without, peak memory {found['memory_of_torchs']:.2f} of torch's)"
            for size, found in sizes.items()
        ]
        said.append(f"`sg.{kind}` with Ω and recording, beside `torch.nn.{kind}` without: {' and '.join(parts)}.")
    if around := record.get("overhead"):
        said.append(
            f"A whole training update of temporal order at T 100, batch 20, hidden 50 (data, read-out, loss, clipping, "
            f"optimizer, bookkeeping) takes {around['update_ms']:.2f} ms: {around['overhead']:.2f} times its layer's "
            f"forward and backward pass with Ω, {around['layer_ms']:.2f} ms, come on top of it, on {around['threads']:.0f} "
            "thread."
        )
    if text := record.get("tokens"):
        said.append(
            f"A character model in training ({text['size']}, {text['threads']} threads), clipping and SGD included: "
            f"{text[OURS]:,.0f} tokens/s with Ω and sigmoid units, {text['ratio']:.2f} times the "
            f"{text['torch.nn.RNN']:,.0f} of torch.nn.RNN, nn.Linear and cross_entropy (tanh units: torch.nn.RNN has no "
            "sigmoid)."
        )
    if watched := record.get("watch"):
        costs = {(layer, size): of["cost"] for size, layers in watched.items() for layer, of in layers.items()}
        (layer, size), most = max(costs.items(), key=lambda item: item[1])
        said.append(
            f"`sg.watch(model, every=100)` takes at most {100 * most:.1f} % of the training time ({layer}, {size}; the median "
            f"of {len(costs)} layers and sizes of torch's and ours is {100 * statistics.median(costs.values()):.1f} %)."
        )
    return [line for sentence in said for line in (sentence, "")]


COMMAND = "make results"
HEADER = f"""<!-- Made by `{COMMAND}` from the records in results/. Do not edit: change the records, or the code. -->

# Results

Every number on this page comes from a record in [results/](results/): one line for each run, with its settings, seed,
commit and machine. A run counts as solved when at most 1 % of 10,000 fresh sequences are answered wrong (regression:
an absolute error below 0.04), as in the supplement of Pascanu, Mikolov & Bengio 2013. `k/n` are seeds that solved it;
updates and minutes are medians over them, until the first success, on one core; errors beyond the training lengths are
medians over them too, of the best weights of the whole run.
"""
FIG7 = (
    "**Settings `{}`.** Temporal order with the paper's tanh units, a model for each length; seeds that solve it, with "
    "Wilson's 95 % interval. All runs: {}."
)
TASKS = (
    "`paper` are the settings of the supplement, `steady` this library's own; both are SGD-CR, clipping and Ω. The "
    "rows below them leave Ω, clipping, or both out of `steady` and change nothing else. `fig7` is the paper's tanh "
    "network from N(0, 0.1), with momentum and lengths that grow from 50: there Ω decides. Errors are those of the "
    "seeds that solved the task, at lengths none of them was trained on.\n\n"
    "How `steady` gets there: rectified units in place of the paper's tanh, W_rec the identity at first, lengths that "
    "grow as the loss falls, Adam; and it trains on after the first success, tests the mean of the weights over the "
    "last 500 updates, and keeps the mean that errs least at twice the longest length (on sequences of its own, not "
    "those of the table). Memorization has a model for each number of blank steps, which begins as a cycle that "
    "carries its state on by one unit in every step, and stops at the first success."
)
PRINTED = (
    "Figures are {}, lower is better, each beside the paper's. `paper` are the settings of the "
    "supplement, `steady` this library's own. The weights that were best on validation count, of several seeds the "
    "one that was best on validation (in brackets, the range of all); the test split is read once, at the end."
)
LONGEST = (
    "`steady`, on lengths from 50 to the longest (memorization: on that number of blank steps alone). It begins from "
    "`hold` (W_rec the identity, inputs above 0), its rate falls as the lengths grow, gradients are clipped to a small "
    "norm, and α is smaller for sums and products. It stops once no more are wrong than may be; that is over all "
    "lengths, so the longest alone may err more often. Memorization is as in the table of the tasks."
)
RECALL = (
    "Not in the paper: Ω for GRU and LSTM. 50 units, Adam 0.001, clipping at norm 1, batches of 20, at most 5,000 "
    "updates, torch's own initial weights unless a column says otherwise; Ω has α = 1, chosen on seed 101 of 0.1, 1, 4 "
    "and 10. In brackets, the updates until success (median), or what is wrong in the end where no seed succeeds. "
    "Recall: the first of 8 tokens after so many others; chance is 87.5 % wrong. *Chrono* sets the gates' biases for a "
    "memory as long as it is told (Tallec & Ollivier 2018)."
)
GATED_TEXT = (
    "On real text, the fifth character ahead in the Penn Treebank, in bits, Ω with the same α, fixed beforehand: it does "
    "not help here."
)
SPEED = (
    "One training step, forward and backward with all weight gradients; in brackets, how many times as long it takes."
)
Record = dict[str, Any]


def render(folder: Path) -> str:
    """The page of the records in `folder`, as Markdown; what is missing there is said to be not run yet."""
    seven, tasks, longest = records(folder, "fig7"), records(folder, "tasks", "ablation"), records(folder, "longest")
    parts = [HEADER, "## Success against sequence length (Fig. 7)\n", f"The paper: {fig7.CLAIM}\n"]
    parts += [] if seven else [not_run("reproduce fig7 --budget hours")]
    for preset in sorted({record["preset"] for record in seven}):
        mine = [record for record in seven if record["preset"] == preset]
        parts += _made(mine, FIG7.format(preset, tables.common(mine)), tables.success_by_length(mine))
    parts.append("## The tasks, one model for all lengths\n")
    parts += _made(tasks, TASKS, tables.tasks(tasks)) if tasks else [not_run("reproduce tasks --budget hours")]
    for name, table in TABLES.items():
        mine = records(folder, name)
        parts += [f"## {table.title}\n", f"The paper: {table.claim}\n"]
        said = "\n".join(f"- {each}" for each in (*tables.sentences(table, mine), *tables.failures(mine)))
        shown = (tables.figures(table, mine), said, "What it took:", tables.runs(table, mine))
        missing = [not_run(f"reproduce {name} --budget hours")]
        parts += _made(mine, PRINTED.format(table.figures), *shown) if mine else missing
    parts.append("## Past the paper: the longest sequences\n")
    missing = [not_run("sweep longest --out runs/longest")]
    parts += _made(longest, LONGEST, tables.longest(longest)) if longest else missing
    parts.append("## Past the paper: Ω for GRU and LSTM\n")
    recall, missing = records(folder, "recall"), [not_run("sweep recall --budget hours --out runs/recall")]
    parts += _made(recall, RECALL, tables.recall(recall)) if recall else missing
    if text := records(folder, "gated_text"):
        parts += _made(text, GATED_TEXT, tables.gated_text(text))
    return "\n".join([*parts, "## Speed\n", f"{SPEED}\n", speed(folder)])


def stale(folder: Path, page: Path) -> bool:
    """Whether `page` is not what the records in `folder` give; a page that is not there is stale."""
    return not page.is_file() or page.read_text(encoding="utf-8") != render(folder)


def not_run(command: str) -> str:
    """What stands in place of a table without records."""
    return f"Not run yet: `steadygrad {command} --records results`\n"


def records(folder: Path, *grids: str) -> list[Record]:
    """What `folder` has of some grids."""
    paths = [folder / f"{grid}.jsonl" for grid in grids]
    return [record for path in paths if path.is_file() for record in read_records(path)]


def _made(records: Sequence[Record], *parts: str | Table) -> list[str]:
    """The parts of a section, and where its numbers come from in small print."""

    def each(values: Any) -> str:
        return ", ".join(sorted({str(value) for value in values if value}))

    machines = each(f"{machine['cpu']} ({machine['threads']} threads)" for r in records if (machine := r["machine"]))
    commands = "`, `".join(sorted({record["command"] for record in records if record["command"]}))
    dates = sorted({record["date"] for record in records})
    days = dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"
    results = [record["result"] for record in records if record["result"]]
    hours = sum(result.get("total_seconds", result["seconds"]) for result in results) / 3600
    commit = each(record["commit"] for record in records) or "unknown"
    facts = f"{len(records)} runs, {hours:.1f} core-hours, {days}, on {machines}, commit {commit}"
    source = f"<sub>{facts}. Made by `{commands}`.</sub>"
    return [f"{part.markdown() if isinstance(part, Table) else part}\n" for part in (*parts, source)]
