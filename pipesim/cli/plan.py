"""pipesim plan."""

import time
from pathlib import Path
from typing import Any

import click

from pipesim.cli import failures, options


@click.command()
@options.inputs
@options.planner
@options.sizes
@options.host_memory
@click.option("--output", "-o", type=click.Path(), help="Also write the plan to this .json or .toml file.")
@options.require_fit
@options.as_json
def plan(trace: str, cluster: str, planner: str, output: str | None, as_json: bool, **given: Any) -> None:
    """Split a model over a cluster.

    What --require-fit asks for is decided by simulating the plan as 'pipesim simulate' does by default.

    \b
    Examples:
      pipesim plan bert-large 'flat(4, bandwidth="1GB/s")'
      pipesim plan gpt2-xl dgx1_v100 --planner 'uniform(stages=4)' --json > plan.json
      pipesim simulate gpt2-xl dgx1_v100 --plan plan.json
    """
    from pipesim.analysis import bounds
    from pipesim.base import serialisation
    from pipesim.core.costs import costs_of
    from pipesim.display import text
    from pipesim.lowering import DEFAULTS, Setup, lower
    from pipesim.studies import documents, experiment

    options.check_outputs(pictures=[])
    costs = costs_of(experiment.load_trace(trace), given["microbatch_size"], scaling=given["scaling"])
    devices = experiment.load_cluster(cluster)
    began = time.perf_counter()
    with options.busy("planning", quiet=as_json):
        found = experiment.plan_with(planner, costs, devices, given["microbatches"], given["host_memory"])
    took = time.perf_counter() - began
    if output:
        serialisation.save(found, Path(output))
    chunked = max(map(len, found.chunks)) > 1
    with options.busy("bounding", quiet=as_json):
        bound = (bounds.total_work if chunked else bounds.plan_bound)(costs, devices, found.microbatches)
    with options.busy("simulating", quiet=as_json):
        by_scaling = experiment.plan_seconds_by_scaling(found, costs, devices)
    if as_json:
        options.echo_json(documents.plan_data(found, bound, took, costs.scaling, by_scaling))
    else:
        click.echo(text.plan(found, bound, took, by_scaling))
    if given["require_fit"]:
        ordered = experiment.ordered_with("one_f_one_b", found, costs, devices, DEFAULTS)
        failures.check_fit(experiment.run(lower(Setup(*ordered, costs, devices))))
