"""The quickest engine for a program: all give the same timeline, which names its engine."""

from collections.abc import Callable

from pipesim.core.program import Program
from pipesim.core.timeline import Timeline
from pipesim.engines import event

# Tasks from which on the compiled engine pays: numba must be imported, and kernels fetched from disk. Only the size
# counts, so that the same program always runs on the same engine.
LARGE = 100_000


def run(program: Program, watch: Callable[[int], None] | None = None, large: int = LARGE) -> Timeline:
    """Run the program on the SimPy engine if it has fewer than `large` tasks, else on the compiled one."""
    if len(program) < large:
        return event.run(program, watch=watch)
    from pipesim.engines import compiled  # noqa: PLC0415 - numba is slow to import

    return compiled.run(program, watch)
