"""How many cores there are to use, and threads for kernels that let other threads run."""

import functools
import multiprocessing
import os
from concurrent.futures import ThreadPoolExecutor


def core_count() -> int:
    """How many cores this process may use; systems without that know how many there are."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@functools.cache
def kernel_threads() -> ThreadPoolExecutor | None:
    """Two threads for what planners simulate; None on one core, and where the others are for processes of a pool."""
    alone = multiprocessing.parent_process() is None
    return ThreadPoolExecutor(2, "kernels") if alone and core_count() > 1 else None


if hasattr(os, "register_at_fork"):  # a forked process has none of the threads of its parent
    os.register_at_fork(after_in_child=kernel_threads.cache_clear)
