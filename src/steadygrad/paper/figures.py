"""From a figure's name to its files: the numbers, the scalars with what the paper says, and two pictures.

NAME.npz             every array of the figure's data
NAME.json            its scalars, the shapes of its arrays, title and claim, and the command that made it
NAME.png, NAME.svg   the picture, at 200 dpi and scalable
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from steadygrad import checks, plotting
from steadygrad.paper import PRINTED, FigureData, fig2, fig3, fig4, fig5, fig6
from steadygrad.provenance import commit

FIGURES: dict[str, Any] = {"fig2": fig2, "fig3": fig3, "fig4": fig4, "fig5": fig5, "fig6": fig6}
"""Modules with `data()`, which needs no matplotlib, and `draw(data)`."""
READABLE = 16  # lists of up to so many entries stand in the JSON file as well


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
    return save(name, data, module.draw(data), directory, about=about)


def save(
    name: str, data: FigureData, figure: plotting.Figure, directory: Path, *, about: Mapping[str, str | None]
) -> list[Path]:
    """Writes a figure's numbers and pictures to `directory`, which is made if it is missing, and returns the paths.

    Scalars go to the JSON file, with what `about` says, arrays to the npz file, short lists to both.
    """
    directory = Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    arrays = {key: value for key, value in data.items() if value.ndim > 0}
    record: dict[str, Any] = {
        "figure": name,
        **about,
        "scalars": {key: value.item() for key, value in data.items() if key not in arrays},
        "lists": {key: value.tolist() for key, value in arrays.items() if value.ndim == 1 and value.size <= READABLE},
        "shapes": {key: list(value.shape) for key, value in arrays.items()},
    }
    npz, text = directory / f"{name}.npz", directory / f"{name}.json"
    np.savez_compressed(npz, allow_pickle=False, **arrays)
    text.write_text(json.dumps(record, indent=2, ensure_ascii=False, allow_nan=False) + "\n", encoding="utf-8")
    return [npz, text, *plotting.save(figure, directory / name)]
