"""Steps of a rank become its actions."""

from pipesim.core.schedule import BACKWARD, FORWARD, INPUT, WEIGHT
from pipesim.schedulers.steps import RankStep, row, steps


def actions(*written, stage=(0, 3)):
    made = row((RankStep(times, cells) for times, cells in written), stage, lambda _, n: n)
    return [tuple(cell) for cell in made.tolist()]


def test_cells_are_repeated_and_microbatches_counted_for_each_direction():
    assert actions((2, "F0"), (1, "F1 B1")) == [
        (0, FORWARD, 0, 0),
        (0, FORWARD, 1, 0),
        (3, FORWARD, 0, 0),
        (3, BACKWARD, 0, 0),
    ]


def test_a_weights_gradient_is_the_oldest_that_waits_or_the_oldest_of_a_direction():
    kinds = [(stage, kind, m) for stage, kind, m, _ in actions((1, "I0 I1 I0 W1 W W"))]
    assert kinds[3:] == [(3, WEIGHT, 0), (0, WEIGHT, 0), (0, WEIGHT, 1)]
    assert [kind for _, kind, _ in kinds[:3]] == [INPUT] * 3


def test_a_pair_is_marked_at_its_first_action():
    assert [paired for *_, paired in actions((1, "F0&B1 F1"))] == [1, 0, 0]


def test_every_forward_of_a_rank_has_a_backward_whole_or_in_two_parts():
    for ahead in range(4):
        for near in range(1, 4):
            for rounds in range(4):
                made = row(steps(ahead, near, rounds, apart=not ahead), (0, 1), lambda _, n: n)
                for stage in (0, 1):
                    count = {kind: int(((made[:, 0] == stage) & (made[:, 1] == kind)).sum()) for kind in range(4)}
                    assert count[FORWARD] == count[BACKWARD] + count[INPUT]
                    assert count[INPUT] == count[WEIGHT]
