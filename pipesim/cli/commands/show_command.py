"""pipesim show."""

import textwrap
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from pipesim.base import files, lookup
from pipesim.base.errors import InputError, quoted
from pipesim.base.settings import setting, settings_of
from pipesim.cli import names, options, parameters, setting_options
from pipesim.cli.commands import recorded_runs, shown_files
from pipesim.cli.commands.recorded_runs import RunReading
from pipesim.cli.table_outputs import ShownItem, TableOutputs
from pipesim.topologies import TOPOLOGIES

INDENT, WIDTH = 12, 120
_TABLES = tuple(settings_of(TableOutputs))


@dataclass(frozen=True, slots=True)
class ShowFiles:
    """What is drawn and written of what is shown."""

    plot_file: str | None = setting(
        None, str, "Draw the cluster and its bandwidth matrix; of a recorded run what each rank computed in each step.",
        flag="--plot", is_file=True,
    )  # fmt: skip
    output: str | None = setting(
        None, str, "Write a cluster to this .toml or .json file, to edit it; draw a trace's layers, or a step of a "
        "recorded run, to this .png, .svg or .pdf.", short="o", is_file=True,
    )  # fmt: skip
    html: str | None = setting(
        None, str, "Write a step of a recorded run as an interactive page (.html).", is_file=True
    )


@click.command(cls=setting_options.GroupedCommand)
@click.argument(
    "what",
    required=False,
    shell_complete=setting_options.complete("what"),
)
@setting_options.options(ShowFiles, "to")
@click.option("--all", "every", is_flag=True, help="Show every layer of a trace.")
@setting_options.options(RunReading, "recorded")
@setting_options.options(TableOutputs, "tables")
@options.host_memory
@options.as_json
def show(  # noqa: C901, PLR0912, PLR0917 - a branch for each sort of argument
    what: str | None,
    to: ShowFiles,
    every: bool,
    host_memory: str | None,
    as_json: bool,
    recorded: RunReading,
    tables: TableOutputs,
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
      pipesim show bert-large --sort -forward --top 5
      pipesim show devices --csv devices.csv
      pipesim show llama3-70b
      pipesim show path/to/config.json
      pipesim show plan.json
      pipesim show experiment.toml
      pipesim show zb-v
      pipesim show profile.txt --output layers.png
      pipesim show operations.parquet --plot ranks-and-steps.png --output median-step.png
    """
    from pipesim.studies import loading

    tables.check(as_json=as_json)
    parameters.check_outputs_apart()
    plot_file, output, html = to.plot_file, to.output, to.html
    if what is not None and _is_run(what, recorded):
        options.check_given("for a recorded run", is_there=False, without=("every", "host_memory", *_TABLES))
        options.check_outputs(pictures=[plot_file, output], pages=[html])
        with options.busy("reading", quiet=as_json):
            run = recorded.read([Path(what)])
        recorded_runs.show(run, plot_file, output, html, recorded.step, as_json=as_json)
        return
    options.check_given("but for a recorded run", is_there=False, without=(*settings_of(RunReading), "html"))
    if what is None:
        options.check_given("without a name or a file", is_there=False, without=_TABLES)
        _names(as_json=as_json)
    elif found := shown_files.shown(Path(what)):
        if plot_file or output or every:
            raise click.UsageError("only --json has an effect beside such a file", click.get_current_context())
        tables.show(found, as_json=as_json)
    elif (noun := names.noun_of(what)) and not _is_there(Path(what)):
        if plot_file or output or every:
            raise click.UsageError("only --json has an effect beside a family of names", click.get_current_context())
        tables.show(names.family(noun), as_json=as_json)
    elif _is_model(what):
        _refuse_pictures(plot_file, output, "a model")
        tables.show(_model(what, every=every), as_json=as_json)
    elif _is_member(what):
        if plot_file or output or every:
            raise click.UsageError("only --json has an effect beside such a name", click.get_current_context())
        options.check_given("beside such a name", is_there=False, without=_TABLES)
        names.show_member(names.full(what), as_json=as_json)
    elif _is_no_name(what):
        known = [*names.FAMILIES, *(name for members in names.every().values() for name in members)]
        raise InputError(
            f"no cluster or trace is called {quoted(what)}, and nothing else; {lookup.meant(what, known)}"
            "pipesim show lists all names"
        )
    elif what in loading.bundled_traces() or _is_trace(Path(what)):
        options.check_outputs(pictures=[plot_file, output])
        _trace(what, [path for path in (plot_file, output) if path], tables, every=every, as_json=as_json)
    else:
        if every:
            raise click.UsageError("--all has no effect for a cluster", click.get_current_context())
        options.check_given("for a cluster", is_there=False, without=_TABLES)
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
            ", ".join(members), min(WIDTH, options.terminal().width or WIDTH),
            initial_indent=noun.ljust(INDENT), subsequent_indent=" " * INDENT,
            break_on_hyphens=False,
        ))  # fmt: skip
    click.echo("\nWhat each of them is: pipesim show planners, pipesim show devices, ...")


def _trace(what: str, pictures: list[str], tables: TableOutputs, *, every: bool, as_json: bool) -> None:
    from pipesim.analysis import spread
    from pipesim.core.costs import costs_of
    from pipesim.display import json_data, text
    from pipesim.studies import loading

    quiet = as_json or tables.is_alone
    with options.busy("reading", quiet=quiet):
        trace = loading.load_trace(what)

    def data() -> dict[str, Any]:
        noise = spread.noise_data(costs_of(trace))
        return json_data.trace_data(trace) | {"noise": noise, "notes": text.trace_notes(trace)}

    shown = ShownItem(
        lambda: text.trace(trace, None if every else text.FEW, options.terminal()), data,
        lambda: text.trace_layers(trace),
    )  # fmt: skip
    tables.show(shown, as_json=as_json)
    if pictures:
        from pipesim.display import figures

        for path in pictures:
            options.write_file(path, "picture", lambda path: figures.layers(trace, path), quiet=quiet)


def _model(what: str, *, every: bool) -> ShownItem:
    from pipesim.architectures import described
    from pipesim.display import json_data, text

    model = described.model_called(what, {})
    return ShownItem(
        lambda: text.model(model, every=every, on=options.terminal()),
        lambda: json_data.model_data(model),
        lambda: text.model_layers(model, every=every),
    )


def _cluster(what: str, plot_file: str | None, output: str | None, host_memory: str | None, *, as_json: bool) -> None:
    from pipesim.base import serialisation
    from pipesim.core import limits
    from pipesim.display import json_data, text
    from pipesim.studies import loading

    with options.busy("making the cluster", quiet=as_json):
        cluster = loading.load_cluster(what)
    if as_json or plot_file:
        per_pair = limits.PER_PAIR_OF_JSON if as_json else limits.PER_PAIR_OF_PICTURE
        limits.check_pairs(host_memory, len(cluster.devices), per_pair)
    if as_json:
        options.echo_json(json_data.cluster_data(cluster))
    else:
        click.echo(text.cluster(cluster, on=options.terminal()))
    if plot_file:
        from pipesim.display import figures

        options.write_file(plot_file, "picture", lambda path: figures.cluster(cluster, path), quiet=as_json)
    options.write_file(output, "cluster", lambda path: serialisation.save(cluster, Path(path)), quiet=as_json)
