"""Clusters and traces as plain data."""

import json

from helpers.models import SMALL, build
from helpers.strategies import even_trace
from pipesim.base import serialisation
from pipesim.core.cluster import Cluster
from pipesim.display import json_data
from pipesim.topologies.flat import flat


def test_a_cluster_is_its_file_form_and_the_bandwidth_between_devices():
    cluster = flat(3, "1GB/s")
    data = json.loads(json.dumps(json_data.cluster_data(cluster), allow_nan=False))
    assert data.pop("bandwidth_matrix") == [[None, 1e9, 1e9], [1e9, None, 1e9], [1e9, 1e9, None]]
    assert (data.pop("format"), data.pop("version")) == (Cluster.FORMAT, Cluster.VERSION)
    assert serialisation.from_data(Cluster, data) == cluster


def test_a_trace_has_the_seconds_of_its_layers_by_device_kind():
    data = json.loads(json.dumps(json_data.trace_data(even_trace(3, 1.0, 2.0)), allow_nan=False))
    (seconds,) = data["seconds"].values()
    assert seconds == {"forward": [1.0] * 3, "backward": [2.0] * 3}
    assert len(data["layers"]) == 3


def test_a_model_has_its_totals_and_every_layer():
    made = build(SMALL["t5"])
    data = json.loads(json.dumps(json_data.model_data(made), allow_nan=False))
    assert data["parameter_bytes"] == sum(layer["parameter_bytes"] for layer in data["layers"])
    assert data["forward_flops"] == sum(layer["forward_flops"] for layer in data["layers"])
    assert [layer["inputs"] for layer in data["layers"]] == [list(made.inputs(index)) for index in range(len(made))]
