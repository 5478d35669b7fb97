"""Times of microbatches with sequences of different lengths: full ones take the full time, others as computed."""

import numpy as np
import pytest

import pipesim as ps
from pipesim.analysis.joint_samples import joint_samples
from pipesim.base.errors import InputError
from pipesim.core.costs import costs_of
from pipesim.studies import setups, sources
from pipesim.studies.simulation import simulation_of

CLUSTER = 'flat(2, bandwidth="25GB/s", device="a100-80gb")'


def trace_with(**fields):
    simulation = simulation_of("gpt2", CLUSTER, **fields)
    return sources.trace_of(simulation, sources.cluster_of(simulation))


def forward(trace):
    """Seconds of each layer for every drawn microbatch."""
    return trace.layers["forward_s"].reshape(trace.layer_count, -1)


@pytest.fixture(scope="module")
def full():
    return trace_with(sequence=1024)


@pytest.mark.parametrize("packed", [False, True])
def test_full_sequences_take_the_time_of_full_sequences(full, packed):
    found = trace_with(sequence=1024, lengths="uniform(1024, 1024)", packed=packed)
    assert forward(found)[:, 0] == pytest.approx(full.layers["forward_s"], rel=1e-6, abs=1e-12)
    assert np.ptp(forward(found), axis=1).max() == 0
    assert np.array_equal(found.layers["output_bytes"][:: forward(found).shape[1]], full.layers["output_bytes"])


@pytest.mark.parametrize("length", [512, 256])
def test_padded_sequences_take_the_time_that_is_computed_for_their_length(length):
    found = trace_with(sequence=1024, lengths=f"uniform({length}, {length})")
    assert forward(found)[:, 0] == pytest.approx(trace_with(sequence=length).layers["forward_s"], rel=1e-6, abs=1e-12)


def test_packed_sequences_save_a_part_of_attention_only(full):
    found = trace_with(sequence=1024, lengths="uniform(256, 256)", packed=True)
    saved = 1 - forward(found)[:, 0] / full.layers["forward_s"]
    kinds = full.layers["kind"]
    assert (saved[kinds == "attention"] > 0.01).all()
    assert np.abs(saved[kinds == "mlp"]).max() < 0.05
    assert saved.max() < 0.75, "three quarters of the quadratic part"


def test_the_samples_are_joint_and_are_drawn_so():
    found = trace_with(sequence=1024, lengths="lognormal(300, 0.8)")
    assert found.samples == "microbatch"
    assert joint_samples(costs_of(found)).draw == "microbatch"
    assert "sequences from lognormal(300, 0.8), padded" in found.notes[-1]
    setup = setups.setup_of(
        simulation_of("gpt2", CLUSTER, sequence=1024, lengths="lognormal(300, 0.8)", microbatches=2)
    )
    assert len(set(ps.replay(setup, iterations=4))) == 4


def test_lengths_from_a_file_are_read(tmp_path):
    file = tmp_path / "lengths.csv"
    file.write_text("1024\n1024\n")
    assert np.ptp(forward(trace_with(sequence=1024, lengths=str(file))), axis=1).max() == 0


def test_lengths_without_a_computed_model_are_refused():
    cluster = 'flat(2, bandwidth="1GB/s", device="cpu", memory="8GiB")'
    with pytest.raises(InputError, match="lengths has no effect"):
        ps.simulate("gpt-small-cpu", cluster, lengths="uniform(1, 2)")
    with pytest.raises(InputError, match="packed has no effect without lengths"):
        ps.simulate("gpt2", CLUSTER, packed=True)
    with pytest.raises(InputError, match="a model of at least 4"):
        trace_with(sequence=3, lengths="uniform(1, 2)")
