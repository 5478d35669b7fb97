"""pipesim sweep."""

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pipesim.base import worker_server
from pipesim.base.errors import InputError
from pipesim.base.settings import settings_of
from pipesim.cli import options, setting_options, streams
from pipesim.cli.table_outputs import ShownItem, TableOutputs
from pipesim.studies.sweep_options import WORKER_MODULES, SweepOptions

if TYPE_CHECKING:
    from pipesim.studies.store import Status
    from pipesim.studies.sweep import Functions, Preparation, Progress, Sweep

_SHOWN = 5  # points that --dry-run shows
_SOON = 0.2  # seconds until a terminal shows that a file is being read


@click.command(cls=setting_options.GroupedCommand)
@click.argument("file", required=False, type=click.Path())
@setting_options.options(SweepOptions, "running", group="running")
@click.option(
    "--allow-modules",
    metavar="NAME[,NAME]",
    envvar="PIPESIM_ALLOW_MODULES",
    help="Modules whose functions FILE may name, or 'none'. Default: PIPESIM_ALLOW_MODULES, or any.",
)
@click.option("--status", is_flag=True, help="Report the progress of FILE without running; without FILE, of all here.")
@click.option("--dry-run", is_flag=True, help="Check everything and count the points, without running.")
@setting_options.options(TableOutputs, "tables")
@options.as_json
def sweep(
    file: str | None,
    running: SweepOptions,
    *,
    tables: TableOutputs,
    allow_modules: str | None,
    status: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Simulate every point of the grid in FILE, and keep the results.

    Interrupted or killed, it continues where it stopped when it is called again. A point that
    fails is a row with its error.

    A sweep file is a program: what it names as module:function is imported and run, from the current folder too. Run
    only files that you trust, or say with --allow-modules what they may name. --dry-run, --status, 'pipesim rows' and
    'pipesim plot' import nothing that a file names. Dask has no authentication: anyone who reaches the scheduler's port
    can run code on its workers and here.

    \b
    Examples:
      pipesim sweep experiment.toml
      pipesim sweep experiment.toml --workers 8 --only 'gpus <= 64'
      pipesim sweep experiment.toml --dask tcp://scheduler:8786
      pipesim sweep --status

    \b
    A file:
      format = "pipesim.sweep"
      version = 1
      [simulate]                                   # options of 'pipesim simulate'; {...} is computed
      trace = "bert-large"
      cluster = 'servers({nodes}, 4, intra="25GB/s", inter="{rate} Gb/s")'
      [grid]                                       # every value with every other
      nodes = [1, 2, 4]
      rate = { from = 1, to = 100, factor = 10 }
      planner = ["balanced", "spp"]
      where = "nodes > 1 or rate == 1"
      [plot]
      time = { kind = "line", x = "rate", y = "iteration_time_s", series = "planner", panels = "nodes", log = "x" }
    """
    options.check_given("without --status", is_there=status, without=tuple(settings_of(TableOutputs)))
    if status:
        tables.check(as_json=as_json)
        options.check_outputs(pictures=[])
        with options.busy("reading", quiet=as_json or tables.is_alone):
            found = [_status_of(path, running.store) for path in _files(file)]
        _show(found, tables, as_json=as_json)
        return
    if file is None:
        raise click.UsageError("FILE is missing: an experiment such as the one below", click.get_current_context())
    if not dry_run and running.dask is None and running.workers != 1:
        worker_server.start(*WORKER_MODULES)  # it imports while this process does
    allowed = _modules(allow_modules)
    with options.busy("reading", quiet=as_json, patience=_SOON):  # a long axis takes seconds
        from pipesim.studies import sweep as sweeps

        experiment = sweeps.load(file)
    if dry_run:
        _show_points(experiment, sweeps.Functions(imports=False, allowed=allowed), as_json=as_json)
        return
    how = asdict(replace(running, allow_modules=allowed))
    with _watched(quiet=as_json) as (watch, prepare):
        try:
            done = sweeps.run(experiment, watch=watch, tell=_note, watch_preparation=prepare, **how)
        except KeyboardInterrupt:
            click.echo("\nwhat was computed is kept; the same command goes on from there", err=True)
            raise
    _show([done], tables, as_json=as_json)


def _modules(text: str | None) -> tuple[str, ...] | None:
    """The modules whose functions a file may name; None: any."""
    if text is None:
        return None
    return tuple(name.strip() for name in text.split(",") if name.strip() not in {"", "none"})


def _note(text: str) -> None:
    click.echo(f"note: {text}", err=True)


Watches = tuple["Callable[[Progress], None] | None", "Callable[[Preparation], None] | None"]


@contextmanager
def _watched(*, quiet: bool) -> Iterator[Watches]:
    """A line for each step before the first point, then a bar with rate and time left, if there is a terminal."""
    if quiet or not streams.is_watched():
        yield None, None
        return
    with ExitStack() as shown:
        line = shown.enter_context(_line())
        bars: list[Any] = []

        def watch(progress: "Progress") -> None:
            if not bars:
                line("")
                bars.append(shown.enter_context(_bar()))
            bars[0].length = progress.total
            bars[0].update(progress.done - bars[0].pos, progress)

        yield watch, lambda found: line(_preparation_text(found))


def _bar() -> Any:  # a context manager of click
    return click.progressbar(length=1, label="sweeping", file=sys.stderr, show_eta=False, item_show_func=_progress_text)


@contextmanager
def _line() -> "Iterator[Callable[[str], None]]":
    """A function that writes a text in place of the last one on a line of standard error; none is left in the end."""
    last = ""

    def write(text: str) -> None:
        nonlocal last
        if text != last:
            click.echo("\r" + text.ljust(len(last)) + ("" if text else "\r"), nl=False, err=True)
        last = text

    try:
        yield write
    finally:
        write("")


def _preparation_text(found: "Preparation") -> str:
    """The step, and how many points are through it."""
    return f"{found.step} {found.done:,} of {found.total:,} points" if found.done else f"{found.step} ..."


def _progress_text(progress: Any) -> str:  # a Progress, or nothing yet
    """Rate, time left, failures."""
    if progress is None:
        return ""
    parts = [f"{progress.done} of {progress.total}", f"{progress.per_second:.3g}/s"]
    if progress.left_s is not None:
        from pipesim.display.text.sweep_text import clock

        parts.append(f"{clock(progress.left_s)} left")
    if progress.failed:
        parts.append(f"{progress.failed} failed")
    return ", ".join(parts)


def _files(file: str | None) -> list[Path]:
    """The experiment that was named, or every results file of this folder."""
    if file is not None:
        return [Path(file)]
    found = sorted(Path().glob("*.sqlite"))
    if not found:
        raise InputError("no results (*.sqlite) in this folder; name an experiment: pipesim sweep FILE --status")
    return found


def _status_of(path: Path, store: Path | str | None) -> "Status":
    from pipesim.studies import sweep as sweeps

    results, name = sweeps.opened(path, store)
    with results:
        return results.status(name)


def _show(found: "list[Status]", tables: TableOutputs, *, as_json: bool) -> None:
    from pipesim.display import text

    data = [_data(status) for status in found]
    shown = ShownItem(
        lambda: text.sweep_status(data, options.terminal()),
        lambda: data[0] if len(data) == 1 else {"experiments": data},
        lambda: text.status_table(data),
    )
    tables.show(shown, as_json=as_json)


def _data(status: "Status") -> dict[str, Any]:
    return {
        "experiment": status.name,
        "points": status.total,
        "done": status.done,
        "left": status.left,
        "failed": status.failed,
        "per_second": status.per_second,
        "last_result_s": status.last_s,
        "clock_ahead_s": status.ahead_s,
    }


def _show_points(experiment: "Sweep", functions: "Functions", *, as_json: bool) -> None:
    from pipesim.base import serialisation
    from pipesim.display import text
    from pipesim.studies import sweep as sweeps

    with _counted(experiment.size, quiet=as_json) as watch:
        _, keys = sweeps.read(experiment, functions, watch)
    points = {number: serialisation.to_data(experiment.point(number)) for number in keys.numbers[:_SHOWN]}
    first = {
        number: {name: value for name, value in point.items() if value is not None} for number, point in points.items()
    }
    if as_json:
        data = {"experiment": experiment.name, "points": len(keys), "different": keys.different}
        options.echo_json({**data, "unchecked": functions.unchecked, "first": list(first.values())})
        return
    different = "" if keys.different == len(keys) else f" ({keys.different:,} different)"
    facts = [
        ("experiment", experiment.name),
        ("points", f"{len(keys):,}{different}"),
        ("axes", ", ".join(experiment.axes)),
        ("metrics", ", ".join(experiment.columns)),
        ("results", str(experiment.store)),
        ("figures", ", ".join(experiment.charts) or "-"),
    ]
    if functions.unchecked:
        facts.append(("unchecked", f"{', '.join(functions.unchecked)}: code of your own, not imported by --dry-run"))
    click.echo(text.sweep_points(facts, first, len(keys) - len(first)))


@contextmanager
def _counted(total: int, *, quiet: bool) -> "Iterator[Callable[[int], None] | None]":
    """A line with the number of points that were read, if standard error is a terminal."""
    if quiet or not streams.is_watched():
        yield None
        return
    with _line() as line:
        yield lambda count: line(f"reading {count:,} of at most {total:,} points")
