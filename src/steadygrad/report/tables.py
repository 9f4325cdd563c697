"""Records as tables: the success of Fig. 7, the tasks, the longest sequences, Tables 1 and 2, and every cell."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import mean, median
from typing import Any

from steadygrad.experiments.problem import title
from steadygrad.paper import comparison as methods
from steadygrad.paper import fig7
from steadygrad.paper import recall as study
from steadygrad.paper import tables as printed
from steadygrad.paper.rows import CLAIMS, Row, rows
from steadygrad.paper.tables import ALGORITHMS, FIGURES, FOLDS, TOLD_APART, PaperTable, Record
from steadygrad.success import grouped, p_of_pairs
from steadygrad.table import NOTHING, Table
from steadygrad.wording import minutes, percent, span


def success_by_length(records: Sequence[Record]) -> Table:
    """Fig. 7 in numbers: k/n and Wilson's interval, a row for each algorithm, a column for each length."""
    data = fig7.data(records)
    body = []
    for row, (label, *_) in enumerate(fig7.LOOKS.values()):
        cells = zip(*(data[key][row] for key in ("solved", "seeds", "low", "high")), strict=True)
        said = (f"{k}/{n} ({100 * low:.0f}–{100 * high:.0f} %)" if n else NOTHING for k, n, low, high in cells)
        body.append([label, *said])
    return Table(["algorithm", *(f"T = {length}" for length in data["lengths"])], body)


def success_by_panel(records: Sequence[Record]) -> Table:
    """The same for every panel of the final edition, which all have the same lengths."""
    made = {name: success_by_length(mine) for name, mine in fig7.panels(records).items()}
    body = [[name, *row] for name, table in made.items() for row in table.rows]
    return Table(["settings", *next(iter(made.values())).header], body, text=2)


def tasks(records: Sequence[Record], tested: Sequence[int] = (250, 300, 400)) -> Table:
    """Each task under each preset: solved, updates, minutes, errors at the lengths `tested`, and what the paper says."""
    header = ["task", "lengths", "settings", "solved", "updates", "minutes", *(f"error at {T}" for T in tested)]
    found = rows(records)
    body = [[*_what(row), *_how(row), *(_errors(row.errors.get(T)) for T in tested)] for row in found]
    claims = [CLAIMS.get(row.problem, "") if row.label == "paper" else "" for row in found]
    if any(claims):
        header.append("the paper says")
        body = [[*row, claim] for row, claim in zip(body, claims, strict=True)]
    return Table(header, body, text=3)


def longest(records: Sequence[Record]) -> Table:
    """How long a sequence was learnt: the error at the longest length trained on, and at twice that."""
    body = []
    for row in rows(records):
        high = row.length[1]
        errors = (_errors(row.errors.get(length)) for length in (high, 2 * high))
        body.append([*_what(row), percent(row.allowed), *_how(row), *errors])
    header = ["task", "lengths", "settings", "may be wrong", "solved", "updates", "minutes"]
    return Table([*header, "error at the longest", "at twice that"], body, text=3)


def recall(records: Sequence[Record]) -> Table:
    """The study of Ω for gated cells: a line for each problem, network and delay, a column for each method."""
    entries = {}
    for row in study.rows(records):
        after = percent(row.error) + " wrong" if row.updates is None else f"{row.updates:,.0f}"
        network, method = row.more
        entries[(row.problem, study.NETWORKS[network], f"{row.length[1]:,}"), method] = f"{row.success} ({after})"
    used = {method for _, method in entries}
    across = {name: label for name, label in study.METHODS.items() if name in used}
    return Table.crossed(["problem", "network", "steps"], across, entries, text=2)


def comparison(records: Sequence[Record]) -> Table:
    """Every method on every problem: seeds that solved it, updates, minutes, horizon; or what is wrong in the end."""
    found = methods.rows(records)
    entries = {}
    for row in found:
        took = f"{percent(row.error)} wrong"
        if row.updates is not None and row.minutes is not None:
            took = f"{row.updates:,.0f} in {minutes(60 * row.minutes)} min"
        place, column = (methods.METHODS[row.preset].label,), (row.problem, row.length[1])
        entries[place, column] = f"{row.success}, {took}, {row.horizon:.0f} back"
    across = {column: f"{column[0]}, {column[1]}" for column in methods.columns(found)}
    return Table.crossed(["method"], across, entries)


def gated_text(records: Sequence[Record]) -> Table:
    """Each run of a gated network on text: with Ω or without, epochs, training and test cost."""
    body = []
    for record in records:
        config, result = record["config"], record["result"]
        name = f"{study.NETWORKS[config['network']]}, {config['hidden']} units"
        omega = f"α = {config['alpha']:g}" if "alpha" in config else "without Ω"
        costs = (f"{result[part]:.3f}" for part in ("train", "test"))
        body.append([name, omega, f"{record['seed']}", f"{result['epochs']}", *costs])
    return Table(["network", "Ω", "seed", "epochs", "train", "test"], body, text=2)


def digits(records: Sequence[Record]) -> Table:
    """Handwritten digits: for each order of the pixels and network, the share of the test set that is wrong, by α."""
    settings = grouped(records, lambda record: (record["problem"], record["config"]["network"]))
    body = []
    for (problem, network), mine in settings.items():
        for alpha, seeds in sorted(grouped(mine, lambda record: record["config"]["alpha"]).items()):
            wrong = [record["result"]["test"] for record in seeds]
            shares = f"{percent(mean(wrong))} ({percent(min(wrong))} to {percent(max(wrong))})"
            line = [problem, study.NETWORKS[network], f"{alpha:g}" if alpha else "without Ω", f"{len(wrong)}", shares]
            body.append(line)
    return Table(["data", "network", "α", "seeds", "wrong in the test set"], body, text=3)


def cells(records: Sequence[Record]) -> Table:
    """Every cell of a sweep: its result, or why it has none. Columns that no cell fills are left out."""
    columns: dict[str, Callable[[Any], str]] = {"updates": "{:,}".format, "seconds": minutes, "error": percent}
    scores = {**dict.fromkeys(FIGURES, "{:.3f}".format), "best_epoch": str, "epochs": str}
    lengths = tested(records)
    body = []
    for record in records:
        result, beyond = record["result"] or {}, record.get("generalisation", {})
        ended = f"failed: {record.get('failed')}"
        if "solved" in result:
            ended = "solved" if result["solved"] else f"not solved: {result['reason']}"
        elif result:
            ended = f"ended by {result['reason']}"
        first, last = (
            [None if result.get(name) is None else form(result[name]) for name, form in made.items()]
            for made in (columns, scores)
        )
        at = (percent(beyond[str(T)]) if str(T) in beyond else None for T in lengths)
        body.append([record["id"], ended, *first, *at, *last])
    header = ["cell", "verdict", "updates", "minutes", "wrong", *(f"at {T}" for T in lengths)]
    header += [name.replace("_", " ") for name in scores]
    used = [n for n in range(len(header)) if n < 2 or any(row[n] is not None for row in body)]
    return Table([header[n] for n in used], [[row[n] or NOTHING for n in used] for row in body], text=2)


def tested(records: Sequence[Record]) -> list[int]:
    """The lengths beyond those of training at which a record has an error."""
    return sorted({int(length) for record in records for length in record.get("generalisation", {})})


def common(records: Sequence[Record]) -> str:
    """The settings that all records share, besides a run's defaults.

    >>> common([{"config": {"lr": 0.003, "alpha": 8.0}}, {"config": {"lr": 0.003}}])
    'lr 0.003'
    """
    first, *others = (record["config"] for record in records)
    shared = {key: value for key, value in first.items() if all(other.get(key) == value for other in others)}
    return ", ".join(
        f"{key} {value:,}" if isinstance(value, int) else f"{key} {value}" for key, value in shared.items()
    )


def median_error(errors: Sequence[float] | None) -> str:
    """The median of some shares, if there are any."""
    return percent(median(errors)) if errors else NOTHING


def _what(row: Row) -> list[str]:
    return [title(row.problem), span(row.length), row.label]


def _how(row: Row) -> list[str]:
    solved = str(row.success) + (f" ({row.failed} failed)" if row.failed else "")
    if row.updates is None or row.minutes is None:
        return [solved, f"> {row.limit:,}" if row.limit else NOTHING, NOTHING]
    return [solved, f"{row.updates:,.0f}", minutes(60 * row.minutes)]


def _errors(errors: Sequence[float] | None) -> str:
    """The median, and the worst where it is another."""
    middle = median_error(errors)
    return middle if not errors or middle == percent(max(errors)) else f"{middle} (worst {percent(max(errors))})"


def figures(table: PaperTable, records: Sequence[Record]) -> Table:
    """Table 1 or 2: a row for each block, preset and fold; our figure and the paper's for each algorithm."""
    body = []
    for row in printed.rows(table, records):
        for fold in FOLDS:
            line = [row.printed.label, row.preset, fold]
            for algorithm in ALGORITHMS:
                papers = row.printed.figure(algorithm, fold)
                line += [_figure(row.figures(algorithm, fold)), NOTHING if papers is None else f"{papers:.2f}"]
            if fold in row.printed.final:
                line[-1] += f" ({row.printed.final[fold]:.2f})"
            body.append(line)
    header = [entry for name in ALGORITHMS.values() for entry in (name, "paper")]
    return Table(["", "settings", "fold", *header], body, text=3)


def runs(table: PaperTable, records: Sequence[Record]) -> Table:
    """What it took: seeds, epochs and minutes of every algorithm, block and preset."""
    body = []
    for row in printed.rows(table, records):
        for algorithm, name in ALGORITHMS.items():
            if not row.found[algorithm]:
                continue
            results = [record["result"] for record in row.found[algorithm]]
            seeds = ", ".join(str(seed) for seed in sorted(record["seed"] for record in row.found[algorithm]))
            took = mean(result["seconds"] for result in results) / 60
            epochs = [f"{mean(result[key] for result in results):.0f}" for key in ("best_epoch", "epochs")]
            # Why a run diverged is in its record.
            ended = ", ".join(sorted({result["reason"].partition(":")[0] for result in results}))
            body.append([row.printed.label, row.preset, name, ended, seeds, *epochs, f"{took:.1f}"])
    return Table(["", "settings", "algorithm", "ended by", "seeds", "best epoch", "epochs", "minutes"], body, text=4)


def _figure(seeds: Sequence[float]) -> str:
    """The mean over seeds, and their range where there are several.

    >>> _figure([3.46, 3.52, 3.43]), _figure([])
    ('3.47 (3.43–3.52)', '–')
    """
    several = f" ({min(seeds):.2f}–{max(seeds):.2f})" if len(seeds) > 1 else ""
    return f"{mean(seeds):.2f}{several}" if seeds else NOTHING


def sentences(table: PaperTable, records: Sequence[Record]) -> list[str]:
    """For each block and preset: whether the order SGD > SGD+C > SGD+CR holds, and how far it is from the paper."""
    listed = printed.rows(table, records)
    return [f"{row.printed.label}, `{row.preset}`: {_order(row)}{_paired(row)}{_against(row)}" for row in listed]


def _order(row: printed.Row) -> str:
    missing = [name for name, value in row.tested.items() if value is None]
    if missing:
        return f"the order SGD > SGD+C > SGD+CR can't be told without {' and '.join(missing)}."
    values = ", ".join(f"{name} {value:.3f}" for name, value in row.tested.items())
    seeds = row.order_by_seed
    count = f"; seed by seed in {sum(seeds)} of {len(seeds)}" if len(seeds) > 1 else ""
    verb = "holds" if row.order else "does not hold"
    alike = "".join(f"; {one} and {two} are within {TOLD_APART} of each other" for one, two in row.alike)
    return f"the order SGD > SGD+C > SGD+CR {verb} on the test split ({values}{alike}{count})."


def _paired(row: printed.Row) -> str:
    """Whether Ω makes a difference beyond the spread over seeds."""
    pairs = row.by_seed("sgd-cr", "sgd-c")
    if len(pairs) < 2:
        return ""
    apart = [ours - others for ours, others in pairs]
    found = f"{mean(apart):+.3f} ({min(apart):+.3f} to {max(apart):+.3f})".replace("-", "−")
    return f" Seed by seed SGD+CR is {found} from SGD+C: paired t-test over {len(apart)} seeds, p = {p_of_pairs(pairs):.2g}."


def _against(row: printed.Row) -> str:
    both = [(name, ours, papers) for (name, ours), papers in zip(row.tested.items(), row.printed.test, strict=True)]
    parts = [f"{name} {100 * (ours / papers - 1):+.1f} %" for name, ours, papers in both if ours and papers]
    against = f" Against the paper's test figures: {', '.join(parts).replace('-', '−')}." if parts else ""
    others = ", ".join(f"{name} {figure:.2f}" for name, figure in row.printed.others.items())
    return against + (f" Bai et al. 2018 on the same files: {others}." if others else "")


def failures(records: Sequence[Record]) -> list[str]:
    """One sentence for each run without a figure."""
    said: list[str] = []
    for record in records:
        result: Any = record["result"]
        if result is None:
            said.append(f"{record['id']} failed: {record['failed']}.")
        elif "test" in result and result["test"] is None:
            said.append(f"{record['id']} has no figure: {result['reason']}.")
    return said
