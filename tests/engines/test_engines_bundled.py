"""Both engines give the same, to the nanosecond, on every bundled trace x topology x schedule.

Sharings and transfers come up in turn, and so do plans without replicas and with replicas of both sorts.
"""

import functools
import itertools
from dataclasses import replace

import numpy as np
import pytest

from helpers.places import ROOT
from pipesim.base.errors import DeadlockError, ScheduleError
from pipesim.core.costs import costs_of
from pipesim.core.members import SchedulerInfo, TopologyInfo, infos
from pipesim.core.plan import Plan, Stage
from pipesim.core.program import SHARINGS, TRANSFERS
from pipesim.engines import compiled, event
from pipesim.lowering import Options, Setup, lower
from pipesim.schedulers import SCHEDULERS
from pipesim.studies import loading
from pipesim.studies.ordering import ordered_with
from pipesim.topologies import TOPOLOGIES

TRACES = {path.parent.name: path.parent for path in sorted((ROOT / "traces").glob("**/trace.toml"))}
MACHINES = ROOT / "tests" / "helpers" / "machines"
# A small instance of each topology; of the larger ones a few devices far from each other are used.
CLUSTERS = {
    name: info.examples[0]
    if info.examples
    else {
        "nvidia_smi": f"nvidia_smi('{MACHINES / 'dgx_a100.txt'}', 2)",
        "nccl_xml": f"nccl_xml('{MACHINES / 'dgx1.xml'}', 2)",
        "nccl_tests": f"nccl_tests('{MACHINES / 'sendrecv.txt'}', 2, '{MACHINES / 'sendrecv.txt'}')",
    }[name]
    for name, info in infos(TOPOLOGIES, "topology", TopologyInfo).items()
}
# How many devices each stage has, and what its replicas do.
LAYOUTS = (((1, 1, 1, 1), "split"), ((2, 2), "split"), ((2, 2), "whole"), ((1, 3), "whole"))
DECLARED = infos(SCHEDULERS, "scheduler", SchedulerInfo)
RULES = list(itertools.product(SHARINGS, TRANSFERS))


def _cases():
    """Pairwise: of traces, topologies, schedules and rules, each is met with each of the others at least once."""
    for k, schedule in enumerate(SCHEDULERS):
        for r in range(max(len(RULES), len(CLUSTERS), len(TRACES))):
            trace, cluster = list(TRACES)[(2 * k + r) % len(TRACES)], list(CLUSTERS)[(k + r) % len(CLUSTERS)]
            yield trace, cluster, schedule, RULES[r % len(RULES)]


CASES = list(_cases())


def numbers(trace, topology, schedule):
    return list(TRACES).index(trace), list(CLUSTERS).index(topology), list(SCHEDULERS).index(schedule)


def layout_of(trace, topology, schedule):
    """Devices of each stage, and what sort of replicas they are."""
    n, _, k = numbers(trace, topology, schedule)
    known = layouts_of(schedule)
    return known[(n + k) % len(known)]


def layouts_of(schedule):
    """Those that a schedule declares to order; and pipelines side by side, which are ordered one by one."""
    return [
        (widths, replicas)
        for widths, replicas in LAYOUTS
        if max(widths) == 1
        or replicas in DECLARED[schedule].replicas
        or (len(set(widths)) == 1 and replicas == "whole")
    ]


def microbatches_of(schedule):
    """4, or as many as a schedule needs on four devices; one that simulates all schedules in all layouts gets 2."""
    return 2 if DECLARED[schedule].every_layout else max(4, 4 * DECLARED[schedule].fewest)


def needs(schedule):
    for module in DECLARED[schedule].requires:
        pytest.importorskip(module, reason="an extra is not installed")


@functools.cache
def costs(trace):
    return costs_of(loading.load_trace(TRACES[trace]))


@functools.cache
def cluster(topology):
    return loading.load_cluster(CLUSTERS[topology])


@functools.cache
def recorded(topology, trace):
    """The cluster with devices of the kinds that the trace was recorded on, in turn."""
    kinds = costs(trace).kinds
    made = cluster(topology)
    return replace(made, devices=tuple(replace(d, kind=kinds[i % len(kinds)]) for i, d in enumerate(made.devices)))


def plan_of(trace, topology, schedule, layout=None):
    """Layers in equal parts, on devices from all over the cluster."""
    widths, replicas = layout or layout_of(trace, topology, schedule)
    names = [device.name for device in cluster(topology).devices]
    chosen = [names[i * len(names) // sum(widths)] for i in range(sum(widths))]
    layers, ends = len(costs(trace).model), [0, *itertools.accumulate(widths)]
    stages = tuple(
        Stage(n * layers // len(widths), (n + 1) * layers // len(widths), tuple(chosen[ends[n] : ends[n + 1]]))
        for n in range(len(widths))
    )
    return Plan(costs(trace).model.name, layers, microbatches_of(schedule), stages, replicas)


def program_of(trace, topology, schedule, options, layout=None):
    where = recorded(topology, trace)
    plan = plan_of(trace, topology, schedule, layout)
    plan, ordered = ordered_with(schedule, plan, costs(trace), where, options)
    return lower(Setup(plan, ordered, costs(trace), where, options))


def check_stuck_alike(program):
    """Both engines say the same of what never ends."""
    messages = []
    for engine in (event, compiled):
        with pytest.raises(DeadlockError) as caught:
            engine.run(program)
        messages.append(str(caught.value))
    assert messages[0] == messages[1]


@pytest.mark.parametrize(
    ("trace", "topology", "schedule", "rule"),
    [pytest.param(*case, id="-".join([*case[:3], *case[3]])) for case in CASES],
)
def test_engines_agree_on_every_trace_topology_and_schedule(trace, topology, schedule, rule):
    needs(schedule)
    sharing, transfers = rule
    program = program_of(trace, topology, schedule, Options(sharing, transfers, 1e-12))
    try:
        reference = event.run(program)
    except DeadlockError:
        assert transfers in {"blocking", "paired", "sequential"}
        # What a rank receives for a pair may depend on what it sends after it, in orders that are not Megatron-LM's.
        assert transfers == "paired" or not DECLARED[schedule].completes, "it declares that it completes"
        check_stuck_alike(program)
        program = program_of(trace, topology, schedule, Options(sharing, "rendezvous", 1e-12))
        reference = event.run(program)
    answer = compiled.run(program)
    assert not np.count_nonzero(answer.start - reference.start)
    assert not np.count_nonzero(answer.end - reference.end)
    assert np.array_equal(answer.moved, reference.moved)
    if sharing == "fair":
        for name in ("task", "time", "rate"):
            assert np.array_equal(getattr(answer.rates, name), getattr(reference.rates, name))


REFUSED = [(name, layout) for name in SCHEDULERS for layout in LAYOUTS if layout not in layouts_of(name)]


@pytest.mark.parametrize(("schedule", "layout"), REFUSED, ids=lambda value: str(value).replace(" ", ""))
def test_a_schedule_refuses_the_replicas_that_it_does_not_declare(schedule, layout):
    needs(schedule)
    with pytest.raises(ScheduleError, match=r"gives whole microbatches to its replicas|runs two copies"):
        program_of("bert-large", "ring", schedule, Options(), layout)


def test_every_topology_and_trace_is_there_with_every_rule():
    """And every schedule is met with each sharing and each sort of transfers."""
    assert len(TRACES) == len(list((ROOT / "traces").glob("*/*/layers.csv"))) > 0
    for places in itertools.combinations([TRACES, CLUSTERS, SCHEDULERS, RULES], 2):
        at = [[TRACES, CLUSTERS, SCHEDULERS, RULES].index(place) for place in places]
        assert {tuple(case[n] for n in at) for case in CASES} == set(itertools.product(*places))
    for schedule in SCHEDULERS:
        assert {layout_of(*case[:3]) for case in CASES if case[2] == schedule} == set(layouts_of(schedule))
