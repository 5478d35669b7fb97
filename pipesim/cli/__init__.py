"""The command line: it reads names and files, calls functions of `studies`, and shows what they return.

Each command is a module, imported when it is called, and imports what it needs inside: --help must not pay for numpy,
matplotlib or SimPy.
"""

import importlib
import keyword
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import click

from pipesim import __version__
from pipesim.base import lookup
from pipesim.base.errors import is_interrupt, quoted
from pipesim.cli import failures, parameters, renamed, streams

# The line of each command in `pipesim --help`, so that none need be imported for it.
COMMANDS = {
    "demo": "Plan, simulate, draw and compare a model on two servers.",
    "init": "Write a template that runs: a planner, a sweep, a cluster, ...",
    "trace": "Make a trace of a model from the data sheets of devices.",
    "show": "What a cluster, a trace or a family holds; all names.",
    "import": "Read files that others wrote, and write the trace in them.",
    "calibrate": "Fit the speed of a kind of device to your own measurements.",
    "diff": "What changed from one trace to another.",
    "plan": "Split a model over a cluster.",
    "simulate": "Plan, order and simulate one iteration, or many.",
    "layout": "A layout in the arguments of a framework, to and from plans.",
    "tune": "Search the best layout of a model on a cluster.",
    "compare": "Several planners and schedulers side by side.",
    "whatif": "What would help most: devices, links, layers a little faster.",
    "schedule": "Explore a schedule without a trace.",
    "schedules": "All schedulers, with one line each.",
    "gallery": "Draw schedules side by side.",
    "rebuild": "Rebuild a recorded pipelined iteration, and simulate it.",
    "validate": "How far to trust it: measured runs beside simulations.",
    "export": "Write a timeline for Perfetto, pandas and others.",
    "report": "Everything about a run or a simulation in one interactive page.",
    "run": "Simulate the run that execution traces describe.",
    "record": "Time the layers of a PyTorch model; writes a trace.",
    "record-links": "Time transfers between processes; writes a cluster.",
    "sweep": "Simulate every point of a grid, on all cores or a cluster.",
    "rows": "The results of a sweep, as a table or a file.",
    "plot": "Draw the results of a sweep.",
    "help": "The help of a command.",
}


def _without_colour(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    if value:
        ctx.color = False  # click.echo then removes them


no_color = click.Option(
    ["--no-color"], is_flag=True, expose_value=False, callback=_without_colour, help="No colours; so does NO_COLOR=1."
)


class _CarriedError(Exception):
    """What click would answer in its own way: a broken pipe with an exit code, the end of a file as an interruption."""


@contextmanager
def _noticing() -> Iterator[None]:
    try:
        yield
    except (BrokenPipeError, EOFError) as error:
        raise _CarriedError from error


class _Group(click.Group):
    """The commands, each fetched when it is called; an unknown one is answered with what was probably meant."""

    def make_context(self, *args: Any, **given: Any) -> click.Context:
        """As click does, where --help is printed."""
        with _noticing():
            return super().make_context(*args, **given)

    def invoke(self, ctx: click.Context) -> Any:
        """As click does, where commands print."""
        with _noticing():
            return super().invoke(ctx)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All commands, in the order of the table."""
        del ctx
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of this name."""
        del ctx
        if cmd_name not in COMMANDS:
            return None
        plain = cmd_name.replace("-", "_")
        name = f"{plain}_" if keyword.iskeyword(plain) else plain  # `import_`, since `import` is taken
        command: click.Command = getattr(importlib.import_module(f"pipesim.cli.commands.{plain}_command"), name)
        parameters.read_numbers(command)
        if all(one.name != no_color.name for one in command.params):
            command.params.append(no_color)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """One line each, from the table."""
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click does, with a suggestion."""
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            raise click.UsageError(f"no command is called {quoted(args[0])}; {lookup.suggest(args[0], COMMANDS)}", ctx)
        return super().resolve_command(ctx, args)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command; an error is one paragraph, with an exit code of docs/exit-codes.md."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    if "" not in sys.path:
        sys.path.append("")  # module:function may be a file here; last, so that it shadows nothing
    streams.prepare()
    words = _without_traceback(renamed.with_present_names(words))
    try:
        colour = False if os.environ.get("NO_COLOR") else None  # None: where the output is a terminal
        cli.main(args=words or ["--help"], prog_name="pipesim", standalone_mode=False, obj=tuple(words), color=colour)
        if sys.stdout is not None:  # None where the caller closed standard output
            sys.stdout.flush()
    except (click.exceptions.Abort, KeyboardInterrupt):
        sys.exit(failures.interrupted())
    except Exception as error:  # noqa: BLE001 - nothing that a user can type ends in a traceback
        sys.exit(failures.interrupted() if is_interrupt(error) else _end_with(error))


def _without_traceback(words: list[str]) -> list[str]:
    """The words but --traceback, which any command takes in any place: it also reaches workers, as a variable does."""
    end = words.index("--") if "--" in words else len(words)
    if "--traceback" in words[:end]:
        os.environ[failures.DETAILS] = "1"
        words = [word for word in words[:end] if word != "--traceback"] + words[end:]
    return words


def _end_with(error: Exception) -> int:
    """The exit code of a command that failed, after printing the reason."""
    if isinstance(error, _CarriedError) and isinstance(error.__cause__, Exception):
        error = error.__cause__
    if isinstance(error, OSError):
        _drop_output()
    if isinstance(error, BrokenPipeError):  # end without a word, as if the signal for it had ended us
        return failures.EXIT_CODES["closed pipe"]
    return failures.end_with(error)


def _drop_output() -> None:
    """Send what is still to be written nowhere, so that Python does not stumble over it again at its exit."""
    with suppress(OSError, ValueError):  # standard output may not be a file
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@click.group(cls=_Group, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, "-V", "--version", prog_name="pipesim")
@click.option(
    "--install-completion",
    type=click.Choice(["bash", "zsh", "fish", "auto"]),
    is_flag=False,
    flag_value="auto",
    is_eager=True,
    expose_value=False,
    callback=lambda ctx, _, value: _install_completion(ctx, value),
    help="Complete commands and names with Tab in this shell (auto: that of SHELL), from its next start on.",
)
@click.option(
    "--traceback", is_flag=True, expose_value=False, help="With any command: print the traceback of an error."
)
def cli() -> None:
    """How long will an iteration of pipeline-parallel training take, why, and which plan is best?

    \b
    TRACE    a folder or file with recorded layer times, or the name of one that comes with pipesim
    CLUSTER  a .toml or .json file, or an expression such as
             'servers(2, 8, intra="25GB/s", inter="1GB/s")', or the output of nvidia-smi topo -m
    'pipesim show' lists the traces, models, devices, clusters, planners, schedulers and formats that have names.

    \b
    Examples:
      pipesim demo
      pipesim plan bert-large 'flat(4, bandwidth="1GB/s")' --planner balanced
      pipesim simulate bert-large dgx1_v100 --gantt gantt.png
      pipesim compare gpt2-xl 'servers(2, 4, intra="25GB/s", inter="10Gb/s")'

    """
    streams.announce_compilation()


cli.params.append(no_color)


def _install_completion(ctx: click.Context, shell: str | None) -> None:
    """Install it, and end."""
    if shell is None:
        return
    from pathlib import Path

    from pipesim.cli import shell_completion

    chosen = shell_completion.shell_of(os.environ.get("SHELL", "")) if shell == "auto" else shell
    found = shell_completion.install(chosen, Path.home(), cli)
    read = f", read by {found.start}" if found.start else ""
    done = "written to" if found.is_new else "is already in"
    click.echo(f"completion {done} {found.script}{read}; open a new shell to use it")
    ctx.exit()
