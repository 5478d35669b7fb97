"""Other processes that train the model while its layers are timed, as the neighbours of a stage do in a pipeline.

    core 0    forward and backward of the whole model, again and again, until the recording ends
    core 1    the process whose layers are timed

Layers take longer while other cores use the same memory: in a pipeline they do, in a recording by itself they do not.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from pipesim.base.errors import InputError, RefusedError
from pipesim.recorders import pinning

READY = "ready"
_PATIENCE_S = 30.0  # for a process to end


@contextmanager
def working(factory: str, microbatch: int, processes: int, threads: int = 1) -> Iterator[None]:
    """Keep so many processes busy with the model of a factory, each on a core of its own; this one on the last cores.

    They have done a pass each before this begins, and end with it, or with this process.
    """
    if not processes:
        yield
        return
    allowed = pinning.allowed_cores()
    cores = pinning.apart(allowed)
    if len(cores) < threads + processes:
        raise InputError(
            f"{processes} busy processes found; this one may use {len(cores)} cores, {threads} of them for the layers "
            f"that are timed: at most {max(0, len(cores) - threads)} were expected"
        )
    started: list[subprocess.Popen[str]] = []
    try:
        os.sched_setaffinity(0, set(cores[-threads:]))
        for core in cores[:processes]:
            command = [sys.executable, "-m", __name__, factory, str(microbatch), str(core)]
            started.append(
                subprocess.Popen(  # noqa: S603 - the user's own module, as in this process
                    command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
                )
            )
        for process in started:
            _wait(process)
        yield
    finally:
        os.sched_setaffinity(0, set(allowed))
        for process in started:
            process.kill()
            with suppress(subprocess.TimeoutExpired):
                process.communicate(timeout=_PATIENCE_S)


def _wait(process: "subprocess.Popen[str]") -> None:
    """Until a process has done its first pass."""
    line = process.stdout.readline() if process.stdout else ""
    if line.strip() != READY:
        last = (process.stderr.read() if process.stderr else "").strip().rpartition("\n")[2]
        raise RefusedError(f"a busy process ended: {last[:300]}")


def _main(factory: str, microbatch: str, core: str) -> None:
    """Train the model on one core until the process that started this one is gone."""
    import torch

    from pipesim.recorders.subjects import load_factory, make_subject, run
    from pipesim.recorders.values import start_of_backward

    os.sched_setaffinity(0, {int(core)})
    torch.set_num_threads(1)
    subject = make_subject(load_factory(factory), int(microbatch), torch.device("cpu"))
    parent, is_ready = os.getppid(), False
    while os.getppid() == parent:
        outputs, gradients = start_of_backward(run(subject))
        torch.autograd.backward(outputs, gradients)
        if not is_ready:
            sys.stdout.write(f"{READY}\n")
            sys.stdout.flush()
            is_ready = True


if __name__ == "__main__":
    _main(*sys.argv[1:])
