"""Names of the field for schedules and planners mean what they mean there, and near misses lead to no other."""

import string

import pytest

from pipesim.base import lookup, spelling
from pipesim.base.errors import InputError, UnknownNameError
from pipesim.core.members import PlannerInfo, SchedulerInfo, infos
from pipesim.planners import PLANNERS
from pipesim.schedulers import SCHEDULERS
from pipesim.studies import equal_stages, results
from pipesim.studies.equal_stages import Times

FAMILIES = {"scheduler": (SCHEDULERS, SchedulerInfo), "planner": (PLANNERS, PlannerInfo)}

# As PyTorch, Megatron-LM, Paddle and the papers write them.
SCHEDULES = {
    "gpipe": ["GPipe", "ScheduleGPipe", "AFAB", "F-then-B", "FThenB", "fill-drain"],
    "one_f_one_b": ["1f1b", "1F1B", "OneFOneB", "Schedule1F1B", "PipeDream-Flush", "DAPPLE"],
    "eager_1f1b": ["Eager-1F1B", "eager1f1b"],
    "interleaved": ["Interleaved1F1B", "ScheduleInterleaved1F1B", "vpp", "VPP", "interleaved-1f1b"],
    "looped_bfs": ["LoopedBFS", "ScheduleLoopedBFS", "breadth-first"],
    "zb_h1": ["zb-h1", "zbh1", "ZBH1", "ZB-H1"],
    "zb_1p": ["ZB-1p", "zb1p"],
    "zb_2p": ["ZB-2p", "zb2p"],
    "interleaved_zb_1p": ["InterleavedZeroBubble", "ScheduleInterleavedZeroBubble"],
    "zb_v": ["ZBV", "zb-v", "ZBVZeroBubble", "ScheduleZBVZeroBubble", "V-ZB", "ZBVPP"],
    "v_half": ["V-Half", "vhalf"],
    "v_min": ["V-Min", "vmin"],
    "hanayo": ["Hanayo"],
    "chimera": ["Chimera"],
    "dualpipe": ["DualPipe"],
    "dualpipe_v": ["DualPipeV", "dualpipev", "ScheduleDualPipeV", "DualPipe-V", "cut-in-half"],
}
# Of other schedules, which are not here.
OTHERS = [
    "zb_h2", "ZB-H2", "zbh2", "zb_3p", "zb", "zero_bubble", "ZBPP", "pipedream", "pipedream_2bw", "depth_first",
    "dfs", "bfs", "looped_dfs", "2f2b", "1f1b1w", "async_1f1b", "1f2b", "dualpipe_x", "dualpipe_vpp",
    "dualpipe_w", "zb_w", "zb_vv", "zb_u", "v_mid", "v_max", "v_full", "gems", "bpipe", "terapipe", "seq1f1b",
    "interleaved_zb_v", "interleaved_zbv", "interleaved_dfs", "hanayo_zb", "chimera_d", "bitpipe", "gpipe_v",
    "xpipe", "f1b1",
]  # fmt: skip
CASES = [(name, meant) for meant, names in SCHEDULES.items() for name in names]


@pytest.mark.parametrize(("name", "meant"), CASES)
def test_a_name_of_the_field_is_the_schedule_that_it_is_there(name, meant):
    assert lookup.member_named(name, SCHEDULERS) == meant
    assert lookup.function_named(name, SCHEDULERS, "scheduler").__name__ == meant


@pytest.mark.parametrize("name", OTHERS)
def test_the_name_of_another_schedule_is_refused_without_a_suggestion(name):
    with pytest.raises(UnknownNameError, match=r"unknown scheduler .*; known are gpipe, one_f_one_b"):
        lookup.resolve(name, SCHEDULERS, "scheduler")


def spelled(family):
    """All names and aliases with what they mean."""
    known, info = FAMILIES[family]
    return [(word, name) for name, one in infos(known, family, info).items() for word in (name, *one.aliases)]


def misses(word):
    """The word with one letter missing, doubled, wrong, added, or exchanged with the next."""
    for at in range(len(word)):
        yield word[:at] + word[at + 1 :]
        yield word[:at] + word[at + 1 : at + 2] + word[at] + word[at + 2 :]
        for letter in string.ascii_lowercase + string.digits:
            yield word[:at] + letter + word[at + 1 :]
            yield word[:at] + letter + word[at:]
    yield from (word + letter for letter in string.ascii_lowercase + string.digits)


@pytest.mark.parametrize("family", FAMILIES)
def test_no_two_members_have_the_same_spelling(family):
    words = {}
    for word, name in spelled(family):
        assert words.setdefault(spelling.plain(word), name) == name
    assert len(words) > len(FAMILIES[family][0])


@pytest.mark.parametrize("family", FAMILIES)
def test_a_near_miss_never_leads_to_another_member(family):
    """Of each name and alias every single typing error: another name, or what was mistyped is suggested, or nothing."""
    known = spelling.spellings(spelled(family))
    suggested = 0
    for word, name in spelled(family):
        for miss in misses(spelling.plain(word)):
            if miss not in known:
                found = spelling.mistyped(miss, known)
                suggested += found is not None
                assert found in {None, name}, f"{miss} for {word}"
    assert suggested > 100


def test_options_have_aliases_too():
    for planner in (
        "megatron(pp=2, dp=2, vpp=2)",
        "Megatron(PP=2, DP=2, VPP=2)",
        "megatron(pipeline=2, data=2, vpp=2)",
    ):
        plan = results.make_plan("bert-large", 'flat(4, bandwidth="1GB/s")', planner, 4)
        assert (len(plan.stages), set(plan.replication)) == (4, {2})
    setup = equal_stages.setup("Interleaved1F1B(vpp=3)", 2, 4, Times())
    assert len(setup.plan.stages) == 6
    with pytest.raises(InputError, match="interleave is given twice, as vpp too"):
        results.make_plan("bert-large", 'flat(4, bandwidth="1GB/s")', "megatron(interleave=2, vpp=2)", 4)


def test_aliases_order_as_the_schedules_do():
    cluster = 'flat(2, bandwidth="1GB/s")'
    for alias, name in [("1F1B", "one_f_one_b"), ("ZBVZeroBubble", "zb_v"), ("vpp", "interleaved")]:
        made = [results.make_setup("bert-large", cluster, "uniform", one, 4) for one in (alias, name)]
        assert made[0].schedule == made[1].schedule
