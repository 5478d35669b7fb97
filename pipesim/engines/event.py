"""The reference engine: a SimPy process per device, and a network manager for all links.

device process      for each task of its lane, in order: wait until nothing is missing, work, start what depends on it
missing[task]       how many of the tasks it needs have not ended
gate[task]          the event that a device waits for which has reached a task too early
"""

from collections.abc import Callable, Generator, Sequence
from contextlib import suppress

import numpy as np
from simpy import Environment
from simpy.core import EmptySchedule
from simpy.events import Event, Timeout

from pipesim.base.errors import DeadlockError
from pipesim.core.program import Program
from pipesim.core.rates import Rates
from pipesim.core.scenario import finish_time
from pipesim.core.timeline import Timeline, verified_if_asked
from pipesim.engines.link_manager import LinkManager
from pipesim.engines.unfinished import unfinished_tasks

NAME = "event"


def run(program: Program, lanes: Sequence[int] | None = None, watch: Callable[[int], None] | None = None) -> Timeline:
    """Run the program.

    `lanes` is the order in which device processes are created; it must not matter. `watch` is called now and then with
    the number of tasks that have ended.
    """
    simulation = _EventRun(program)
    for lane in lanes if lanes is not None else range(len(program.devices)):
        simulation.env.process(simulation.device(lane))
    for task in simulation.ready:
        simulation.links.request(task)
    _run_to_end(simulation, watch)
    if simulation.running:
        raise DeadlockError(unfinished_tasks(program, simulation.end))
    rates = simulation.links.rates()
    return verified_if_asked(
        Timeline(
            program,
            np.array(simulation.start, np.int64),
            np.array(simulation.end, np.int64),
            NAME,
            _rates(rates) if program.sharing_rule.rated else None,
        )
    )


def _run_to_end(simulation: "_EventRun", watch: Callable[[int], None] | None, events: int = 20_000) -> None:
    if watch is None:
        simulation.env.run()
        return
    step = simulation.env.step
    while simulation.env.peek() != float("inf"):
        with suppress(EmptySchedule):
            for _ in range(events):
                step()
        watch(len(simulation.program) - simulation.running)


def _rates(log: list[tuple[int, int, float]]) -> Rates:
    task, time, rate = zip(*log, strict=True) if log else ((), (), ())
    return Rates(np.array(task, np.int64), np.array(time, np.int64), np.array(rate, np.float64))


class _EventRun:
    """The state of one run: columns as plain lists, which Python reads faster than arrays."""

    def __init__(self, program: Program) -> None:
        self.env = Environment(initial_time=0)
        self.program = program
        self.duration: list[int] = program.duration.tolist()
        self.on_lane: list[bool] = program.is_compute.tolist()
        self.missing: list[int] = program.needs.lengths.tolist()
        dependents = program.needs.inverse(len(program))
        self.first: list[int] = dependents.starts.tolist()
        self.dependent: list[int] = dependents.values.tolist()
        self.start = [-1] * len(program)
        self.end = [-1] * len(program)
        self.gate: dict[int, Event] = {}
        self.running = len(program)
        self.links: LinkManager = program.sharing_rule.implementation("link_manager")(
            self.env, program, self.start, self.done
        )
        self.ready = [t for t, missing in enumerate(self.missing) if not missing and not self.on_lane[t]]

    def device(self, lane: int) -> Generator[Event, None, None]:
        """The process of a device: its tasks, in order."""
        env, duration, missing = self.env, self.duration, self.missing
        speeds = self.program.lane_speeds.get(lane)
        for task in self.program.order[lane].tolist():
            if missing[task]:
                gate = self.gate[task] = Event(env)
                yield gate
            now = int(env.now)
            self.start[task] = now
            yield Timeout(env, duration[task] if speeds is None else finish_time(speeds, now, duration[task]) - now)
            self.done(task)

    def done(self, task: int) -> None:
        """A task has ended: its dependents that miss nothing more go on."""
        self.end[task] = int(self.env.now)
        self.running -= 1
        missing = self.missing
        for at in range(self.first[task], self.first[task + 1]):
            dependent = self.dependent[at]
            missing[dependent] -= 1
            if not missing[dependent]:
                if not self.on_lane[dependent]:
                    self.links.request(dependent)
                elif dependent in self.gate:
                    self.gate.pop(dependent).succeed()
