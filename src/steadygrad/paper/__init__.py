"""The paper's figures and tables, one module each: what is computed (`data`), how it is drawn (`draw`), what the paper says."""

from typing import Any

from numpy.typing import NDArray

FigureData = dict[str, NDArray[Any]]
"""A figure's numbers by name; those without a dimension are its scalars."""
