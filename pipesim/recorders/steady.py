"""The same conditions from the first microbatch to the last: threads, the cores they may use, no garbage collection."""

import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

from pipesim.base.errors import InputError


@contextmanager
def steady(threads: int | None) -> Iterator[None]:
    """Within, PyTorch computes with so many threads, on as many cores, where the system lets one choose them.

    Of the allowed cores the last ones are taken: the first one has most of the system's own work. None leaves threads
    and cores as they are, for a GPU, which several threads of the host feed.
    """
    collecting = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        with pinned(threads) if threads is not None else nullcontext():
            yield
    finally:
        if collecting:
            gc.enable()


@contextmanager
def pinned(threads: int) -> Iterator[None]:
    """So many threads, and as many cores."""
    import torch

    allowed = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    if threads > len(allowed or range(os.cpu_count() or 1)):
        raise InputError(f"threads {threads} found; 1 to {len(allowed) or os.cpu_count()} was expected")
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    if allowed:
        os.sched_setaffinity(0, allowed[-threads:])
    try:
        yield
    finally:
        if allowed:
            os.sched_setaffinity(0, allowed)
        torch.set_num_threads(before)
