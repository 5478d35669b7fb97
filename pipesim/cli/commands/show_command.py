"""pipesim show."""

import textwrap
from contextlib import suppress
from pathlib import Path

import click

from pipesim.base import files, lookup
from pipesim.base.errors import InputError, quoted
from pipesim.base.settings import settings_of
from pipesim.cli import names, options, setting_options
from pipesim.cli.commands import recorded_runs, shown_files
from pipesim.cli.commands.recorded_runs import RunReading
from pipesim.topologies import TOPOLOGIES

INDENT, WIDTH = 12, 120


@click.command(cls=setting_options.GroupedCommand)
@click.argument(
    "what",
    required=False,
    shell_complete=setting_options.complete("what"),
)
@click.option(
    "--plot",
    "plot_file",
    type=click.Path(),
    help="Draw the cluster and its bandwidth matrix; of a recorded run what each rank computed in each step.",
)
@click.option(
    "--output",
    "-o",
    type=click.Path(),
    help="Write a cluster to this .toml or .json file, to edit it; draw a trace's layers, or a step of a recorded run, "
    "to this .png, .svg or .pdf.",
)
@click.option("--html", type=click.Path(), help="Write a step of a recorded run as an interactive page (.html).")
@click.option("--all", "every", is_flag=True, help="Show every layer of a trace.")
@setting_options.options(RunReading, "recorded")
@options.host_memory
@options.as_json
def show(  # noqa: C901, PLR0912, PLR0917 - a branch for each sort of argument
    what: str | None,
    plot_file: str | None,
    output: str | None,
    html: str | None,
    every: bool,
    host_memory: str | None,
    as_json: bool,
    recorded: RunReading,
) -> None:
    """What a cluster, a trace, a run, a model or another file holds, or what a name means; alone, all names by family.

    \b
    Examples:
      pipesim show
      pipesim show devices
      pipesim show 'servers(2, 8, intra="25GB/s", inter="1GB/s")' --plot cluster.png
      pipesim show dgx1_v100 --output dgx1.toml
      nvidia-smi topo -m > topo.txt; pipesim show topo.txt --plot machine.png
      pipesim show 'nvidia_smi("topo.txt", 4, "200 Gb/s", device="a100-80gb")'
      pipesim show bert-large
      pipesim show llama3-70b
      pipesim show path/to/config.json
      pipesim show plan.json
      pipesim show experiment.toml
      pipesim show zb-v
      pipesim show profile.txt --output layers.png
      pipesim show operations.parquet --plot ranks-and-steps.png --output median-step.png
    """
    from pipesim.studies import loading

    if what is not None and _is_run(what, recorded):
        options.check_given("for a recorded run", is_there=False, without=("every", "host_memory"))
        options.check_outputs(pictures=[plot_file, output], pages=[html])
        recorded_runs.show(recorded.read([Path(what)]), plot_file, output, html, recorded.step, as_json=as_json)
        return
    options.check_given("but for a recorded run", is_there=False, without=(*settings_of(RunReading), "html"))
    if what is None:
        _names(as_json=as_json)
    elif found := shown_files.shown(Path(what)):
        if plot_file or output or every:
            raise click.UsageError("only --json has an effect beside such a file", click.get_current_context())
        options.echo_json(found.data()) if as_json else click.echo(found.text())
    elif (noun := names.noun_of(what)) and not _is_there(Path(what)):
        if plot_file or output or every:
            raise click.UsageError("only --json has an effect beside a family of names", click.get_current_context())
        names.show(noun, as_json=as_json)
    elif _is_model(what):
        _refuse_pictures(plot_file, output, "a model")
        _model(what, every=every, as_json=as_json)
    elif _is_member(what):
        if plot_file or output or every:
            raise click.UsageError("only --json has an effect beside such a name", click.get_current_context())
        names.show_member(names.full(what), as_json=as_json)
    elif _is_no_name(what):
        known = [*names.FAMILIES, *(name for members in names.every().values() for name in members)]
        raise InputError(
            f"no cluster or trace is called {quoted(what)}, and nothing else; {lookup.meant(what, known)}"
            "pipesim show lists all names"
        )
    elif what in loading.bundled_traces() or _is_trace(Path(what)):
        options.check_outputs(pictures=[plot_file, output])
        _trace(what, [path for path in (plot_file, output) if path], every=every, as_json=as_json)
    else:
        if every:
            raise click.UsageError("--all has no effect for a cluster", click.get_current_context())
        options.check_outputs(pictures=[plot_file])
        _cluster(what, plot_file, output, host_memory, as_json=as_json)


def _is_run(what: str, recorded: RunReading) -> bool:
    """Whether this is a file or a folder with a recorded run."""
    return files.exists(Path(what)) and recorded.format_of([Path(what)]) is not None


def _is_there(path: Path) -> bool:
    """Whether there is a file or a trace of this name here; it comes before a family of the same name."""
    return files.is_file(path) or files.is_file(path / "trace.toml")


def _is_model(what: str) -> bool:
    """Whether this is a model with all its sizes: a name, an expression, or the path of a config.json."""
    from pipesim.architectures import ARCHITECTURES, described
    from pipesim.studies import loading

    path = Path(what)
    if files.exists(path):
        return not files.exists(path / "trace.toml") and described.is_config(path)
    name, bracket, _ = what.partition("(")
    named = name.strip() in ARCHITECTURES and what not in loading.bundled_traces()
    return named and (bool(bracket) or not described.needs(name))


def _is_member(what: str) -> bool:
    """Whether this is the name of a member of a family; one of a cluster without sizes is the cluster."""
    if files.exists(Path(what)) or what in setting_options.names_of("traces"):
        return False
    families = names.families_of(names.full(what))
    return bool(families) and not (families == ["clusters"] and names.makes_a_cluster(what))


def _refuse_pictures(plot_file: str | None, output: str | None, what: str) -> None:
    if plot_file or output:
        raise click.UsageError(f"--plot and --output have no effect for {what}", click.get_current_context())


def _is_no_name(what: str) -> bool:
    """Whether this is neither a file, nor an expression, nor a name that anything has."""
    looks_like_one = not set("(:/") & set(what) and not what.endswith((".toml", ".json", ".txt", ".xml"))
    return (
        looks_like_one
        and what not in {*TOPOLOGIES, *setting_options.names_of("traces")}
        and not files.exists(Path(what))
    )


def _is_trace(path: Path) -> bool:
    """Whether this path is a trace rather than a cluster file or the description of a machine."""
    if not files.exists(path):
        return False
    if path.name == "trace.toml" or path.is_dir():
        return True
    if path.suffix == ".json" and path.is_file():  # what a profiler wrote is .json too
        from pipesim.importers.detect import importer_for

        with suppress(InputError):
            return bool(importer_for(path))
    if path.suffix in {".toml", ".json"} or not path.is_file():
        return False
    from pipesim.topologies.hosts import cluster_file

    return not cluster_file.describes_machine(path)


def _names(*, as_json: bool) -> None:
    found = names.every()
    if as_json:
        options.echo_json(found)
        return
    for noun, members in found.items():
        click.echo(textwrap.fill(
            ", ".join(members), WIDTH,
            initial_indent=noun.ljust(INDENT), subsequent_indent=" " * INDENT,
            break_on_hyphens=False,
        ))  # fmt: skip
    click.echo("\nWhat each of them is: pipesim show planners, pipesim show devices, ...")


def _trace(what: str, pictures: list[str], *, every: bool, as_json: bool) -> None:
    from pipesim.analysis import spread
    from pipesim.core.costs import costs_of
    from pipesim.display import json_data, text
    from pipesim.studies import loading

    trace = loading.load_trace(what)
    if pictures:
        from pipesim.display import figures

        for path in pictures:
            figures.layers(trace, path)
    if as_json:
        noise = spread.noise_data(costs_of(trace))
        options.echo_json(json_data.trace_data(trace) | {"noise": noise, "notes": text.trace_notes(trace)})
        return
    click.echo(text.trace(trace, None if every else text.FEW, options.terminal()))
    for path in pictures:
        options.wrote(path, "picture")


def _model(what: str, *, every: bool, as_json: bool) -> None:
    from pipesim.architectures import described
    from pipesim.display import json_data, text

    model = described.model_called(what, {})
    if as_json:
        options.echo_json(json_data.model_data(model))
    else:
        click.echo(text.model(model, every=every, on=options.terminal()))


def _cluster(what: str, plot_file: str | None, output: str | None, host_memory: str | None, *, as_json: bool) -> None:
    from pipesim.base import serialisation
    from pipesim.core import limits
    from pipesim.display import json_data, text
    from pipesim.studies import loading

    cluster = loading.load_cluster(what)
    if as_json or plot_file:
        per_pair = limits.PER_PAIR_OF_JSON if as_json else limits.PER_PAIR_OF_PICTURE
        limits.check_pairs(host_memory, len(cluster.devices), per_pair)
    if output:
        serialisation.save(cluster, Path(output))
    if plot_file:
        from pipesim.display import figures

        figures.cluster(cluster, plot_file)
    if as_json:
        options.echo_json(json_data.cluster_data(cluster))
        return
    click.echo(text.cluster(cluster, on=options.terminal()))
    for path, noun in ((plot_file, "picture"), (output, "cluster")):
        if path:
            options.wrote(path, noun)
