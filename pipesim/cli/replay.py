"""pipesim replay."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pipesim.base.errors import InputError
from pipesim.cli import options

if TYPE_CHECKING:
    from pipesim.studies.rebuilding import Rebuilt

FEW = 16  # ranks; above, Gantt charts in text say little


@click.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(), metavar="FILES...")
@click.option("--actions", help="Regular expression for ranges that are actions: groups stage, kind, microbatch.")
@click.option("--iteration", "number", type=int, help="Which iteration, from 0; default: that of median length.")
@click.option("--iteration-name", help="Regular expression for ranges that are iterations; default: ProfilerStep#1.")
@click.option(
    "--clocks",
    type=click.Choice(["auto", "recorded", "aligned"]),
    default="auto",
    show_default=True,
    help="Whether to set the clocks of ranks by who waited for whom: if they are impossible, never, always.",
)
@click.option("--layers", default="stages", show_default=True, help="Layers of TRACE: stages, ranges, modules, ...")
@click.option("--depth", type=int, help="Open so many levels of nested ranges or modules.")
@click.option("--microbatch-size", type=int, default=1, show_default=True, help="Samples in a microbatch.")
@click.option("--cluster", help="Replay on this cluster; default: links as they were felt.")
@click.option(
    "--sharing",
    type=click.Choice(options.SHARINGS),
    default="fair",
    show_default=True,
    help="How transfers use links.",
)
@click.option(
    "--transfers",
    type=click.Choice(options.TRANSFERS),
    default="eager",
    show_default=True,
    help="When transfers start.",
)
@click.option("--engine", default="auto", show_default=True, help="Who replays: auto, event (SimPy) or compiled.")
@click.option("--gantt", type=click.Path(), help="Draw recorded above replayed to this .png, .svg or .pdf.")
@click.option("--output", "-o", type=click.Path(), help="Save the times of the layers as a trace, to plan anew.")
@click.option("--save-plan", type=click.Path(), help="Save the plan that was run (.json, .toml).")
@click.option("--save-schedule", type=click.Path(), help="Save the schedule that was run (.csv, .json, .toml).")
@click.option("--save-cluster", type=click.Path(), help="Save the ranks and the links between them (.toml, .json).")
@click.option("--force", is_flag=True, help="Replace the folder of --output if it exists; files are always replaced.")
@options.as_json
def replay(files: tuple[str, ...], as_json: bool, **given: Any) -> None:
    """Rebuild a recorded iteration of a pipelined run, replay it, and hold both against each other.

    FILES are what PyTorch's profiler wrote on every rank of one pipeline (.json, .json.gz), or a folder of them. Ranges
    say who ran what: PP:0F3 (torch.distributed.pipelining), "Forward 3", 0F3, "forward stage 0 microbatch 3", or what
    --actions matches.

    \b
    Examples:
      pipesim replay rank0.json rank1.json --gantt gantt.png
      pipesim replay run/ --actions 'st(?P<stage>\\d+) (?P<kind>fwd|bwd) (?P<microbatch>\\d+)'
      pipesim replay run/ --layers modules -o recorded-trace
      pipesim plan recorded-trace 'flat(4, bandwidth="25 Gb/s")'
    """
    from pipesim.display import text
    from pipesim.importers.kineto.layer_ranges import ITERATION
    from pipesim.importers.kineto.pipelined import recording
    from pipesim.importers.kineto.stages import TimedFor
    from pipesim.lowering import Options
    from pipesim.studies import experiment, rebuilding

    saves_layers = bool(given["output"] or given["save_plan"])
    options.check_given("without --output", is_there=saves_layers, without=("layers", "depth", "microbatch_size"))
    options.check_given("without --output", is_there=bool(given["output"]), without=("force",))
    options.check_given("with --layers stages", is_there=given["layers"] != "stages", without=("depth",))
    options.check_outputs(pictures=[given["gantt"]])
    _check_suffixes(given)
    if given["output"]:
        options.check_free(given["output"], force=given["force"])
    cluster = experiment.load_cluster(given["cluster"]) if given["cluster"] else None
    paths = [Path(file) for file in files]
    with options.busy("reading", quiet=as_json):
        found = recording(
            paths[0] if len(paths) == 1 else paths,
            actions=given["actions"],
            layers=given["layers"],
            depth=given["depth"],
            iteration=given["iteration_name"] or ITERATION,
            number=given["number"],
            clocks=given["clocks"],
            timed_for=TimedFor(given["microbatch_size"]),
        )
    made = rebuilding.rebuilt(found, cluster, Options(given["sharing"], given["transfers"]), given["engine"])
    _save(made, given, quiet=as_json)
    data = rebuilding.comparison(made)
    if as_json:
        options.echo_json(data)
        return
    click.echo(text.rebuilt(data))
    if len(made.plan.devices) <= FEW:
        for name, timeline in (("recorded", made.recorded), ("replayed", made.replayed)):
            click.echo(f"\n{name}\n{text.gantt(timeline)}")


def _check_suffixes(given: dict[str, Any]) -> None:
    """Refuse names that nothing can be written to, before anything is read."""
    for name, known in (
        ("save_plan", (".json", ".toml")),
        ("save_schedule", (".csv", ".json", ".toml")),
        ("save_cluster", (".toml", ".json")),
    ):
        if given[name] and Path(given[name]).suffix not in known:
            raise InputError(f"{given[name]}: cannot be written; a file name ending in {', '.join(known)} was expected")


def _save(made: "Rebuilt", given: dict[str, Any], *, quiet: bool) -> None:
    """The files that were asked for."""
    from pipesim.base import serialisation

    if given["output"]:
        made.recording.trace.save(given["output"])
        options.wrote(given["output"], "trace", quiet=quiet)
    for name, value in (("save_plan", made.plan), ("save_cluster", made.cluster)):
        if given[name]:
            serialisation.save(value, Path(given[name]))
            options.wrote(given[name], name.removeprefix("save_"), quiet=quiet)
    if given["save_schedule"]:
        made.schedule.save(given["save_schedule"])
        options.wrote(given["save_schedule"], "schedule", quiet=quiet)
    if given["gantt"]:
        from pipesim.display import figures

        figures.gantt_grid({"recorded": made.recorded, "replayed": made.replayed}, given["gantt"])
        options.wrote(given["gantt"], "Gantt charts", quiet=quiet)
