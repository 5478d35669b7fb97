"""What an iteration loses most time to: the time of all devices, divided by what they do or wait for.

    computing      they work
    transfers      they wait for the input of their next task to arrive
    all_reduce     they wait for gradients to be summed, or parameters gathered
    imbalance      they have less to do than the busiest device
    pipeline       the rest: filling, draining, and waiting in the order of the schedule

The five are shares of devices x iteration time and sum to 1.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

CAUSES = ("transfers", "all_reduce", "imbalance", "pipeline")
SMALL = 0.1  # of the devices' time: where each cause takes less, computing limits the iteration


@dataclass(frozen=True, slots=True)
class Bottleneck:
    """What limits the iteration, and the share of the devices' time by what they do or wait for."""

    what: str
    shares: Mapping[str, float]
    device: str
    """The busiest device."""
    link: str | None
    """The link that is busy for the longest time; None if nothing is sent."""
    link_busy_share: float

    def as_data(self) -> dict[str, Any]:
        """Plain numbers and text."""
        return asdict(self) | {"shares": dict(self.shares)}


def bottleneck(summary: Mapping[str, Any]) -> Bottleneck:
    """The bottleneck of an iteration, from its `metrics.summary`.

    >>> result = ps.simulate("bert-large", 'flat(2, bandwidth="100MB/s")')
    >>> result.bottleneck.what, result.bottleneck.link
    ('transfers', 'gpu1->switch')
    """
    devices, links, whole = summary["devices"], summary["links"], summary["iteration_time_s"]
    most = max((one["busy_share"] for one in devices.values()), default=0.0)
    found = dict.fromkeys(("computing", *CAUSES), 0.0)
    for one in devices.values():
        left = 1.0 - one["busy_share"]
        found["computing"] += one["busy_share"]
        waits = (
            ("transfers", one["exposed_communication_s"] / whole if whole else 0.0),
            ("all_reduce", one["exposed_all_reduce_s"] / whole if whole else 0.0),
            ("imbalance", most - one["busy_share"]),
        )
        for name, share in waits:
            taken = min(max(share, 0.0), left)
            found[name] += taken
            left -= taken
        found["pipeline"] += left
    shares = {name: value / max(len(devices), 1) for name, value in found.items()}
    worst = max(CAUSES, key=lambda name: shares[name])
    link = max(links, key=lambda name: (links[name]["busy_share"], name), default=None)
    return Bottleneck(
        what=worst if shares[worst] >= SMALL else "computing",
        shares=shares,
        device=max(devices, key=lambda name: devices[name]["busy_share"], default=""),
        link=link,
        link_busy_share=links[link]["busy_share"] if link is not None else 0.0,
    )
