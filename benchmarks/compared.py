"""What `compare.py` measures: each case prepares its input and returns the call to be timed.

As a program it is one side of a comparison: it reads "NAME CALLS" line by line, and answers each with the seconds of
CPU of one call, or with why there are none. It runs the pipesim that PYTHONPATH names, which may be an older one: cases
use what has been there for long, and a case that fails there is reported and left out.
"""

import functools
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

Call = Callable[[], object]
SHORTEST = 0.05  # seconds of CPU in one measurement; shorter calls are repeated


def _program(stages: int, microbatches: int, sharing: str) -> Any:  # noqa: ANN401 - a Program
    import bench_event  # noqa: PLC0415 - a case of its own imports

    return bench_event.program(stages, microbatches, sharing)


def _lower(stages: int, microbatches: int) -> Call:
    import bench_event  # noqa: PLC0415 - as above
    from pipesim.lowering import Options, Setup, lower  # noqa: PLC0415 - as above
    from pipesim.planners.uniform import uniform  # noqa: PLC0415 - as above
    from pipesim.schedulers.one_f_one_b import one_f_one_b  # noqa: PLC0415 - as above
    from pipesim.studies.loading import load_cluster  # noqa: PLC0415 - as above

    costs = bench_event.even(stages)
    cluster = load_cluster(f'flat({stages}, bandwidth="1GB/s")')
    plan = uniform(costs.model, cluster, costs, microbatches)
    schedule = one_f_one_b(plan)
    return lambda: lower(Setup(plan, schedule, costs, cluster, Options("fair")))


def _lower_copies(copies: int, stages: int) -> Call:
    import bench_compiled  # noqa: PLC0415 - as above

    return lambda: bench_compiled._copies(copies, stages)  # noqa: SLF001 - the case of the growth table


def _play(stages: int, microbatches: int, sharing: str) -> Call:
    from pipesim.engines import compiled  # noqa: PLC0415 - as above

    made = _program(stages, microbatches, sharing)
    return lambda: compiled.run(made)


def _flows(flows: int) -> Call:
    import bench_compiled  # noqa: PLC0415 - as above
    from pipesim.engines import compiled  # noqa: PLC0415 - as above

    made = bench_compiled.waves_of_flows(flows, 2)
    return lambda: compiled.run(made)


def _reference(stages: int, microbatches: int, sharing: str) -> Call:
    from pipesim.engines import event  # noqa: PLC0415 - as above

    made = _program(stages, microbatches, sharing)
    return lambda: event.run(made)


def _planner(name: str) -> Call:
    import bench_planners  # noqa: PLC0415 - as above
    from pipesim.studies import setups  # noqa: PLC0415 - as above

    costs, cluster = bench_planners.costs(50), bench_planners.servers(16)
    return lambda: setups.plan_with(name, costs, cluster, 16)


def _bound() -> Call:
    import pipesim as ps  # noqa: PLC0415 - as above

    found = ps.make_setup("bert-large", 'servers(2, 4, intra="25GB/s", inter="25Gb/s")', planner="spp", microbatches=16)
    return lambda: ps.bound(found)


def _scheduler(name: str) -> Call:
    from pipesim.studies import equal_stages  # noqa: PLC0415 - as above
    from pipesim.studies.equal_stages import Times  # noqa: PLC0415 - as above

    times = Times.of(1e-3, 2e-3, hop=3e-4)
    return lambda: equal_stages.setup(name, 16, 128, times)


def _large_job(data: int) -> Call:
    import bench_folding  # noqa: PLC0415 - as above

    return lambda: bench_folding.steps(data)


def _moves() -> Call:
    import math  # noqa: PLC0415 - as above

    import bench_moves  # noqa: PLC0415 - as above
    from pipesim.planners.spp_plus.polish import polished  # noqa: PLC0415 - as above
    from pipesim.studies.pricing import estimated_seconds  # noqa: PLC0415 - as above

    costs, cluster, plan = bench_moves.problem()
    first = estimated_seconds(costs, cluster, plan)
    price = functools.partial(estimated_seconds, costs, cluster)
    return lambda: polished(plan, price, lambda _: -math.inf, bench_moves.MOVES // 4, first)


def _cluster(text: str) -> Call:
    from pipesim.studies.loading import load_cluster  # noqa: PLC0415 - as above

    return lambda: load_cluster(text)


def _points() -> Call:
    import bench_sweep  # noqa: PLC0415 - as above
    from pipesim.studies import sweep  # noqa: PLC0415 - as above

    with tempfile.TemporaryDirectory() as name:
        made = bench_sweep.written(Path(name), 2000, 8)
    return lambda: sweep.read(made)


def _command(*words: str) -> Call:
    """A command in a process of its own, whose CPU is counted; from a folder where it finds no other pipesim."""
    where = tempfile.gettempdir()
    return lambda: subprocess.run(
        [sys.executable, "-m", "pipesim", *words], check=True, capture_output=True, cwd=where, env=os.environ
    )


CASES: dict[str, Callable[[], Call]] = {
    "lower 1F1B (4, 8), 112 tasks": functools.partial(_lower, 4, 8),
    "lower 1F1B (16, 64)": functools.partial(_lower, 16, 64),
    "lower 1F1B (128, 512)": functools.partial(_lower, 128, 512),
    "lower 512 GPUs, 1.0 M tasks": functools.partial(_lower_copies, 16, 32),
    **{f"compiled, {rule} (16, 64)": functools.partial(_play, 16, 64, rule) for rule in ("none", "fifo", "fair")},
    **{f"compiled, {rule} (128, 512)": functools.partial(_play, 128, 512, rule) for rule in ("none", "fifo", "fair")},
    "compiled, fair, 1,000 flows": functools.partial(_flows, 1000),
    **{f"SimPy, {rule} (16, 64)": functools.partial(_reference, 16, 64, rule) for rule in ("none", "fifo", "fair")},
    **{f"planner {name}": functools.partial(_planner, name) for name in ("spp", "dapple", "annealing", "spp_plus")},
    "100 local moves, 16 stages x 64 microbatches": _moves,
    "bound, BERT-large on 8 GPUs": _bound,
    **{f"schedule {name}": functools.partial(_scheduler, name) for name in ("one_f_one_b", "zb_1p", "interleaved_zb")},
    "large job, 2,048 GPUs, folded": functools.partial(_large_job, 16),
    "cluster hgx_h100(512)": functools.partial(_cluster, "hgx_h100(512)"),
    "sweep, 2,000 points read and hashed": _points,
    "command --help": functools.partial(_command, "--help"),
    "command simulate": functools.partial(
        _command, "simulate", "bert-large", 'flat(4, bandwidth="1GB/s")', "-m", "8", "--planner", "uniform"
    ),
}


def cpu() -> float:
    """Seconds of CPU of this process and of those that it has waited for."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def seconds(call: Call, calls: int) -> float:
    """Seconds of CPU of one of so many calls."""
    began = cpu()
    for _ in range(calls):
        call()
    return (cpu() - began) / calls


def prepared(name: str) -> tuple[Call, int]:
    """A case, called once to compile and to fill caches; and how many calls take long enough to be measured."""
    call = CASES[name]()
    call()
    return call, max(1, round(SHORTEST / max(seconds(call, 1), 1e-9)))


def main() -> None:
    """Answer requests until there are no more; "NAME 0" prepares a case and answers how many calls it wants."""
    known: dict[str, tuple[Call, int]] = {}
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what a case prints is no answer
    for line in sys.stdin:
        name, calls = line.rstrip("\n").rsplit(" ", 1)
        try:
            if name not in known:
                known.clear()  # one case at a time is in memory
                known[name] = prepared(name)
            answer: dict[str, object] = {"calls": known[name][1]}
            if int(calls):
                answer["seconds"] = seconds(known[name][0], int(calls))
        except Exception as error:  # noqa: BLE001 - an older pipesim may fail in any way
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
