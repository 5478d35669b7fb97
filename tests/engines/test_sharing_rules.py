"""Every sharing rule of the registry against the contract, and what its file defines."""

import importlib

import pytest
from simpy import Environment

from helpers.contracts import check_sharing_rule
from helpers.networks import network
from pipesim.core.sharing import SHARING_RULES
from pipesim.engines.link_manager import LinkManager

RULES = pytest.mark.parametrize("rule", SHARING_RULES.values(), ids=list(SHARING_RULES))
# Bytes that differ, so that no two transfers end at one time and may change places.
FLOWS = [(0, 100, [0]), (0, 210, [0, 1]), (50, 130, [1]), (60, 170, [0]), (60, 90, [1, 0]), (70, 40, [1])]


@RULES
def test_a_rule_keeps_the_contract(rule):
    check_sharing_rule(rule, network([1.0, 0.7], FLOWS, rule.name))


@RULES
def test_a_rule_s_file_has_all_three_parts_with_a_sentence_about_each(rule):
    program = network([1.0, 0.7], FLOWS, rule.name)
    made = rule.implementation("link_manager")(Environment(), program, [-1] * len(program), print)
    assert isinstance(made, LinkManager)
    parts = [rule.implementation(name) for name in ("link_manager", "event_loop", "verify")]
    assert all(part.__doc__ for part in (importlib.import_module(rule.module), *parts))
