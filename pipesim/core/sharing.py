"""Sharing rules: how transfers share links. Their names, and what the rest of the package asks about them.

Adding a rule takes one file and one entry of `_RULES`. The entry has what lowering, metrics and the command line ask
before anything runs. The file has everything that acts: the rule on SimPy, its compiled event loop, and the check of a
timeline; these files are in `pipesim/engines/sharing_rules/`, which documents what they define. A file is imported when
a program runs or a timeline is verified, so that `--help` and sweeps list the rules without importing SimPy.
"""

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pipesim.base.errors import InputError, shown

Sharing = str  # one of SHARINGS


@dataclass(frozen=True, slots=True)
class SharingRule:
    """One way in which transfers share links."""

    name: str
    about: str  # for help texts, in a few words
    module: str  # the file of the rule
    contended: bool = True  # transfers on one link delay each other
    one_at_a_time: bool = False  # a link carries one transfer at a time
    rated: bool = False  # rates change while transfers run, and are kept in `Timeline.rates`
    has_links: bool = True  # transfers use the cluster's links; otherwise one abstract channel per stage boundary

    def implementation(self, name: str) -> Callable[..., Any]:
        """What the rule's file defines under this name."""
        found: Callable[..., Any] = getattr(importlib.import_module(self.module), name)
        return found


_FILES = "pipesim.engines.sharing_rules"
_RULES = (
    SharingRule("none", "every transfer has its links to itself", f"{_FILES}.none", contended=False),
    SharingRule(
        "fifo",
        "a transfer holds every link of its route until it ends; requests are served in order",
        f"{_FILES}.fifo",
        one_at_a_time=True,
    ),
    SharingRule("fair", "transfers share links at max-min fair rates", f"{_FILES}.fair", rated=True),
    SharingRule(
        "channel",
        "one half-duplex channel per stage boundary, which carries one microbatch at a time",
        f"{_FILES}.fifo",
        one_at_a_time=True,
        has_links=False,
    ),
)
SHARING_RULES: dict[Sharing, SharingRule] = {rule.name: rule for rule in _RULES}
SHARINGS: tuple[Sharing, ...] = tuple(SHARING_RULES)


def sharing_rule(name: Sharing) -> SharingRule:
    """The rule of this name."""
    if name not in SHARING_RULES:
        raise InputError(f"sharing {shown(name)} found; one of {', '.join(SHARINGS)} was expected")
    return SHARING_RULES[name]
