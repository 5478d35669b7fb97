"""Execution traces of simulations: read back they give the same timeline, and they are as Chakra's schema has them."""

import json

import numpy as np
import pytest

import pipesim as ps
from helpers import chakra_schema as schema
from pipesim.base.errors import InputError, RefusedError
from pipesim.core.program import LETTERS
from pipesim.display.execution_traces import export_execution_traces
from pipesim.engines import by_name
from pipesim.importers.chakra import chakra, chakra_program
from pipesim.schedulers import SCHEDULERS

FLAT = 'flat(4, bandwidth="1GB/s", latency="5us")'
NODES = 'servers(2, 4, intra="25GB/s", inter="10Gb/s", latency="2us")'
OTHERS = ("auto", "exact")  # which search for an order of the kinds that the others have


def written(folder, trace="bert-large", cluster=FLAT, **options):
    """A simulation, and the files of its GPUs."""
    result = ps.simulate(trace, cluster, engine="event", **options)
    return result, export_execution_traces(result.setup, result.timeline, folder / "run.et")


def read_back(result, paths):
    return by_name.run(chakra_program(paths, result.setup.cluster, sharing=result.setup.options.sharing), "event")


def assert_same(timeline, other):
    """Every task is there at its place, with what it is about, its ends and its times; what joins others is behind."""
    count = len(timeline.program)
    mine, theirs = timeline.table(), other.table()
    pauses = ~timeline.program.is_compute & (timeline.program.route.lengths == 0)
    for name in mine:
        compared = ~pauses if name in {"source", "target"} else pauses | True  # a pause concerns several devices
        assert np.array_equal(mine[name][compared], theirs[name][:count][compared]), name
    assert not other.program.duration[count:].any()


@pytest.mark.parametrize("scheduler", [name for name in SCHEDULERS if name not in OTHERS])
def test_any_schedule_comes_back_to_the_same_nanosecond(scheduler, tmp_path):
    result, paths = written(tmp_path, scheduler=scheduler, microbatches=8, optimizer_s_per_byte=1e-12)
    timeline = read_back(result, paths)
    timeline.verify()
    assert_same(result.timeline, timeline)


@pytest.mark.parametrize("transfers", ["rendezvous", "blocking", "sequential"])
def test_what_sends_and_receives_wait_for_is_in_the_files_whatever_the_reader_is_told(transfers, tmp_path):
    result, paths = written(tmp_path, microbatches=4, transfers=transfers)
    assert_same(result.timeline, read_back(result, paths))


TEAMS = {"trace": "llama3.2-1b", "cluster": "hgx_h100", "tensor": 2, "pipeline": 2, "data": 2, "precision": "bf16"}


@pytest.mark.parametrize(
    "options",
    [
        {"planner": "data_parallel"},
        {"planner": "dapple", "rings": "all"},
        TEAMS | {"sharding": "zero1", "gradient_overlap": True},
        TEAMS | {"sharding": "zero2", "framework": "deepspeed"},
        TEAMS | {"sharding": "zero3", "framework": "megatron-v2"},
        {"planner": "megatron(pipeline=2, data=2, interleave=2)", "scheduler": "interleaved", "sharing": "fifo"},
    ],
    ids=str,
)
def test_replicas_teams_and_what_they_exchange_come_back_as_they_were(options, tmp_path):
    given = {"cluster": NODES, "microbatches": 4, "fit": False, "optimizer_s_per_byte": 1e-12} | options
    result, paths = written(tmp_path, **given)
    assert_same(result.timeline, read_back(result, paths))
    assert {"all_reduce", "all_gather"} & {*result.timeline.table()["kind"].tolist()}


@pytest.fixture(scope="module")
def exchanged(tmp_path_factory):
    """Replicas with messages, collectives and steps, by the schema: for each GPU its nodes; and the process groups."""
    options = {"planner": "megatron(pipeline=2, data=2)", "microbatches": 4, "optimizer_s_per_byte": 1e-12}
    result, paths = written(tmp_path_factory.mktemp("run"), cluster=NODES, framework="megatron", **options)
    groups = json.loads((paths[0].parent / "run.groups.json").read_text())
    return result, [schema.read(path) for path in paths], groups


def test_the_messages_are_those_of_the_schema(exchanged):
    """Read by protocol buffers themselves: no unknown field, a version, nodes with ids of their own."""
    assert schema.unknown(schema.Node.FromString(b"\x78\x01")) == [15]
    for head, nodes in exchanged[1]:
        assert head.version == "0.0.4"
        for node in nodes:
            assert not schema.unknown(node)
        ids = [node.id for node in nodes]
        assert len({*ids}) == len(ids)
        assert all(need in ids for node in nodes for need in node.data_deps)


def test_attributes_have_the_types_that_network_simulators_read(exchanged):
    types = {"comm_src": "int32_val", "comm_dst": "int32_val", "comm_tag": "int32_val", "comm_size": "int64_val"}
    for rank, (_, nodes) in enumerate(exchanged[1]):
        for node in nodes:
            if node.type in {5, 6}:
                assert {name: schema.value(node, name)[0] for name in types} == types
                assert schema.value(node, "comm_src" if node.type == 5 else "comm_dst")[1] == rank
                assert schema.value(node, "comm_size")[1] >= 1
            elif node.type == 4:
                assert schema.value(node, "is_cpu_op") == ("bool_val", False)
            elif node.type == 7:
                assert schema.value(node, "comm_type")[0] == "int64_val"
                assert schema.value(node, "pg_name")[0] == "string_val"


def test_every_send_has_its_receive_and_every_member_of_a_group_its_part(exchanged):
    sends, receives, members = [], [], {}
    for rank, (_, nodes) in enumerate(exchanged[1]):
        for node in nodes:
            if node.type in {5, 6}:
                key = tuple(schema.value(node, name)[1] for name in ("comm_src", "comm_dst", "comm_tag", "comm_size"))
                (sends if node.type == 5 else receives).append(key)
            elif node.type == 7:
                group = schema.value(node, "pg_name")[1]
                members.setdefault(group, set()).add(rank)
    assert sorted(sends) == sorted(receives)
    assert len({*sends}) == len(sends)
    assert {group: {*ranks} for group, ranks in exchanged[2].items()} == members
    assert sorted(map(len, members.values())) == [2, 2, 2, 2, 4]  # replicas of stages, embeddings, and the norm


def test_an_unused_gpu_has_a_file_without_nodes(exchanged):
    result, files, _ = exchanged
    assert len(files) == len(result.setup.cluster.devices) == 8
    assert [bool(nodes) for _, nodes in files] == [True] * 4 + [False] * 4


def test_microseconds_are_those_of_the_simulation(exchanged):
    result, files, _ = exchanged
    timeline = result.timeline
    for node in files[0][1]:
        task = node.id - 1
        assert node.start_time_micros == timeline.start[task] // 1000
        if node.type == 4:
            assert node.duration_micros == pytest.approx(timeline.program.duration[task] / 1000, abs=0.5)
            assert LETTERS[timeline.program.kind[task]] in "FBO"


def test_the_files_are_a_trace_with_a_layer_for_each_stage(tmp_path):
    result, paths = written(tmp_path, microbatches=3, scheduler="zb_h1", optimizer_s_per_byte=1e-12)
    trace = chakra(paths)
    program = result.timeline.program
    stages = len(result.setup.plan.stages)
    assert sorted({*trace.layers["name"]}) == [f"stage{n}" for n in range(stages)]
    for stage in range(stages):
        mine = (program.stage == stage) & program.is_compute
        expected = program.duration[mine & (program.kind == 0)][0] / 1e9
        rows = trace.layers["layer"] == stage
        assert trace.layers["forward_s"][rows] == pytest.approx(expected, abs=1e-6)


def test_what_no_execution_trace_has_is_refused(tmp_path):
    result = ps.simulate("bert-large", FLAT, microbatches=2, sharing="channel")
    with pytest.raises(RefusedError, match="channel between stages"):
        export_execution_traces(result.setup, result.timeline, tmp_path / "run.et")
    slow = {"format": "pipesim.scenario", "version": 1, "slow": [{"device": "gpu0", "factor": 2.0}]}
    (tmp_path / "slow.json").write_text(json.dumps(slow))
    result = ps.simulate("bert-large", FLAT, microbatches=2, scenario=str(tmp_path / "slow.json"))
    with pytest.raises(RefusedError, match="leave out the scenario"):
        export_execution_traces(result.setup, result.timeline, tmp_path / "run.et")
    other = ps.simulate("bert-large", FLAT, microbatches=3).timeline
    with pytest.raises(InputError, match="tasks found; the timeline of this setup"):
        export_execution_traces(ps.simulate("bert-large", FLAT, microbatches=2).setup, other, tmp_path / "run.et")


def test_files_of_more_ranks_are_not_left_beside_new_ones(tmp_path):
    result = ps.simulate("bert-large", FLAT, microbatches=2)
    (tmp_path / "run.4.et").touch()
    (tmp_path / "walk.9.et").touch()
    with pytest.raises(InputError, match=r"run\.4\.et: is of another run"):
        export_execution_traces(result.setup, result.timeline, tmp_path / "run.et")
    (tmp_path / "run.4.et").unlink()
    first = export_execution_traces(result.setup, result.timeline, tmp_path / "run.et")
    contents = [path.read_bytes() for path in first]
    assert [
        path.read_bytes() for path in export_execution_traces(result.setup, result.timeline, tmp_path / "run.et")
    ] == contents
    with pytest.raises(InputError, match=r"the suffix \.et was expected"):
        export_execution_traces(result.setup, result.timeline, tmp_path / "run.json")


def test_the_command_line_writes_them_and_runs_them(run, tmp_path):
    words = ["bert-large", FLAT, "-m", "2", "-s", "zb_h1"]
    code, out, _ = run("export", *words, "-o", tmp_path / "run.et", "--json")
    assert code == 0
    seconds = json.loads(out)["iteration_time_s"]
    code, out, _ = run("run", *sorted(tmp_path.glob("run.*.et")), FLAT, "--json", "--verify")
    assert (code, json.loads(out)["iteration_time_s"]) == (0, seconds)
    busiest = run("run", *sorted(tmp_path.glob("run.*.et")), FLAT, "--sort", "-busy", "--top", "2", "--csv", "-")[1]
    shares = sorted((device["busy_share"] for device in json.loads(out)["devices"].values()), reverse=True)
    assert [float(line.split(",")[1]) for line in busiest.splitlines()[1:]] == shares[:2]
    assert "run.0.et to run.3.et" in run("export", *words, "-o", tmp_path / "run.et")[1]
    code, _, err = run("export", *words, "-o", tmp_path / "run.json", "--format", "chakra")
    assert code == 2
    assert "the suffix .et was expected" in err
