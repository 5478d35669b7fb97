"""Sharing rules: how transfers share links. Their names, and what the rest of the package asks about them.

The registry needs neither numpy nor an engine, so that `--help` and sweeps list the rules at once.
"""

from dataclasses import dataclass

from pipesim.base.errors import InputError, shown

Sharing = str  # one of SHARINGS


@dataclass(frozen=True, slots=True)
class SharingRule:
    """One way in which transfers share links."""

    name: str
    about: str  # for help texts, in a few words
    contended: bool = True  # transfers on one link delay each other
    one_at_a_time: bool = False  # a link carries one transfer at a time
    rated: bool = False  # rates change while transfers run, and are kept in `Timeline.rates`
    has_links: bool = True  # transfers use the cluster's links; otherwise one abstract channel per stage boundary


_RULES = (
    SharingRule("none", "every transfer has its links to itself", contended=False),
    SharingRule(
        "fifo",
        "a transfer holds every link of its route; requests are served in order",
        one_at_a_time=True,
    ),
    SharingRule("fair", "transfers share links with max-min fair rates", rated=True),
    SharingRule(
        "channel",
        "one half-duplex channel per stage boundary, which carries one microbatch at a time",
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
