"""pipesim plan."""

from dataclasses import replace
from pathlib import Path

import click

from pipesim.cli import failures, options, setting_options
from pipesim.studies.simulation import Simulation


@click.command(cls=setting_options.GroupedCommand)
@options.simulation(fields=options.PLANNING)
@click.option("--output", "-o", type=click.Path(), help="Also write the plan to this .json or .toml file.")
@options.require_fit
@options.as_json
def plan(simulation: Simulation, output: str | None, require_fit: bool, as_json: bool) -> None:
    """Split a model over a cluster.

    Whether the plan fits (--require-fit) is decided by simulating it as 'pipesim simulate' does by default.

    \b
    Examples:
      pipesim plan bert-large 'flat(4, bandwidth="1GB/s")'
      pipesim plan gpt2-xl dgx1_v100 --planner 'uniform(stages=4)' --json > plan.json
      pipesim simulate gpt2-xl dgx1_v100 --plan plan.json
    """
    from pipesim.base import serialisation
    from pipesim.display import text
    from pipesim.studies import results, setups

    options.check_outputs(pictures=[])
    with options.busy("planning", quiet=as_json):
        result = results.planned(simulation)
    if output:
        serialisation.save(result.plan, Path(output))
    if not as_json:  # the plan is there; its bound may take longer than planning did
        head = text.plan_head(result.plan, result.planning_s, result.costs.widths.expert)
        origin = text.origin(result.origin, result.notes)
        click.echo("\n\n".join([head, origin, text.stages(result.plan, options.terminal())]))
    with options.busy("bounding", quiet=as_json):
        bound = result.bound
    with options.busy("simulating", quiet=as_json):
        times = result.times_by_scaling
    if as_json:
        options.echo_json(result.as_data())
    else:
        click.echo(f"\n{text.plan_against(bound, times, result.interval.as_data())}")
    if require_fit:
        setup = setups.setup_of(replace(simulation, plan=result.plan))
        failures.check_fit(results.simulated(setup, simulation))
