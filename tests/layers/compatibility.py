"""`python tests/layers/compatibility.py --write docs/compatibility.md`: runs every behaviour and writes what came of it."""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path

import torch
from torch_behaviour import BEHAVIOURS, DIFFERENCES, ONLY, why_it_differs
from torch_modules import CELLS, errors, samples

PAGE = Path(__file__).parents[2] / "docs" / "compatibility.md"


def version() -> str:
    """torch's version without its patch: what the page was written with."""
    return ".".join(torch.__version__.split(".")[:2])


def page() -> str:
    """The whole page. Raises where a behaviour is not what `DIFFERENCES` says."""
    rows = [
        "| behaviour of torch.nn.RNN, GRU, LSTM | sg.RNN | sg.GRU | sg.LSTM | why it differs |",
        "|---|---|---|---|---|",
    ]
    for title, behaviour in BEHAVIOURS:
        found = ["–"] * len(CELLS)
        for column, cell in enumerate(CELLS):
            if cell not in ONLY.get(behaviour, CELLS):
                continue
            fault = _fault(behaviour, cell)
            if (fault is not None) != (why_it_differs(behaviour, cell) is not None):
                raise RuntimeError(
                    f"{behaviour.__name__} of {cell}: {fault or 'same, though a difference is expected'}"
                )
            found[column] = "same" if fault is None else "differs"
        rows.append(f"| {title} | {' | '.join(found)} | {DIFFERENCES.get(behaviour, '')} |")
    sampled = ", ".join(f"{cell} {len(samples(cell))}" for cell in CELLS)
    refused = ", ".join(f"{cell} {sum(1 for _ in errors(cell))}" for cell in CELLS)
    return f"""# What of torch.nn.RNN, GRU and LSTM holds here

`sg.RNN`, `sg.GRU` and `sg.LSTM` take the place of torch's layers. Each row below was run on both, in float64, with the same
weights, on the CPU with torch {version()}. The samples are those PyTorch tests its own modules with
(`torch.testing._internal.common_modules`): {sampled}; its error inputs: {refused}.

"same": outputs and gradients are equal, and code that catches torch's exception catches ours.

{chr(10).join(rows)}

Beyond torch: `alpha`, `omega`, `clip_error`, `backend`, `flow`, `record`; for `sg.RNN` also `leak` and the nonlinearities
"sigmoid" and "identity". Under torch.func, vmap, forward-mode derivatives and `is_grads_batched`, `alpha` must be 0: Ω is a
part of the backward pass of one loss. Tensor subclasses (FakeTensor, DTensor, your own) go through torch's operations and
leave no flow; a DTensor needs `alpha=0`.

This page is written by `python tests/layers/compatibility.py --write docs/compatibility.md`; a test fails where it is not what
the run gives.
"""


def _fault(behaviour: object, cell: str) -> str | None:
    assert callable(behaviour)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            behaviour(cell)
        except Exception as fault:
            return f"{type(fault).__name__}: {fault}"
    return None


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", type=Path, default=PAGE)
    parser.parse_args().write.write_text(page(), encoding="utf-8")
