"""The SimPy engine: tasks per second beside a bare SimPy loop, and how the time per task grows."""

import time
from collections.abc import Callable, Iterator

import simpy

from pipesim.core.costs import Costs, costs_of
from pipesim.core.program import SHARINGS, Program
from pipesim.core.trace import Trace
from pipesim.engines.event import run
from pipesim.lowering import Options, Setup, lower
from pipesim.planners.uniform import uniform
from pipesim.schedulers.one_f_one_b import one_f_one_b
from pipesim.studies.loading import load_cluster

Row = tuple[str, str, str]
REPEATS = 5


def even(stages: int, **columns: list[int]) -> Costs:
    """A layer for each stage, all alike; transfers take a third of a forward at 1 GB/s."""
    layers = {
        "layer": list(range(stages)),
        "name": [f"layer{i}" for i in range(stages)],
        "forward_s": [1e-3] * stages,
        "backward_s": [2e-3] * stages,
        "output_bytes": [333_000] * stages,
    }
    return costs_of(Trace("even", "benchmark", 1, layers | columns))


def program(stages: int, microbatches: int, sharing: str) -> Program:
    """1F1B on equal stages, one device each, in a row."""
    costs = even(stages)
    cluster = load_cluster(f'flat({stages}, bandwidth="1GB/s")')
    plan = uniform(costs.model, cluster, costs, microbatches)
    return lower(Setup(plan, one_f_one_b(plan), costs, cluster, Options(sharing)))


def bare(lanes: int, tasks: int) -> None:
    """What SimPy costs without any simulation: one timeout per task, spread over as many processes as lanes."""
    env = simpy.Environment()

    def lane(count: int) -> Iterator[simpy.Event]:
        for _ in range(count):
            yield env.timeout(1000)

    for _ in range(lanes):
        env.process(lane(tasks // lanes))
    env.run()


def seconds(call: Callable[[], object]) -> float:
    """Seconds of one call."""
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def rows() -> list[Row]:
    """(what, measured, bar) for the tables of benchmarks/README.md."""
    found = []
    for stages, microbatches in ((4, 8), (16, 64), (64, 512)):
        made = program(stages, microbatches, "fifo")
        tasks = len(made)
        # Side by side, in turn, so that both see the same noise; the least of several is the machine at its quietest.
        times = [
            (seconds(lambda p=made: run(p)), seconds(lambda s=stages, n=tasks: bare(s, n))) for _ in range(REPEATS)
        ]
        engine, loop = (min(column) for column in zip(*times, strict=True))
        found.append(
            (
                f"fifo, 1F1B ({stages}, {microbatches}): {tasks:,} tasks",
                f"{tasks / engine / 1e6:.2f} M tasks/s",
                "≥ 0.30",
            )
        )
        found.append(("... beside a bare loop of one timeout per task", f"{engine / loop:.1f} times", "≤ 6"))
    for sharing in SHARINGS:
        made = program(16, 64, sharing)
        engine = min(seconds(lambda p=made: run(p)) for _ in range(REPEATS))
        found.append(
            (
                f"{sharing}, 1F1B (16, 64): {len(made):,} tasks",
                f"{len(made) / engine / 1e6:.2f} M tasks/s",
                "≥ 0.30" if sharing == "fair" else "",
            )
        )
    return [*found, *growth()]


def growth() -> list[Row]:
    """Time per task at (128, 1024) over that at (8, 32), under fifo."""
    small, large = program(8, 32, "fifo"), program(128, 1024, "fifo")
    pairs = [(min(seconds(lambda: run(small)) for _ in range(20)), seconds(lambda: run(large))) for _ in range(2)]
    at_small, at_large = (min(column) for column in zip(*pairs, strict=True))
    ratio = (at_large / len(large)) / (at_small / len(small))
    return [
        (f"growth: time per task at (128, 1024), {len(large):,} tasks, over (8, 32)", f"{ratio:.2f} times", "≤ 1.5")
    ]
