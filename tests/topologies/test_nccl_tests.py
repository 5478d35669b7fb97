"""Machines whose links have the times that nccl-tests measured."""

import random
from pathlib import Path

import numpy as np
import pytest

from helpers.spoiling import spoilt
from pipesim.analysis.metrics import iteration_time
from pipesim.base.errors import InputError, PipesimError
from pipesim.core.cluster import Cluster
from pipesim.studies import loading, results
from pipesim.topologies.nccl_tests import measured_links, nccl_tests

US = 1e-6


def read(path, test=None):
    return measured_links(Path(path), test)


def output(test, ranks, times, *, stated=True, prefix=""):
    """What a test prints for these (bytes, microseconds)."""
    factor = {"all_reduce": 2 * (ranks - 1) / ranks, "sendrecv": 1.0}.get(test, (ranks - 1) / ranks)
    lines = [f"# Collective test starting: {test}_perf"] if stated else []
    lines += ["# nThread 1 nGpus 1 minBytes 8", "#", "# Using devices"]
    lines += [f"#  Rank {rank:2d} Group  0 Pid  92057 on    a100 device  {rank} [0xca] A100" for rank in range(ranks)]
    each = "time   algbw   busbw #wrong"
    lines += [f"#       size         count      type   redop    root     {each}     {each}",
              "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)"]  # fmt: skip
    for size, us in times:
        rate = size / us / 1e3
        cells = f"{us:.2f} {rate:.2f} {rate * factor:.2f} 0"
        lines.append(f"  {size} {size // 4} float sum -1 {cells} {cells}")
    lines += ["# Out of bounds values : 0 OK", "# Avg bus bandwidth    : 12.3"]
    return "".join(f"{prefix}{line}\n" for line in lines)


SENT = [(1024, 10.0), (1 << 20, 20.0), (1 << 24, 180.0)]


@pytest.fixture
def save(tmp_path):
    def write(text, name="out.txt"):
        (tmp_path / name).write_text(text)
        return str(tmp_path / name)

    return write


def test_messages_between_two_gpus_take_the_times_that_were_measured(save):
    cluster = nccl_tests(save(output("sendrecv", 4, SENT)), device="a100-80gb")
    assert [device.name for device in cluster.devices] == [f"node0.gpu{gpu}" for gpu in range(4)]
    measured = read(save(output("sendrecv", 4, SENT))).points
    np.testing.assert_allclose(measured, [(size, us * US) for size, us in SENT])
    for size, us in SENT:
        links = [cluster.links[at] for at in cluster.route("node0.gpu0", "node0.gpu3").links]
        seconds = sum(link.delay for link in links) + max(link.transmission(size) for link in links)
        assert seconds == pytest.approx(us * US)


@pytest.mark.parametrize(("test", "steps"), [("all_reduce", 14), ("all_gather", 7), ("reduce_scatter", 7)])
def test_a_collective_is_a_ring_of_messages(test, steps, save):
    times = [(8 * size, steps * us) for size, us in SENT]
    found = read(save(output(test, 8, times)))
    np.testing.assert_allclose(found.points, [(size, us * US) for size, us in SENT], rtol=1e-3)


def test_the_test_is_known_by_its_bandwidths_where_it_is_not_stated(save):
    times = [(8 * size, 14 * us) for size, us in SENT]
    found = read(save(output("all_reduce", 8, times, stated=False)))
    np.testing.assert_allclose(found.points[-1], (1 << 24, 180 * US), rtol=1e-3)
    with pytest.raises(InputError, match="does not state which test it is of; test='all_reduce'"):
        read(save(output("all_reduce", 2, SENT, stated=False)))
    assert read(save(output("all_reduce", 2, SENT, stated=False)), "sendrecv").ranks == 2


def test_machines_are_joined_by_what_a_test_between_them_measured(save):
    inside = save(output("sendrecv", 4, SENT))
    slow = save(output("sendrecv", 2, [(size, 4 * us + 20) for size, us in SENT]), "inter.txt")
    cluster = loading.load_cluster(f"nccl_tests({inside!r}, 2, {slow!r}, device='a100-80gb')")
    assert len(cluster.devices) == 8
    times = [results.simulate("bert-large", cluster, plan=None, planner=f"uniform(stages={n})", microbatches=4,
                              fit=False, device="a100-80gb") for n in (4, 8)]  # fmt: skip
    assert all(iteration_time(one.timeline) > 0 for one in times)
    links = [cluster.links[at] for at in cluster.route("node0.gpu0", "node1.gpu3").links]
    assert sum(link.delay for link in links) == pytest.approx(60 * US, rel=0.05)


def test_lines_of_mpirun_have_the_rank_before_them(save):
    assert read(save(output("sendrecv", 4, SENT, prefix="[1,0]<stdout>:"))).ranks == 4


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "lists fewer than two ranks"),
        (output("sendrecv", 4, SENT[:1]), "1 sizes of messages found; at least two were expected"),
        (output("sendrecv", 4, []), "has no rows of sizes and times"),
        (output("sendrecv", 4, SENT).replace("20.00", "x"), "time: 'x' found; a number was expected"),
        (output("sendrecv", 4, SENT).replace(" sum ", " "), "columns found; 13 were expected, as in the header"),
    ],
)
def test_other_texts_are_refused_with_their_line(text, message, save):
    with pytest.raises(InputError, match=message) as caught:
        nccl_tests(save(text))
    assert "out.txt" in str(caught.value)


def test_times_between_machines_go_with_several_machines(save):
    file = save(output("sendrecv", 4, SENT))
    with pytest.raises(InputError, match="nodes = 2, inter = None found"):
        nccl_tests(file, 2)
    with pytest.raises(InputError, match="test = 'scatter' found"):
        nccl_tests(file, test="scatter")


def test_spoilt_outputs_are_read_or_refused(save):
    whole, rng = output("all_reduce", 4, SENT).encode(), random.Random(4)
    read = 0
    for _ in range(100):
        path = save("")
        Path(path).write_bytes(spoilt(whole, rng))
        try:
            assert isinstance(nccl_tests(path), Cluster)
            read += 1
        except PipesimError as error:
            assert "out.txt" in str(error) or "gpus" in str(error)  # noqa: PT017 - either is right
    assert 0 < read < 100
