"""PyTorch's names of schedules."""

import pytest

from pipesim.frameworks import torch_schedules
from pipesim.frameworks.training_layout import InexpressibleError, TrainingLayout
from pipesim.schedulers import SCHEDULERS


def test_every_schedule_of_pytorch_is_one_here():
    assert {name for name, _, _ in torch_schedules.SCHEDULES.values()} <= set(SCHEDULERS)


def test_names_go_to_pytorch_and_back():
    for name, (scheduler, several, placement) in torch_schedules.SCHEDULES.items():
        stages = ("Et", "t", "t", "tL") if several else ("Et", "tL")
        layout = TrainingLayout(stages, pipeline=2, scheduler=scheduler, placement=placement)
        assert torch_schedules.named(layout) == name
        assert torch_schedules.placed(f"Schedule{name}") == (scheduler, placement)
    assert torch_schedules.placed("Unknown") is None


def test_others_have_to_be_files():
    layout = TrainingLayout(("Et", "t", "t", "tL"), pipeline=2, scheduler="interleaved(group=4)")
    assert torch_schedules.named(layout) is None
    with pytest.raises(InexpressibleError, match=r"others as a \.csv file"):
        torch_schedules.file_of(layout)
