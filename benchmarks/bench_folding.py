"""A job of Llama 3.1 405B on up to 16,384 GPUs, simulated folded: each size in a process of its own."""

import itertools
import subprocess
import sys
import time

SIZES = (1, 4, 16, 64, 128)  # pipelines of 16 stages of 8 GPUs


def steps(data: int) -> list[float]:
    """Seconds of CPU for each step of a job with so many replicas, and its tasks before and after folding."""
    import pipesim as ps  # noqa: PLC0415 - of the child process
    from pipesim.engines import compiled  # noqa: PLC0415 - as above
    from pipesim.lowering import fold_of, lower_folded  # noqa: PLC0415 - as above

    marks = [time.process_time()]
    setup = ps.make_setup(
        "llama3.1-405b",
        f"hgx_h100({16 * data})",
        tensor=8,
        pipeline=16,
        data=data,
        interleave=2,
        microbatches=16 * data,
        sequence=8192,
        framework="megatron",
        sharding="zero1",
        sequence_parallel=True,
        recompute="full",
        fit=False,
    )
    marks.append(time.process_time())
    fold = fold_of(setup)
    marks.append(time.process_time())
    assert fold is not None  # noqa: S101 - the teams of a job of this sort are alike
    program = lower_folded(setup, fold)
    marks.append(time.process_time())
    compiled.run(program)
    marks.append(time.process_time())
    seconds = [after - before for before, after in itertools.pairwise(marks)]
    return [*seconds, program.represented, len(program)]


def measure(data: int) -> None:
    """Print that, and the most memory."""
    import resource  # noqa: PLC0415 - as above

    print(*steps(data), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20)


def rows() -> list[tuple[str, str, str]]:
    """What each size takes."""
    found = []
    for data in SIZES:
        done = subprocess.run(
            [sys.executable, __file__, str(data)], capture_output=True, text=True, check=True
        )  # with a warm cache of kernels from the second size on
        plan, fold, lower, play, tasks, few, most = map(float, done.stdout.split())
        steps = f"plan and order {plan:.2f} s, fold {fold:.2f}, lower {lower:.2f}, play {play:.2f}"
        found.append(
            (
                f"{128 * data:,} GPUs: {tasks:,.0f} tasks, {few:,.0f} when folded",
                f"{plan + fold + lower + play:.2f} s of CPU ({steps}); {most:.2f} GiB",
                "10 s, 2 GB" if data == 128 else "",
            )
        )
    return found


if __name__ == "__main__":
    measure(int(sys.argv[1]))
