"""What torch.distributed.pipelining takes, as JSON."""

import json
import random

import pytest

from helpers.layouts import random_layout
from pipesim.base.errors import InputError
from pipesim.frameworks.torch_stages import read, recognised, write
from pipesim.frameworks.training_layout import TrainingLayout


def test_modules_have_the_names_of_the_models_layers():
    layout = TrainingLayout(("uu", "u", "u", "uu"), pipeline=2, scheduler="zb_v", placement="wave", microbatches=4)
    text = write(layout, ["a", "b", "c", "d", "e", "f"])
    data = json.loads(text)
    assert [one["modules"] for one in data["stages"]] == [["a", "b"], ["c"], ["d"], ["e", "f"]]
    assert [one["rank"] for one in data["stages"]] == [0, 1, 1, 0]
    assert data["split_spec"] == {"c": "BEGINNING", "d": "BEGINNING", "e": "BEGINNING"}
    assert data["schedule"] == "ZBVZeroBubble"
    assert recognised(text)
    assert read(text) == layout


def test_what_is_written_reads_back_as_the_same_layout():
    rng = random.Random(3)
    for _ in range(100):
        layout = random_layout(rng)
        if "(" not in layout.scheduler:
            assert layout.differences(read(write(layout))) == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (('"rank": 1', '"rank": 0'), "ranks"),
        (('"1F1B"', '"Other"'), "'Other' found; 1F1B"),
        (('"holds": "Ett"', '"holds": "Exx"'), "'x' found"),
        (('"options": {}', '"options": {"stages": 3}'), "options: an object with some of"),
        (('"stages": [', '"stages": [1,'), "a list of objects"),
        (("{", "["), "JSON"),
    ],
)
def test_damaged_files_are_refused(change, message):
    text = write(TrainingLayout(("Ett", "ttL"), pipeline=2))
    assert change[0] in text
    with pytest.raises(InputError, match=message):
        read(text.replace(*change))
