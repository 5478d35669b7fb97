"""A program run on an engine that is called by its name, or that is the user's own."""

from collections.abc import Callable

from pipesim.base import lookup
from pipesim.base.errors import InputError
from pipesim.core.program import Program
from pipesim.core.timeline import Timeline
from pipesim.engines import ENGINES


def run_again(program: Program, engine: str, *earlier: Timeline) -> Timeline:
    """As `run`, of a program that is nearly one of those that have been run: to the last bit the same timeline.

    The compiled engine begins where they differ. Whether it is chosen depends on the engine asked for and on the size.
    """
    from pipesim.engines import selection  # noqa: PLC0415 - SimPy is slow to import

    same = next((one for one in earlier if one.program is program), None)
    if same is not None:
        return same
    if earlier and (engine == "compiled" or (engine == "auto" and len(program) >= selection.LARGE)):
        resume: Callable[..., Timeline] = lookup.function_named("pipesim.engines.compiled:resume", ENGINES, "engine")
        return resume(program, *earlier)
    return run(program, engine)


def makespans(engine: str, *first: Timeline) -> Callable[[Program], int]:
    """What gives the ns of one program after the other, each of which is nearly the first, or the one before it."""
    before: list[Timeline] = []

    def makespan(program: Program) -> int:
        before[:] = [run_again(program, engine, *first, *before)]
        return before[0].makespan

    return makespan


def run(program: Program, engine: str = "auto", watch: Callable[[int], None] | None = None) -> Timeline:
    """Run a program on an engine; `watch` is called now and then with how many tasks have ended.

    >>> program = ps.lower(ps.make_setup("bert-large", 'flat(2, bandwidth="1GB/s")', microbatches=2))
    >>> timeline = ps.run(program, "event")
    >>> timeline.same_as(ps.run(program, "compiled"))
    True
    """
    function: Callable[..., Timeline] = lookup.function_named(engine, ENGINES, "engine")
    if engine in ENGINES:
        return function(program, watch=watch)
    with lookup.calling(engine, "engine"):
        lookup.check_takes(function, "program, watch=")
        timeline = function(program, watch=watch)
        if not isinstance(timeline, Timeline):
            raise InputError(f"returned a {type(timeline).__name__}; a Timeline was expected")
    return timeline
