"""The registry of sharing rules."""

import subprocess
import sys

import pytest

from helpers.small_programs import pair
from pipesim.base.errors import InputError
from pipesim.core.sharing import SHARING_RULES, SHARINGS, sharing_rule


def test_a_rule_is_found_by_its_name():
    for name in SHARINGS:
        assert sharing_rule(name).name == name
        assert sharing_rule(name).about
    with pytest.raises(InputError, match=f"sharing 'unfair' found; one of {', '.join(SHARINGS)} was expected"):
        sharing_rule("unfair")


def test_a_program_knows_its_rule():
    assert pair().sharing_rule is SHARING_RULES["fair"]


def test_no_rule_both_serves_one_at_a_time_and_changes_rates():
    assert not [rule.name for rule in SHARING_RULES.values() if rule.one_at_a_time and rule.rated]
    assert not [
        rule.name for rule in SHARING_RULES.values() if not rule.contended and (rule.rated or rule.one_at_a_time)
    ]


def test_listing_the_rules_imports_no_library():
    command = "import sys, pipesim.core.sharing; print(*sorted({name.partition('.')[0] for name in sys.modules}))"
    done = subprocess.run([sys.executable, "-c", command], capture_output=True, text=True, check=True)
    assert not {"numpy", "simpy", "numba"} & set(done.stdout.split())
