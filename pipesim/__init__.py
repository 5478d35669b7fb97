"""pipesim: how long will an iteration of pipeline-parallel training take, why, and which plan is best?

    trace  ──>  model + costs ─┐
    (recorded, imported,       ├─ planner ─> plan ─ scheduler ─> schedule ─ lower ─> program ─ engine ─> timeline
     or from a roofline)       │            (who)              (in what order)    (all that is decided     (when)
    cluster (what it runs on) ─┘                                                   before time starts)       │
                                                                        report, plot, export <─ metrics <────┘

Every arrow is one function from values to a value. Nothing downstream is written back upstream; nothing is global;
engines only add time.

Rooms, top to bottom. A room imports only rooms above it or to its left; those marked * never each other.

    errors units files · serial lookup formulas ragged tables tracks kernels trees · devices trace model cluster
    costs spread trace_diff widths · chains plan limits schedule scenario background stepping keeping legality recording
    program lowering · rates timeline
    metrics curves channels bounds · importers* recorders* architectures* topologies* planners* schedulers* engines*
    report* plot* export* trace_report · pricing ordering experiment comparison documents whatif workbench rebuilding
    store sweep · cli

Words:

    layer, stage      what is computed as a whole; contiguous layers on a set of devices
    chunk, replica    one of several stages on a device; one of several devices of a stage
    device, lane      what computes; the one thing at a time that it does
    link, route       a cable or bus; the links from one device to another
    medium            what a transfer occupies: a link's direction, both directions of a half-duplex link, a shared bus
    channel           the abstract link between two stages (sharing `channel`)
    cut               the boundary between two layers
    microbatch        what passes through the pipeline as one; an iteration trains several, and then steps
    action            a cell of a schedule: 0F2, stage 0, forward, microbatch 2
    task, span        a row of a program; the same with start and end, on a timeline
"""

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from pipesim.cluster import Cluster as Cluster
    from pipesim.comparison import compare as compare
    from pipesim.costs import costs_of as costs_of
    from pipesim.errors import PipesimError as PipesimError
    from pipesim.experiment import load_cluster as load_cluster
    from pipesim.experiment import load_plan as load_plan
    from pipesim.experiment import load_trace as load_trace
    from pipesim.experiment import make_case as make_case
    from pipesim.experiment import make_plan as make_plan
    from pipesim.experiment import replay as replay
    from pipesim.experiment import replay_statistics as replay_statistics
    from pipesim.experiment import run as run
    from pipesim.experiment import simulate as simulate
    from pipesim.export import export as export_timeline  # noqa: F401 - offered below under this name
    from pipesim.metrics import summary as summary
    from pipesim.plan import Plan as Plan
    from pipesim.plan import Stage as Stage
    from pipesim.plot import gantt as gantt
    from pipesim.schedule import Schedule as Schedule
    from pipesim.sweep import load as load_sweep  # noqa: F401 - offered below under this name
    from pipesim.sweep import rows as sweep_rows  # noqa: F401 - as above
    from pipesim.sweep import run as run_sweep  # noqa: F401 - as above
    from pipesim.timeline import Timeline as Timeline
    from pipesim.trace import Trace as Trace

# The shop window: what `import pipesim as ps` offers, fetched when it is asked for.
_WINDOW = {
    "Cluster": "pipesim.cluster:Cluster",
    "PipesimError": "pipesim.errors:PipesimError",
    "Plan": "pipesim.plan:Plan",
    "Schedule": "pipesim.schedule:Schedule",
    "Stage": "pipesim.plan:Stage",
    "Timeline": "pipesim.timeline:Timeline",
    "Trace": "pipesim.trace:Trace",
    "compare": "pipesim.comparison:compare",
    "costs_of": "pipesim.costs:costs_of",
    "export_timeline": "pipesim.export:export",
    "gantt": "pipesim.plot:gantt",
    "load_cluster": "pipesim.experiment:load_cluster",
    "load_plan": "pipesim.experiment:load_plan",
    "load_sweep": "pipesim.sweep:load",
    "load_trace": "pipesim.experiment:load_trace",
    "make_case": "pipesim.experiment:make_case",
    "make_plan": "pipesim.experiment:make_plan",
    "replay": "pipesim.experiment:replay",
    "replay_statistics": "pipesim.experiment:replay_statistics",
    "run": "pipesim.experiment:run",
    "run_sweep": "pipesim.sweep:run",
    "simulate": "pipesim.experiment:simulate",
    "summary": "pipesim.metrics:summary",
    "sweep_rows": "pipesim.sweep:rows",
}

__all__ = ["__version__", *_WINDOW]  # noqa: PLE0604 - the names are text, kept in one place


def __getattr__(name: str) -> Any:  # noqa: ANN401 - any of the names above
    if name not in _WINDOW:
        raise AttributeError(f"module 'pipesim' has no attribute {name!r}")
    module, _, attribute = _WINDOW[name].partition(":")
    return getattr(importlib.import_module(module), attribute)


def __dir__() -> list[str]:
    return sorted(__all__)
