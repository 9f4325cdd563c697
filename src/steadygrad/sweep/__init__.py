"""Many runs: a grid of them, one model per core or on a cluster, and their records.

    >>> from steadygrad import sweep
    >>> grid = sweep.get("smoke")
    >>> grid.cells[0].id
    'temporal-order_10_sgd_steady_seed1'

`run(grid, directory)` runs what is not finished yet, `collect(directory)` gives the records.
"""

from steadygrad.success import SuccessRate as SuccessRate
from steadygrad.success import wilson as wilson
from steadygrad.sweep.cell import Outcome as Outcome
from steadygrad.sweep.cluster import ClusterError as ClusterError
from steadygrad.sweep.cluster import Dask as Dask
from steadygrad.sweep.cluster import Ray as Ray
from steadygrad.sweep.grid import Cell as Cell
from steadygrad.sweep.grid import Grid as Grid
from steadygrad.sweep.local import Local as Local
from steadygrad.sweep.named import GRIDS as GRIDS
from steadygrad.sweep.named import get as get
from steadygrad.sweep.records import collect as collect
from steadygrad.sweep.records import read_records as read_records
from steadygrad.sweep.records import unrecorded as unrecorded
from steadygrad.sweep.records import write_records as write_records
from steadygrad.sweep.runner import run as run
