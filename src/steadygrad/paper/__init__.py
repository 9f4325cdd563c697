"""The paper's figures and tables, one module each: what is computed (`data`), how it is drawn (`draw`).

printed.json has what the paper says of each: titles, claims, and the figures of its tables.
"""

import json
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

PRINTED: dict[str, Any] = json.loads((Path(__file__).parent / "printed.json").read_text(encoding="utf-8"))
FigureData = dict[str, NDArray[Any]]
"""A figure's numbers by name; those without a dimension are its scalars."""
