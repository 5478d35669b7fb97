"""pipesim simulate."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from pipesim.base.settings import setting
from pipesim.cli import failures, options, setting_options
from pipesim.cli.commands.timeline_outputs import TimelineOutputs
from pipesim.cli.table_outputs import ShownItem, TableOutputs
from pipesim.studies.job_options import JobOptions
from pipesim.studies.simulation import Simulation

if TYPE_CHECKING:
    from pipesim.display.pages import Page
    from pipesim.studies.results import SimulationResult

FEW = 16  # devices; above, a Gantt chart in text shows little
VERIFIED = "verified: the timeline obeys every rule of the simulation"
OF_JOBS = ("devices", "share_devices", "job_iterations")
OF_ONE = (
    "iterations",
    "seed",
    "jitter",
    "draw",
    "bound",
    "ledger",
    "slack",
    "require_fit",
)  # what is of one simulation


@dataclass(frozen=True, slots=True)
class Asked:
    """What is computed and shown beside the answer."""

    verify: bool = setting(False, bool, "Check the timeline from scratch against the rules of the simulation.")
    ledger: bool = setting(
        False, bool, "Show what the iteration consists of, by cause, and how long it is without each."
    )
    slack: bool = setting(
        False, bool, "Show by how much tasks may end later without a longer iteration; --json has each task."
    )
    bound: bool = setting(False, bool, options.BOUND)
    verbose: bool = setting(False, bool, options.VERBOSE, short="v")


@click.command(cls=setting_options.GroupedCommand)
@options.simulation()
@setting_options.options(JobOptions, "jobs")
@setting_options.options(TimelineOutputs, "outputs")
@setting_options.options(Asked, "asked")
@setting_options.options(TableOutputs, "tables")
@options.require_fit
@options.as_json
def simulate(
    simulation: Simulation,
    jobs: JobOptions,
    outputs: TimelineOutputs,
    asked: Asked,
    tables: TableOutputs,
    *,
    require_fit: bool,
    as_json: bool,
) -> None:
    """Plan, order and simulate one iteration, or many with varying times.

    Five lines first: the time, the speed, the bubble, the memory, and what limits the iteration; all else with -v.
    --sort, --top and the files of a table are about its devices, or with --with about the jobs.

    \b
    Examples:
      pipesim simulate bert-large dgx1_v100 --microbatches 16 --gantt gantt.png
      pipesim simulate gpt2-xl 'servers(2, 4, intra="25GB/s", inter="10Gb/s")' --scheduler gpipe --json
      pipesim simulate --architecture gpt-6.7b 'flat(8, bandwidth="25GB/s", device="a100-80gb")' --bound
      pipesim simulate bert-large 'flat(4, bandwidth="1GB/s")' --iterations 200 --jitter 0.05
      pipesim simulate bert-large dgx1_v100 --scenario slow.toml --output trace.json
      pipesim simulate bert-large dgx1_v100 --ledger --html page.html
      pipesim simulate bert-large dgx1_v100 --sort -busy --top 3 --csv devices.csv
      pipesim simulate llama3-70b 'hgx_h100(8)' --tp 8 --pp 4 --microbatches 16 --ledger
      pipesim simulate bert-large dgx1_v100 --background load.csv --links-plot links.png
      pipesim simulate bert-large 'hgx_h100(4)' --devices 'node[01].*' --with other.toml --links-plot links.png
    """
    from pipesim.display import text
    from pipesim.studies import early_compilation

    tables.check(as_json=as_json)
    outputs.check()
    options.check_given("without --with", is_there=bool(jobs.beside), without=OF_JOBS)
    if jobs.beside:
        options.check_given("beside --with", is_there=False, without=(*OF_ONE, "critical"))
        _simulate_jobs(simulation, jobs, outputs, tables, verify=asked.verify, as_json=as_json)
        return
    quiet = as_json or tables.is_alone
    if asked.bound:
        early_compilation.compile_bounds()
    setup = options.make_setup(simulation, quiet=quiet)
    result = options.simulate(setup, simulation, quiet=quiet, verify=asked.verify)
    if asked.bound:
        with options.busy("bounding", quiet=quiet):
            result.search_bounds()
    if asked.ledger:
        with options.busy("removing causes", quiet=quiet):
            _ = result.ledger, result.replay_ledger
    shown = ShownItem(
        lambda: _text(result, asked),
        lambda: result.as_data(bound=asked.bound, ledger=asked.ledger, slack=asked.slack),
        lambda: text.device_rows(result.as_data(bound=False)),
    )
    tables.show(shown, as_json=as_json)
    outputs.write(result, page=lambda: _page(result, asked), quiet=quiet)
    if require_fit:
        failures.check_fit(result)


def _simulate_jobs(
    simulation: Simulation,
    jobs: JobOptions,
    outputs: TimelineOutputs,
    tables: TableOutputs,
    *,
    verify: bool,
    as_json: bool,
) -> None:
    """Several jobs on the cluster of the first."""
    from pipesim.display import figures, pages, text
    from pipesim.studies.jobs import of_options, simulate_jobs
    from pipesim.studies.sources import cluster_of

    quiet = as_json or tables.is_alone
    every, more = of_options(simulation, jobs)
    with options.busy("simulating", quiet=quiet):
        result = simulate_jobs(every, cluster_of(simulation), **more)
    if verify:
        result.timeline.verify()
    data = result.as_data()
    checked = [VERIFIED] if verify else []
    shown = ShownItem(lambda: "\n\n".join([text.jobs(data), *checked]), lambda: data, lambda: text.job_rows(data))
    tables.show(shown, as_json=as_json)
    groups = figures.TaskGroups(result.merged.job, result.names)
    outputs.write(result.timeline, groups, lambda: pages.jobs_page(data, result.timeline), quiet=quiet)


def _page(result: "SimulationResult", asked: Asked) -> "Page":
    from pipesim.display import pages

    return pages.simulation_page(result.as_data(bound=asked.bound, ledger=asked.ledger), result.timeline)


def _text(result: "SimulationResult", asked: Asked) -> str:
    from pipesim.display import text

    on, data = options.terminal(), result.as_data(bound=asked.bound)
    parts = [text.answer(data, on), text.origin(result.origin, result.notes, on), text.asked(data, on)]
    if asked.verbose:
        parts += [
            text.plan(result.setup.plan, expert=result.setup.costs.widths.expert, on=on),
            text.simulation(data, on=on),
        ]
        if len(result.setup.plan.devices) <= FEW:
            parts.append(text.gantt(result.timeline, columns=on.width))
    if asked.ledger:
        parts.append(text.ledger(result.ledger.as_data(), result.bound if asked.bound else None))
    if asked.slack:
        parts.append(text.slack(result.as_data(slack=True)["slack"]))
    if result.replay is not None:
        parts.append(f"iterations with varying times\n{text.statistics(result.replay)}")
    if asked.ledger and result.replay_ledger is not None:
        parts.append(f"mean of the first {result.replay_ledger['iterations']}\n{text.ledger(result.replay_ledger)}")
    if asked.verify:
        parts.append(VERIFIED)
    return "\n\n".join(filter(None, parts))
