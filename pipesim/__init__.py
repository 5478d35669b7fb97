"""pipesim: how long will an iteration of pipeline-parallel training take, why, and which plan is best?

    trace  ──>  model + costs ─┐
    (recorded, imported,       ├─ planner ─> plan ─ scheduler ─> schedule ─ lower ─> program ─ engine ─> timeline
     or from a roofline)       │            (who)              (in what order)    (all that is decided     (when)
    cluster (what it runs on) ─┘                                                   before time starts)       │
                                                                        report, plot, export <─ metrics <────┘

Every arrow is one function from values to a value. Nothing downstream is written back upstream; nothing is global;
engines only add time.

Packages, top to bottom. A package imports only those above it; those marked * never each other. Within a package a
module imports only those that stand before it.

    base        errors checks units files arrays serialisation lookup formulas tables intervals kernels
                widest_paths chains moved
    core        sharing devices trace model cluster widths costs plan members limits schedule scenario background
                progress completion legality recording program rates timeline
    lowering    plan, schedule, costs, cluster and scenario to a program
    analysis    metrics curves channels spread trace_diff bounds
    importers*  recorders*  architectures*  topologies*      producers of inputs
    planners*  schedulers*                                   decisions
    engines*    program to timeline
    display     text figures timeline_files
    studies     pricing ordering experiment comparison documents whatif equal_stages rebuilding store sweep
    cli

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
import sys
from typing import TYPE_CHECKING, Any

from pipesim.base.moved import MOVED, Finder, moved

__version__ = "0.1.0"

if TYPE_CHECKING:
    from pipesim.analysis.metrics import summary as summary
    from pipesim.base.errors import PipesimError as PipesimError
    from pipesim.core.cluster import Cluster as Cluster
    from pipesim.core.costs import costs_of as costs_of
    from pipesim.core.plan import Plan as Plan
    from pipesim.core.plan import Stage as Stage
    from pipesim.core.schedule import Schedule as Schedule
    from pipesim.core.timeline import Timeline as Timeline
    from pipesim.core.trace import Trace as Trace
    from pipesim.display.figures import gantt as gantt
    from pipesim.display.timeline_files import export as export_timeline  # noqa: F401 - offered below under this name
    from pipesim.lowering import Options as Options
    from pipesim.lowering import Setup as Setup
    from pipesim.lowering import lower as lower
    from pipesim.studies.comparison import compare as compare
    from pipesim.studies.experiment import load_cluster as load_cluster
    from pipesim.studies.experiment import load_plan as load_plan
    from pipesim.studies.experiment import load_trace as load_trace
    from pipesim.studies.experiment import make_case as make_case
    from pipesim.studies.experiment import make_plan as make_plan
    from pipesim.studies.experiment import replay as replay
    from pipesim.studies.experiment import replay_statistics as replay_statistics
    from pipesim.studies.experiment import run as run
    from pipesim.studies.experiment import simulate as simulate
    from pipesim.studies.sweep import load as load_sweep  # noqa: F401 - offered below under this name
    from pipesim.studies.sweep import rows as sweep_rows  # noqa: F401 - as above
    from pipesim.studies.sweep import run as run_sweep  # noqa: F401 - as above

# The shop window: what `import pipesim as ps` offers, fetched when it is asked for.
_WINDOW = {
    "Cluster": "pipesim.core.cluster:Cluster",
    "PipesimError": "pipesim.base.errors:PipesimError",
    "Options": "pipesim.lowering:Options",
    "Plan": "pipesim.core.plan:Plan",
    "Schedule": "pipesim.core.schedule:Schedule",
    "Setup": "pipesim.lowering:Setup",
    "Stage": "pipesim.core.plan:Stage",
    "Timeline": "pipesim.core.timeline:Timeline",
    "Trace": "pipesim.core.trace:Trace",
    "compare": "pipesim.studies.comparison:compare",
    "costs_of": "pipesim.core.costs:costs_of",
    "export_timeline": "pipesim.display.timeline_files:export",
    "gantt": "pipesim.display.figures:gantt",
    "load_cluster": "pipesim.studies.experiment:load_cluster",
    "load_plan": "pipesim.studies.experiment:load_plan",
    "load_sweep": "pipesim.studies.sweep:load",
    "load_trace": "pipesim.studies.experiment:load_trace",
    "lower": "pipesim.lowering:lower",
    "make_case": "pipesim.studies.experiment:make_case",
    "make_plan": "pipesim.studies.experiment:make_plan",
    "replay": "pipesim.studies.experiment:replay",
    "replay_statistics": "pipesim.studies.experiment:replay_statistics",
    "run": "pipesim.studies.experiment:run",
    "run_sweep": "pipesim.studies.sweep:run",
    "simulate": "pipesim.studies.experiment:simulate",
    "summary": "pipesim.analysis.metrics:summary",
    "sweep_rows": "pipesim.studies.sweep:rows",
}

sys.meta_path.insert(0, Finder())  # before those that would load a second copy from the folder of a package

__all__ = ["__version__", *_WINDOW]  # noqa: PLE0604 - the names are text, kept in one place


def __getattr__(name: str) -> Any:  # noqa: ANN401 - any of the names above
    if name in MOVED:
        return moved(name, depth=3)
    if name not in _WINDOW:
        raise AttributeError(f"module 'pipesim' has no attribute {name!r}")
    module, _, attribute = _WINDOW[name].partition(":")
    return getattr(importlib.import_module(module), attribute)


def __dir__() -> list[str]:
    return sorted(__all__)
