"""Recordings of models as text."""

from types import SimpleNamespace

from helpers.strategies import even_trace
from pipesim.core.trace import OptimizerStep
from pipesim.display import text
from pipesim.recorders.noise import noise


def recording(**changed):
    trace = SimpleNamespace(
        model="gpt", layer_count=2, precision="fp32", machine="cpu", optimizers=(OptimizerStep("sgd", 2e-9),)
    )
    check = SimpleNamespace(reference_s=1.0, layers_s=1.1, difference=0.1, microbatch_size=4, split=1.04)
    absent = SimpleNamespace(layers=(), what="recompute", microbatch_size=2, why="fails")
    values = {"trace": trace, "checks": [check], "lost": [0, 1, 2], "disturbed": 1, "not_measured": [absent]}
    return SimpleNamespace(**values | changed)


def scattered(share):
    return SimpleNamespace(
        layer=0, name="conv", microbatch_size=4, scatter=share, seconds=lambda: (1.0, share, 2.0, 2 * share)
    )


def test_a_recording_shows_its_layers_checks_and_what_is_missing():
    shown = text.recording(recording(), [scattered(0.1)])
    assert shown.splitlines()[2].split()[:4] == ["0", "conv", "4", "1.000"]
    assert "1.000 s whole, 1.100 s layer by layer (+10.0 %)" in shown
    assert "both parts take 1.04 of whole ones (graph search left out)" in shown
    assert "2 ns per byte" in shown
    assert "2; discarded 1" in shown
    assert "recompute, microbatch of 2: all layers: fails" in shown


def test_layers_are_a_table_whose_files_have_plain_numbers():
    columns, records = text.recorded_layers([scattered(0.1)])
    assert [one.header for one in columns] == ["layer", "name", "microbatch", "forward", "± MAD", "backward", "± MAD"]
    assert records == [
        {
            "layer": 0, "name": "conv", "microbatch_size": 4, "forward_s": 1.0, "forward_mad_s": 0.1,
            "backward_s": 2.0, "backward_mad_s": 0.2,
        }
    ]  # fmt: skip


def test_only_large_scatter_is_listed():
    assert "scatters" not in text.recording(recording(), [scattered(0.25)])
    assert "conv, microbatch of 4: MAD 30.0 % of the median" in text.recording(recording(), [scattered(0.3)])


def test_the_noise_of_a_trace_has_all_that_is_shown():
    trace = even_trace(2)
    assert len(text.recording(recording(), noise(trace)).split("\n\n")[0].splitlines()) == 2 + 2
