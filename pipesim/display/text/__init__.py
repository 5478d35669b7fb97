"""Results as text for a terminal.

    seconds, size, rate, percent       numbers with their units
    table, facts, wrapped              rows under headers; names beside values; a line for a narrow terminal
    answer, origin                     the answer of a simulation in five lines; where its times are from, and notes
    plan, plan_head, stages            a plan: all of it, its layout, its stages
    plan_against                       what a plan is measured against
    converted, training_layout         a plan in the arguments of a framework; what such arguments state
    asked, simulation, slack           what was asked for beside an iteration; an iteration in detail; slack by device
    imported_run                       a simulated program from elsewhere
    statistics                         many iterations with varying times
    comparison, gaps, nearest_bound    planners and schedulers side by side, and beside certified bounds
    tuning                             the best layouts, and what became of the others
    gains, first_thing, run_changes    what faster hardware would save; what would change recorded steps
    jobs                               several jobs on one cluster
    ledger                             what an iteration consists of, by cause
    rebuilt                            a recorded iteration beside its simulation
    recorded_run, replayed_run         many recorded steps, and beside their simulations
    stragglers, prediction             of a recorded run: its slowdowns, and steps drawn from it
    exploration, schedule_rows         a schedule without a trace; its text form
    gallery, gantt                     all schedules in a table; a timeline as a Gantt chart
    cluster, trace, difference         a cluster, a trace, the differences of two traces
    recording, recorded_links          what was recorded of a model, and of links
    roofline_trace, calibration        a trace from data sheets, a kind of device fitted to measurements
    members, traces, models, ...       everything that has a name
    trust_report, trust_page           measured runs beside their simulations; as the page in docs/
    own_report, measured_interval      a user's measured runs; the interval beside a simulated time
    sweep_status, sweep_rows, ...      sweeps and their results
    scenario, calibrations, sweep_file files that people write

Every function returns text and takes what it shows as values; nothing is simulated here. `on` is the terminal: tables
fit its width, and have colours where it has. `columns` has tables of records, which are sorted and written to files.
"""

from pipesim.base import moved
from pipesim.display.text.answer_text import answer, origin
from pipesim.display.text.calibration_text import calibration, residuals
from pipesim.display.text.catalog_text import PEAKS_ARE, device_kinds, members, members_table, models, traces
from pipesim.display.text.cluster_text import cluster
from pipesim.display.text.comparison_text import comparison, comparison_columns, gaps, nearest_bound
from pipesim.display.text.file_text import (
    calibrated_devices,
    calibrations,
    scenario,
    scenario_parts,
    sweep_axes,
    sweep_file,
)
from pipesim.display.text.formatting import FEW, facts, percent, rate, seconds, size, table, wrapped
from pipesim.display.text.framework_text import converted, layout_stages, training_layout
from pipesim.display.text.gains_text import first_thing, gains, gains_columns, listed_gains, run_changes, run_columns
from pipesim.display.text.gantt_text import WIDTH, gantt
from pipesim.display.text.jobs_text import job_rows, jobs
from pipesim.display.text.ledger_text import ledger
from pipesim.display.text.links_text import recorded_links, transfer_times
from pipesim.display.text.model_text import model, model_layers
from pipesim.display.text.plan_text import plan, plan_against, plan_head, plan_stages, stages
from pipesim.display.text.rebuilt_text import rebuilt, rebuilt_ranks
from pipesim.display.text.recording_text import recorded_layers, recording
from pipesim.display.text.roofline_text import roofline_devices, roofline_trace
from pipesim.display.text.run_statistics_text import prediction, stragglers
from pipesim.display.text.run_text import recorded_run, replayed_run, replayed_steps
from pipesim.display.text.schedule_text import (
    changed_ranks,
    exploration,
    gallery,
    gallery_columns,
    schedule_difference,
    schedule_rows,
    schedulers_columns,
)
from pipesim.display.text.simulation_text import (
    asked,
    device_rows,
    imported_devices,
    imported_run,
    simulation,
    slack,
    statistics,
)
from pipesim.display.text.sweep_text import rows_columns, status_table, sweep_points, sweep_rows, sweep_status
from pipesim.display.text.terminal import PLAIN, Terminal
from pipesim.display.text.trace_diff_text import changed_layers, difference
from pipesim.display.text.trace_text import trace, trace_layers, trace_notes
from pipesim.display.text.tuning_text import tuning, tuning_columns, tuning_rows
from pipesim.display.text.validation_text import (
    measured_interval,
    own_columns,
    own_report,
    trust_columns,
    trust_page,
    trust_report,
    trust_rows,
)

__all__ = [
    "FEW",
    "PEAKS_ARE",
    "PLAIN",
    "WIDTH",
    "Terminal",
    "answer",
    "asked",
    "calibrated_devices",
    "calibration",
    "calibrations",
    "changed_layers",
    "changed_ranks",
    "cluster",
    "comparison",
    "comparison_columns",
    "converted",
    "device_kinds",
    "device_rows",
    "difference",
    "exploration",
    "facts",
    "first_thing",
    "gains",
    "gains_columns",
    "gallery",
    "gallery_columns",
    "gantt",
    "gaps",
    "imported_devices",
    "imported_run",
    "job_rows",
    "jobs",
    "layout_stages",
    "ledger",
    "listed_gains",
    "measured_interval",
    "members",
    "members_table",
    "model",
    "model_layers",
    "models",
    "nearest_bound",
    "origin",
    "own_columns",
    "own_report",
    "percent",
    "plan",
    "plan_against",
    "plan_head",
    "plan_stages",
    "prediction",
    "rate",
    "rebuilt",
    "rebuilt_ranks",
    "recorded_layers",
    "recorded_links",
    "recorded_run",
    "recording",
    "replayed_run",
    "replayed_steps",
    "residuals",
    "roofline_devices",
    "roofline_trace",
    "rows_columns",
    "run_changes",
    "run_columns",
    "scenario",
    "scenario_parts",
    "schedule_difference",
    "schedule_rows",
    "schedulers_columns",
    "seconds",
    "simulation",
    "size",
    "slack",
    "stages",
    "statistics",
    "status_table",
    "stragglers",
    "sweep_axes",
    "sweep_file",
    "sweep_points",
    "sweep_rows",
    "sweep_status",
    "table",
    "trace",
    "trace_layers",
    "trace_notes",
    "traces",
    "training_layout",
    "transfer_times",
    "trust_columns",
    "trust_page",
    "trust_report",
    "trust_rows",
    "tuning",
    "tuning_columns",
    "tuning_rows",
    "wrapped",
]

_NOW = {
    "headline": "origin",
    "notes": "trace_notes",
    "replayed": "rebuilt",
    "rows": "schedule_rows",
    "run": "imported_run",
}  # since 0.1
__getattr__ = moved.renamed(__name__, {old: f"{__name__}:{new}" for old, new in _NOW.items()})
