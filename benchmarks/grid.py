"""Where the layer is quicker than torch.nn.RNN, and where it is not: a grid of sizes, drawn as a heat map of ratios.

Every cell of the grid is one size, number of threads, dtype and use: `training` is a forward pass and all weight gradients,
with the loss at every step; `inference` is a forward pass without gradients from a given state. Inputs have 64 features. Both
layers take turns in one process and keep the minimum of their repeats; the ratio is torch's time over ours, so above 1 ours
is quicker. A cell is left out where one pass of torch's layer would take more than `MOST_OPERATIONS` operations (about a
second here), or its states would need more than `MOST_BYTES` of memory; what is left out is said. What was measured is written
down line by line, and a run that was stopped goes on where it was. Cells are measured in an order that covers every axis
early, so that `--minutes` leaves a sample of all of it; the whole takes about a quarter of an hour on two cores.

    python benchmarks/grid.py [--write results/grid.jsonl] [--draw docs/grid.png] [--minutes 20] [--threads 1]
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import random
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

import steadygrad as sg

STEPS, BATCHES, HIDDEN = (1, 10, 100, 1000), (1, 8, 32, 256), (8, 32, 128, 512, 1024, 2048)
INPUTS = 64
MOST_OPERATIONS, MOST_BYTES = 2e10, 1 << 30
EQUAL = 0.95
"""A ratio from here on counts as equal: repeats of one measurement differ by as much."""
LONGER = 10
"""A cell below that is measured once more, for so many times as long, and that counts: most of them are a slow moment."""


@dataclass(frozen=True)
class Cell:
    use: str
    dtype: str
    threads: int
    steps: int
    batch: int
    hidden: int

    @property
    def operations(self) -> float:
        products = self.hidden * (self.hidden + INPUTS) * (3 if self.use == "training" else 1)
        return 2.0 * self.steps * self.batch * products * (2 if self.dtype == "float64" else 1)

    @property
    def is_measured(self) -> bool:
        states = self.steps * self.batch * self.hidden * (8 if self.dtype == "float64" else 4)
        return self.operations <= MOST_OPERATIONS and 4 * states <= MOST_BYTES


def cells() -> list[Cell]:
    """All of the grid, in an order of which any beginning is a sample of every axis."""
    axes = itertools.product(("inference", "training"), ("float32", "float64"), (1, 2), STEPS, BATCHES, HIDDEN)
    found = list(itertools.starmap(Cell, axes))
    random.Random(0).shuffle(found)
    return found


def left_out(of_grid: list[Cell]) -> str:
    large = [cell for cell in of_grid if not cell.is_measured]
    sizes = sorted({(cell.steps, cell.batch, cell.hidden) for cell in large})
    return f"{len(large)} cells are left out as too large: " + "; ".join(
        f"T {steps}, batch {batch}, hidden {hidden}" for steps, batch, hidden in sizes
    )


def pass_of(layer: Any, cell: Cell, values: dict[str, torch.Tensor]) -> Callable[[], Any]:
    parameters = list(layer.parameters())
    if cell.use == "training":
        return lambda: torch.autograd.grad(layer(values["inputs"])[0], parameters, values["error"])

    def infer() -> Any:
        with torch.no_grad():
            return layer(values["inputs"], values["state"])

    return infer


def measure(cell: Cell, seconds: float) -> dict[str, float]:
    """Milliseconds of both; they take turns of a few repeats, so that a slow moment of the machine meets both."""
    torch.set_num_threads(cell.threads)
    dtype = getattr(torch, cell.dtype)
    torch.manual_seed(0)
    theirs = torch.nn.RNN(INPUTS, cell.hidden, dtype=dtype)
    ours = sg.RNN(INPUTS, cell.hidden, dtype=dtype)
    torch.nn.init.orthogonal_(
        dict(theirs.named_parameters())["weight_hh_l0"]
    )  # errors that vanish into denormal numbers would be slow to multiply
    ours.load_state_dict(theirs.state_dict())
    values = {
        "inputs": torch.randn(cell.steps, cell.batch, INPUTS, dtype=dtype),
        "state": torch.randn(1, cell.batch, cell.hidden, dtype=dtype),
        "error": torch.randn(cell.steps, cell.batch, cell.hidden, dtype=dtype),
    }
    passes = {"ours": pass_of(ours, cell, values), "torch": pass_of(theirs, cell, values)}
    best = dict.fromkeys(passes, math.inf)
    for run in passes.values():
        run()
    turns = 4
    for turn, (name, run) in itertools.product(range(turns), passes.items()):
        if turn > 0 and 2 * best[name] > seconds:  # one repeat takes longer than the time of the cell
            continue
        time.sleep(0.01 if cell.threads > 1 else 0.0)  # threads of the other layer still look for work
        end = time.perf_counter() + seconds / (2 * turns)
        while True:
            begin = time.perf_counter()
            run()
            best[name] = min(best[name], time.perf_counter() - begin)
            if time.perf_counter() > end:
                break
    return {name: 1e3 * value for name, value in best.items()}


def known(path: Path | None) -> dict[Cell, float]:
    """Ratios that were measured before."""
    if path is None or not path.exists():
        return {}
    found: dict[Cell, float] = {}
    for line in path.read_text().splitlines():
        record = json.loads(line)
        ratio = record["torch"] / record["ours"]
        found[Cell(**{name: record[name] for name in Cell.__dataclass_fields__})] = ratio
    return found


def fill(found: dict[Cell, float], wanted: list[Cell], args: argparse.Namespace) -> Iterator[str]:
    """Measures what is missing; a line of progress after each cell."""
    begin = time.perf_counter()
    for done, cell in enumerate(wanted, 1):
        times = measure(cell, args.seconds)
        if times["torch"] / times["ours"] < EQUAL:
            times = measure(cell, LONGER * args.seconds)
        found[cell] = times["torch"] / times["ours"]
        if args.write:
            with args.write.open("a") as file:
                file.write(json.dumps(asdict(cell) | times) + "\n")
        spent = time.perf_counter() - begin
        left = max(0.0, min(spent / done * (len(wanted) - done), 60 * args.minutes - spent))
        yield f"{done} of {len(wanted)}, {left:.0f} s left: {shown(cell)} {found[cell]:.2f}"
        if spent > 60 * args.minutes:
            return


def shown(cell: Cell) -> str:
    size = f"T {cell.steps}, batch {cell.batch}, hidden {cell.hidden}"
    return f"{cell.use}, {cell.dtype}, {cell.threads} thread{'s' if cell.threads > 1 else ''}, {size}:"


def summary(found: dict[Cell, float]) -> str:
    slow = sorted((ratio, shown(cell)) for cell, ratio in found.items() if ratio < EQUAL)
    lines = [f"{len(found)} cells, {len(slow)} of them below {EQUAL}"]
    if found:
        middle = math.exp(sum(map(math.log, found.values())) / len(found))
        lines += [f"worst {min(found.values()):.2f}, geometric mean {middle:.2f}, best {max(found.values()):.2f}"]
    return "\n".join(lines + [f"{ratio:6.2f}  {cell}" for ratio, cell in slow])


def draw(found: dict[Cell, float], path: Path) -> None:
    """Eight panels: use × dtype × threads; rows are steps and batch, columns hidden units."""
    import matplotlib

    matplotlib.use("Agg")
    import numpy as np
    from matplotlib import pyplot as plt
    from matplotlib.colors import TwoSlopeNorm

    rows = list(itertools.product(STEPS, BATCHES))
    figure, axes = plt.subplots(2, 4, figsize=(17, 11), sharex=True, sharey=True, layout="constrained")
    panels = itertools.product(("inference", "training"), ("float32", "float64"), (1, 2))
    image = None
    for axis, (use, dtype, threads) in zip(axes.flat, panels, strict=True):
        ratios = np.array(
            [[found.get(Cell(use, dtype, threads, *row, hidden), math.nan) for hidden in HIDDEN] for row in rows]
        )
        norm = TwoSlopeNorm(0.0, math.log(1 / 4), math.log(16))
        image = axis.imshow(np.log(ratios), cmap="RdBu", norm=norm, aspect="auto")
        for row, column in itertools.product(range(len(rows)), range(len(HIDDEN))):
            ratio = ratios[row, column]
            text = "–" if math.isnan(ratio) else f"{ratio:.1f}" if ratio >= 10 else f"{ratio:.2f}"
            dark = not math.isnan(ratio) and (ratio > 6 or ratio < 0.4)
            axis.text(column, row, text, ha="center", va="center", fontsize=8, color="white" if dark else "black")
        axis.set_title(f"{use}, {dtype}, {threads} thread{'s' if threads > 1 else ''}", fontsize=11)
        axis.set_xticks(range(len(HIDDEN)), [str(hidden) for hidden in HIDDEN])
        axis.set_yticks(range(len(rows)), [f"T {steps}, B {batch}" for steps, batch in rows])
    for axis in axes[-1]:
        axis.set_xlabel("hidden units")
    assert image is not None
    bar = figure.colorbar(image, ax=axes, shrink=0.6)
    ticks = (0.25, 0.5, 1, 2, 4, 8, 16)
    bar.set_ticks([math.log(tick) for tick in ticks], labels=[f"{tick:g}×" for tick in ticks])
    figure.suptitle("sg.RNN against torch.nn.RNN: torch's time over ours (above 1 ours is quicker; – not measured)")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=0.3, help="time for each cell (default 0.3)")
    parser.add_argument("--minutes", type=float, default=math.inf, help="stop after so long; a second run goes on")
    parser.add_argument("--threads", type=int, choices=(1, 2), help="only these cells")
    parser.add_argument("--use", choices=("inference", "training"), help="only these cells")
    parser.add_argument("--dtype", choices=("float32", "float64"), help="only these cells")
    parser.add_argument("--write", type=Path, help="a file of JSON lines to add what is measured to, and to go on from")
    parser.add_argument("--draw", type=Path, help="a PNG to draw what is known in")
    args = parser.parse_args()
    found = known(args.write)
    of_grid = cells()
    print(left_out(of_grid), file=sys.stderr)
    wanted = [
        cell
        for cell in of_grid
        if cell.is_measured
        and cell not in found
        and all(getattr(args, name) in (None, getattr(cell, name)) for name in ("threads", "use", "dtype"))
    ]
    for line in fill(found, wanted, args):
        print(line, file=sys.stderr, flush=True)
    print(summary(found))
    if args.draw and found:
        draw(found, args.draw)


if __name__ == "__main__":
    main()
