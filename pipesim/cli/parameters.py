"""What click does not know of our parameters: how numbers are written, and which of them are files to be written."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from pipesim.base.errors import InputError, clipped

_INT64 = 2**63
_LONGEST = 60  # characters of a value that a message repeats

# The parameters that name files or folders to be written; a test knows all others of type Path as inputs.
OUTPUTS = frozenset({
    "output", "gantt", "plot_file", "memory_plot", "links_plot", "csv_file", "parquet_file",
    "markdown_file", "latex_file", "save_plan", "save_schedule", "save_cluster", "save_run", "path", "html",
    "live_folder",
})  # fmt: skip

_QUOTED = re.compile(r"""["']([^"']+)["']""")
# What is written into a folder as a trace, and what is read of one that is given as a trace or a recording.
_TRACE = re.compile(r"trace\.toml|(?:layers|transfers)\.(?:csv|parquet)")
_READ = re.compile(rf"{_TRACE.pattern}|.*\.json(?:\.gz)?")


class _Number(click.types.FloatParamType):
    """A number in ASCII digits."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The number."""
        from pipesim.base import units

        if not isinstance(value, str):
            return value
        try:
            return units.number(value)
        except ValueError:
            self.fail(f"{clipped(value, _LONGEST)!r} is not a valid number.", param, ctx)


class _Whole(click.types.IntParamType):
    """A whole number in ASCII digits that 64 bits hold."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The number."""
        from pipesim.base import units

        if not isinstance(value, str):
            return value
        try:
            found = units.whole(value)
        except ValueError:
            self.fail(f"{clipped(value, _LONGEST)!r} is not a valid whole number.", param, ctx)
        if not -_INT64 <= found < _INT64:
            self.fail(f"{clipped(value, _LONGEST)!r} is too large; less than 2^63 was expected.", param, ctx)
        return found


def read_numbers(command: click.Command) -> None:
    """Let a command read numbers as files do, in place of all that Python takes for one."""
    for parameter in command.params:
        if isinstance(parameter.type, click.types.IntParamType):
            parameter.type = _Whole()
        elif isinstance(parameter.type, click.types.FloatParamType):
            parameter.type = _Number()


def check_outputs_apart() -> None:
    """Refuse to write over what the command reads, whatever it is: a trace, a plan, a file named in an expression."""
    given = click.get_current_context().params
    outputs = [Path(value) for name, value in given.items() if name in OUTPUTS and isinstance(value, str) and value]
    if not outputs:
        return
    inputs = [path for name, value in given.items() if name not in OUTPUTS for path in _named_in(value)]
    for at, output in enumerate(outputs):
        if any(_same(path, output) for path in inputs):
            raise InputError(f"{output}: is what this command reads; choose another name for the output")
        if output in outputs[:at] and (output.is_file() or not output.exists()):  # a device may be named twice
            raise InputError(f"{output}: is the name of two outputs; choose another for one of them")


def _named_in(value: Any) -> Iterator[Path]:
    """The files that a value names, by itself or within an expression; of a folder those that are read."""
    if isinstance(value, tuple):
        for one in value:
            yield from _named_in(one)
    elif isinstance(value, str):
        for text in (value, *_QUOTED.findall(value)):
            try:
                yield from _files_at(Path(text))
            except (OSError, ValueError):  # a text that is no path
                continue


def _files_at(path: Path) -> list[Path]:
    if path.name == "trace.toml":
        path = path.parent
    if path.is_dir():
        return [inner for inner in path.iterdir() if _READ.fullmatch(inner.name)]
    return [path] if path.exists() else []


def _same(path: Path, output: Path) -> bool:
    try:
        if output.is_dir():
            return bool(_TRACE.fullmatch(path.name)) and path.parent.samefile(output)
        return path.is_file() and output.exists() and path.samefile(output)
    except (OSError, ValueError):
        return False
