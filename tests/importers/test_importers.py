"""Files that others wrote, as traces."""

import inspect

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers import strategies
from helpers.pipedream_files import node
from helpers.places import PROFILES, needs_data
from pipesim.base import lookup
from pipesim.base.errors import FormatError, InputError
from pipesim.core.model import model_of
from pipesim.core.trace import Trace
from pipesim.importers import IMPORTERS
from pipesim.importers.detect import importer_for
from pipesim.importers.native import native
from pipesim.importers.pipedream import pipedream

# Layers without inputs; forward ms, backward ms, megabytes of parameters, added up over the file.
TOTALS = {
    "pipedream/vgg16": (40, 233.902, 438.633, 553.430),
    "pipedream/alexnet": (22, 44.801, 40.520, 244.403),
    "pipedream/resnet50": (176, 182.488, 260.931, 102.228),
    "pipedream/inception_v3": (325, 289.269, 399.769, 108.645),
    "pipedream/gnmt": (45, 33.533, 55.883, 775.064),
    "dapple/bert-24-pbs-6": (29, 193.757, 321.600, 1340.568),
    "dapple/bert-48-pbs-2": (53, 129.197, 214.560, 2549.805),
    "dapple/xlnet-24-pbs-1": (30, 82.130, 118.980, 1379.000),
    "dapple/vgg-19-pbs-32": (25, 48.010, 96.200, 548.047),
    "dapple/amoeba-18-pbs-8": (25, 207.710, 510.100, 1914.478),
    "dapple/gnmt-32-pbs-64-simplified": (64, 160.938, 284.673, None),
}


def edges(*pairs):
    return [f"\tnode{a} -- node{b}" for a, b in pairs]


@pytest.fixture
def profile(tmp_path):
    """Write these lines as a profile and read them."""

    def read(*lines, **options):
        (tmp_path / "profile.txt").write_text("\n".join(lines))
        return pipedream(tmp_path / "profile.txt", **options)

    return read


@pytest.mark.parametrize("name", sorted(IMPORTERS))
def test_every_importer_takes_a_path_and_options_by_name_and_refuses_what_is_not_there(name, tmp_path):
    importer = lookup.resolve(name, IMPORTERS, "importer")
    first, *options = inspect.signature(importer).parameters.values()
    assert first.name == "path"
    assert all(option.kind is option.KEYWORD_ONLY for option in options)
    assert all(option.default is not option.empty for option in options)
    with pytest.raises(InputError, match="no such file"):
        importer(tmp_path / "nowhere")


@pytest.mark.parametrize("name", sorted(IMPORTERS))
def test_every_importer_refuses_a_file_of_another_format(name, tmp_path):
    (tmp_path / "thesis.txt").write_bytes(b"\x89PNG\r\n\x1a\n\x00\x00")
    with pytest.raises(InputError, match=r"thesis\.txt"):
        lookup.resolve(name, IMPORTERS, "importer")(tmp_path / "thesis.txt")


@settings(max_examples=10)
@given(trace=strategies.traces())
def test_a_trace_folder_is_read_by_its_own_name_or_that_of_its_header(tmp_path_factory, trace):
    folder = tmp_path_factory.mktemp("native") / "t"
    trace.save(folder)
    assert native(folder).same_as(trace)
    assert native(folder / "trace.toml").same_as(trace)


def test_another_file_of_the_folder_is_refused(tmp_path):
    strategies.even_trace(2).save(tmp_path / "t")
    with pytest.raises(InputError, match=r"layers\.csv: is a file; a trace folder, or its trace\.toml, was expected"):
        native(tmp_path / "t" / "layers.csv")


# Of importers with a message of their own; of others, an error that states what was expected.
EXPECTED = {
    "native": "a (trace )?folder.* trace.toml.* was expected",
    "pipedream": "lines 'nodeN -- description -- ...' were expected|'nodeN -- .*' was expected",
    "kineto": "a file of PyTorch's profiler, .json or .json.gz, was expected",
    "chakra": "a message with the version, then the nodes, were expected|not this format",
    "metis": "a profile of Metis, .* was expected|is not JSON",
    "npy": "its magic bytes and version 1, 2 or 3 were expected",
    "csv": "a line with the headings was expected|no column for forward_s",
}


@pytest.mark.parametrize("content", [b"", b"\n\n", b"Dear all\n"])
@pytest.mark.parametrize("name", sorted(IMPORTERS))
def test_a_file_that_is_empty_or_of_prose_is_refused_with_what_was_expected(name, content, tmp_path):
    (tmp_path / "file.json").write_bytes(content)
    with pytest.raises(InputError, match=rf"file\.json: .*({EXPECTED.get(name, 'expected')})"):
        lookup.resolve(name, IMPORTERS, "importer")(tmp_path / "file.json")


@pytest.mark.parametrize("name", sorted(IMPORTERS))
def test_a_folder_in_place_of_a_file_is_refused_as_such(name, tmp_path):
    (tmp_path / "folder").mkdir()
    with pytest.raises(InputError, match=r"folder: (is a folder|has no trace\.toml)"):
        lookup.resolve(name, IMPORTERS, "importer")(tmp_path / "folder")


@pytest.mark.parametrize("name", sorted(TOTALS))
def test_totals_of_published_profiles(name):
    path = needs_data(PROFILES / f"{name}.txt")
    trace = pipedream(path)
    layers, forward, backward, parameters = TOTALS[name]
    assert importer_for(path) == "pipedream"
    assert trace.layer_count == layers
    assert trace.microbatch_size == int(name.partition("pbs-")[2].partition("-")[0] or 1)
    assert trace.layers["forward_s"].sum() * 1e3 == pytest.approx(forward, abs=5e-4)
    assert trace.layers["backward_s"].sum() * 1e3 == pytest.approx(backward, abs=5e-4)
    if parameters is not None:
        assert trace.layers["parameter_bytes"].sum() / 1e6 == pytest.approx(parameters, abs=5e-4)
    assert model_of(trace).cut_bytes.max() > 0


def test_milliseconds_become_seconds_and_bytes_stay(profile):
    trace = profile(node(1, forward=1.5, backward=3, activation="64.0", parameters="128.000"))
    row = {name: values[0] for name, values in trace.layers.items()}
    assert (row["forward_s"], row["backward_s"]) == (pytest.approx(0.0015), pytest.approx(0.003))
    assert (row["output_bytes"], row["parameter_bytes"]) == (64, 128)
    assert (row["name"], row["kind"]) == ("Linear(in=4, out=8)", "Linear")
    assert (trace.model, trace.source, trace.device_kinds) == ("profile", "pipedream", ("any",))


def test_a_layer_keeps_for_its_backward_as_much_as_it_puts_out(profile):
    trace = profile(node(1, activation="[64; 32.0]"))
    assert (trace.layers["output_bytes"][0], trace.layers["stash_bytes"][0]) == (96, 96)


def test_the_minibatch_is_one_unit_unless_its_samples_are_told(profile):
    assert profile(node(1)).microbatch_size == 1
    trace = profile(node(1), samples=64)
    assert trace.microbatch_size == 64
    assert trace.layers["forward_s"][0] == pytest.approx(0.001)  # nothing is rescaled here
    assert model_of(trace, 16).layers[0].output_bytes == 16


@pytest.mark.parametrize(
    ("name", "samples"), [("bert-24-pbs-6", 6), ("amoeba-6-pbs-8-simplified", 8), ("vgg16", 1), ("x-pbs-0", 1)]
)
def test_dapple_names_its_files_after_the_samples_that_were_profiled(tmp_path, name, samples):
    path = tmp_path / f"{name}.txt"
    path.write_text(node(1))
    assert pipedream(path).microbatch_size == samples
    assert pipedream(path, samples=3).microbatch_size == 3


@pytest.mark.parametrize("samples", [0, -1, 1.5, "64", True])
def test_samples_are_a_whole_number(profile, samples):
    with pytest.raises(InputError, match=r"samples = .* found; a whole number, at least 1"):
        profile(node(1), samples=samples)


def test_input_nodes_are_dropped_with_their_edges_and_only_they(profile):
    trace = profile(
        node(1, "Input0", forward=636.0),
        node(2, "input_ids", forward=0.5),
        node(3, "Embedding(9, 4)"),
        node(4, "Concat(InputLike)"),
        *edges((1, 3), (3, 4), (2, 4)),
    )
    assert trace.layers["name"].tolist() == ["input_ids", "Embedding(9, 4)", "Concat(InputLike)"]
    assert trace.layers["inputs"].tolist() == ["", "-", "0;1"]
    assert trace.layers["forward_s"].sum() < 0.01


def test_node_numbers_are_no_order_and_a_chain_stays_a_chain(profile):
    trace = profile(*(node(n, f"Layer{n}") for n in (11, 2, 7, 5)), *edges((7, 2), (11, 7), (2, 5)))
    assert trace.layers["name"].tolist() == ["Layer11", "Layer7", "Layer2", "Layer5"]
    assert trace.layers["inputs"].tolist() == [""] * 4
    assert model_of(trace).inputs(3) == (2,)


def test_of_several_nodes_that_could_come_next_the_smallest_number_does(profile):
    """10 is larger than 9: numbers are compared, not their text."""
    trace = profile(*(node(n, f"Layer{n}") for n in (1, 10, 9, 11)), *edges((1, 10), (1, 9), (10, 11), (9, 11)))
    assert trace.layers["name"].tolist() == ["Layer1", "Layer9", "Layer10", "Layer11"]
    assert trace.layers["inputs"].tolist() == ["", "", "0", "1;2"]


@given(st.data())
def test_every_layer_comes_after_all_that_it_reads_and_reads_what_its_edges_say(tmp_path_factory, data):
    """Whatever the graph, its numbers and the order of its lines."""
    count = data.draw(st.integers(1, 7))
    numbers = data.draw(st.lists(st.integers(1, 99), min_size=count, max_size=count, unique=True))
    pairs = [(a, b) for b in range(count) for a in range(b)]
    drawn = data.draw(st.lists(st.sampled_from(pairs), max_size=10)) if pairs else []
    lines = [node(n, f"Layer{n}") for n in numbers] + edges(*((numbers[a], numbers[b]) for a, b in drawn))
    path = tmp_path_factory.mktemp("profile") / "p.txt"
    path.write_text("\n".join(data.draw(st.permutations(lines))))
    trace = pipedream(path)
    layer_of = {name: layer for layer, name in enumerate(trace.layers["name"])}
    model = model_of(trace)
    for b, number in enumerate(numbers):
        expected = {layer_of[f"Layer{numbers[a]}"] for a, target in drawn if target == b}
        layer = layer_of[f"Layer{number}"]
        assert set(model.inputs(layer)) == expected
        assert all(source < layer for source in expected)


def test_layers_of_the_same_description_are_told_apart_by_their_node(profile):
    trace = profile(node(1, "ReLU(inplace)"), node(2, "Conv2d(3, 4)"), node(3, "ReLU(inplace)"), *edges((1, 2), (2, 3)))
    assert trace.layers["name"].tolist() == ["ReLU(inplace) node1", "Conv2d(3, 4)", "ReLU(inplace) node3"]
    assert trace.layers["kind"].tolist() == ["ReLU", "Conv2d", "ReLU"]


def test_blanks_stages_and_dialects_do_not_matter(profile):
    trace = profile(
        "",
        node(1, "Conv2d(3, 4, kernel_size=(3, 3))") + "   ",
        node(2, "layer -- with dashes") + " -- stage_id=3",
        node(3, "plain").replace("activation_size=64.0", "activation_size=[16; 16;32]"),
        "   ",
        "  node1 -- node2 ",  # DAPPLE indents with spaces
        "\tnode2 -- node3",
        "\tnode2 -- node3",
    )
    assert trace.layers["name"].tolist() == ["Conv2d(3, 4, kernel_size=(3, 3))", "layer -- with dashes", "plain"]
    assert trace.layers["output_bytes"].tolist() == [64, 64, 64]
    assert trace.layers["inputs"].tolist() == ["", "", ""]


def test_an_imported_trace_survives_being_saved(profile, tmp_path):
    trace = profile(node(1), node(2, "Input"), node(3, "Add"), *edges((2, 1), (1, 3)), samples=8)
    trace.save(tmp_path / "t")
    assert Trace.load(tmp_path / "t").same_as(trace)
    assert np.isnan(trace.layers["backward_input_s"]).all()


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([], "has no nodes beside inputs"),
        ([node(1, "Input")], "has no nodes beside inputs"),
        ([node(1), node(1)], "line 2: duplicate node1"),
        ([node(1), node("01")], "line 2: duplicate node1"),
        ([node(1), *edges((1, 7))], "line 2: unknown node7"),
        ([node(1), *edges((7, 1))], "line 2: unknown node7"),
        ([node(1), "\tnode1"], "line 2: 'node1' found; an edge 'nodeA -- nodeB'"),
        ([node(1), "\tnode1 -- node2 -- node3"], "line 2: .* an edge"),
        ([node(1), "\t" + node(2)], "line 2: .* an edge"),
        ([node(1), "junk"], "line 2: 'junk' found; 'nodeN -- description -- forward_compute_time"),
        (["nodeX -- a -- forward_compute_time=1"], "line 1: 'nodeX -- a"),
        ([node("9" * 30)], "line 1: 'node999"),
        ([node(1).replace("parameter_size=0", "")], "line 1: '' found; each field once, as 'name=number'"),
        ([node(1).replace(", parameter_size=0", "")], "line 1: missing field 'parameter_size'; found forward_comp"),
        ([node(1).replace("parameter", "activation")], "line 1: 'activation_size=0' found; each field once"),
        ([node(1, forward="fast")], "line 1: forward_compute_time: 'fast' found; a number was expected"),
        ([node(1, forward="nan")], "line 1: forward_compute_time: 'nan' found; finite numbers"),
        ([node(1, backward="inf")], "line 1: backward_compute_time: 'inf' found"),
        ([node(1, forward="-0.1")], "line 1: forward_compute_time: '-0.1' found; finite numbers, not negative"),
        ([node(1, activation="[64; -1]")], r"line 1: activation_size: '\[64; -1\]' found; finite numbers"),
        ([node(1, activation="[]")], r"line 1: activation_size: '\[\]' found; a number was expected"),
        ([node(1, activation="[64")], r"line 1: activation_size: '\[64' found"),
        ([node(1, activation="1e19")], r"line 1: activation_size: '1e19' found; .* below 2\^63"),
        ([node(1), *edges((1, 1))], "line 2: the edges form a cycle: node1 -> node1"),
        (
            [*(node(n) for n in (1, 2, 3)), *edges((1, 2), (2, 3), (3, 2))],
            "line 5: the edges form a cycle: node2 -> node3 -> node2",
        ),
    ],
)
def test_what_is_wrong_is_named_with_its_line(profile, lines, message):
    with pytest.raises(InputError, match=r"profile\.txt: " + message):
        profile(*lines)


def test_a_long_circle_is_shown_in_part(profile):
    count = 2000
    ring = [(n, n % count + 1) for n in range(1, count + 1)]
    with pytest.raises(FormatError, match=r"node1 -> node2 -> .* -> \.\.\. -> .* -> node1") as caught:
        profile(*(node(n) for n in range(1, count + 1)), *edges(*ring))
    assert len(str(caught.value)) < 300


def test_binary_is_refused(tmp_path):
    (tmp_path / "p.txt").write_bytes(b"\x00\xff" * 100)
    with pytest.raises(FormatError, match=r"p\.txt: is not UTF-8 text"):
        pipedream(tmp_path / "p.txt")
