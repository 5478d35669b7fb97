"""Execution traces as programs: what is replayed takes what theory says, and obeys what the graph says."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers import chakra_files as et
from pipesim import topologies
from pipesim.base import lookup
from pipesim.base.errors import InputError, RefusedError
from pipesim.core.program import BACKWARD, FORWARD
from pipesim.engines import event
from pipesim.importers.chakra import chakra_program
from pipesim.importers.chakra.collectives import edges

US = 1000  # ns


def flat(devices, latency=0):
    """Bytes per ns on each device's way in and out; `latency` ns from any device to any other."""
    text = f'flat({devices}, bandwidth="1GB/s", latency="{latency / 2}ns")'
    return lookup.call(text, topologies.TOPOLOGIES, "cluster")


def replay(program):
    timeline = event.run(program)
    timeline.verify()
    return timeline


def spans(timeline, device):
    """(kind, start, end) of what a lane does."""
    program = timeline.program
    lane = program.order[program.devices.index(device)].tolist()
    return [(int(program.kind[t]), int(timeline.start[t]), int(timeline.end[t])) for t in lane]


def test_a_run_of_two_ranks_lasts_as_long_as_by_hand(tmp_path):
    paths = et.ranks(
        tmp_path,
        [et.compute(0, "a_fwd", 10), et.send(1, 0, 1, 5000, needs=[0]), et.receive(2, 1, 0, 3000, tag=1),
         et.compute(3, "a_bwd", 20, needs=[2])],
        [et.receive(5, 0, 1, 5000), et.compute(6, "b_fwd", 11, needs=[5]), et.compute(7, "b_bwd", 22, needs=[6]),
         et.send(8, 1, 0, 3000, tag=1, needs=[7])],
    )  # fmt: skip
    timeline = replay(chakra_program(paths, flat(3, latency=1000), samples=8))
    assert spans(timeline, "gpu0") == [(FORWARD, 0, 10 * US), (BACKWARD, 53 * US, 73 * US)]
    assert spans(timeline, "gpu1") == [(FORWARD, 16 * US, 27 * US), (BACKWARD, 27 * US, 49 * US)]
    assert timeline.program.devices == ("gpu0", "gpu1")
    assert timeline.program.samples == 8


@pytest.mark.parametrize("ranks", [2, 3, 5])
@pytest.mark.parametrize(
    ("sort", "ns"),
    [
        ("all_reduce", lambda k, n: 2 * (k - 1) * (n / k + 100)),
        ("reduce_scatter", lambda k, n: (k - 1) * (n / k + 100)),
        ("all_gather", lambda k, n: (k - 1) * (n + 100)),
        ("barrier", lambda k, _: 2 * (k - 1) * 100),
        ("all_to_all", lambda k, n: (k - 1) * n / k + 100),  # each link into and out of a device carries k - 1 parts
        ("broadcast", lambda k, n: n + (k - 1) * 100),
        ("reduce", lambda k, n: n + (k - 1) * 100),
        ("scatter", lambda k, n: (k - 1) * n / k + 100),
        ("gather", lambda k, n: (k - 1) * n + 100),
    ],
)
def test_a_collective_takes_what_its_algorithm_takes(tmp_path, sort, ns, ranks):
    """On links of a byte per nanosecond, 100 ns long; it starts when the last rank has come to it."""
    late = [[et.compute(0, "a", 7 * rank + 1), et.collective(1, sort, 60_000, needs=[0])] for rank in range(ranks)]
    after = [[*nodes, et.compute(2, "b", 3, needs=[1])] for nodes in late]
    timeline = replay(chakra_program(et.ranks(tmp_path, *after), flat(ranks, latency=100)))
    start = (7 * (ranks - 1) + 1) * US
    expected = start + ns(ranks, 60_000) + 3 * US
    assert timeline.makespan == pytest.approx(expected, abs=2)


@pytest.mark.parametrize("sort", et.SORTS)
def test_every_collective_moves_bytes_only_between_its_members_and_none_alone(sort):
    for ranks in (1, 2, 4):
        plan = list(edges(sort, ranks, 1000))
        assert all(0 <= edge.source < ranks > edge.target >= 0 and edge.source != edge.target for edge in plan)
        assert bool(plan) == (ranks > 1)


def test_a_rendezvous_waits_for_what_its_receive_waits_for(tmp_path):
    paths = et.ranks(
        tmp_path,
        [et.send(0, 0, 1, 1000)],
        [et.compute(0, "a", 50), et.receive(1, 0, 1, 1000, needs=[0]), et.compute(2, "b", 1, needs=[1])],
    )
    cluster = flat(2)
    assert replay(chakra_program(paths, cluster)).makespan == 51 * US
    assert replay(chakra_program(paths, cluster, transfers="rendezvous")).makespan == 52 * US


def test_the_host_works_beside_its_device(tmp_path):
    nodes = [
        et.node(0, "launch", 4, micros=10, is_cpu_op=True), et.compute(1, "kernel", 30, needs=[0]),
        et.node(2, "launch", 4, micros=10, is_cpu_op=True, needs=[0]), et.compute(3, "kernel", 5, needs=[2]),
    ]  # fmt: skip
    timeline = replay(chakra_program(et.ranks(tmp_path, nodes), flat(2)))
    assert timeline.program.devices == ("gpu0", "gpu0.host")
    assert timeline.makespan == 45 * US


def test_of_several_nodes_that_are_ready_the_one_recorded_first_goes_first(tmp_path):
    nodes = [
        et.compute(1, "late", 5, start=90),
        et.compute(2, "early", 7, start=30),
        et.compute(3, "last", 1, start=99),
    ]
    timeline = replay(chakra_program(et.ranks(tmp_path, nodes), flat(2)))
    assert [end - start for _, start, end in spans(timeline, "gpu0")] == [7 * US, 5 * US, 1 * US]


def test_a_lane_does_not_stand_still_for_a_node_that_waits_for_a_message(tmp_path):
    """Node 1 has the smaller number, but its message is not there yet."""
    paths = et.ranks(
        tmp_path,
        [et.receive(0, 1, 0, 100), et.compute(1, "needs it", 5, needs=[0]), et.compute(2, "does not", 50)],
        [et.compute(0, "a", 20), et.send(1, 1, 0, 100, needs=[0])],
    )
    assert replay(chakra_program(paths, flat(2))).makespan == 55 * US


def test_memory_operations_take_their_time_and_hold_no_lane(tmp_path):
    nodes = [et.node(0, "load", et.MEM_LOAD, micros=30), et.compute(1, "a", 10), et.compute(2, "b", 5, needs=[0])]
    assert replay(chakra_program(et.ranks(tmp_path, nodes), flat(2))).makespan == 35 * US


def test_many_that_wait_for_many_meet_in_one_task(tmp_path):
    """Else a node without a duration between 40 and 40 others would be 1,600 arrows."""
    before = [et.compute(n, "a", 1) for n in range(40)]
    meet = et.node(40, "meet", et.METADATA, needs=range(40))
    after = [et.compute(41 + n, "b", 1, needs=[40]) for n in range(40)]
    program = chakra_program(et.ranks(tmp_path, [*before, meet, *after]), flat(2))
    assert len(program.needs.values) == 80
    assert replay(program).makespan == 80 * US


def test_a_row_of_nodes_without_a_duration_hands_on_few_tasks(tmp_path):
    """Node after node waits for one more that computes: 500 of them would be 125,000 arrows."""
    nodes = [et.compute(n, "a", 1) for n in range(500)]
    row = [et.node(500 + n, "m", et.METADATA, needs=[n] if not n else [n, 499 + n]) for n in range(500)]
    program = chakra_program(et.ranks(tmp_path, [*nodes, *row, et.compute(1000, "b", 1, needs=[999])]), flat(2))
    assert len(program.needs.values) < 600
    assert replay(program).makespan == 501 * US


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"transfers": "blocking"}, RefusedError, "use eager or rendezvous"),
        ({"sharing": "channel"}, RefusedError, "a channel between stages"),
        ({"samples": -1}, InputError, "samples = -1 found"),
        ({"device": "a100"}, InputError, "unknown device kind 'a100'"),
    ],
)
def test_what_cannot_be_replayed_is_refused(tmp_path, options, error, message):
    paths = et.ranks(tmp_path, [et.compute(0, "a", 1)])
    with pytest.raises(error, match=message):
        chakra_program(paths, flat(2), **options)


def test_a_collective_of_the_only_rank_there_is_says_that_the_others_are_missing(tmp_path):
    (path,) = et.ranks(tmp_path, [et.collective(0, "reduce_scatter", 4096)])
    with pytest.raises(InputError, match=r"nothing to simulate \(a collective .* give the files of all ranks\)"):
        chakra_program(path, flat(2))


def test_ranks_without_a_device_and_runs_of_nothing_are_refused(tmp_path):
    with pytest.raises(InputError, match=r"rank 2 has no device: .* has 2"):
        chakra_program(et.ranks(tmp_path, *([et.compute(0, "a", 1)],) * 3), flat(2))
    with pytest.raises(InputError, match="nothing to simulate"):
        chakra_program(et.ranks(tmp_path, [et.node(0, "m", et.METADATA)]), flat(2))


@st.composite
def runs(draw):
    """Ranks with computation, messages and collectives that wait for what stands before them.

    Beside the nodes of each rank: for (rank, number) the microseconds that it computes, each different, and the nodes
    that must be over before it is.
    """
    count = draw(st.integers(1, 4))
    ranks, graph = [[] for _ in range(count)], {}

    def add(rank, make, micros=0, also=()):
        before = len(ranks[rank])
        needs = draw(st.lists(st.integers(0, before - 1), max_size=3, unique=True)) if before else []
        ranks[rank].append(make(before, needs))
        graph[rank, before] = (micros, [*((rank, need) for need in needs), *also])
        return rank, before

    for number in range(draw(st.integers(1, 14))):
        what = draw(st.sampled_from(["compute", "compute", "meta", "send", "all_reduce", "all_to_all"]))
        if what == "send" and count > 1:
            a, b = draw(st.permutations(range(count)))[:2]
            size = draw(st.integers(0, 9000))
            sent = add(a, lambda n, needs, m=(a, b, size, number): et.send(n, *m, needs=needs))
            add(b, lambda n, needs, m=(a, b, size, number): et.receive(n, *m, needs=needs), also=[sent])
        elif what in {"all_reduce", "all_to_all"}:
            members = [
                add(rank, lambda n, needs, w=what: et.collective(n, w, 5000, needs=needs)) for rank in range(count)
            ]
            together = [need for member in members for need in graph[member][1]]
            graph.update(dict.fromkeys(members, (0, together)))
        else:
            rank = draw(st.integers(0, count - 1))
            kind, micros = (et.METADATA, 0) if what == "meta" else (et.COMPUTE, 10 + number)
            add(rank, lambda n, needs, k=kind, m=micros: et.node(n, "n", k, micros=m, needs=needs), micros)
    for rank, mine in enumerate(ranks):
        if not mine:
            add(rank, lambda n, _: et.compute(n, "alone", 3), 3)
    return ranks, graph


def computed_before(graph, node):
    """The nodes that compute of all that must be over before this one, however indirectly."""
    found, left = set(), list(graph[node][1])
    while left:
        need = left.pop()
        if need not in found:
            found.add(need)
            left += graph[need][1]
    return {need for need in found if graph[need][0]}


@settings(max_examples=25, deadline=None)
@given(
    run=runs(), sharing=st.sampled_from(["none", "fifo", "fair"]), transfers=st.sampled_from(["eager", "rendezvous"])
)
def test_whatever_the_graph_its_replay_ends_and_obeys_every_rule(tmp_path_factory, run, sharing, transfers):
    """Every node that computes runs for its time, after all that it waits for, on its rank and on others."""
    ranks, graph = run
    paths = et.ranks(tmp_path_factory.mktemp("run"), *ranks)
    cluster = flat(4, latency=50)
    refusal = ""
    try:
        program = chakra_program(paths, cluster, sharing=sharing, transfers=transfers)
    except InputError as error:
        refusal = str(error)
    if refusal:  # a rendezvous may wait for itself: each of two ranks receives after it has sent
        assert "nothing to simulate" in refusal or (transfers == "rendezvous" and "in a cycle" in refusal)
        return
    timeline = replay(program)
    assert timeline.program.same_as(chakra_program(paths, cluster, sharing=sharing, transfers=transfers))
    found = {
        (device, round((end - start) / US)): (start, end)
        for device, name in enumerate(program.devices)
        for _, start, end in spans(timeline, name)
    }
    assert sorted(found) == sorted((rank, micros) for (rank, _), (micros, _) in graph.items() if micros)
    for node, (micros, _) in graph.items():
        for before in computed_before(graph, node) if micros else ():
            assert found[before[0], graph[before][0]][1] <= found[node[0], micros][0]
