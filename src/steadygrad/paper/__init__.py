"""The paper's figures, one module each: what is computed (`data`), how it is drawn (`draw`), what the paper says.

>>> sorted(FIGURES)
['fig2', 'fig3', 'fig4', 'fig5', 'fig6']
>>> FIGURES["fig3"].TITLE
'Bifurcation diagram of a single unit'
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Protocol, cast

from numpy.typing import NDArray

from steadygrad import checks

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FigureData = dict[str, NDArray[Any]]
"""A figure's numbers by name; those without a dimension are its scalars."""


class FigureModule(Protocol):
    """What every module of a figure offers."""

    TITLE: str
    CLAIM: str

    def data(self, *args: Any, **kwargs: Any) -> FigureData:
        """The figure's numbers, computed; no matplotlib needed."""
        ...

    def draw(self, data: FigureData) -> Figure:
        """The figure of those numbers."""
        ...


class _Figures(Mapping[str, FigureModule]):
    """The modules by name, imported when first asked for."""

    names = ("fig2", "fig3", "fig4", "fig5", "fig6")

    def __getitem__(self, name: str) -> FigureModule:
        if name not in self.names:
            raise KeyError(name)
        return cast(FigureModule, importlib.import_module(f"steadygrad.paper.{name}"))

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)


FIGURES: Mapping[str, FigureModule] = _Figures()


def figure_named(name: str) -> FigureModule:
    """The module of the figure called `name`.

    >>> figure_named("fig9")
    Traceback (most recent call last):
    ValueError: figure must be one of 'fig2', 'fig3', 'fig4', 'fig5', 'fig6', not 'fig9' (did you mean 'fig6'?)
    """
    return FIGURES[checks.one_of("figure", name, FIGURES)]
