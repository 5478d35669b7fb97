"""Llama 3.1 405B on 8 to 131,072 GPUs of a rail-optimised fat tree, folded: each job in a process of its own."""

import itertools
import subprocess
import sys
import time
from typing import Any

Row = tuple[str, str, str]
SIZES = (8, 64, 128, 1024, 4096, 16_384, 131_072)
TENSOR, PIPELINE = 8, 16
LARGE = 16_384
ODD = {"slow": "one node 1.2 times as slow", "spine": "one link from a leaf to a spine at a quarter of its bandwidth"}


def steps(data: int) -> list[float]:
    """What `job` takes with so many pipelines of 16 stages of 8 GPUs, on a network that earlier versions have, too."""
    return job(TENSOR * PIPELINE * data, "calm", "hgx_h100")


def scenario_of(name: str) -> Any:  # noqa: ANN401 - a Scenario
    """Nothing, one slow node, or one degraded link between a leaf and a spine."""
    from pipesim.core.scenario import Degraded, Scenario, Slow  # noqa: PLC0415 - of the child process

    if name == "slow":
        return Scenario(tuple(Slow(f"node5.gpu{i}", 1.2) for i in range(8)))
    return Scenario((), (Degraded("pod0.block1.leaf3", "pod0.spine3", 0.25),)) if name == "spine" else Scenario()


def job(gpus: int, scenario: str, network: str = "rail_fat_tree") -> list[float]:
    """Seconds of CPU for each step, and tasks before and after folding."""
    import pipesim as ps  # noqa: PLC0415 - as above
    from pipesim.engines import compiled  # noqa: PLC0415 - as above
    from pipesim.lowering import fold_of, lower, lower_folded  # noqa: PLC0415 - as above

    pipeline = min(PIPELINE, gpus // TENSOR)
    marks = [time.process_time()]
    setup = ps.make_setup(
        "llama3.1-405b",
        f"{network}({gpus // 8})",
        tensor=TENSOR,
        pipeline=pipeline,
        data=gpus // TENSOR // pipeline,
        interleave=2 if pipeline > 1 else 1,
        microbatches=gpus // 8,
        sequence=8192,
        framework="megatron",
        sharding="zero1",
        sequence_parallel=True,
        recompute="full",
        fit=False,
        scenario=scenario_of(scenario),
    )
    marks.append(time.process_time())
    fold = fold_of(setup)
    marks.append(time.process_time())
    program = lower(setup) if fold is None else lower_folded(setup, fold)
    marks.append(time.process_time())
    compiled.run(program)
    marks.append(time.process_time())
    seconds = [after - before for before, after in itertools.pairwise(marks)]
    return [*seconds, program.represented, len(program)]


def measure(gpus: int, scenario: str) -> None:
    """Print that, and the most memory."""
    import resource  # noqa: PLC0415 - of the child process

    print(*job(gpus, scenario), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20)


def _row(gpus: int, scenario: str = "calm") -> Row:
    done = subprocess.run([sys.executable, __file__, str(gpus), scenario], capture_output=True, text=True, check=True)
    plan, fold, lower, play, tasks, few, most = map(float, done.stdout.split())
    parts = f"plan and order {plan:.2f}, fold {fold:.2f}, lower {lower:.2f}, play {play:.2f}"
    what = f"... {ODD[scenario]}" if scenario in ODD else f"{gpus:,} GPUs"
    return (
        f"{what}: {tasks:,.0f} tasks, {few:,.0f} when folded",
        f"{plan + fold + lower + play:.2f} s of CPU ({parts}); {most:.2f} GiB",
        "10 s, 2 GB" if gpus == LARGE else "",
    )


def rows() -> list[Row]:
    """What each size takes; the large one also where one thing is not as the others."""
    _row(SIZES[0])  # kernels are compiled
    found = []
    for gpus in SIZES:
        found.append(_row(gpus))
        if gpus == LARGE:
            found += [_row(gpus, name) for name in ODD]
    return found


if __name__ == "__main__":
    measure(int(sys.argv[1]), sys.argv[2])
