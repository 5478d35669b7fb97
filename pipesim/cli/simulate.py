"""pipesim simulate."""

from typing import TYPE_CHECKING, Any

import click

from pipesim.cli import failures, options

if TYPE_CHECKING:
    from pipesim.core.timeline import Timeline
    from pipesim.lowering import Setup

FEW = 16  # devices; above, a Gantt chart in text says little


@click.command()
@options.case
@click.option("--iterations", "-n", type=int, help="Replay so many iterations, layer times drawn from the samples.")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the draws.")
@click.option(
    "--jitter", type=float, default=0.0, help="Vary each layer's time: coefficient of variation, 0.05 is 5 %."
)
@click.option("--gantt", type=click.Path(), help="Draw a Gantt chart to this .png, .svg or .pdf.")
@click.option("--links", is_flag=True, help="With links below the devices in the Gantt chart.")
@click.option("--critical", is_flag=True, help="Outline the critical path in the Gantt chart.")
@click.option("--memory-plot", type=click.Path(), help="Draw memory over time.")
@click.option("--links-plot", type=click.Path(), help="Draw the load of links over time.")
@click.option("--output", "-o", type=click.Path(), help="Export the timeline: .json (Perfetto), .csv or .parquet.")
@click.option("--verify", is_flag=True, help="Check the timeline from scratch against the rules of the simulation.")
@options.require_fit
@options.as_json
def simulate(iterations: int | None, seed: int, jitter: float, as_json: bool, **given: Any) -> None:
    """Plan, order and replay one iteration, or many with varying times.

    \b
    Examples:
      pipesim simulate bert-large dgx1_v100 --microbatches 16 --gantt gantt.png
      pipesim simulate gpt2-xl 'servers(2, 4, intra="25GB/s", inter="10Gb/s")' --scheduler gpipe --json
      pipesim simulate bert-large 'flat(4, bandwidth="1GB/s")' --iterations 200 --jitter 0.05
      pipesim simulate bert-large dgx1_v100 --scenario slow.toml --output trace.json
      pipesim simulate bert-large dgx1_v100 --background load.csv --links-plot links.png
    """
    from pipesim.lowering import lower
    from pipesim.studies import documents, experiment

    options.check_given("without --iterations", is_there=iterations is not None, without=("seed", "jitter"))
    options.check_given("without --gantt", is_there=bool(given["gantt"]), without=("links", "critical"))
    options.check_outputs(pictures=[given[n] for n in ("gantt", "memory_plot", "links_plot")], exports=given["output"])
    case = options.make_case(given | {"as_json": as_json})
    if iterations is not None:  # refused before anything is written
        experiment.check_replay(case, iterations, seed, jitter, given["host_memory"])
    timeline = options.run(lower(case), given["engine"], quiet=as_json)
    if given["verify"]:
        timeline.verify()
    data = documents.simulation_data(case, timeline)
    if iterations is not None:
        times = experiment.replay(case, iterations, seed, jitter, given["engine"], given["host_memory"])
        with options.progress(times, iterations, "replaying", quiet=as_json) as shown:
            data["replay"] = experiment.replay_statistics(shown, seed) | {"seed": seed, "jitter": jitter}
    _draw(timeline, given, quiet=as_json)
    if as_json:
        options.echo_json(data)
    else:
        _print(case, timeline, data, verified=given["verify"])
    if given["require_fit"]:
        failures.check_fit(timeline)


def _print(case: "Setup", timeline: "Timeline", data: dict[str, Any], *, verified: bool) -> None:
    from pipesim.display import text

    click.echo(f"{text.plan(case.plan)}\n\n{text.simulation(data)}")
    if len(case.plan.devices) <= FEW:
        click.echo(f"\n{text.gantt(timeline)}")
    if "replay" in data:
        click.echo(f"\nreplayed with varying times\n{text.statistics(data['replay'])}")
    if verified:
        click.echo("\nverified: the timeline obeys every rule of the simulation")


def _draw(timeline: "Timeline", given: dict[str, Any], *, quiet: bool) -> None:
    """The pictures and files that were asked for."""
    if not any(given[name] for name in ("gantt", "memory_plot", "links_plot", "output")):
        return
    from pipesim.analysis import metrics
    from pipesim.display import figures, timeline_files

    if given["gantt"]:
        critical = metrics.critical_path(timeline).tasks if given["critical"] else None
        figures.gantt(timeline, given["gantt"], links=given["links"], critical=critical)
        options.wrote(given["gantt"], "Gantt chart", quiet=quiet)
    if given["memory_plot"]:
        figures.memory(timeline, given["memory_plot"])
        options.wrote(given["memory_plot"], "memory over time", quiet=quiet)
    if given["links_plot"]:
        figures.link_load(timeline, given["links_plot"])
        options.wrote(given["links_plot"], "load of links", quiet=quiet)
    if given["output"]:
        timeline_files.export(timeline, given["output"])
        options.wrote(given["output"], "timeline", quiet=quiet)
