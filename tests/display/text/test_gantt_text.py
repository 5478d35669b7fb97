"""Gantt charts in text."""

from helpers.networks import pipeline
from pipesim.display import text
from pipesim.engines.event import run


def test_each_slot_shows_what_each_device_computes():
    timeline = run(pipeline([1, 2], [2, 1], 2, "gpipe", sharing="none"))
    assert text.gantt(timeline, slot_ns=1).split("\n") == [
        "g0  F0 F1 .  .  .  .  B0 B0 B1 B1",
        "g1  .  F0 F0 F1 F1 B0 B1 .  .  .",
        "one column: 1.000 ns",
    ]


def test_exact_slots_are_the_greatest_common_divisor_of_the_durations():
    timeline = run(pipeline([4, 6], [6, 4], 2, "gpipe", sharing="none"))
    assert text.gantt(timeline, exactly=True).endswith("one column: 2.000 ns")


def test_a_chart_is_no_wider_than_requested():
    timeline = run(pipeline([1, 2], [2, 1], 30, "gpipe", sharing="none"))
    assert max(map(len, text.gantt(timeline, columns=60).splitlines())) <= 60
    assert max(map(len, text.gantt(timeline, columns=60, exactly=True).splitlines())) <= 60
