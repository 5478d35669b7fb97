import pytest

from pipesim.base.errors import InputError
from pipesim.importers.detect import importer_for
from pipesim.importers.megatron_timers import megatron_timers


def block(forward, backward, more=""):
    lines = [" [2025-10-06 03:26:20] iteration 3/ 20 | consumed samples: 96 |", "times across ranks (ms):"]
    for name, times in (("forward-backward", forward), ("forward-compute", forward), ("backward-compute", backward)):
        lines += [f"  {name}:", *(f"     rank {rank:2d}: {ms:.2f}" for rank, ms in enumerate(times))]
    return "\n".join([*lines, more]) + "\n"


@pytest.fixture
def log(tmp_path):
    def write(*parts):
        (tmp_path / "train.log").write_text("some text\n" + "".join(parts))
        return tmp_path / "train.log"

    return write


def test_each_rank_is_a_stage_and_each_logged_iteration_a_sample(log):
    path = log(block([900, 900], [900, 900]), block([80, 60], [160, 120]), block([88, 68], [168, 128], "done"))
    assert importer_for(path) == "megatron_timers"
    trace = megatron_timers(path, microbatches=8, samples=2, output_bytes="1 KiB")
    assert (trace.layer_count, trace.microbatch_size) == (2, 2)
    assert trace.layers["forward_s"].tolist() == pytest.approx([0.010, 0.0075, 0.011, 0.0085])
    assert trace.layers["backward_s"].tolist() == pytest.approx([0.020, 0.015, 0.021, 0.016])
    assert trace.layers["sample"].tolist() == [0, 0, 1, 1]
    assert set(trace.layers["output_bytes"].tolist()) == {2048}
    assert "stages, not layers" in trace.notes[0]


def test_ranks_of_a_stage_are_averaged_in_megatrons_order(log):
    path = log(block([10, 12, 30, 32], [20, 24, 60, 64]))
    trace = megatron_timers(path, pipeline=2, skip=0)
    assert trace.layers["forward_s"].tolist() == pytest.approx([0.011, 0.031])
    with pytest.raises(InputError, match="pipeline = 3 found; a divisor of the 4 logged ranks was expected"):
        megatron_timers(path, pipeline=3)


def test_lines_of_one_gpu_and_of_old_versions_are_read(log):
    line = "time (ms) | forward-compute: 58.16 | backward-compute: 42.66 | optimizer: 57.50 | batch-generator: 5.24\n"
    trace = megatron_timers(log(line, line.replace("58.16", "31.57")), microbatches=2)
    assert trace.layers["forward_s"].tolist() == pytest.approx([0.015785])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("(min, max) time across ranks (ms):\n    forward-compute ......: (1.0, 2.0)\n", "--timing-log-option all"),
        (
            "times across ranks (ms):\n  forward-compute:\n     rank  0: 1.0\n",
            "no timers; forward-compute and backward",
        ),
        (block([1, 2], [3]) + block([1], [2]), "logged iteration 0: forward-compute and backward-compute of the same"),
        (block([1, 2], [3, 4]) * 2 + block([1], [2]), "different ranks in different iterations"),
        (block([1, 2], [3, 4]).replace("rank  1: 2.00", "rank  1: x"), "line 6: 'rank  1: x' found"),
        (block([1, 2], [3, 4]).replace("rank  1: 4.00", "rank  0: 4.00"), "rank 0 has the timer twice"),
        ("", "no timers"),
    ],
)
def test_logs_without_times_of_each_rank_are_refused(text, message, log):
    with pytest.raises(InputError, match=message):
        megatron_timers(log(text))
