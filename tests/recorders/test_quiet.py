from itertools import count

import pytest

from pipesim.base.errors import RefusedError
from pipesim.recorders import quiet


class Machine:
    """Clocks that go on by 10 ms whenever they are read, while a neighbour takes the core where `busy` says so."""

    def __init__(self, busy):
        self._now = self._cpu = 0.0
        self._busy = busy
        self.clocks = quiet.Clocks(self._wall, lambda: self._cpu, self._sleep)

    def _sleep(self, seconds):
        self._now += seconds

    def _wall(self):
        self._now += 0.01
        self._cpu += 0.0 if self._busy(self._now) else 0.01
        return self._now


def test_on_a_quiet_machine_everything_is_measured_once_in_windows_of_200_ms():
    calls = count()
    machine = Machine(lambda _: False)
    found = quiet.gather([lambda: next(calls)] * 50, 1.0, machine.clocks)
    assert found.results == list(range(50))
    assert found.lost == [0.0] * len(found.lost)
    assert len(found.lost) >= 2


def test_what_was_measured_beside_a_neighbour_is_thrown_away_and_measured_again():
    calls = count()
    machine = Machine(lambda now: now < 1.0)
    found = quiet.gather([lambda: next(calls)] * 10, 5.0, machine.clocks)
    assert None not in found.results
    assert found.results[0] > 0, "the first calls were thrown away"
    assert found.results == list(range(found.results[0], found.results[0] + 10))
    assert max(found.lost) > 0.9
    assert found.lost[-1] == 0.0


def test_where_a_neighbour_never_leaves_there_are_no_numbers_rather_than_bad_ones():
    found = quiet.gather([lambda: 1.0] * 5, 1.0, Machine(lambda _: True).clocks)
    assert found.results == [None] * 5
    assert len(found.lost) == 3, "it was tried again as long as patience lasted"


def test_a_neighbour_who_takes_less_than_the_limit_is_borne_and_one_who_takes_more_is_not():
    """Of 400 readings of the clock, 10 ms each, the neighbour has every hundredth or every tenth."""
    for every, borne in ((100, True), (10, False)):
        tick = count(1)
        machine = Machine(lambda _, tick=tick, every=every: next(tick) % every == 0)
        window = quiet.Window(machine.clocks)
        for _ in range(400):
            window.age()
        assert (window.lost() <= quiet.LIMIT) is borne


def test_without_a_gate_everything_is_measured_once():
    calls = count()
    assert quiet.gather([lambda: next(calls)] * 5, 0.0, None).results == [0, 1, 2, 3, 4]


def test_waiting_ends_after_three_quiet_windows_in_a_row():
    waited = quiet.wait_until_quiet(60.0, Machine(lambda now: now < 2.0).clocks)
    assert 2.0 < waited < 3.5


def test_waiting_is_given_up_with_a_reason():
    with pytest.raises(RefusedError, match=r"the machine is not quiet: in \d+ of \d+ windows .* at worst for 100%"):
        quiet.wait_until_quiet(1.0, Machine(lambda _: True).clocks)
