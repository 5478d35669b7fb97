"""pipesim plan."""

from dataclasses import replace
from pathlib import Path

import click

from pipesim.cli import failures, options, setting_options
from pipesim.studies.simulation import Simulation


@click.command(cls=setting_options.GroupedCommand)
@options.simulation(fields=options.PLANNING)
@click.option("--output", "-o", type=click.Path(), help="Also write the plan to this .json or .toml file.")
@click.option(
    "--to",
    metavar="FRAMEWORK",
    help="Show the plan as arguments of megatron, megatron-bridge, torchtitan, torch or deepspeed.",
)
@options.require_fit
@options.as_json
def plan(simulation: Simulation, output: str | None, to: str | None, require_fit: bool, as_json: bool) -> None:
    """Split a model over a cluster.

    Whether the plan fits (--require-fit) is decided by simulating it as 'pipesim simulate' does by default.

    \b
    Examples:
      pipesim plan bert-large 'flat(4, bandwidth="1GB/s")'
      pipesim plan gpt2-xl dgx1_v100 --planner 'uniform(stages=4)' --json > plan.json
      pipesim plan llama3-8b 'hgx_h100(1)' --tensor 2 --pipeline 4 --to megatron
      pipesim simulate gpt2-xl dgx1_v100 --plan plan.json
    """
    from pipesim.base import serialisation
    from pipesim.display import text
    from pipesim.studies import framework_layouts, results, setups

    options.check_outputs(pictures=[])
    framework = None if to is None else framework_layouts.check_framework(to)
    with options.busy("planning", quiet=as_json):
        result = results.planned(simulation)
        found = None if framework is None else framework_layouts.convert(simulation, result.plan, framework)
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
        options.echo_json(result.as_data() | ({} if found is None else {"framework": found.as_data()}))
    else:
        click.echo(f"\n{text.plan_against(bound, times, result.interval.as_data(), result.layout_bound)}")
        if found is not None:
            click.echo(f"\n{text.converted(found.text, found.notes, found.exact_s, found.rounded_s, found.files)}")
    if require_fit:
        setup = setups.setup_of(replace(simulation, plan=result.plan))
        failures.check_fit(results.simulated(setup, simulation))
