"""How long schedulers take to order large pipelines; warm, kernels compiled."""

import time

from pipesim.schedulers import SCHEDULERS
from pipesim.studies import equal_stages
from pipesim.studies.equal_stages import Times
from pipesim.studies.ordering import schedule_with

NOT_TIMED = {"auto", "exact"}  # the one runs all others, the other is for small instances


def rows() -> list[tuple[str, str, str]]:
    """(what, measured, bar): 1F1B of 131,072 actions, and every member for 16 stages and 256 microbatches."""
    slowest = sorted(((_seconds(name, 16, 256), name) for name in SCHEDULERS if name not in NOT_TIMED), reverse=True)
    return [
        ("one_f_one_b, 64 stages, 1024 microbatches", f"{_seconds('one_f_one_b', 64, 1024):.3f} s", "0.2 s"),
        *((f"{name}, 16 stages, 256 microbatches", f"{seconds:.3f} s", "1 s") for seconds, name in slowest),
    ]


def _seconds(name: str, stages: int, microbatches: int) -> float:
    made = equal_stages.setup(name, stages, microbatches, Times())
    times = []
    for _ in range(3):
        began = time.perf_counter()
        schedule_with(name, made.plan, made.costs, made.cluster)
        times.append(time.perf_counter() - began)
    return min(times)


if __name__ == "__main__":
    for row in rows():
        print(" | ".join(row))
