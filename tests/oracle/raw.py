"""Programs that no plan makes: any needs, any speeds, more changes of speed than tasks."""

from dataclasses import replace
from fractions import Fraction

import numpy as np

from oracle.judging import check_equal, played
from oracle.loop import Network, Stuck, play
from oracle.rounding import Rounding
from oracle.routes import Message
from oracle.speeds import Speeds, Window
from oracle.tasks import Task, Work
from pipesim.base.arrays import Ragged
from pipesim.core import program as programs
from pipesim.core.program import ACTIVATION, FORWARD, SHARINGS, Bucket, Program
from pipesim.core.scenario import Speeds as Given


def judged(rng) -> str:
    """A program drawn, played by all and compared."""
    program = draw(rng)
    rounding = Rounding()
    try:
        expected = _play(program, rounding)
    except Stuck as stuck:
        expected = stuck.args[0]
    timelines = played(program)
    if isinstance(timelines, str):
        assert expected == int(timelines.split()[0]), f"the oracle says {expected} cannot start"
        return "program: stuck"
    assert isinstance(expected, dict), f"the oracle says {expected} tasks cannot start"
    if rounding.doubts:
        return "undecided: rounding"
    mine = dict(enumerate(zip(timelines[0].start.tolist(), timelines[0].end.tolist(), strict=True)))
    check_equal(timelines[0], mine, {name[1]: span for name, span in expected.items()})
    return f"program, {program.sharing}: equal"


def draw(rng) -> Program:
    """Few tasks, many ties."""
    count, lanes, media = rng.randint(1, 14), rng.randint(1, 4), rng.randint(1, 4)
    sharing = rng.choice([*SHARINGS, "fair", "fifo"])
    lane = np.array([rng.choice([-1, -1, *range(lanes)]) for _ in range(count)])
    routes = [[] if n >= 0 else rng.sample(range(media), rng.randint(0, media)) for n in lane.tolist()]
    even = rng.random() < 0.5
    capacity = np.array([1.0 if even else rng.choice([0.5, 1.0, 2.0, rng.uniform(0.2, 4)]) for _ in range(media)])
    limit = np.array([rng.choice([np.inf, np.inf, 0.25, rng.uniform(0.1, 3)]) for _ in range(count)])
    size = np.array([0.0 if n >= 0 else float(rng.choice([0, 64, 128, rng.randint(1, 999)])) for n in lane.tolist()])
    delay = np.array([0 if n >= 0 else rng.choice([0, 0, 32, 100]) for n in lane.tolist()])
    duration = np.array([_duration(rng, sharing, *row) for row in zip(delay, size, routes, lane, strict=True)])
    order = rng.sample(range(count), count)  # whoever comes later needs only who comes earlier, unless turned round
    needs = [[] for _ in range(count)]
    for place, task in enumerate(order):
        needs[task] = sorted(rng.sample(order[:place], min(place, rng.choice([0, 0, 1, 1, 2, 3]))))
    if rng.random() < 0.05 and count > 1:
        needs[order[0]] = [order[-1]]
    blank = np.zeros(count, np.int64)
    program = Program(
        sharing=sharing, transfers="eager", devices=tuple(f"g{n}" for n in range(lanes)),
        media=tuple(f"link{n}" for n in range(media)), capacity=capacity,
        kind=np.where(lane >= 0, FORWARD, ACTIVATION), stage=blank, microbatch=np.arange(count), lane=lane,
        source=np.maximum(lane, 0), target=np.maximum(lane, 0), duration=duration, delay=delay, size=size, limit=limit,
        order=Ragged.of([[t for t in order if lane[t] == n] for n in range(lanes)]), needs=Ragged.of(needs),
        route=Ragged.of(routes), memory_start=blank, memory_end=blank,
        static_memory=np.zeros(lanes, np.int64), memory=np.zeros(lanes, np.int64), microbatches=1, samples=1,
        flops=None, peak_flops=None, lane_speeds=_speeds(rng, lanes), media_speeds=_speeds(rng, media),
    )  # fmt: skip
    if sharing == "fair" and rng.random() < 0.4:
        program = replace(program, buckets={m: _bucket(rng, capacity[m]) for m in range(media) if rng.random() < 0.6})
    programs.check(program)
    return program


def _duration(rng, sharing: str, delay, size, route, lane) -> int:  # noqa: PLR0917 - a row
    """Under fair sharing what has nothing to carry is over when its delay is."""
    if lane < 0 and sharing == "fair" and (not size or not route):
        return int(delay)
    return int(delay) + rng.choice([0, 64, 128, 128, rng.randint(0, 500)])


def _bucket(rng, peak: float) -> Bucket:
    return Bucket(float(rng.choice([0.1, 16, 100, 512, rng.randint(1, 999)])), peak * rng.choice([0.1, 0.25, 0.5, 0.9]))


def _speeds(rng, count: int) -> dict[int, Given]:
    """Of some of them; sometimes many changes, to the same speed and back too."""
    changes = rng.choice([0, 0, 1, 5, 40])
    return {n: _given(rng, changes) for n in range(count) if changes and rng.random() < 0.6}


def _given(rng, changes: int) -> Given:
    times = sorted({0, *(rng.choice([64, 128, 192, rng.randint(1, 900)]) for _ in range(changes))})
    return Given(tuple(times), tuple(rng.choice([1.0, 0.5, 0.25, 2.0, 0.3]) for _ in times))


def _play(program: Program, rounding: Rounding) -> dict:
    """The oracle's loop on the tasks of a program."""
    tasks, names = {}, [("task", t, int(program.lane[t])) for t in range(len(program))]
    for t, name in enumerate(names):
        needs = {names[need] for need in program.needs[t].tolist()}
        limit = None if np.isinf(program.limit[t]) else Fraction(float(program.limit[t]))
        media = tuple(program.route[t].tolist())
        message = Message(
            media, int(program.duration[t]), int(program.delay[t]), Fraction(float(program.size[t])), limit, 0.0
        )
        tasks[name] = Task(needs, int(program.duration[t]), message if program.lane[t] < 0 else None, (t,))
    lanes = {n: [names[t] for t in row.tolist()] for n, row in enumerate(program.order)}
    bandwidth = {m: Fraction(float(rate)) for m, rate in enumerate(program.capacity)}
    network = Network(program.sharing, bandwidth, _windows(program.media_speeds), _exact(program.buckets))
    return play(Work(tasks, lanes), network, _windows(program.lane_speeds), rounding)


def _exact(buckets: dict) -> dict:
    return {m: tuple(map(Fraction, bucket)) for m, bucket in buckets.items()}


def _windows(given: dict) -> Speeds:
    return Speeds(
        {
            what: [
                Window(start, end, Fraction(value))
                for start, end, value in zip(times, [*times[1:], None], values, strict=True)
            ]
            for what, (times, values) in given.items()
        }
    )
