"""A separate core for each process of a machine, so that timed processes never wait for the same one."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def pinned(local: int, count: int) -> Iterator[None]:
    """Keep this process, the `local`-th of `count` on its machine, on one core, unless there are too few cores.

    Threads that are started meanwhile inherit it: enter it before the process group is made.
    """
    allowed = allowed_cores()
    if len(allowed) < count:
        yield
        return
    os.sched_setaffinity(0, {apart(allowed)[local]})
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)


def core() -> int | None:
    """The one core that this process may use; None if there are several, or the platform does not report it."""
    allowed = allowed_cores()
    return allowed[0] if len(allowed) == 1 else None


def allowed_cores() -> list[int]:
    """The cores that this process may use; none if the platform does not report them."""
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_setaffinity") else []


def apart(cores: list[int]) -> list[int]:
    """The cores that share no physical core with an earlier one, then the others."""
    first = {_siblings(core): core for core in reversed(cores)}
    own = set(first.values())
    return [core for core in cores if core in own] + [core for core in cores if core not in own]


def _siblings(core: int) -> str:
    """The threads of a core's physical core, as the system lists them; the core alone if it does not."""
    try:
        path = Path(f"/sys/devices/system/cpu/cpu{core}/topology/thread_siblings_list")
        return path.read_text(encoding="ascii").strip()
    except OSError:
        return str(core)


def described(processes: list[tuple[str, str | int, int | None]]) -> str:
    """Which process (its name, its node, its core) was on which core, or that they were not pinned."""
    known = [(node, core) for _, node, core in processes if core is not None]
    if len(set(known)) < len(processes):
        return "processes without separate cores: times can include waiting for a core"
    return ", ".join(f"{name} on core {core}" for name, _, core in processes)
