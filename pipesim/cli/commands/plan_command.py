"""pipesim plan."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pipesim.base.errors import PipesimError
from pipesim.cli import failures, options, setting_options
from pipesim.cli.table_outputs import ShownItem, TableOutputs
from pipesim.studies.simulation import Simulation

if TYPE_CHECKING:
    from pipesim.studies.framework_layouts import ConvertedLayout
    from pipesim.studies.results import PlanResult, SimulationResult


@click.command(cls=setting_options.GroupedCommand)
@options.simulation(fields=options.PLANNING)
@click.option("--output", "-o", type=click.Path(), help="Also write the plan to this .json or .toml file.")
@click.option(
    "--to",
    metavar="FRAMEWORK",
    help="Show the plan as arguments of megatron, megatron-bridge, torchtitan, torch or deepspeed.",
)
@setting_options.options(TableOutputs, "tables")
@options.require_fit
@options.as_json
def plan(
    simulation: Simulation,
    *,
    output: str | None,
    to: str | None,
    tables: TableOutputs,
    require_fit: bool,
    as_json: bool,
) -> None:
    """Split a model over a cluster.

    Five lines first: the plan simulated as 'pipesim simulate' does by default, which decides too whether it fits
    (--require-fit); --json has the plan alone. --sort, --top and the files of a table are about its stages.

    \b
    Examples:
      pipesim plan bert-large 'flat(4, bandwidth="1GB/s")'
      pipesim plan gpt2-xl dgx1_v100 --planner 'uniform(stages=4)' --json > plan.json
      pipesim plan llama3-8b 'hgx_h100(1)' --tensor 2 --pipeline 4 --to megatron
      pipesim simulate gpt2-xl dgx1_v100 --plan plan.json
    """
    from pipesim.base import serialisation
    from pipesim.display import text
    from pipesim.studies import early_compilation, framework_layouts, results

    tables.check(as_json=as_json)
    options.check_outputs(pictures=[])
    quiet = as_json or tables.is_alone
    is_brief = quiet or tables.picks  # the plan is shown alone
    if as_json or not is_brief:
        early_compilation.compile_bounds()
    framework = None if to is None else framework_layouts.check_framework(to)
    with options.busy("planning", quiet=quiet):
        result = results.planned(simulation)
        found = None if framework is None else framework_layouts.convert(simulation, result.plan, framework)
    if output:
        serialisation.save(result.plan, Path(output))
    made: SimulationResult | PipesimError | None = None
    if require_fit or not is_brief:
        made = _simulated(simulation, result, quiet=quiet)
    if is_brief:
        framework_data = {} if found is None else {"framework": found.as_data()}
        shown = ShownItem(str, lambda: result.as_data() | framework_data, lambda: text.plan_stages(result.plan))
        tables.show(shown, as_json=as_json)
    else:
        _print(result, made)  # the plan is there; its bound may take longer than planning did
        _print_against(result, made, found)
        tables.write(*text.plan_stages(result.plan), quiet=False)
    if require_fit and isinstance(made, PipesimError):
        raise made
    if require_fit and made is not None and not isinstance(made, PipesimError):
        failures.check_fit(made)


def _simulated(simulation: Simulation, planned: "PlanResult", *, quiet: bool) -> "SimulationResult | PipesimError":
    """The plan simulated, or why it cannot be: under the schedule of every plan, or on this machine."""
    from pipesim.studies import results, setups

    try:
        with options.busy("simulating", quiet=quiet):
            return results.simulated(setups.setup_of(replace(simulation, plan=planned.plan)), simulation)
    except PipesimError as error:
        return error


def _print(planned: "PlanResult", made: "SimulationResult | PipesimError | None") -> None:
    """The answer, then the plan."""
    from pipesim.display import text

    on = options.terminal()
    if made is None or isinstance(made, PipesimError):
        answer = text.wrapped(f"not simulated: {made}", on)
    else:
        answer = text.answer(made.as_data(bound=False), on)
    head = text.plan_head(planned.plan, planned.planning_s, planned.costs.widths.expert, on)
    origin = text.origin(planned.origin, planned.notes, on)
    click.echo("\n\n".join([answer, head, origin, text.stages(planned.plan, on)]))


def _print_against(
    planned: "PlanResult", made: "SimulationResult | PipesimError | None", found: "ConvertedLayout | None"
) -> None:
    """What the plan is measured against, and its arguments for a framework."""
    from pipesim.display import text

    with options.busy("bounding", quiet=False):
        bound = planned.bound
    with options.busy("simulating", quiet=False):
        times = planned.times_by_scaling
    interval = planned.interval.as_data() if isinstance(made, PipesimError) else None  # else beside the time
    click.echo(f"\n{text.plan_against(bound, times, interval, planned.layout_bound, options.terminal())}")
    if found is not None:
        click.echo(f"\n{text.converted(found.text, found.notes, found.exact_s, found.rounded_s, found.files)}")
