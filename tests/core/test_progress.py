"""Step-by-step execution of a schedule, and what each rank waits for."""

from pipesim.core.plan import Plan, Stage
from pipesim.core.progress import execute
from pipesim.core.schedule import parse

PAIR = Plan("m", 2, 2, (Stage(0, 1, ("a",)), Stage(1, 2, ("b",))))


def test_cells_are_done_in_turns_with_what_they_need_before_them():
    cells = []
    progress = execute(
        parse("0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1"), PAIR, lambda rank, cell, _: cells.append((rank, cell))
    )
    assert progress.position == progress.ends
    assert len(cells) == len(set(cells)) == 8
    assert cells.index((0, "0F1")) < cells.index((1, "1F1"))
    assert cells.index((1, "1B1")) < cells.index((0, "0B1"))


def test_a_pair_is_one_cell_with_two_actions():
    done = {}
    plan = Plan("m", 1, 2, (Stage(0, 1, ("a",)),))
    execute(parse("0F0,(0F1;0B0)OVERLAP_F_B,0B1"), plan, lambda _, cell, actions: done.update({cell: len(actions)}))
    assert done == {"0F0": 1, "(0F1;0B0)OVERLAP_F_B": 2, "0B1": 1}


def test_a_rank_that_waits_forever_names_the_operation():
    progress = execute(parse("0F0,0B0,0F1,0B1\n1F0,1F1,1B0,1B1"), PAIR)
    assert progress.position == [1, 5]
    assert progress.missing(0) == progress.operation(1, 1, 0)  # the backward of stage 1
    assert progress.missing(1) == progress.operation(0, 0, 1)  # the forward of microbatch 1 on stage 0


def test_an_operation_of_the_rank_itself_is_negative():
    progress = execute(parse("0B0,0F0\n1F0,1B0"), Plan("m", 2, 1, PAIR.stages))
    assert progress.missing(0) == -1 - progress.operation(0, 0, 0)


def test_an_operation_is_complete_when_all_replicas_that_split_have_done_it():
    plan = Plan("m", 2, 1, (Stage(0, 1, ("a", "b")), Stage(1, 2, ("c",))))
    progress = execute(parse("0F0,0B0\n,\n1F0,1B0"), plan)
    assert progress.missing(2) == progress.operation(0, 0, 0)
    assert progress.done[progress.operation(0, 0, 0)] == 1
