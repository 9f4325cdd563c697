"""Many runs: a grid of them, one model per core or on a cluster, and their records.

    >>> from steadygrad import sweep
    >>> grid = sweep.get("smoke")
    >>> grid.cells[0].id
    'temporal-order_10_sgd_steady_seed1'

`run(grid, directory)` runs what is not finished yet, `collect(directory)` gives the records. Names are loaded when they are
first used: the command line needs the names of the grids without torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .. import names_of

if TYPE_CHECKING:
    from ..success import SuccessRate as SuccessRate
    from ..success import wilson as wilson
    from .cell import Outcome as Outcome
    from .cluster import ClusterError as ClusterError
    from .cluster import Dask as Dask
    from .cluster import Ray as Ray
    from .grid import Cell as Cell
    from .grid import Grid as Grid
    from .local import Local as Local
    from .named import GRIDS as GRIDS
    from .named import get as get
    from .records import collect as collect
    from .records import read_records as read_records
    from .records import write_records as write_records
    from .runner import run as run

__getattr__, __dir__ = names_of(
    __name__,
    {
        **dict.fromkeys(("SuccessRate", "wilson"), "..success"),
        "Outcome": ".cell",
        **dict.fromkeys(("ClusterError", "Dask", "Ray"), ".cluster"),
        **dict.fromkeys(("Cell", "Grid"), ".grid"),
        "Local": ".local",
        **dict.fromkeys(("GRIDS", "get"), ".named"),
        **dict.fromkeys(("collect", "read_records", "write_records"), ".records"),
        "run": ".runner",
    },
)
