"""Many simulations over a grid, from one file: run on all cores or on a cluster, kept in a store, resumed when killed.

file      experiment.toml -> Sweep          grid     axes, ranges, products, zips, filters
points    one point and its key             inputs   what files hold, by content
work      what a worker does                outputs  the numbers that are kept
crew      who works                         running  hands out, keeps, resumes
show      rows as tables, charts as pictures
"""

from pipesim.sweep.file import Sweep, load, parse
from pipesim.sweep.outputs import METRICS
from pipesim.sweep.running import Progress, read, run
from pipesim.sweep.show import check_table, csv_text, draw, rows, write_table

__all__ = [
    "METRICS",
    "Progress",
    "Sweep",
    "check_table",
    "csv_text",
    "draw",
    "load",
    "parse",
    "read",
    "rows",
    "run",
    "write_table",
]
