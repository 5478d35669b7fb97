"""pipesim report."""

from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pipesim.base.settings import settings_of
from pipesim.cli import failures, options, setting_options
from pipesim.cli.commands.recorded_runs import RunReading, position_of
from pipesim.studies.simulation import Simulation

if TYPE_CHECKING:
    from pipesim.display.pages import Page
    from pipesim.studies.results import SimulationResult

BY = 0.1  # how much faster each thing is made


@click.command(cls=setting_options.GroupedCommand)
@click.argument("file", type=click.Path(), metavar="RUN|SIMULATION")
@click.option("--output", "-o", type=click.Path(), default="report.html", show_default=True, help="The page (.html).")
@click.option("--bound", is_flag=True, help="Also search for the certified lower bounds of a simulation.")
@setting_options.options(RunReading, "recorded")
@options.require_fit
def report(file: str, *, output: str, bound: bool, recorded: RunReading, require_fit: bool) -> None:
    """Everything about a recorded run or a simulation in one interactive page.

    A run is what `pipesim rebuild` reads: a table of operations, dumps, timers. A simulation is a .toml or .json file
    with the fields of docs/simulation.md, or what `pipesim simulate --json` printed. The page has the timeline, the
    critical path, the ledger, and what would help most.

    \b
    Examples:
      pipesim report simulation.toml -o report.html
      pipesim report operations.parquet -o report.html
    """
    from pipesim.display import text
    from pipesim.studies import loading

    options.check_outputs(pictures=[], pages=[output])
    path = Path(file)
    if recorded.format_of([path]) is not None:
        options.check_given("for a recorded run", is_there=False, without=("bound", "require_fit"))
        page = _of_run(recorded, path)
        options.write_page(output, lambda: page, quiet=False)
        return
    options.check_given("for a simulation", is_there=False, without=tuple(settings_of(RunReading)))
    simulation = loading.load_simulation(path)
    setup = options.make_setup(simulation, quiet=False)
    result = options.simulate(setup, simulation, quiet=False)
    click.echo(text.answer(result.as_data(), options.terminal()))
    options.write_page(output, lambda: _of_simulation(result, simulation, bound=bound), quiet=False)
    if require_fit:
        failures.check_fit(result)


def _of_run(recorded: RunReading, path: Path) -> "Page":
    from pipesim.analysis import ledger
    from pipesim.base import units
    from pipesim.display import pages
    from pipesim.engines import by_name
    from pipesim.studies import run_prediction, run_replay, run_whatif

    with options.busy("replaying", quiet=False):
        run = recorded.read([path])
        position = position_of(run, recorded.step)
        data = run_replay.comparison(run_replay.replayed(run))
        steps = run_prediction.recorded_steps(run)
        ledgers = [ledger.recorded_ledger(step, by_name.makespans("compiled")) for step in steps]
        changes = [asdict(one) for one in run_whatif.changes(run, BY)]
        gains = {"iteration_time_s": units.to_s(float(run.step_ns.mean())), "gains": changes}
        more = {"ledger": ledger.mean_data(ledgers), "gains": gains}
        title = f"{Path(run.source).name}, step {run.steps[position]}"
        return pages.run_page(data, run_replay.timelines(run, position), title, more)


def _of_simulation(result: "SimulationResult", simulation: Simulation, *, bound: bool) -> "Page":
    from pipesim.display import pages
    from pipesim.studies import whatif

    data = result.as_data(bound=bound, ledger=True)
    seconds, found = whatif.gains(result.setup, BY, host_memory=simulation.host_memory)
    gains = {"iteration_time_s": seconds, "by": BY, "gains": [asdict(gain) for gain in found]}
    page = pages.simulation_page(data, result.timeline)
    return replace(page, tables=[*page.tables, pages.gains_table(gains)], notes=[pages.first_thing(gains), *page.notes])
