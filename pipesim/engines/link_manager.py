"""The base of what manages links on SimPy: which transfers hold or share which links, and when each ends.

    request(task) ──> [delay] ──> waiting for links ──> under way ──> done(task)

One manager with callbacks per run, in place of a SimPy process and a request per transfer: 3 to 4 times faster. Order
of events: everything that ends at t is processed first (events of normal priority); then, in one event of low
priority, links are granted. Waiting transfers are ordered by (ready time, task index), never by insertion order.
"""

from collections.abc import Callable
from itertools import pairwise

from simpy import Environment
from simpy.events import Event, EventPriority, Timeout

from pipesim.core.program import Program

Done = Callable[[int], None]

# SimPy handles events of one time by priority. Links are granted after everything else that happens at that time.
NORMAL = EventPriority(1)
LOW = EventPriority(2)


class LinkManager:
    """The links of one run. A sharing rule overrides `request`, and `end_transfer` or more."""

    def __init__(self, env: Environment, program: Program, start: list[int], done: Done) -> None:
        self.env = env
        self.program = program
        self.start = start
        self.done = done
        self.duration: list[int] = program.duration.tolist()
        self.steady = not program.media_speeds

    def request(self, task: int) -> None:
        """A transfer is ready: its tensor exists, and what must have been posted has been."""
        raise NotImplementedError

    def start_transfer(self, task: int) -> None:
        """Hold the route from now until the transfer ends."""
        now = self.env._now  # noqa: SLF001 - SimPy's own clock, an int here; the property costs a call per event
        self.start[task] = now  # type: ignore[assignment]  # all delays are whole, so time is
        lasting = self.duration[task] if self.steady else self.program.finish(task, int(now)) - int(now)
        Timeout(self.env, lasting, task).callbacks.append(self.end_transfer)

    def end_transfer(self, event: Event) -> None:
        """A transfer that `start_transfer` started has ended."""
        self.done(event._value)  # noqa: SLF001 - the task, given in `start_transfer`

    def rates(self) -> list[tuple[int, int, float]]:
        """Changes of rates as (task, time, rate), where rates change."""
        return []


def routes_of(program: Program) -> list[tuple[int, ...]]:
    """The media of each task; equal routes are one object, since few differ."""
    starts, values = program.route.starts.tolist(), program.route.values.tolist()
    known: dict[tuple[int, ...], tuple[int, ...]] = {}
    routes = (tuple(values[a:b]) for a, b in pairwise(starts))
    return [known.setdefault(route, route) for route in routes]
