"""DAPPLE's three policies choose the devices of the next stage."""

import pytest

from pipesim.planners.dapple_placement import (
    Piece,
    after,
    joined,
    placements,
    placements_of_each,
    scatter,
    size_of,
    take,
)


def test_the_three_policies_place_as_the_picture_shows():
    found = placements((4, 4, 4), (2, 1, 0), 3)
    assert found == [
        (Piece(2, 0, 3),),  # fresh
        (Piece(0, 2, 4), Piece(1, 1, 2)),  # append
        (Piece(0, 2, 3), Piece(1, 1, 2), Piece(2, 0, 1)),  # scatter
    ]


def test_a_policy_with_too_few_devices_gives_no_group():
    assert placements((2, 2), (2, 1), 1) == [(Piece(1, 1, 2),)], "no fresh machine; append and scatter agree"
    assert placements((2, 2), (2, 1), 2) == []


@pytest.mark.parametrize("pipelines", [1, 2, 3])
def test_all_pipelines_take_as_many_devices_each_and_none_twice(pipelines):
    for need in (1, 2):
        for used, group in placements_of_each((4, 3, 5), (1, 0, 2), need, pipelines, 1000):
            assert size_of(group) == need * pipelines
            assert sum(used) == 3 + need * pipelines
            assert after((1, 0, 2), group) == used, "the group is what is newly used"


def test_taken_devices_are_in_use_and_groups_taken_one_after_the_other_join():
    sizes, used = (4, 2), (1, 0)
    one = take(sizes, used, 2, [0])
    assert one == (Piece(0, 1, 3),)
    other = scatter(sizes, after(used, one), 2)
    assert after(after(used, one), other) == (4, 1)
    assert joined(one, other) == (Piece(0, 1, 4), Piece(1, 0, 1))
    assert size_of(joined(one, other)) == 4
    assert take(sizes, used, 4, [0]) is None
