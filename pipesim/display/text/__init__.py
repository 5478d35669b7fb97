"""Results as text for a terminal.

    seconds, size, rate, percent       numbers with their units
    table, facts                       rows under headers; names beside values
    plan, simulation, imported_run     a plan, a simulated iteration, a simulated program from elsewhere
    statistics                         many iterations with varying times
    comparison, gains                  planners and schedulers side by side; what faster hardware would save
    rebuilt                            a recorded run beside its simulation
    exploration, schedule_rows         a schedule without a trace; its text form
    gallery, gantt                     all schedules in a table; a timeline as a Gantt chart
    cluster, trace, difference         a cluster, a trace, the differences of two traces

Every function returns text and takes what it shows as values; nothing is simulated here.
"""

from pipesim.base import moved
from pipesim.display.text.cluster_text import cluster
from pipesim.display.text.comparison_text import comparison
from pipesim.display.text.formatting import FEW, facts, percent, rate, seconds, size, table
from pipesim.display.text.gains_text import gains
from pipesim.display.text.gantt_text import gantt
from pipesim.display.text.plan_text import plan
from pipesim.display.text.rebuilt_text import rebuilt
from pipesim.display.text.schedule_text import exploration, gallery, schedule_rows
from pipesim.display.text.simulation_text import imported_run, simulation, statistics
from pipesim.display.text.trace_diff_text import difference
from pipesim.display.text.trace_text import trace, trace_notes

__all__ = [
    "FEW",
    "cluster",
    "comparison",
    "difference",
    "exploration",
    "facts",
    "gains",
    "gallery",
    "gantt",
    "imported_run",
    "percent",
    "plan",
    "rate",
    "rebuilt",
    "schedule_rows",
    "seconds",
    "simulation",
    "size",
    "statistics",
    "table",
    "trace",
    "trace_notes",
]

_NOW = {"notes": "trace_notes", "replayed": "rebuilt", "rows": "schedule_rows", "run": "imported_run"}  # since 0.1
__getattr__ = moved.renamed(__name__, {old: f"{__name__}:{new}" for old, new in _NOW.items()})
