"""Layouts as text."""

from pipesim.display import text
from pipesim.frameworks.training_layout import TrainingLayout


def test_a_layout_is_shown_with_its_sizes_and_stages():
    layout = TrainingLayout(("Ett", "t", "t", "ttL"), pipeline=2, data=3, microbatch_size=2, microbatches=5)
    shown = text.training_layout(layout, "megatron", ["a note"], "pipesim simulate").splitlines()
    assert shown[1] == "layout    TP 1, PP 2, VPP 2, DP 3 = 6 GPUs"
    assert shown[2].endswith("microbatches of 2, 5 for each pipeline, 30 samples in an iteration")
    assert "Ett|t|t|ttL" in shown[5]
    assert shown[9].split() == ["0", "0", "embedding,", "2", "x", "block"]
    assert shown[-4:] == ["note: a note", "", "simulate it:", "  pipesim simulate"]


def test_what_is_not_stated_is_shown_as_that():
    shown = text.training_layout(TrainingLayout(("u", "uu"), pipeline=2), "torch")
    assert "DP not stated" in shown
    assert "microbatches of not stated" in shown
    assert "stages" not in shown.split("\n\n", maxsplit=1)[0]


def test_rounding_is_shown_with_its_cost():
    shown = text.converted("--num-layers 4", ["rounded: because"], 0.5, 0.55).splitlines()
    assert shown == [
        "# rounded: because",
        "# simulated: 550.0 ms in place of 500.0 ms as planned (+10.0 %)",
        "--num-layers 4",
    ]


def test_files_that_a_text_names_are_shown_after_it():
    assert text.converted("text", [], files={"schedule.csv": "0F0,0B0\n"}) == "text\n\n# schedule.csv\n0F0,0B0"
