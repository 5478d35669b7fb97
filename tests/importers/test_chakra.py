"""Chakra's execution traces: the messages, the graph of all ranks, and the layers in it."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers import chakra_files as et
from helpers.places import PROFILES, needs_data
from pipesim.base.errors import InputError
from pipesim.core.costs import costs_of
from pipesim.core.model import model_of
from pipesim.importers.chakra import chakra, node_messages
from pipesim.importers.chakra.graph import load
from pipesim.importers.detect import importer_for

PROFILES = PROFILES / "chakra"


def layers(trace, *names):
    return [trace.layers[name].tolist() for name in names]


# --- messages --------------------------------------------------------------------------------------------------------


def test_a_node_is_read_with_all_that_it_says(tmp_path):
    node = et.node(
        7, "mul", et.COMPUTE, micros=12, needs=[3, 900], ctrl=[3], start=5, num_ops=10**12, is_cpu_op=True,
        pg_name="tp", involved_dim=[1, 0, 1], unknown="passed over",
    )  # fmt: skip
    ((found, needs),) = node_messages.read(et.write(tmp_path / "a.0.et", [node]))
    assert (found.id, found.name, found.type, needs) == (7, "mul", 4, (3, 900))
    assert (found.start_us, found.duration_us) == (5, 12)
    assert found.attributes == {"num_ops": 10**12, "is_cpu_op": 1, "pg_name": "tp", "involved_dim": (True, False, True)}


@given(numbers=st.lists(st.integers(0, 2**64 - 1), max_size=6, unique=True), packed=st.booleans())
def test_lists_of_ids_are_read_packed_or_one_by_one(tmp_path_factory, numbers, packed):
    path = et.write(tmp_path_factory.mktemp("et") / "a.0.et", [et.node(1, "", 4, needs=numbers, packed=packed)])
    assert [needs for _, needs in node_messages.read(path)] == [tuple(numbers)]


@pytest.mark.parametrize("field", [3, 5, 7, 9, 11, 13])
def test_a_number_is_read_from_whichever_field_its_writer_chose(tmp_path, field):
    node = et.node(1, "send", et.SEND, extra=et.attribute("comm_size", 96, field))
    ((found, _),) = node_messages.read(et.write(tmp_path / "a.0.et", [node]))
    assert found.number("comm_size") == 96


def test_zigzag_and_negative_numbers_keep_their_sign(tmp_path):
    negative = et.attribute("seq_id", -1, 9) + et.attribute("fw_tid", 3, 17)  # 3 stands for -2 in zigzag
    ((found, _),) = node_messages.read(et.write(tmp_path / "a.0.et", [et.node(1, "op", 4, extra=negative)]))
    assert (found.number("seq_id"), found.number("fw_tid")) == (-1, -2)


def test_fields_of_later_versions_are_passed_over(tmp_path):
    storage = et.data(11, et.number(1, 3)) + et.number(99, 1) + bytes([98 << 3 & 0x7F | 0x80, 6, 0])
    node = et.node(1, "op", 4, micros=3, extra=storage[:-3])
    ((found, _),) = node_messages.read(et.write(tmp_path / "a.0.et", [node]))
    assert found.duration_us == 3


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"\x07\x0a\x05", "byte 0: a message of 7 bytes found; 2 bytes are left"),
        (b"\x02\x18\x04", "message 0: field 3 found; GlobalMetadata"),
        (b"\x00\x02\x18", "byte 1: a message of 2 bytes found; 1 bytes are left"),
        (b"\x00\x02\x1a\x05", "message 1: byte 2: field 3 has 5 bytes; 0 are left"),
        (b"\x00\x02\x1b\x05", "message 1: byte 2: field 3 of wire type 3 found"),
        (b"\x00\x02\x10\x05", "message 1: name: field of wire type 0 found; text"),
        (b"\x00\x03\x12\x01\xff", r"message 1: byte 4: name: b'\\xff' found; UTF-8"),
        (b"\x00\x00\x00", "message 2: byte 3: id: duplicate node 0"),
        (b"\x00\x0c\x38" + b"\xff" * 10 + b"\x01", "a number of more than 10 bytes"),
        (b"\x00\x0b\x38" + b"\xff" * 9 + b"\x01", "duration_micros: 18446744073709551615 found"),
    ],
)
def test_a_broken_file_is_refused_with_its_message_and_byte(tmp_path, content, message):
    (tmp_path / "a.0.et").write_bytes(content)
    with pytest.raises(InputError, match=r"a\.0\.et: .*" + message):
        list(node_messages.read(tmp_path / "a.0.et"))


@pytest.mark.parametrize(
    ("attribute", "message"),
    [
        (et.data(10, et.data(1, "comm_size")), "attr: comm_size: byte .*: 0 values found; one was expected"),
        (et.attribute("comm_size", "much"), "attr: comm_size: field 29 of wire type 2 found; a number"),
        (et.attribute("comm_size", -1), "attr: comm_size: -1 found"),
        (et.attribute("comm_size", float("nan"), 3), "attr: comm_size: nan found"),
        (et.attribute("pg_name", 3), "attr: pg_name: field 9 found; string_val"),
        (et.attribute("involved_dim", 3), "attr: involved_dim: field 9 found; bool_list"),
        (et.number(10, 3), "attr: field of wire type 0 found"),
    ],
)
def test_a_broken_attribute_is_named(tmp_path, attribute, message):
    path = et.write(tmp_path / "a.0.et", [et.node(1, "op", 4, extra=attribute)])
    with pytest.raises(InputError, match=r"a\.0\.et: message 1: " + message):
        list(node_messages.read(path))


# --- the graph -------------------------------------------------------------------------------------------------------


def test_published_files_hold_a_reduce_scatter_on_two_of_four_ranks():
    paths = sorted(needs_data(PROFILES).glob("*.et"))
    assert {importer_for(path) for path in paths} == {"chakra"}
    graph = load(paths)
    assert (graph.ranks, len(graph.nodes)) == ((0, 1), 2)
    (collective,) = graph.collectives
    assert (collective.type_, collective.size, collective.members) == ("reduce_scatter", 2**20, (0, 1))
    with pytest.raises(InputError, match=r"reduce_scatter\.0\.et and 1 more: no node computes.*pipesim run"):
        chakra(paths)


def test_sends_meet_their_receives_by_tag_and_order(tmp_path):
    paths = et.ranks(
        tmp_path,
        [et.send(1, 0, 1, 10, tag=5), et.send(2, 0, 1, 20, tag=6), et.send(3, 0, 1, 30, tag=5)],
        [et.receive(1, 0, 1, 20, tag=6), et.receive(2, 0, 1, 10, tag=5), et.receive(3, 0, 1, 30, tag=5)],
    )
    assert dict(load(paths[::-1]).send_of) == {3: 1, 4: 0, 5: 2}  # whatever the order of the files


def test_collectives_meet_by_group_and_order(tmp_path):
    tp, dp = {"pg_name": "tp"}, {"pg_name": "dp"}
    groups = json.dumps([{"pg_name": "tp", "ranks": [0, 1]}, {"pg_name": "dp", "ranks": [1, 2]}])
    head = et.node(0, "pg", et.METADATA, extra=et.data(8, et.data(1, f"['{groups}']")))
    paths = et.ranks(
        tmp_path,
        [head, et.collective(1, "all_reduce", 8, **tp), et.collective(2, "all_reduce", 9, **tp)],
        [head, et.collective(1, "all_reduce", 5, **dp), et.collective(2, "all_reduce", 8, **tp),
         et.collective(3, "all_reduce", 9, **tp)],
        [head, et.collective(1, "all_reduce", 5, **dp)],
    )  # fmt: skip
    assert sorted((c.size, c.members) for c in load(paths).collectives) == [(5, (4, 8)), (8, (1, 5)), (9, (2, 6))]


def test_the_ranks_of_groups_may_come_from_a_file(tmp_path):
    paths = et.ranks(tmp_path, *([et.collective(1, "all_gather", 8, pg_name="7")],) * 2)
    with pytest.raises(InputError, match="pg_name: the ranks of group '7' are not in the files"):
        load(paths)
    (tmp_path / "groups.json").write_text('{"7": [0, 1]}')
    assert load(paths, str(tmp_path / "groups.json")).collectives[0].members == (0, 1)
    (tmp_path / "groups.json").write_text('{"7": [0, 0]}')
    with pytest.raises(InputError, match=r"groups\.json: group '7': .* each rank once"):
        load(paths, str(tmp_path / "groups.json"))


@pytest.mark.parametrize(
    ("ranks", "message"),
    [
        (([et.send(1, 0, 3, 9)],), "rank 0: node 1: comm_dst: rank 3 has no file"),
        (([et.send(1, 0, 1, 9)], [et.compute(1, "a", 1)]), "from rank 0 to rank 1, tag 0: 1 sends and 0 receives"),
        (([et.send(1, 1, 0, 9)], [et.compute(1, "a", 1)]), "comm_src: 1 found; 0, its own rank"),
        (([et.node(1, "send", et.SEND, comm_size=3)],), "comm_dst: missing"),
        (([et.compute(1, "a", 1, needs=[2])],), r"run\.0\.et: node 1: data_deps, ctrl_deps: unknown node 2"),
        (([et.collective(1, "all_reduce", 9)], [et.compute(1, "a", 1)]), "0 on rank 1 and 1 on rank 0 found"),
        (([et.node(1, "", et.COLLECTIVE, comm_type=10)],), "comm_type: 10 found; 0 to 9"),
        (([et.collective(1, "all_reduce", 9, involved_dim=[1, 0])],), r"involved_dim: \[True, False\] found"),
        (
            ([et.compute(1, "a_FWD", 1, needs=[2]), et.compute(2, "b_FWD", 1, needs=[1])],),
            "nodes wait for each other in a cycle: rank 0: node",
        ),
        (
            (
                [et.receive(1, 1, 0, 9), et.send(2, 0, 1, 9, needs=[1]), et.compute(3, "a", 1)],
                [et.receive(1, 0, 1, 9), et.send(2, 1, 0, 9, needs=[1])],
            ),
            "nodes wait for each other in a cycle",
        ),
    ],
)
def test_what_does_not_belong_together_is_refused(tmp_path, ranks, message):
    paths = et.ranks(tmp_path, *ranks)
    with pytest.raises(InputError, match=message):
        chakra(paths)


def test_one_file_per_rank_is_expected(tmp_path):
    (tmp_path / "again").mkdir()
    paths = [*et.ranks(tmp_path, [et.compute(1, "a", 1)]), *et.ranks(tmp_path / "again", [et.compute(1, "a", 1)])]
    with pytest.raises(InputError, match=r"is of rank 0, as is .*; one file per rank"):
        load(paths)


# --- layers ----------------------------------------------------------------------------------------------------------


def test_names_say_layer_and_phase_and_what_comes_again_is_a_sample(tmp_path):
    nodes = []
    for turn in range(3):
        at = 10 * turn
        nodes += [
            et.compute(at + 1, "COMP_NODE_conv_FWD", 10 + turn, needs=[at - 5] if turn else []),
            et.compute(at + 2, "COMP_NODE_fc_FWD", 20, needs=[at + 1]),
            et.compute(at + 3, "COMP_NODE_fc_BWD_WG", 30, needs=[at + 2]),
            et.compute(at + 4, "COMP_NODE_fc_BWD_IG", 40 + turn, needs=[at + 3]),
            et.compute(at + 5, "COMP_NODE_conv_BWD_WG", 50, needs=[at + 4]),
        ]
    path = et.write(tmp_path / "net.0.et", nodes)
    assert importer_for(path) == "chakra"
    trace = chakra(path, samples=4)
    assert (trace.model, trace.source, trace.microbatch_size, trace.layer_count) == ("net", "chakra", 4, 2)
    assert layers(trace, "name", "sample") == [["conv"] * 3 + ["fc"] * 3, [0, 1, 2] * 2]
    assert trace.layers["forward_s"] == pytest.approx(np.array([10, 11, 12, 20, 20, 20]) * 1e-6)
    assert trace.layers["backward_input_s"] == pytest.approx(np.array([0, 0, 0, 40, 41, 42]) * 1e-6)
    assert trace.layers["backward_weight_s"] == pytest.approx(np.array([50, 50, 50, 30, 30, 30]) * 1e-6)


def pipeline(tmp_path):
    """Two stages with two replicas each, whose gradients are reduced after their backward."""

    def rank(number):
        stage, replica = divmod(number, 2)
        other, reduce = (
            2 - 2 * stage + replica,
            et.collective(9, "all_reduce", 4000 + stage, needs=[7], pg_name=str(stage)),
        )
        if stage:
            return [
                et.receive(1, other, number, 500), et.compute(3, "c_fwd", 30 + replica, needs=[1]),
                et.compute(7, "c_bwd", 60 + replica, needs=[3]), et.send(8, number, other, 500, needs=[7]), reduce,
            ]  # fmt: skip
        return [
            et.compute(1, "a_fwd", 10 + replica), et.compute(2, "b_fwd", 20, needs=[1]),
            et.send(3, number, other, 500, needs=[2]), et.receive(5, other, number, 500),
            et.compute(6, "b_bwd", 40, needs=[5]), et.compute(7, "a_bwd", 20, needs=[6]), reduce,
        ]  # fmt: skip

    (tmp_path / "groups.json").write_text('{"0": [0, 1], "1": [2, 3]}')
    return et.ranks(tmp_path, *map(rank, range(4))), str(tmp_path / "groups.json")


def test_ranks_that_do_the_same_are_samples_and_the_others_are_stages(tmp_path):
    paths, groups = pipeline(tmp_path)
    trace = chakra(paths, groups=groups)
    assert layers(trace, "name", "sample") == [["a", "a", "b", "b", "c", "c"], [0, 1] * 3]
    assert trace.layers["forward_s"] == pytest.approx(np.array([10, 11, 20, 20, 30, 31]) * 1e-6)
    assert trace.layers["backward_s"] == pytest.approx(np.array([20, 20, 40, 40, 60, 61]) * 1e-6)
    model = model_of(trace)
    assert [layer.output_bytes for layer in model.layers] == [0, 500, 0]  # what is sent of the last before the cut
    assert [layer.parameter_bytes for layer in model.layers] == [4000, 0, 4001]
    assert [model.inputs(layer) for layer in range(3)] == [(), (0,), (1,)]  # across ranks too


def test_stages_that_look_alike_are_told_apart_by_their_depth(tmp_path):
    paths = et.ranks(
        tmp_path,
        [et.compute(1, "block_fwd", 10), et.send(2, 0, 1, 7, needs=[1])],
        [et.receive(1, 0, 1, 7), et.compute(2, "block_fwd", 30, needs=[1])],
    )
    trace = chakra(paths, backward_factor=2)
    assert layers(trace, "name", "layer") == [["block", "block"], [0, 1]]
    assert trace.layers["backward_s"] == pytest.approx([20e-6, 60e-6])


def test_edges_between_layers_are_kept(tmp_path):
    nodes = [
        et.compute(1, "in", 1), et.compute(2, "left", 1, needs=[1]), et.compute(3, "right", 1, needs=[1]),
        et.node(4, "join", et.METADATA, needs=[2, 3]), et.compute(5, "out", 1, needs=[4]),
    ]  # fmt: skip
    trace = chakra(et.write(tmp_path / "a.0.et", nodes))
    assert layers(trace, "name", "inputs") == [["in", "left", "right", "out"], ["", "", "0", "1;2"]]


def test_tensors_say_how_much_a_layer_hands_on(tmp_path):
    nodes = [
        et.compute(1, "a", 1, extra=et.outputs("[[4, 16], [8]]", "['Tensor(float)', 'Tensor(c10::Half)']")),
        et.compute(2, "b", 1, needs=[1], extra=et.outputs("[[4], 3]", "['Tensor(float)', 'Int']")),
        et.compute(3, "c", 1, needs=[2], extra=et.outputs("[[4]]", "['Tensor(mystery)']")),
    ]
    trace = chakra(et.write(tmp_path / "a.0.et", nodes), output_bytes="1KiB")
    assert trace.layers["output_bytes"].tolist() == [4 * 16 * 4 + 8 * 2, 16, 1024]


def test_operations_of_pytorch_are_paired_by_their_sequence_numbers(tmp_path):
    """Kernels have the number of the operation that launched them; operations of the host are not layers."""

    def launched(ident, name, micros, operation, before=()):
        seq, thread = operation
        host = et.node(ident, f"aten::{name}", 4, micros=3, ctrl=before, is_cpu_op=True, seq_id=seq, fw_tid=thread)
        return [host, et.compute(10 + ident, f"{name}_kernel", micros, ctrl=[ident], seq_id=-1)]

    nodes = [
        *launched(1, "addmm", 10, (5, 0)),
        *launched(2, "relu", 20, (6, 0), [1]),
        *launched(3, "relu_backward", 25, (6, 1), [2]),
        *launched(4, "addmm_backward", 15, (5, 1), [3]),
    ]
    trace = chakra(et.write(tmp_path / "a.0.et", nodes))
    assert layers(trace, "name") == [["addmm_kernel 5", "relu_kernel 6"]]
    assert trace.layers["forward_s"] == pytest.approx([10e-6, 20e-6])
    assert trace.layers["backward_s"] == pytest.approx([15e-6, 25e-6])


def test_nodes_without_a_duration_are_estimated_on_a_device_that_is_named(tmp_path):
    nodes = [
        et.node(1, "busy", 4, num_ops=125 * 10**9, tensor_size=9),
        et.node(2, "wide", 4, num_ops=9, tensor_size=900 * 10**6),
    ]
    path = et.write(tmp_path / "a.0.et", nodes)
    with pytest.raises(InputError, match="no node has a duration, only operations; name a device"):
        chakra(path)
    trace = chakra(path, device="v100-16gb")
    assert trace.layers["forward_s"] == pytest.approx([1e-3, 1e-3])  # 125 TFLOP/s, 900 GB/s
    assert trace.device_kinds == ("v100-16gb",)
    with pytest.raises(InputError, match="did you mean 'fp16'"):
        chakra(path, device="v100-16gb", precision="f16")


def test_other_names_are_told_by_a_pattern(tmp_path):
    nodes = [et.compute(1, "F:embed", 5), et.compute(2, "B:embed", 7, needs=[1])]
    path = et.write(tmp_path / "a.0.et", nodes)
    trace = chakra(path, names="(?:(?P<forward>F)|(?P<backward>B)):(?P<layer>.*)")
    assert layers(trace, "name") == [["embed"]]
    assert costs_of(trace).backward("any") == pytest.approx([7e-6])
    for names in ("(", "(?P<layer>.*)", "F|B"):
        with pytest.raises(InputError, match=r"names = .* found"):
            chakra(path, names=names)


def test_a_name_that_a_pattern_would_take_ages_on_is_passed_over(tmp_path):
    nodes = [et.compute(1, "_" * 200_000, 5), et.compute(2, "a_fwd", 5), et.compute(3, "a_bwd", 5)]
    assert chakra(et.write(tmp_path / "a.0.et", nodes)).layer_count == 2


def test_phases_that_do_not_match_are_refused(tmp_path):
    nodes = [et.compute(1, "a_fwd", 5), et.compute(2, "a_fwd", 5), et.compute(3, "a_bwd", 7)]
    with pytest.raises(InputError, match="rank 0: layer 'a': 2 of forward, 1 of backward found"):
        chakra(et.write(tmp_path / "a.0.et", nodes))


def test_communication_that_was_timed_becomes_transfers(tmp_path):
    paths = et.ranks(
        tmp_path,
        [et.compute(1, "a", 1), et.send(2, 0, 1, 64, micros=9), et.collective(3, "all_reduce", 100, micros=50)],
        [et.compute(1, "a", 1), et.receive(2, 0, 1, 64, micros=5), et.collective(3, "all_reduce", 100, micros=40)],
    )
    table = chakra(paths).transfers
    assert table["kind"].tolist() == ["p2p", "all_reduce"]
    assert table["bytes"].tolist() == [64, 100]
    assert table["seconds"] == pytest.approx([5e-6, 40e-6])  # the time in which both, or all, were there
    assert (table["source"].tolist(), table["target"].tolist()) == (["rank0"] * 2, ["rank1"] * 2)


def test_an_imported_trace_can_be_planned(tmp_path):
    paths, groups = pipeline(tmp_path)
    costs = costs_of(chakra(paths, groups=groups))
    assert costs.forward("any").shape == (3,)
    assert costs.is_random
