"""How a command ends that did not succeed: its exit code, and one paragraph on standard error.

docs/exit-codes.md has the same table for users; a test compares them.
"""

import os
import traceback
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pipesim.base.errors import DoesNotFitError, PipesimError, clipped
from pipesim.cli import streams

if TYPE_CHECKING:
    from pipesim.studies.results import SimulationResult

EXIT_CODES = {
    "success": 0,
    "input": 2,
    "does not fit": 3,
    "internal": 70,
    "interrupted": 130,
    "closed pipe": 141,
}
DETAILS = "PIPESIM_TRACEBACK"  # an environment variable: it reaches workers and commands in scripts too

_PACKAGE = Path(__file__).parents[1]
_MOST = 4000  # characters of a line; a message repeats what was typed, which may be of any length

# What is under way while a module of the package runs; the outermost of them names the step.
_STEPS = {
    "trace": "reading the trace",
    "importers": "reading the trace",
    "costs": "reading the trace",
    "serialisation": "reading a file",
    "tables": "reading a file",
    "files": "reading or writing a file",
    "topologies": "making the cluster",
    "cluster": "making the cluster",
    "architectures": "making the trace",
    "recorders": "recording",
    "planners": "planning",
    "schedulers": "ordering the microbatches",
    "ordering": "ordering the microbatches",
    "lowering": "lowering the plan to tasks",
    "engines": "simulating",
    "rebuilding": "rebuilding the recorded run",
    "timeline": "checking the timeline",
    "metrics": "evaluating the timeline",
    "bounds": "computing the bound",
    "figures": "drawing",
    "text": "writing the report",
    "timeline_files": "exporting the timeline",
    "store": "reading or writing the results",
    "sweep": "sweeping",
}


def step_of(error: BaseException) -> str:
    """What was under way when an error was raised, from the modules that its traceback passes through."""
    for frame in traceback.extract_tb(error.__traceback__):
        path = Path(frame.filename)
        if path.is_relative_to(_PACKAGE):
            parts = [part.removesuffix(".py") for part in path.relative_to(_PACKAGE).parts[:2]]
            step = next((_STEPS[part] for part in parts if part in _STEPS), None)
            if step is not None:
                return step
    return "running the command"


def end_with(error: Exception) -> int:
    """Print the error; returns the exit code that goes with it."""
    code, message = _verdict(error)
    if os.environ.get(DETAILS, "") not in {"", "0"}:
        streams.complain("".join(traceback.format_exception(error)).rstrip("\n"))
    streams.complain("\n".join(clipped(line, _MOST) for line in f"error: {message}".split("\n")))
    return EXIT_CODES[code]


def _verdict(error: Exception) -> tuple[str, str]:  # noqa: PLR0911 - one return per sort of error
    match error:
        case click.UsageError():
            help_ = f" (see {error.ctx.command_path} --help)" if error.ctx else ""
            return "input", f"{error.format_message()}{help_}"
        case DoesNotFitError():
            return "does not fit", str(error)
        case PipesimError():
            return "input", str(error)
        case click.ClickException():
            return "input", error.format_message()
        case MemoryError():
            return "input", (
                f"{step_of(error)} takes more memory than this machine gives; ask for less, such as fewer "
                "microbatches, layers or devices (--host-memory sets how much may be taken)"
            )
        case OSError():
            what = "cannot write the output" if error.filename is None else str(error.filename)
            return "input", f"{what}: {error.strerror or error}"
    return "internal", _internal(error)


def _internal(error: Exception) -> str:
    """A fault of the program, in a sentence that explains how to report it."""
    first = clipped(next(iter(str(error).strip().splitlines()), ""), 300)
    what = f"{type(error).__name__}: {first}" if first else type(error).__name__
    return (
        f"internal error while {step_of(error)}: {what}{_place(error)}; this is a fault of pipesim: please report the "
        "command and what it prints with --traceback"
    )


def _place(error: Exception) -> str:
    """The innermost line of the package that the traceback passes through."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if _is_own(frame.filename)]
    if not frames:
        return ""
    return f" (pipesim/{Path(frames[-1].filename).relative_to(_PACKAGE).as_posix()}, line {frames[-1].lineno})"


def _is_own(filename: str) -> bool:
    return Path(filename).is_relative_to(_PACKAGE)


def check_fit(result: "SimulationResult") -> None:
    """Refuse what devices whose memory is known cannot hold; for --require-fit, after the result was shown."""
    from pipesim.analysis import metrics
    from pipesim.display import text

    if result.fits_memory:
        return
    if result.fits_memory is None:
        why = "; ".join(note for note in result.notes if "_bytes" in note)
        raise DoesNotFitError(f"whether it fits in memory is unknown: {why}")
    timeline = result.timeline
    program = timeline.program
    columns = zip(program.devices, metrics.peak_memory(timeline).tolist(), program.memory.tolist(), strict=True)
    short = [(need - has, name) for name, need, has in columns if has]
    most, name = max(short)
    count = sum(lack > 0 for lack, _ in short)
    raise DoesNotFitError(
        f"does not fit in memory: {name} is short of {text.size(most)}, the most of {count} of "
        f"{len(program.devices)} devices"
        + (f"; would fit with {', or '.join(result.would_fit_with)}" if result.would_fit_with else "")
    )


def interrupted() -> int:
    """Say that the user ended it."""
    streams.complain("interrupted")
    return EXIT_CODES["interrupted"]
