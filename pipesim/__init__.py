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

    base        errors cores forked shown_values checks units files arrays serialisation spelling lookup settings
                json_schema formulas tables intervals kernel_cache kernel_compiler kernels widest_paths interchangeable
                chains moved minimise worker_server
    core        sharing calibrations devices cluster_parts route_table cluster teams trace_tables trace work model
                widths costs plan plan_layout granularity members limits schedule scenario background progress
                completion legality recording recorded_run sequence_lengths program rates timeline
    lowering    plan, schedule, costs, cluster and scenario to a program
    analysis    curves critical_path metrics bottleneck channels spread trace_diff schedule_diff run_summary
                removed_causes ledger joint_samples run_variance straggler_metrics run_trace run_layers
                scores bounds
    importers*  recorders*  architectures*  topologies*      producers of inputs
    planners*  schedulers*                                   decisions
    engines*    program to timeline
    frameworks  files and arguments of training frameworks: models of Hugging Face, layouts of the others
    display     text figures timeline_files execution_traces json_data pages notebook
    studies     bundled_traces simulation loading scaled_widths varied_lengths sources origins early_compilation
                remembered_prices pricing ordering memory_fit traced_models trained_parameters setups remedies certified
                replay performance measured_runs accuracy results layout_fields layout_rounding framework_layouts
                job_options jobs measured_table calibration comparison whatif equal_stages rebuilding run_replay
                run_prediction run_cuts run_whatif validation live_validation store sweep_options sweep file_schemas
                tuning_options goodput tuning
    cli

Words:

    layer, stage      what is computed as a whole; contiguous layers on a set of devices
    chunk, replica    one of several stages on a device; one of several teams of a stage
    team, device      the GPUs that hold a replica in lock-step, named by the first of them; often a single one
    device, lane      what computes; the one thing at a time that it does
    link, route       a cable or bus; the links from one device to another
    medium            what a transfer occupies: a link's direction, both directions of a half-duplex link, a shared bus
    channel           the abstract link between two stages (sharing `channel`)
    cut               the boundary between two layers
    microbatch        what passes through the pipeline as one; an iteration trains several, and then steps
    action            a cell of a schedule: 0F2, stage 0, forward, microbatch 2
    task, span        a row of a program; the same with start and end, on a timeline
    rank, lane        the number of a device's row in a schedule; the one thing at a time that it does, in a program
    setup             plan and schedule with costs, cluster, options and scenario: what is lowered
    simulate, replay  from a program to a timeline; many iterations with drawn times
    rebuild           make a setup of a recorded run
"""

import importlib
import sys
from typing import TYPE_CHECKING, Any

from pipesim.base.moved import MOVED, Finder, moved, renamed

__version__ = "0.2.0"

if TYPE_CHECKING:
    from pipesim.analysis import metrics as metrics
    from pipesim.analysis.critical_path import CriticalPath as CriticalPath
    from pipesim.analysis.critical_path import critical_path as critical_path
    from pipesim.analysis.critical_path import slack as slack
    from pipesim.analysis.metrics import summary as summary
    from pipesim.base.errors import PipesimError as PipesimError
    from pipesim.core.cluster import Cluster as Cluster
    from pipesim.core.cluster import Device as Device
    from pipesim.core.cluster import Link as Link
    from pipesim.core.costs import Costs as Costs
    from pipesim.core.costs import costs_of as costs_of
    from pipesim.core.members import SchedulerInfo as SchedulerInfo
    from pipesim.core.model import Model as Model
    from pipesim.core.plan import Plan as Plan
    from pipesim.core.plan import Stage as Stage
    from pipesim.core.program import Program as Program
    from pipesim.core.scenario import Scenario as Scenario
    from pipesim.core.schedule import Schedule as Schedule
    from pipesim.core.timeline import Timeline as Timeline
    from pipesim.core.trace import Trace as Trace
    from pipesim.display import figures as plot  # noqa: F401 - offered below under this name
    from pipesim.display import pages as pages
    from pipesim.display.execution_traces import export_execution_traces as export_execution_traces
    from pipesim.display.figures import gantt as gantt
    from pipesim.display.figures.figure_style import FigureStyle as style  # noqa: F401, N813 - offered below so
    from pipesim.display.timeline_files import export as export_timeline  # noqa: F401 - offered below under this name
    from pipesim.engines.by_name import run as run
    from pipesim.lowering import Options as Options
    from pipesim.lowering import Setup as Setup
    from pipesim.lowering import lower as lower
    from pipesim.studies import framework_layouts as layout  # noqa: F401 - offered below under this name
    from pipesim.studies.certified import bound as bound
    from pipesim.studies.certified import layout_bound as layout_bound
    from pipesim.studies.comparison import ComparisonRow as ComparisonRow
    from pipesim.studies.comparison import compare as compare
    from pipesim.studies.jobs import Job as Job
    from pipesim.studies.jobs import simulate_jobs as simulate_jobs
    from pipesim.studies.loading import load_cluster as load_cluster
    from pipesim.studies.loading import load_plan as load_plan
    from pipesim.studies.loading import load_scenario as load_scenario
    from pipesim.studies.loading import load_trace as load_trace
    from pipesim.studies.replay import replay as replay
    from pipesim.studies.replay import replay_statistics as replay_statistics
    from pipesim.studies.results import PlanResult as PlanResult
    from pipesim.studies.results import SimulationResult as SimulationResult
    from pipesim.studies.results import find_plan as find_plan
    from pipesim.studies.results import make_plan as make_plan
    from pipesim.studies.results import make_setup as make_setup
    from pipesim.studies.results import simulate as simulate
    from pipesim.studies.simulation import Simulation as Simulation
    from pipesim.studies.sweep import load as load_sweep  # noqa: F401 - offered below under this name
    from pipesim.studies.sweep import rows as sweep_rows  # noqa: F401 - offered below under this name
    from pipesim.studies.sweep import run as run_sweep  # noqa: F401 - offered below under this name
    from pipesim.studies.tuning import TuningResult as TuningResult
    from pipesim.studies.tuning import tune as tune
    from pipesim.studies.validation import trust_report as trust_report
    from pipesim.studies.validation import validate as validate

# The public API: what `import pipesim as ps` offers, imported when it is first used.
_PUBLIC = {
    "ComparisonRow": "pipesim.studies.comparison:ComparisonRow",
    "Cluster": "pipesim.core.cluster:Cluster",
    "Costs": "pipesim.core.costs:Costs",
    "CriticalPath": "pipesim.analysis.critical_path:CriticalPath",
    "Device": "pipesim.core.cluster:Device",
    "Job": "pipesim.studies.jobs:Job",
    "Link": "pipesim.core.cluster:Link",
    "Model": "pipesim.core.model:Model",
    "Options": "pipesim.lowering:Options",
    "PipesimError": "pipesim.base.errors:PipesimError",
    "Plan": "pipesim.core.plan:Plan",
    "PlanResult": "pipesim.studies.results:PlanResult",
    "Program": "pipesim.core.program:Program",
    "Scenario": "pipesim.core.scenario:Scenario",
    "Schedule": "pipesim.core.schedule:Schedule",
    "SchedulerInfo": "pipesim.core.members:SchedulerInfo",
    "Setup": "pipesim.lowering:Setup",
    "Simulation": "pipesim.studies.simulation:Simulation",
    "SimulationResult": "pipesim.studies.results:SimulationResult",
    "Stage": "pipesim.core.plan:Stage",
    "Timeline": "pipesim.core.timeline:Timeline",
    "Trace": "pipesim.core.trace:Trace",
    "TuningResult": "pipesim.studies.tuning:TuningResult",
    "bound": "pipesim.studies.certified:bound",
    "layout_bound": "pipesim.studies.certified:layout_bound",
    "compare": "pipesim.studies.comparison:compare",
    "critical_path": "pipesim.analysis.critical_path:critical_path",
    "costs_of": "pipesim.core.costs:costs_of",
    "export_execution_traces": "pipesim.display.execution_traces:export_execution_traces",
    "export_timeline": "pipesim.display.timeline_files:export",
    "find_plan": "pipesim.studies.results:find_plan",
    "gantt": "pipesim.display.figures:gantt",
    "layout": "pipesim.studies.framework_layouts",
    "load_cluster": "pipesim.studies.loading:load_cluster",
    "load_plan": "pipesim.studies.loading:load_plan",
    "load_scenario": "pipesim.studies.loading:load_scenario",
    "load_sweep": "pipesim.studies.sweep:load",
    "load_trace": "pipesim.studies.loading:load_trace",
    "lower": "pipesim.lowering:lower",
    "make_plan": "pipesim.studies.results:make_plan",
    "make_setup": "pipesim.studies.results:make_setup",
    "metrics": "pipesim.analysis.metrics",
    "pages": "pipesim.display.pages",
    "plot": "pipesim.display.figures",
    "replay": "pipesim.studies.replay:replay",
    "replay_statistics": "pipesim.studies.replay:replay_statistics",
    "run": "pipesim.engines.by_name:run",
    "run_sweep": "pipesim.studies.sweep:run",
    "simulate": "pipesim.studies.results:simulate",
    "simulate_jobs": "pipesim.studies.jobs:simulate_jobs",
    "slack": "pipesim.analysis.critical_path:slack",
    "style": "pipesim.display.figures.figure_style:FigureStyle",
    "summary": "pipesim.analysis.metrics:summary",
    "sweep_rows": "pipesim.studies.sweep:rows",
    "tune": "pipesim.studies.tuning:tune",
    "trust_report": "pipesim.studies.validation:trust_report",
    "validate": "pipesim.studies.validation:validate",
}

sys.meta_path.insert(0, Finder())  # before those that would load a second copy from the folder of a package

__all__ = ["__version__", *_PUBLIC]  # noqa: PLE0604 - the names are text, kept in one place


_RENAMED = renamed(__name__, {"make_case": "pipesim:make_setup"}, depth=3)


def __getattr__(name: str) -> Any:  # noqa: ANN401 - any of the names above
    if name in _PUBLIC:
        module, colon, attribute = _PUBLIC[name].partition(":")
        found = importlib.import_module(module)
        return getattr(found, attribute) if colon else found
    return moved(name, depth=3) if name in MOVED else _RENAMED(name)


def __dir__() -> list[str]:
    return sorted(__all__)
