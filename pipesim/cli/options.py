"""What several commands take, and how they show what they do."""

import functools
import itertools
import shutil
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import click

from pipesim.base.errors import InputError, within
from pipesim.base.settings import settings_of
from pipesim.cli import parameters, setting_options, streams
from pipesim.studies.simulation import FIELDS, Simulation

if TYPE_CHECKING:
    from pipesim.core.program import Program
    from pipesim.core.timeline import Timeline
    from pipesim.display.pages import Page
    from pipesim.display.text.terminal import Terminal
    from pipesim.lowering import Setup
    from pipesim.studies.results import SimulationResult

PATIENCE = 0.5  # seconds; what takes longer shows that it is running, within a second of the command
_BAR = 20  # characters, beside which there is room for words on a terminal of 80
_LINE_GONE = "\033[A\033[2K"  # one line up, and empty
_TURN = 0.2  # seconds between two pictures of what turns while something runs
LONG = 100_000  # tasks; a simulation of more may take over a second and shows a progress bar

T = TypeVar("T")
Command = Callable[..., Any]


FAMILIES_COMPARED = ("planner", "plan", "scheduler")
DRAWS = ("iterations", "seed", "jitter", "draw")
PLANNING = (
    "architecture", "efficiency", "device", "planner", "microbatches", "microbatch_size", "global_batch", "sequence",
    "precision", "tensor", "pipeline", "data", "interleave", "context", "expert", "scale_widths", "sequence_parallel",
    "tensor_overlap", "framework", "sharding", "sharding_size", "gradient_precision", "optimizer", "optimizer_state",
    "recompute", "recompute_blocks", "frozen", "lora_rank", "lora_targets", "reserve", "fit", "granularity",
    "scaling", "weight_share", "host_memory", "lengths", "packed", "objective", "jitter", "draw",
)  # fmt: skip

force = click.option("--force", is_flag=True, help="Replace what exists already.")
require_fit = click.option(
    "--require-fit", is_flag=True, help="Exit with code 3 if the memory of the devices does not suffice."
)
BOUND = "Also search for the certified lower bounds, which may take longer than simulating."
VERBOSE = "Also show the details, in tables and a Gantt chart in text."
verbose = click.option(
    "--verbose", "-v", is_flag=True, help="Also show the details, in tables and a Gantt chart in text."
)
as_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON object in place of text.")
host_memory = setting_options.option("host_memory", settings_of(Simulation)["host_memory"], None)


def simulation(
    *,
    fields: Iterable[str] = (),
    without: Iterable[str] = (),
    alone: Callable[..., bool] | None = None,
    complete: bool = True,
) -> Callable[[Command], Command]:
    """TRACE, CLUSTER and options for the fields of a simulation, handed to the command as `simulation`.

    `alone` is called where there is no CLUSTER, and returns whether it did with what TRACE names without one. A command
    that is not for `complete` simulations alone takes those without TRACE and CLUSTER too.
    """
    chosen = [name for name in fields or FIELDS if name not in {*without, "trace", "cluster"}]

    def decorate(command: Command) -> Command:
        @functools.wraps(command)
        def call(trace: str | None, cluster: str | None, simulation: Simulation, **given: Any) -> Any:
            if alone is not None and trace and cluster is None and alone(trace, simulation, **given):
                return None
            if complete or trace or cluster:
                simulation = _with_inputs(simulation, trace, cluster)
            return command(simulation=simulation, **given)

        with_options = setting_options.options(Simulation, "simulation", fields=chosen, make=_simulation)(call)
        with_cluster = click.argument(
            "cluster", required=False, metavar="CLUSTER", shell_complete=setting_options.complete("topologies")
        )
        with_trace = click.argument(
            "trace", required=False, metavar="TRACE", shell_complete=setting_options.complete("traces")
        )
        return with_trace(with_cluster(with_options))

    return decorate


def _simulation(values: Mapping[str, Any]) -> Simulation:
    """The simulation that options describe, but for TRACE and CLUSTER; refuses options without effect."""
    given = {name for name, value in values.items() if value is not None}
    check_given("beside --plan", is_there="plan" not in given, without=("planner", "microbatches"))
    check_given("beside --optimizer", is_there="optimizer" not in given, without=OPTIMIZER)
    check_given("without --iterations", is_there="iterations" in given, without=("seed",))
    draws = bool({"iterations", "objective"} & given)
    check_given("without --iterations, or --objective", is_there=draws, without=("jitter", "draw"))
    found = dict(values)
    for name, about in settings_of(Simulation).items():
        if about.parse is not None and name in found:
            with within(f"--{name}"):
                found[name] = about.parse(found[name])
    return Simulation(**found)


OPTIMIZER = ("optimizer_s_per_byte", "optimizer_state")


def _with_inputs(found: Simulation, trace: str | None, cluster: str | None) -> Simulation:
    """The simulation with its TRACE and CLUSTER; with --architecture there is only CLUSTER."""
    context = click.get_current_context()
    if found.architecture is not None:
        if cluster is not None:
            raise click.UsageError(f"{trace!r} is one argument too many beside --architecture", context)
        trace, cluster = None, trace
    missing = "TRACE" if trace is None and found.architecture is None else "CLUSTER"
    if cluster is None or missing == "TRACE":
        raise click.MissingParameter(ctx=context, param_hint=f"'{missing}'", param_type="argument")
    return replace(found, trace=trace, cluster=cluster)


def _nothing(*_: object) -> None:
    pass


def make_setup(simulation: Simulation, *, quiet: bool) -> "Setup":
    """Load, plan and order what a simulation describes."""
    from pipesim.studies import setups

    with busy("planning", quiet=quiet):
        return setups.setup_of(simulation)


def simulate(setup: "Setup", simulation: Simulation, *, quiet: bool, verify: bool = False) -> "SimulationResult":
    """The result of a setup, with progress bars for what takes long."""
    from pipesim.studies import results

    times = results.drawn_times(setup, simulation)  # refused before anything is simulated

    def checked(program: "Program", before_bar: Callable[[], None] = _nothing) -> "Timeline":
        timeline = run(program, simulation.engine, before_bar, quiet=quiet)
        if verify:
            timeline.verify()
        return timeline

    if times is None or simulation.iterations is None:
        with busy("simulating", quiet=quiet) as end:
            return results.simulated(setup, simulation, run=lambda program: checked(program, end))
    with progress(times, simulation.iterations, "replaying", quiet=quiet) as shown:
        return results.simulated(setup, simulation, shown, checked)


def check_given(needed: str, *, is_there: bool, without: tuple[str, ...]) -> None:
    """Refuse options that would have no effect: those in `without` mean nothing where `needed` is not given."""
    given = setting_options.given_names()
    for name in without:
        if not is_there and name in given:
            raise click.UsageError(f"{_flag(name)} has no effect {needed}", click.get_current_context())


def _flag(name: str) -> str:
    """The option of a parameter, as its help has it first."""
    declared = (one.opts for one in click.get_current_context().command.params if one.name == name)
    return next((words[0] for words in declared if words), f"--{name.replace('_', '-')}")


def check_outputs(
    *,
    pictures: list[str | None],
    exports: str | None = None,
    file_format: str | None = None,
    pages: Iterable[str | None] = (),
) -> None:
    """Refuse file names that nothing can be written to, or that this command reads, before anything is simulated."""
    parameters.check_outputs_apart()
    if any(pictures):
        from pipesim.display import figures

        for path in filter(None, pictures):
            figures.check_path(path)
    if exports:
        from pipesim.display import timeline_files

        timeline_files.check_path(exports, file_format)
    for path in filter(None, pages):
        from pipesim.display.pages import check_path

        check_path(path)


def write_page(path: str | None, make: "Callable[[], Page]", *, quiet: bool) -> None:
    """Write a page, where one was asked for."""
    if path:
        from pipesim.display import pages

        write_file(path, "page", lambda path: pages.write(make(), path), quiet=quiet)


def write_file(path: str | None, what: str, write: Callable[[str], object], *, quiet: bool) -> None:
    """Draw or write a file, where one was asked for, and print where it is."""
    if path:
        with busy("writing", quiet=quiet):
            write(path)
        wrote(path, what, quiet=quiet)


html = click.option("--html", type=click.Path(), help="Write an interactive page, one .html file for any browser.")


def check_free(folder: str, *, force: bool) -> None:
    """Refuse to write a trace where there is one already, unless by force; asked before any work.

    A file that is named as an output is replaced, as other programs do; a folder may be a recording that took hours.
    """
    from pathlib import Path

    from pipesim.base import files

    files.check_folder(Path(folder), "trace.toml")
    if files.exists(Path(folder)) and not force:
        raise InputError(f"{folder}: exists already; choose another name, or replace it with --force")


def run(program: "Program", engine: str, before_bar: Callable[[], None] = _nothing, *, quiet: bool) -> "Timeline":
    """Run a program, with a progress bar if it is long and standard error is a terminal."""
    from pipesim.engines import by_name

    if len(program) < LONG or quiet or not streams.is_watched():
        return by_name.run(program, engine)
    before_bar()
    with click.progressbar(length=len(program), label="simulating", file=sys.stderr) as bar:
        return by_name.run(program, engine, watch=lambda ended: bar.update(ended - bar.pos))


@contextmanager
def progress(items: Iterable[T], length: int, label: str, *, quiet: bool) -> Iterator[Iterable[T]]:
    """The items, with a progress bar if standard error is a terminal."""
    if quiet or not streams.is_watched():
        yield items
    else:
        with click.progressbar(items, length=length, label=label, file=sys.stderr) as bar:
            yield bar


@contextmanager
def named_progress(items: Iterable[T], names: Sequence[str], label: str, *, quiet: bool) -> Iterator[Iterable[T]]:
    """As `progress`, with the name of the item that is under way, which may take as long as all others; then gone."""
    if quiet or not streams.is_watched():
        yield items
        return
    from pipesim.base import forked
    from pipesim.display.text.formatting import shortened

    frames, done = itertools.cycle("|/-\\"), threading.Event()
    room = max(8, shutil.get_terminal_size().columns - len(label) - _BAR - 16)  # a line that wraps is not written over
    made: Any = click.progressbar(
        length=len(names),
        label=label,
        show_eta=False,
        width=_BAR,
        item_show_func=lambda name: f"{shortened(name, room)} {next(frames)}" if name else "",
        file=sys.stderr,
    )
    with made as bar:

        def show(count: int, name: str | None) -> None:
            with forked.between_forks:
                bar.update(count, name)
                bar.render_progress()

        def turn() -> None:
            while not done.wait(_TURN):
                show(0, None)  # the same name

        thread = threading.Thread(target=turn, name=forked.PROGRESS, daemon=True)
        thread.start()
        try:
            yield _named_steps(iter(items), names, show)
        finally:
            done.set()
            thread.join()
    click.echo(_LINE_GONE, nl=False, err=True)  # what is under way, and no part of the answer


def _named_steps(items: Iterator[T], names: Sequence[str], show: Callable[[int, str], None]) -> Iterator[T]:
    for name in names:
        show(0, name)
        yield next(items)
        show(1, "")


@contextmanager
def bar(length: int, label: str, *, quiet: bool, most: bool = False) -> Iterator[Callable[..., None]]:
    """A function to call with the number of steps done and what to say; draws a bar if standard error is a terminal.

    Where `length` is the `most` steps that there may be, the bar is full after fewer too.
    """
    if quiet or not streams.is_watched():
        yield _nothing
        return
    with click.progressbar(
        length=length,
        label=label,
        show_eta=not most,
        width=_BAR,
        item_show_func=lambda text: text or "",
        file=sys.stderr,
    ) as shown:

        def step(count: int, text: str = "") -> None:
            shown.update(count, text)
            shown.render_progress()

        yield step
        if most and shown.pos < length:
            shown.length = shown.pos or 1
            shown.render_progress()


def words() -> tuple[str, ...]:
    """The words of the command as it was given, without the program's name."""
    return tuple(click.get_current_context().find_root().obj or ())


@contextmanager
def busy(label: str, *, quiet: bool, patience: float | None = None) -> Iterator[Callable[[], None]]:
    """Show what is running, if it takes longer than `patience` seconds (PATIENCE) and standard error is a terminal.

    The function that it yields ends this before the work ends, where something else is to be shown.
    """
    if quiet or not streams.is_watched():
        yield _nothing
        return
    from pipesim.base import forked

    done = threading.Event()

    def spin() -> None:
        if done.wait(PATIENCE if patience is None else patience):
            return
        for frame in itertools.cycle("|/-\\"):
            with forked.between_forks:
                click.echo(f"\r{label} {frame}", nl=False, err=True)
            if done.wait(_TURN):
                break
        with forked.between_forks:
            click.echo("\r" + " " * (len(label) + 2) + "\r", nl=False, err=True)

    thread = threading.Thread(target=spin, name=forked.PROGRESS, daemon=True)
    thread.start()

    def end() -> None:
        done.set()
        thread.join()

    try:
        yield end
    finally:
        end()


def terminal() -> "Terminal":
    """Where standard output goes: its width if it is a terminal; colours are removed where it has none (click.echo)."""
    from pipesim.display.text.terminal import Terminal

    width = shutil.get_terminal_size().columns if sys.stdout is not None and sys.stdout.isatty() else None
    return Terminal(width, colour=True)


OUTPUT_VERSION = 1  # raised when a field of what --json prints changes its meaning or goes; new fields do not raise it


def echo_json(data: Mapping[str, Any]) -> None:
    """Print one JSON object, headed by its format and version: of a file, or of the output of this command."""
    command = click.get_current_context().command.name
    head = {"format": f"pipesim.output.{command}", "version": OUTPUT_VERSION}
    click.echo(streams.json_text(data if "format" in data else head | dict(data)))


def wrote(path: str, what: str, *, quiet: bool = False) -> None:
    """Print what was written where."""
    if not quiet:
        click.echo(f"{what} written to {path}")
