"""The answer of a simulation in a few lines."""

import pytest

from pipesim.display import text
from pipesim.display.text.answer_text import MOST_LINES
from pipesim.studies import results


@pytest.fixture(scope="module")
def data():
    result = results.simulate("bert-large", 'servers(2, 2, intra="25GB/s", inter="1GB/s")', "gpipe", microbatches=4)
    return result.as_data()


def test_the_answer_is_the_time_the_speed_one_bubble_the_memory_and_the_bottleneck_in_five_lines(data):
    lines = text.answer(data).splitlines()
    assert [line[:16].strip() for line in lines] == ["iteration time", "throughput", "bubble", "memory", "bottleneck"]
    assert len(lines) <= MOST_LINES
    assert text.seconds(data["iteration_time_s"]) in lines[0]
    assert f"{data['tokens_per_s_per_gpu']:,.0f} tokens/s/GPU" in lines[1]
    assert "MFU" in lines[1]
    assert sum("idle" in line for line in lines) == 1


def test_samples_are_counted_where_they_have_no_tokens(data):
    line = text.answer(data | {"tokens_per_s": None, "tokens_per_s_per_gpu": None, "mfu": None}).splitlines()[1]
    assert line == f"throughput      {data['throughput_samples_per_s']:.1f} samples/s"


@pytest.mark.parametrize(("fits", "shown"), [(True, "  fits: "), (False, "  DOES NOT FIT: "), (None, "  unknown: ")])
def test_whether_the_memory_suffices_is_shown(data, fits, shown):
    assert shown in text.answer(data | {"fits_memory": fits}).splitlines()[3]


def test_the_device_with_the_least_headroom_is_named(data):
    devices = {
        "a": {"memory_headroom_bytes": 2**30, "peak_memory_bytes": 3 * 2**30},
        "b": {"memory_headroom_bytes": 2**20, "peak_memory_bytes": 0},
        "c": {"memory_headroom_bytes": None, "peak_memory_bytes": 5},
    }
    assert text.answer(data | {"devices": devices}).splitlines()[3].endswith("fits: 0 B of 1.000 MiB on b")
    without = {"c": devices["c"]}
    assert text.answer(data | {"devices": without}).splitlines()[3].endswith("  fits")


def test_options_with_which_it_would_fit_and_the_reserve_are_shown(data):
    short = {"fits_memory": False, "would_fit_with": ["--recompute full"], "simulation": {"reserve": 2**32}}
    line = text.answer(data | short).splitlines()[3]
    assert line.endswith(", with a reserve of 4.000 GiB; would fit with --recompute full")


@pytest.mark.parametrize("what", ["computing", "transfers", "all_reduce", "imbalance", "pipeline"])
def test_each_bottleneck_has_a_sentence_with_its_share(data, what):
    found = data["bottleneck"] | {"what": what, "shares": {what: 0.123}}
    sentence = text.answer(data | {"bottleneck": found}).splitlines()[4]
    assert "12.3 %" in sentence
    assert "_" not in sentence.split("; ")[0]


def test_only_a_terminal_with_colours_gets_them(data):
    assert "\x1b" not in text.answer(data)
    coloured = text.answer(data | {"fits_memory": False}, text.Terminal(colour=True))
    assert "\x1b[31mDOES NOT FIT\x1b[0m" in coloured


def test_notes_follow_the_origin_of_the_times():
    assert text.origin("trace mine (cpu), recorded", ["one", "two"]).splitlines() == [
        "trace mine (cpu), recorded",
        "note: one",
        "note: two",
    ]


def test_the_time_has_the_interval_of_measured_runs_unless_the_result_is_named(data):
    interval = text.measured_interval(data["measured_interval"])
    assert text.answer(data).splitlines()[0].endswith(f", {interval}")
    assert text.answer(data, of="the best").splitlines()[0].endswith(", the best")
