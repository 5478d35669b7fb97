"""The same name has the same look in every picture, and no two names share one."""

import itertools

import pytest

from pipesim.core.members import PlannerInfo
from pipesim.display import figures
from pipesim.display.figures import Chart, looks, paper
from pipesim.planners import PLANNERS
from pipesim.schedulers import SCHEDULERS

PAPER = ("SPP", "SPP+", "DAPPLE", "PipeDream", "HetPipe", "Alpa", "GPipe", "data parallel")


def shown(look):
    return tuple(str(look[key]) for key in ("facecolor", "hatch", "color", "marker", "linestyle") if key in look)


@pytest.mark.parametrize("drawn", [looks.bars, looks.lines])
def test_a_planner_looks_the_same_with_any_others_and_in_any_spelling(drawn):
    everyone = dict(zip(PAPER, drawn(PAPER), strict=True))
    assert drawn(["GPipe", "DAPPLE"]) == [everyone["GPipe"], everyone["DAPPLE"]]
    assert drawn(["data_parallel", "spp_plus", "gpipe"]) == [everyone[n] for n in ("data parallel", "SPP+", "GPipe")]
    assert drawn(["mine", "SPP", "spp(memory='one_f_one_b')"])[1] == everyone["SPP"]


@pytest.mark.parametrize("drawn", [looks.bars, looks.lines])
def test_schedules_and_orders_have_looks_of_their_own(drawn):
    planners, schedules = drawn(list(PLANNERS)), drawn(["PE", "GPipe", "1F1B", "ZB-H1"])
    orders = drawn(["RDO", "hierarchical", "as given", "random"])
    hues = [{shown(look)[0] for look in family} for family in (planners, schedules, orders)]
    assert not any(a & b for a, b in itertools.combinations(hues, 2))
    assert drawn(["pe", "one_f_one_b", "gpipe"]) == [schedules[0], schedules[2], schedules[1]]
    assert drawn(["random", "given"]) == [orders[3], orders[2]]


@pytest.mark.parametrize("family", [looks.planners, looks.schedules, looks.others])
@pytest.mark.parametrize("drawn", [looks.bars, looks.lines])
def test_no_two_names_of_a_chart_look_alike(drawn, family):
    family = family()
    names = [*family.names, "mine", "yours", f"{family.names[0]}(slow=True)"]
    assert len({shown(look) for look in drawn(names)}) == len(names)


@pytest.mark.parametrize(("drawn", "hue"), [(looks.bars, "facecolor"), (looks.lines, "color")])
@pytest.mark.parametrize(
    "names",
    [
        ("pe", "hanayo"),
        ("mine", "dualpipe"),
        ("zb_h1", "zb_v", "mine"),
        ("hanayo", "chimera", "exact", "list_schedule", "pe", "v_half"),
    ],
)
def test_schedules_of_a_chart_share_no_colour_while_there_are_colours(drawn, hue, names):
    found = drawn(names)
    assert len({look[hue] for look in found}) == len(names)
    alone = {name: drawn([name])[0] for name in ("pe", "list_schedule")}
    assert all(found[names.index(name)] == look for name, look in alone.items() if name in names)


def test_every_planner_and_every_schedule_has_a_place_of_its_own():
    for family, registry in ((looks.planners(), PLANNERS), (looks.schedules(), SCHEDULERS)):
        assert set(family.names) == set(registry)
        assert len(set(family.places.values())) == len(registry), "two members declare the same look"


def test_a_member_that_declares_no_look_has_the_first_that_is_free():
    declared = {"a": PlannerInfo(look=1), "b": PlannerInfo(), "c": PlannerInfo(look=0), "d": PlannerInfo()}
    family = looks.family_of(declared, looks.planners().palette)
    assert family.places == {"a": 1, "c": 0, "b": 2, "d": 3}
    assert len({shown(look) for look in looks.bars(list(declared), family)}) == 4


def test_fills_of_neighbours_differ_in_grey_or_in_hatch():
    for family in (looks.planners(), looks.schedules(), looks.others()):
        for one, other in itertools.pairwise(looks.bars(family.names, family)):
            apart = abs(paper.lightness(paper.rgb(one["facecolor"])) - paper.lightness(paper.rgb(other["facecolor"])))
            assert apart > 0.05 or one["hatch"] != other["hatch"]


def test_numbers_go_from_light_to_dark():
    grey = [paper.lightness(paper.rgb(look["color"])) for look in looks.lines([1, 4, 10, 25, 100, 400])]
    assert grey == sorted(grey, reverse=True)


def test_a_chart_draws_a_planner_in_its_own_colour_also_where_others_are_missing():
    rows = {"x": [1, 2, 1, 2], "y": [1.0, 2.0, 3.0, 4.0], "who": ["GPipe", "GPipe", "Alpa", "Alpa"]}
    (axes,) = figures.chart(rows, Chart(kind="line", x="x", y="y", series="who")).axes
    assert [line.get_color() for line in axes.lines] == [look["color"] for look in looks.lines(["GPipe", "Alpa"])]
