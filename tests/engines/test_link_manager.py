"""The base of what manages links on SimPy."""

import pytest
from simpy import Environment

from helpers.networks import network
from pipesim.engines.link_manager import LinkManager, routes_of


def test_equal_routes_are_one_object():
    program = network([1.0, 1.0], [(0, 1, [0, 1]), (0, 1, [1]), (0, 1, [0, 1])], "none")
    routes = routes_of(program)
    assert routes == [(), (), (), (0, 1), (1,), (0, 1)]
    assert routes[3] is routes[5]


def test_a_transfer_that_is_started_ends_after_its_duration():
    env, start, done = Environment(), [-1, -1], []
    links = LinkManager(env, network([1.0], [(0, 100, [0])], "none"), start, lambda task: done.append((task, env.now)))
    links.start_transfer(1)
    env.run()
    assert (start[1], done) == (0, [(1, 100)])
    assert links.rates() == []


def test_when_transfers_start_is_left_to_the_rule():
    links = LinkManager(Environment(), network([1.0], [(0, 100, [0])], "none"), [-1, -1], lambda _: None)
    with pytest.raises(NotImplementedError):
        links.request(1)
