"""What faster devices or links would save, as text."""

import pytest

from pipesim.display import text


def data(*found):
    gains = [{"what": what, "name": name, "iteration_time_s": 1 - gain, "gain": gain} for what, name, gain in found]
    return {"iteration_time_s": 1.0, "by": 0.1, "gains": gains}


@pytest.mark.parametrize(
    ("found", "sentence"),
    [
        (
            ("device", "g0", 0.05),
            "first make g0 faster, or give it less work: by 10 %, that saves 5.0 % of the iteration",
        ),
        (
            ("link", "all of 1 GB/s", 0.05),
            "first make links of 1 GB/s faster: by 10 %, that saves 5.0 % of the iteration",
        ),
        (("layer", "80 x mlp", 0.05), "first make 80 x mlp faster: by 10 %, that saves 5.0 % of the iteration"),
    ],
)
def test_the_greatest_gain_is_a_sentence(found, sentence):
    assert text.gains(data(found)).splitlines()[1] == sentence


def test_layers_of_a_group_are_not_listed():
    found = data(("layer", "2 x mlp", 0.1), ("layer", "block0.mlp", 0.05))
    found["gains"][1]["group"] = "2 x mlp"
    assert "block0" not in text.gains(found)


def test_without_a_gain_the_sentence_states_that():
    assert "nothing of this alone" in text.gains(data(("device", "g0", 0.0))).split("\n\n")[0]
    assert "saves" not in text.gains(data(("device", "g0", 0.0))).split("\n\n")[0]


def test_rows_left_out_are_counted():
    shown = text.gains(data(*(("device", f"g{i}", 0.01) for i in range(5))), most=3)
    assert shown.endswith("... and 2 more")
    assert "g3" not in shown


def test_changes_of_a_recorded_run_are_listed_and_those_left_out_counted():
    rows = [
        {"what": "rank", "name": f"{n} at the mean of its stage", "iteration_time_s": 1.5, "gain": 0.25}
        for n in range(4)
    ]
    shown = text.run_changes({"iteration_time_s": 2.0, "gains": rows}, most=3)
    assert shown.startswith("recorded steps take 2.000 s (mean)")
    assert "25.00 %" in shown
    assert shown.endswith("... and 1 more")
