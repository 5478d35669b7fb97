"""Functions in other processes give what they give here, whatever becomes of the processes."""

import os
import threading
import time

import pytest

from pipesim.base import forked
from pipesim.base.forked import Forked, results_of

pytestmark = pytest.mark.usefixtures("forking")


@pytest.fixture
def forking(monkeypatch):
    """As if there were several cores."""
    monkeypatch.setattr(forked, "core_count", lambda: 3)
    if not forked.is_possible():
        pytest.skip("a system without fork, or a process of a pool")


@pytest.mark.parametrize("most", [1, 2, 3, 8])
def test_results_are_in_the_order_of_the_functions(most):
    found = results_of([lambda n=n: n * n for n in range(7)], most)
    assert found == [n * n for n in range(7)]


def test_several_processes_take_part():
    def work():
        time.sleep(0.05)
        return os.getpid()

    assert len(set(results_of([work] * 6, 3))) == 3
    assert set(results_of([work] * 2, 1)) == {os.getpid()}


def test_what_fails_elsewhere_is_done_again_and_raised_here():
    here = os.getpid()

    def only_here():
        time.sleep(0.02)
        if os.getpid() != here:
            raise ValueError("not here")
        return 1

    def nowhere():
        time.sleep(0.02)
        raise KeyError("nowhere")

    assert results_of([only_here] * 4, 2) == [1] * 4
    with pytest.raises(KeyError, match="nowhere"):
        results_of([only_here, nowhere, nowhere], 2)


def test_a_process_that_is_gone_is_done_without():
    here = os.getpid()

    def ends_its_process():
        time.sleep(0.02)
        if os.getpid() != here:
            os._exit(1)
        return 2

    assert results_of([ends_its_process] * 4, 2) == [2] * 4
    process = Forked(lambda: os._exit(1))
    assert process.ask(0)
    assert process.answer(0) is None
    assert not process.ask(1) or process.answer(1) is None


def test_where_none_can_be_forked_all_is_done_here(monkeypatch):
    def full(_):
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr("multiprocessing.context.ForkProcess.start", full)
    assert forked.started(os.getpid) is None
    assert set(results_of([os.getpid] * 4, 3)) == {os.getpid()}


def test_answers_that_nobody_waits_for_are_passed_over():
    process = Forked(lambda n: n + 1)
    assert process.is_idle
    process.ask(1, 10)
    process.ask(2, 20)
    assert process.answer(2) == 21
    process.ask(3, 30)
    deadline = time.monotonic() + 30
    while not process.is_idle and time.monotonic() < deadline:
        time.sleep(0.001)
    assert process.is_idle
    process.ask(4, 40)
    assert process.answer(4) == 41
    process.end()
    assert not process.ask(5, 50)


def test_a_process_ends_with_the_object():
    process = Forked(os.getpid)
    process.ask(0)
    number = process.answer(0)
    del process
    with pytest.raises(ProcessLookupError):
        os.kill(number, 0)


def test_no_process_is_forked_from_another_thread():
    found = list[list[int]]()
    thread = threading.Thread(target=lambda: found.append(results_of([os.getpid] * 3, 3)))
    thread.start()
    thread.join()
    assert set(found[0]) == {os.getpid()}


def test_processes_are_forked_beside_a_thread_that_shows_progress():
    ended, lock = threading.Event(), threading.Lock()

    def show():
        while not ended.wait(0.0001):
            with forked.between_forks, lock:
                time.sleep(0.001)

    def takes_the_lock():
        with lock:
            return os.getpid()

    thread = threading.Thread(target=show, name=forked.PROGRESS, daemon=True)
    thread.start()
    try:
        for _ in range(30):
            process = forked.started(takes_the_lock)
            assert process.ask(0)
            assert process._connection.poll(60), "the lock was held when the process was forked"
            assert process.answer(0) != os.getpid()
            process.end()
    finally:
        ended.set()
        thread.join()


def test_no_process_is_forked_beside_other_threads():
    event = threading.Event()
    thread = threading.Thread(target=event.wait)
    thread.start()
    beside = forked.started(os.getpid)
    event.set()
    thread.join()
    assert beside is None
    assert forked.started(os.getpid) is not None


def test_a_process_with_threads_is_not_alone():
    event = threading.Event()
    before, thread = forked.is_alone(), threading.Thread(target=event.wait)
    thread.start()
    beside = forked.is_alone()
    event.set()
    thread.join()
    assert before == (threading.active_count() == 1)
    assert not beside
