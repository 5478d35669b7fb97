import json

import numpy as np
import pandas as pd
import pytest

from helpers.places import DATA, needs_data
from pipesim.base.errors import InputError
from pipesim.importers.csv_table import csv_table
from pipesim.importers.detect import importer_for
from pipesim.importers.layer_profile import layer_profile

PROFILE = {"1": {"1": {"0": [1.0, 2.0, 9.0], "1": [3.0, 6.0, 9.0]}, "2": {"0": [0.6, 1.2, 9], "1": [1.6, 3.2, 9]}},
           "4": {"1": {"0": [4.0, 8.0, 9.0], "1": [12.0, 24.0, 9.0]}}}  # fmt: skip
SIZES = {
    "toy": {
        str(width): {
            str(layer): {"params_bytes": 800 // width, "act_output_bytes": 10 * (layer + 1), "act_mem_bytes": 50}
            for layer in range(2)
        }
        for width in (1, 2)
    }
}


GOOD = {"1": {"1": {"0": [1.0, 2.0]}}}


@pytest.fixture
def save(tmp_path):
    def write(name, data):
        (tmp_path / name).write_text(json.dumps(data))
        return tmp_path / name

    return write


def test_sizes_widths_and_layers_become_rows_of_a_trace(save):
    path = save("toy.json", PROFILE)
    assert importer_for(path) == "layer_profile"
    trace = layer_profile(path, time_unit="ms", device="a100-40gb")
    assert (trace.model, trace.microbatch_size, trace.layer_count) == ("toy", 1, 2)
    rows = trace.layers
    wide = (rows["tensor"] == 2) & (rows["layer"] == 1)
    assert rows["forward_s"][wide].tolist() == pytest.approx([0.0016])
    large = (rows["microbatch_size"] == 4) & (rows["layer"] == 0)
    assert rows["backward_s"][large].tolist() == pytest.approx([0.008])
    assert "optimizer" in trace.notes[0]


def test_bytes_come_from_the_file_of_sizes_activations_by_sample(save):
    trace = layer_profile(save("p.json", PROFILE), sizes=str(save("sizes.json", SIZES)))
    rows = trace.layers
    assert rows["parameter_bytes"][rows["tensor"] == 2].tolist() == [400, 400]
    assert rows["output_bytes"][rows["microbatch_size"] == 4].tolist() == [40, 80]
    assert rows["stash_bytes"][rows["microbatch_size"] == 1].tolist() == [50, 50, 50, 50]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ([], "is no profile of layers"),
        ({"1": {"1": {"1": [1, 2, 3]}}}, r"layers \[1\] found; 0, 1, 2"),
        ({"1": {"1": {"0": [1]}}}, "layer 0: .* times of forward, backward and optimizer were expected"),
        ({"1": {"1": {"0": [1, -2, 3]}}}, "times of forward, backward"),
        (GOOD | {"2": {"x": {}}}, "key 'x' found; a tensor-parallel width was expected"),
        (GOOD | {"0": {}}, "key '0' found; a microbatch size was expected"),
        (GOOD | {"2": {"1": []}}, "an object with a layer as key was expected"),
        ({"1": {"1": {"0": [1, 2]}}, "01": {}}, "twice, in different spellings"),
    ],
)
def test_other_files_are_refused(data, message, save):
    with pytest.raises(InputError, match=message) as caught:
        layer_profile(save("p.json", data))
    assert "p.json" in str(caught.value)


def test_sizes_that_do_not_fit_are_refused(save):
    path, sizes = save("p.json", PROFILE), save("sizes.json", SIZES)
    with pytest.raises(InputError, match="model = 'other' found; one of 'toy' was expected"):
        layer_profile(path, sizes=str(sizes), model="other")
    del SIZES["toy"]["2"]["1"]
    with pytest.raises(InputError, match="width 2, layer 1: missing"):
        layer_profile(path, sizes=str(save("fewer.json", SIZES)))
    with pytest.raises(InputError, match="params_bytes: 'x' found; bytes were expected"):
        layer_profile(path, sizes=str(save("bad.json", {"toy": {"1": {"0": {"params_bytes": "x"}}}})))


def test_a_table_of_times_by_layer_is_read_by_its_headings(tmp_path):
    """Profiles of a repository in one table; a file for each model and device is cut out of it."""
    table = pd.read_csv(needs_data(DATA / "measured" / "sailor" / "profiles.csv"))
    mine = table.query("model == 'OPT-350' and gpu == 'GH-96'")
    mine.to_csv(tmp_path / "opt.csv", index=False)
    columns = {"device_kind": "gpu", "microbatch_size": "microbatch", "tensor": "tp"}
    trace = csv_table(tmp_path / "opt.csv", columns=columns)
    assert set(trace.layers["tensor"]) == set(mine["tp"])
    assert len(trace.layers["forward_s"]) == len(mine)
    nested = {}
    for row in mine.itertuples():
        of_width = nested.setdefault(str(row.microbatch), {}).setdefault(str(row.tp), {})
        of_width[str(row.layer)] = [row.forward_s, row.backward_s, row.update_s]
    (tmp_path / "profile.json").write_text(json.dumps(nested))
    again = layer_profile(tmp_path / "profile.json", device="GH-96")
    keys = ("microbatch_size", "tensor", "layer")
    for column in (*keys, "forward_s", "backward_s"):
        found = [one.layers[column][np.lexsort([one.layers[key] for key in keys])] for one in (again, trace)]
        assert np.array_equal(*found)
