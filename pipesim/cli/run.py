"""pipesim run."""

import functools
from pathlib import Path
from typing import Any

import click

from pipesim.base.errors import InputError
from pipesim.cli import options
from pipesim.topologies import TOPOLOGIES


@click.command()
@click.argument("files", nargs=-1, required=True, metavar="FILE...", type=click.Path())
@click.argument("cluster", shell_complete=options.complete(lambda: TOPOLOGIES))
@click.option(
    "--format", "form", default="chakra", show_default=True, help="The files' format: chakra, or chakra(option=value)."
)
@click.option(
    "--sharing",
    type=click.Choice([name for name in options.SHARINGS if name != "channel"]),
    default="fair",
    show_default=True,
    help="How transfers use links.",
)
@click.option(
    "--transfers",
    type=click.Choice([name for name in options.TRANSFERS if name != "blocking"]),
    default="eager",
    show_default=True,
    help="When transfers start.",
)
@click.option("--engine", default="auto", show_default=True, help="Who replays: auto, event (SimPy) or compiled.")
@click.option("--gantt", type=click.Path(), help="Draw a Gantt chart to this .png, .svg or .pdf.")
@click.option("--links", is_flag=True, help="With links below the devices in the Gantt chart.")
@click.option("--links-plot", type=click.Path(), help="Draw the load of links over time.")
@click.option("--output", "-o", type=click.Path(), help="Export the timeline: .json (Perfetto), .csv or .parquet.")
@click.option("--verify", is_flag=True, help="Check the timeline from scratch against the rules of the simulation.")
@options.as_json
def run(files: tuple[str, ...], cluster: str, as_json: bool, **given: Any) -> None:
    """Replay the very run that execution traces describe, on a cluster: rank n on device n.

    Computation takes as long as was recorded; sends, receives and collectives take what the cluster's links take.

    \b
    Examples:
      pipesim run run.0.et run.1.et 'flat(2, bandwidth="10Gb/s")'
      pipesim run run.*.et 'servers(2, 4, intra="25GB/s", inter="10Gb/s")' --gantt run.png
      pipesim run run.*.et dgx1_v100 --format 'chakra(device="v100-16gb", groups="groups.json")' --json
    """
    from pipesim.analysis import metrics
    from pipesim.display import text
    from pipesim.studies import experiment

    options.check_given("without --gantt", is_there=bool(given["gantt"]), without=("links",))
    options.check_outputs(pictures=[given["gantt"], given["links_plot"]], exports=given["output"])
    with options.busy("reading", quiet=as_json):
        program = _program([Path(file) for file in files], experiment.load_cluster(cluster), given)
    timeline = options.run(program, given["engine"], quiet=as_json)
    if given["verify"]:
        timeline.verify()
    _draw(timeline, given, quiet=as_json)
    summary = metrics.summary(timeline)
    for device in summary["devices"].values():  # nothing says which microbatch a node is about
        device["peak_in_flight"] = None
    if as_json:
        options.echo_json(summary)
        return
    click.echo(text.imported_run(summary))
    if given["verify"]:
        click.echo("\nverified: the timeline obeys every rule of the simulation")


def _program(paths: list[Path], cluster: Any, given: dict[str, Any]) -> Any:
    """The program in the files, made with what --format says."""
    from pipesim.base import lookup
    from pipesim.core.program import Program
    from pipesim.importers import PROGRAMS

    function = lookup.resolve(given["form"], PROGRAMS, "format")
    for name in ("sharing", "transfers"):
        if isinstance(function, functools.partial) and name in function.keywords:
            raise InputError(f"{name} is said with --{name}, not in the brackets of the format")
    form = given["form"]
    if form.partition("(")[0].strip() in PROGRAMS:
        return function(paths, cluster, sharing=given["sharing"], transfers=given["transfers"])
    with lookup.calling(form, "format"):
        lookup.check_takes(function, "paths, cluster, sharing=, transfers=")
        made = function(paths, cluster, sharing=given["sharing"], transfers=given["transfers"])
        if not isinstance(made, Program):
            raise InputError(f"returned a {type(made).__name__}; a Program was expected")
    return made


def _draw(timeline: Any, given: dict[str, Any], *, quiet: bool) -> None:
    """The pictures and files that were asked for."""
    if not any(given[name] for name in ("gantt", "links_plot", "output")):
        return
    from pipesim.display import figures, timeline_files

    if given["gantt"]:
        figures.gantt(timeline, given["gantt"], links=given["links"])
        options.wrote(given["gantt"], "Gantt chart", quiet=quiet)
    if given["links_plot"]:
        figures.link_load(timeline, given["links_plot"])
        options.wrote(given["links_plot"], "load of links", quiet=quiet)
    if given["output"]:
        timeline_files.export(timeline, given["output"])
        options.wrote(given["output"], "timeline", quiet=quiet)
