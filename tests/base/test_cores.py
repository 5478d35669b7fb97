"""How many cores there are, and when a second one is used."""

import multiprocessing
import os
import sys
import threading

import pytest

from pipesim.base import cores


@pytest.fixture(autouse=True)
def _fresh():
    cores.kernel_threads.cache_clear()
    yield
    cores.kernel_threads.cache_clear()


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system has no affinity of processes to cores")
def test_what_this_process_may_use_counts():
    allowed = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(allowed)})
        assert cores.core_count() == 1
        assert cores.kernel_threads() is None
    finally:
        os.sched_setaffinity(0, allowed)
    assert cores.core_count() == len(allowed)


def test_a_system_that_knows_no_affinity_has_all_its_cores(monkeypatch):
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 3)
    assert cores.core_count() == 3
    assert cores.kernel_threads().submit(threading.get_ident).result() != threading.get_ident()


def test_processes_of_a_pool_use_one_core_each():
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply(_has_second) is False


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system forks no processes")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_process_waits_for_no_thread_of_its_parent(monkeypatch):
    monkeypatch.setattr(cores, "core_count", lambda: 2)
    assert cores.kernel_threads().submit(int, "1").result() == 1
    reader, writer = os.pipe()
    if os.fork() == 0:
        try:
            os.write(writer, str(cores.kernel_threads().submit(int, "2").result(timeout=10)).encode())
        finally:
            os._exit(0)
    os.close(writer)
    assert os.read(reader, 10) == b"2"
    os.wait()


def _has_second():
    sys.modules["pipesim.base.cores"].core_count = lambda: 2
    return cores.kernel_threads() is not None
