"""A model is its layers in order; what crosses a cut follows from who reads whom."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers import strategies
from helpers.small_traces import trace_of
from pipesim.base.errors import InputError
from pipesim.core.model import Layer, Model, model_of


@st.composite
def models(draw):
    count = draw(st.integers(1, 7))
    layers = []
    for index in range(count):
        reads = st.none() | st.lists(st.integers(0, index - 1), max_size=3).map(tuple) if index else st.none()
        layers.append(Layer(f"layer{index}", draw(st.integers(0, 9)), inputs=draw(reads)))
    return Model("m", 1, tuple(layers))


def _reads(model, layer):
    stated = model.layers[layer].inputs
    return stated if stated is not None else ([layer - 1] if layer else [])


@given(models())
def test_a_tensor_counts_once_at_every_cut_between_it_and_its_last_reader(model):
    """Recomputed for every cut: layers before it that any layer after it reads."""
    for cut in range(len(model)):
        crossing = {source for layer in range(cut + 1, len(model)) for source in _reads(model, layer) if source <= cut}
        assert model.cut_bytes[cut] == sum(model.layers[source].output_bytes for source in crossing)


def test_a_skip_connection_is_relayed_over_every_cut_it_crosses():
    """Layer 3 reads layer 0: its 10 bytes cross the cuts after layers 0, 1 and 2, once each."""
    reads = [None, None, None, (0, 2)]
    model = Model(
        "m", 1, tuple(Layer(str(i), b, inputs=r) for i, (b, r) in enumerate(zip((10, 1, 2, 5), reads, strict=True)))
    )
    assert model.cut_bytes.tolist() == [10, 11, 12, 0]


def test_a_layer_without_inputs_takes_nothing_over_the_cut_before_it():
    model = Model("m", 1, (Layer("a", 10), Layer("b", 20, inputs=()), Layer("c", 30)))
    assert model.cut_bytes.tolist() == [0, 20, 0]
    assert [model.inputs(i) for i in range(3)] == [(), (), (1,)]


def test_a_cut_that_nothing_crosses_carries_exactly_nothing():
    """A third of a byte and a byte, added and taken away in floating point, left -5.6e-17: an error further on."""
    sizes, reads = (1 / 3, 1.0, 0.0, 0.0, 0.0), (None, (), (1,), None, ())
    model = Model("m", 1, tuple(Layer(str(i), b, inputs=r) for i, (b, r) in enumerate(zip(sizes, reads, strict=True))))
    assert model.cut_bytes.tolist() == [0, 1, 0, 0, 0]


def test_a_layer_that_names_an_input_twice_keeps_it_once():
    """With 60 bytes read and 100 in the stash, recomputation keeps 60; counted double it would keep the stash."""
    for inputs in ((0,), (0, 0)):
        model = Model("m", 1, (Layer("a", 60), Layer("b", 1, stash_bytes=100, inputs=inputs)))
        assert model.kept_bytes.tolist() == [0, 60]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Model("m", 0, (Layer("a", 1),)), "microbatch_size = 0 found; at least 1"),
        (lambda: Model("m", 1, ()), "a model needs at least one layer"),
        (lambda: Model("m", 1, (Layer("a", 1, inputs=(0,)),)), r"layers\[0\]\.inputs: 0 found"),
        (lambda: Model("m", 1, (Layer("a", 1), Layer("b", 1, inputs=(-1,)))), r"layers\[1\]\.inputs: -1 found"),
        (lambda: Layer("a", -1), "layer 'a': output_bytes: -1 found"),
        (lambda: Layer("a", float("inf")), "layer 'a': output_bytes: inf found"),
        (lambda: Layer("a", 1, parameter_bytes=-1), "layer 'a': parameter_bytes: -1 found"),
        (lambda: Layer("a", 1, stash_bytes=float("nan")), "layer 'a': stash_bytes: nan found"),
    ],
)
def test_an_impossible_model_is_refused(make, message):
    with pytest.raises(InputError, match=message):
        make()


@given(strategies.traces())
def test_the_model_of_a_trace_has_the_trace_s_layers(trace):
    model = model_of(trace)
    first = {}
    for row, layer in enumerate(trace.layers["layer"].tolist()):
        if trace.layers["microbatch_size"][row] == trace.microbatch_size:
            first.setdefault(layer, row)
    assert len(model) == trace.layer_count
    for index, layer in enumerate(model.layers):
        assert layer.name == trace.layers["name"][first[index]]
        assert layer.output_bytes == trace.layers["output_bytes"][first[index]]
        assert layer.parameter_bytes == trace.layers["parameter_bytes"][first[index]]
        assert layer.inputs == trace.inputs()[index]


def test_bytes_and_flops_scale_with_the_microbatch_and_parameters_do_not():
    trace = trace_of(stash_bytes=[4, 8], parameter_bytes=[100, 200], forward_flops=[1e9, 3e9])
    model = model_of(trace, microbatch_size=6)
    assert model.microbatch_size == 6
    assert [layer.output_bytes for layer in model.layers] == [15, 30]
    assert model.stash_bytes.tolist() == [6, 12]
    assert model.parameter_bytes.tolist() == [100, 200]
    assert model.forward_flops == 6e9


def test_bytes_are_taken_from_the_nearest_recorded_size():
    """An output may have a part that does not grow with the microbatch, so the nearest size is the best estimate."""
    trace = trace_of(layer=[0, 0], name=["a", "a"], microbatch_size=[4, 16], output_bytes=[50, 110])
    assert model_of(trace, 8).layers[0].output_bytes == 100  # twice the 50 of 4 samples
    assert model_of(trace, 12).layers[0].output_bytes == pytest.approx(110 * 12 / 16)
    assert model_of(trace, 16).layers[0].output_bytes == 110


def test_flops_are_unknown_as_soon_as_one_layer_s_are():
    assert model_of(trace_of(forward_flops=[1e9, float("nan")])).forward_flops is None


@pytest.mark.parametrize("size", [0, -3])
def test_a_microbatch_of_no_samples_is_refused(size):
    with pytest.raises(InputError, match=f"microbatch_size = {size} found"):
        model_of(trace_of(), size)
