"""A program run on an engine that is called by its name, or that is the user's own."""

from collections.abc import Callable

from pipesim.base import lookup
from pipesim.base.errors import InputError
from pipesim.core.program import Program
from pipesim.core.timeline import Timeline
from pipesim.engines import ENGINES


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
