"""Figures of timelines, clusters and results, for the screen and for print: .png, .svg or .pdf.

    gantt         the tasks of devices over time         gantt_grid    several of them on one time axis
    memory        bytes in use on each device           link_load     how busy each medium is
    comparison    iteration times, side by side         cluster       a topology, and its bandwidths
    layers        seconds and bytes of a trace's layers
    front         layouts by time and memory
    run_map       what each rank of a recorded run computed in each step
    chart         rows of a sweep: lines, scaling curves, bars, heat maps, boxes, distributions, small multiples

Every function returns a matplotlib figure, and writes it if a path is given. The same values make the same bytes.
"""

from pipesim.display.figures.chart import Chart
from pipesim.display.figures.chart_figure import chart
from pipesim.display.figures.cluster_map import cluster
from pipesim.display.figures.comparison_chart import comparison
from pipesim.display.figures.front_chart import front
from pipesim.display.figures.gains_chart import gains
from pipesim.display.figures.gantt_chart import gantt, gantt_grid
from pipesim.display.figures.layer_bars import layers
from pipesim.display.figures.load_chart import link_load
from pipesim.display.figures.memory_chart import memory
from pipesim.display.figures.paper import check_path
from pipesim.display.figures.run_map import run_map
from pipesim.display.figures.task_groups import TaskGroups

__all__ = [
    "Chart",
    "TaskGroups",
    "chart",
    "check_path",
    "cluster",
    "comparison",
    "front",
    "gains",
    "gantt",
    "gantt_grid",
    "layers",
    "link_load",
    "memory",
    "run_map",
]
