"""What several commands take, and how they show what they do."""

import itertools
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.shell_completion import CompletionItem

from pipesim.base.errors import InputError
from pipesim.cli import parameters, streams
from pipesim.planners import PLANNERS
from pipesim.schedulers import SCHEDULERS
from pipesim.topologies import TOPOLOGIES

if TYPE_CHECKING:
    from pipesim.core.program import Program
    from pipesim.core.scenario import Scenario
    from pipesim.core.timeline import Timeline
    from pipesim.lowering import Options, Setup

# As in `pipesim.core.program`, which is not imported here because --help must be quick; a test compares them.
SHARINGS = ("none", "fifo", "fair", "channel")
TRANSFERS = ("eager", "rendezvous", "blocking")
RECOMPUTES = ("none", "full", "selective")
# As in `pipesim.core.costs`, likewise.
SCALINGS = ("recorded", "linear")

PATIENCE = 1.0  # seconds; what takes longer says that it is at work
LONG = 100_000  # tasks; a simulation of more may take over a second and shows a progress bar

T = TypeVar("T")
Command = Callable[..., Any]


def complete(names: Callable[[], Iterable[str]]) -> Callable[..., list[CompletionItem]]:
    """Tab completion from names, and from files where no name fits."""

    def completed(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
        found = [CompletionItem(name) for name in names() if name.startswith(incomplete)]
        return found or [CompletionItem(incomplete, type="file")]

    return completed


def bundled_names() -> list[str]:
    """The traces that come with pipesim."""
    from pipesim.studies.experiment import bundled_traces

    return list(bundled_traces())


def _stack(*decorators: Callable[[Command], Command]) -> Callable[[Command], Command]:
    def decorate(command: Command) -> Command:
        for decorator in reversed(decorators):
            command = decorator(command)
        return command

    return decorate


inputs = _stack(
    click.argument("trace", shell_complete=complete(bundled_names)),
    click.argument("cluster", shell_complete=complete(lambda: TOPOLOGIES)),
)
sizes = _stack(
    click.option("--microbatches", "-m", type=int, default=8, show_default=True, help="Microbatches in one iteration."),
    click.option("--microbatch-size", type=int, help="Samples in a microbatch; default: as in the trace."),
    click.option(
        "--scaling",
        type=click.Choice(SCALINGS),
        default="recorded",
        show_default=True,
        help="What a share of a microbatch takes: as recorded of smaller ones, or its share of the time (SPP).",
    ),
)
planner = click.option(
    "--planner",
    "-p",
    default="balanced",
    show_default=True,
    shell_complete=complete(lambda: PLANNERS),
    help="Who splits the model: a name, name(option=value), or module:function.",
)
host_memory = click.option(
    "--host-memory",
    metavar="SIZE",
    help="Refuse what would take more of this machine's memory (8GB); default: half of it. Devices have their own.",
)
network = _stack(
    click.option(
        "--sharing", type=click.Choice(SHARINGS), default="fair", show_default=True, help="How transfers use links."
    ),
    click.option(
        "--transfers", type=click.Choice(TRANSFERS), default="eager", show_default=True, help="When transfers start."
    ),
    click.option("--optimizer", help="Optimizer step and state as recorded in the trace: sgd, adamw, ..."),
    click.option("--optimizer-s-per-byte", type=float, default=0.0, help="Optimizer step: seconds per parameter byte."),
    click.option("--optimizer-state", type=float, help="Optimizer state: bytes per parameter byte; default: Adam's."),
    click.option(
        "--recompute",
        type=click.Choice(RECOMPUTES),
        default="none",
        show_default=True,
        help="Which layers compute their activations once more in the backward in place of keeping them.",
    ),
    click.option(
        "--pair-overlap",
        type=float,
        default=0.0,
        help="Of a forward and a backward done as one, the part of the shorter that hides in the longer.",
    ),
    click.option("--pair-factor", type=float, help="In place of that: what such a pair takes, as a factor on the sum."),
    click.option("--scenario", type=click.Path(), help="TOML file with slow devices and degraded links."),
    click.option(
        "--background",
        type=click.Path(),
        help="CSV file of what others use of links over time: link (a->b, a<->b), time (20ms), share (0.3).",
    ),
    click.option("--engine", default="auto", show_default=True, help="Who replays: auto, event (SimPy) or compiled."),
    host_memory,
)
case = _stack(
    inputs,
    planner,
    click.option("--plan", "plan_file", type=click.Path(), help="A plan from a file, in place of a planner."),
    click.option(
        "--scheduler",
        "-s",
        default="one_f_one_b",
        show_default=True,
        shell_complete=complete(lambda: SCHEDULERS),
        help="Who orders the microbatches: a name, module:function, or a schedule file (.csv, .json).",
    ),
    click.option(
        "--weight-share",
        type=float,
        default=0.5,
        show_default=True,
        help="Where a trace has only whole backwards: the part of one that is the weights' gradient.",
    ),
    sizes,
    network,
)
force = click.option("--force", is_flag=True, help="Replace what is there already.")
require_fit = click.option(
    "--require-fit", is_flag=True, help="Exit with code 3 if the memory of the devices does not suffice."
)
as_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON object in place of text.")


def lowering_options(given: dict[str, Any]) -> "tuple[Options, Scenario]":
    """What the options of `network` say."""
    from pipesim.core.scenario import CALM
    from pipesim.lowering import Options
    from pipesim.studies import experiment

    step, state = _optimizer(given)
    names = ("recompute", "pair_overlap", "pair_factor")
    options = Options(given["sharing"], given["transfers"], step, state, *(given[name] for name in names))
    scenario = experiment.load_scenario(given["scenario"]) if given["scenario"] else CALM
    if given["background"]:
        from pipesim.core import background

        scenario = scenario.beside(background.read(given["background"], experiment.load_cluster(given["cluster"])))
    return options, scenario


def _optimizer(given: dict[str, Any]) -> tuple[float, float | None]:
    """Seconds of a step and bytes of state, per byte of parameters: as stated, or as recorded."""
    if not given["optimizer"]:
        return given["optimizer_s_per_byte"], given["optimizer_state"]
    from pipesim.studies import experiment

    check_given("beside --optimizer", is_there=False, without=("optimizer_s_per_byte", "optimizer_state"))
    recorded = experiment.load_trace(given["trace"]).optimizer(given["optimizer"])
    return recorded.s_per_byte, recorded.state_per_byte


def make_case(given: dict[str, Any]) -> "Setup":
    """What the options of `case` say."""
    from pipesim.studies import experiment

    plan_file = given["plan_file"]
    check_given("beside --plan", is_there=not plan_file, without=("planner", "microbatches"))
    plan = experiment.load_plan(plan_file) if plan_file else given["planner"]
    options, scenario = lowering_options(given)
    with busy("planning", quiet=bool(given.get("as_json"))):
        return experiment.make_case(
            given["trace"],
            given["cluster"],
            plan,
            given["scheduler"],
            given["microbatches"],
            given["microbatch_size"],
            options,
            scenario,
            given["scaling"],
            given["weight_share"],
            given["host_memory"],
        )


def check_given(needed: str, *, is_there: bool, without: tuple[str, ...]) -> None:
    """Refuse options that would have no effect: those in `without` mean nothing where `needed` is not given."""
    context = click.get_current_context()
    for name in without:
        if not is_there and context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE:
            raise click.UsageError(f"--{name.replace('_', '-')} has no effect {needed}", context)


def check_outputs(*, pictures: list[str | None], exports: str | None = None, file_format: str | None = None) -> None:
    """Refuse file names that nothing can be written to, or that this command reads, before anything is simulated."""
    parameters.check_outputs_apart()
    if any(pictures):
        from pipesim.display import figures

        for path in filter(None, pictures):
            figures.check_path(path)
    if exports:
        from pipesim.display import timeline_files

        timeline_files.check_path(exports, file_format)


def check_free(folder: str, *, force: bool) -> None:
    """Refuse to write a trace where there is one already, unless by force; asked before any work.

    A file that is named as an output is replaced, as other programs do; a folder may be a recording that took hours.
    """
    from pathlib import Path

    from pipesim.base import files

    files.check_folder(Path(folder), "trace.toml")
    if files.exists(Path(folder)) and not force:
        raise InputError(f"{folder}: exists already; choose another name, or replace it with --force")


def run(program: "Program", engine: str, *, quiet: bool) -> "Timeline":
    """Replay, with a progress bar if it takes long and somebody looks."""
    from pipesim.studies import experiment

    if len(program) < LONG or quiet or not streams.is_watched():
        return experiment.run(program, engine)
    with click.progressbar(length=len(program), label="simulating", file=sys.stderr) as bar:
        return experiment.run(program, engine, watch=lambda ended: bar.update(ended - bar.pos))


@contextmanager
def progress(items: Iterable[T], length: int, label: str, *, quiet: bool) -> Iterator[Iterable[T]]:
    """The items, with a progress bar if somebody looks."""
    if quiet or not streams.is_watched():
        yield items
    else:
        with click.progressbar(items, length=length, label=label, file=sys.stderr) as bar:
            yield bar


@contextmanager
def bar(length: int, label: str, *, quiet: bool) -> Iterator[Callable[[int], None]]:
    """A function to be told of every step that is done; draws a progress bar if somebody looks."""
    if quiet or not streams.is_watched():
        yield lambda _: None
    else:
        with click.progressbar(length=length, label=label, file=sys.stderr) as shown:
            yield shown.update


def words() -> tuple[str, ...]:
    """The words of the command as it was given, without the program's name."""
    return tuple(click.get_current_context().find_root().obj or ())


@contextmanager
def busy(label: str, *, quiet: bool) -> Iterator[None]:
    """Say what is going on, if it takes longer than one likes to wait and somebody looks."""
    if quiet or not streams.is_watched():
        yield
        return
    done = threading.Event()
    thread = threading.Thread(target=_spin, args=(label, done), daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def _spin(label: str, done: threading.Event) -> None:
    if done.wait(PATIENCE):
        return
    for frame in itertools.cycle("|/-\\"):
        click.echo(f"\r{label} {frame}", nl=False, err=True)
        if done.wait(0.2):
            break
    click.echo("\r" + " " * (len(label) + 2) + "\r", nl=False, err=True)


def echo_json(data: Any) -> None:
    """Print one JSON object."""
    click.echo(streams.json_text(data))


def wrote(path: str, what: str, *, quiet: bool = False) -> None:
    """Say what was written where."""
    if not quiet:
        click.echo(f"{what} written to {path}")
