"""What members of families declare about themselves."""

import functools

import pytest

from pipesim.base.errors import InputError
from pipesim.core.members import PlannerInfo, ProblemSize, SchedulerInfo, info_of, infos
from pipesim.planners import PLANNERS


@PlannerInfo(tables=lambda size: size.layers * 8.0, aliases=("other",))
def planner(model, cluster, costs, microbatches, *, stages=1):
    return model, cluster, costs, microbatches, stages


def test_a_declaration_is_read_from_the_function_also_with_arguments_bound():
    for function in (planner, functools.partial(planner, stages=2)):
        assert info_of(function, PlannerInfo).tables(ProblemSize(layers=10, devices=2)) == 80.0
        assert info_of(function, PlannerInfo).aliases == ("other",)


def test_a_declared_function_works_as_before():
    assert planner(1, 2, 3, 4, stages=5) == (1, 2, 3, 4, 5)


@pytest.mark.parametrize("member", [len, lambda plan: plan, object()])
def test_without_a_declaration_there_are_defaults(member):
    assert info_of(member, SchedulerInfo) == SchedulerInfo()


def test_a_declaration_of_another_family_does_not_count():
    assert info_of(planner, SchedulerInfo) == SchedulerInfo()


def test_all_members_of_a_family_have_a_declaration():
    found = infos(PLANNERS, "planner", PlannerInfo)
    assert list(found) == list(PLANNERS)
    assert all(isinstance(info, PlannerInfo) for info in found.values())


@pytest.mark.parametrize(
    ("size", "stages", "per_node"),
    [
        (ProblemSize(layers=24, devices=8), 8, 8),
        (ProblemSize(layers=4, devices=8, nodes=3), 4, 3),
        (ProblemSize(layers=24, devices=8, most_stages=2), 2, 8),
    ],
)
def test_the_size_of_a_problem_limits_its_stages(size, stages, per_node):
    assert (size.stages, size.devices_per_node) == (stages, per_node)


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        ({"layout": "wav"}, "layout = 'wav' found; did you mean 'wave'"),
        ({"chunks": 0}, "chunks = 0 found"),
        ({"replicas": ("whole", "halve")}, "replicas = 'halve' found"),
    ],
)
def test_a_declaration_that_means_nothing_is_refused(declared, message):
    """A layout with a typing error was taken for none, and the scheduler was given other plans than it declared."""
    with pytest.raises(InputError, match=message):
        SchedulerInfo(**declared)
