from types import SimpleNamespace

import pytest

from pipesim.recorders.clock import DeviceClock, clock_of


def test_spans_without_work_take_no_time():
    clock = DeviceClock(lambda: 0, lambda: None, lambda begin, end: (end - begin) / 10)
    assert clock.seconds([(0, 5), None, (5, 25)]) == [0.5, 0.0, 2.0]


def test_the_clock_of_the_processor_counts_nanoseconds():
    clock = clock_of(SimpleNamespace(type="cpu"))
    begin, end = clock.mark(), clock.mark()
    clock.settle()
    assert 0 <= clock.between(begin, end) < 1
    assert clock.between(0, 2_500_000_000) == pytest.approx(2.5)
