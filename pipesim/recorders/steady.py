"""Constant conditions for all microbatches: threads, their cores, no garbage collection."""

import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

from pipesim.base.errors import InputError


@contextmanager
def steady(threads: int | None) -> Iterator[None]:
    """Within, PyTorch computes with `threads` threads on as many cores, if the system supports affinity.

    The last of the allowed cores are used, since the first has most of the system's own work. None leaves threads and
    cores unchanged, for a GPU that several threads of the host serve.
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
    """`threads` threads, and as many cores."""
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
