"""From a figure's name to its files: the numbers, the scalars with what the paper says, and two pictures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from steadygrad import checks, plotting
from steadygrad.paper import PRINTED, fig2, fig3, fig4, fig5, fig6
from steadygrad.provenance import commit

FIGURES: dict[str, Any] = {"fig2": fig2, "fig3": fig3, "fig4": fig4, "fig5": fig5, "fig6": fig6}
"""Modules with `data()`, which needs no matplotlib, and `draw(data)`."""


def reproduce(name: str, directory: Path) -> list[Path]:
    """Computes a figure of the paper ("fig2" … "fig6"), draws it, writes both, and returns the paths.

    >>> reproduce("fig9", Path("nowhere"))
    Traceback (most recent call last):
    ValueError: figure must be one of 'fig2', 'fig3', 'fig4', 'fig5', 'fig6', not 'fig9' (did you mean 'fig6'?)
    """
    module = FIGURES[checks.one_of("figure", name, FIGURES)]
    # Before the computing, so that a missing extra costs no time.
    plotting.require()
    data = module.data()
    about = {**PRINTED[name], "command": f"steadygrad reproduce {name}", "commit": commit()}
    return plotting.save_with_data(name, data, module.draw(data), directory, about=about)
