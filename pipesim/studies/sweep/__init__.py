"""Many simulations over a grid, from one file: run on all cores or on a cluster, kept in a store, resumed when killed.

file      experiment.toml -> Sweep          grid     axes, ranges, products, zips, filters
points    one point and its key             inputs   what files hold, by content
keys      the keys of all points            functions  the user's own, named in the file: checked, found, not run
worker    what a worker does                outputs  the numbers that are kept
                                            kept_values  what several points share
workers   processes and dask clusters                         dispatch hands out, keeps
running   from a sweep to its rows
show      rows as tables, charts as pictures
"""

from pipesim.studies.sweep.dispatch import Preparation, Progress
from pipesim.studies.sweep.functions import Functions
from pipesim.studies.sweep.outputs import METRICS
from pipesim.studies.sweep.running import System, read, run
from pipesim.studies.sweep.show import check_table, checked, csv_text, draw, opened, rows, write_table
from pipesim.studies.sweep.sweep_file import Sweep, load, parse

__all__ = [
    "METRICS",
    "Functions",
    "Preparation",
    "Progress",
    "Sweep",
    "System",
    "check_table",
    "checked",
    "csv_text",
    "draw",
    "load",
    "opened",
    "parse",
    "read",
    "rows",
    "run",
    "write_table",
]
