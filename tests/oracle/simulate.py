"""From what a user gives to when everything happens."""

from fractions import Fraction
from typing import NamedTuple

from oracle import speeds
from oracle.costs import Recorded
from oracle.loop import Network, play
from oracle.rounding import Refused, Rounding
from oracle.routes import Roads
from oracle.tasks import work_of


class Result(NamedTuple):
    """Start and end in ns and, of messages, bytes and what floating point may be off by, of each name.

    `doubts` is how many roundings were in doubt: if any was, times decide nothing.
    """

    spans: dict[tuple, tuple[int, int]]
    carried: dict[tuple, tuple[Fraction, float]]
    doubts: int


def simulate(  # noqa: PLR0917 - what a simulation consists of
    trace, cluster, plan, schedule: str, options, scenario, background: str = "", reading=None, work_ns=None
) -> Result:
    """Everything that happens.

    `schedule` is in text form, `background` a CSV, `reading` what is said of the trace (microbatch size, statistic,
    share of the weights, scaling), `work_ns` computation times by name in place of the trace's, where they were drawn.
    """
    rounding = Rounding()
    roads = Roads(cluster, rounding)
    lane_speeds = speeds.of_devices(scenario, roads)
    media_speeds = speeds.of_media(scenario, background, roads)
    work = work_of(plan, schedule, Recorded(trace, **(reading or {})), roads, options, rounding)
    if options.sharing == "channel" and (scenario.degraded or background):
        raise Refused("channel")
    for name, ns in (work_ns or {}).items():
        work.tasks[name].work = ns
    network = Network(options.sharing, roads.bandwidth, media_speeds)
    spans = play(work, network, lane_speeds, rounding)
    messages = {name: task.message for name, task in work.tasks.items() if task.message}
    carried = {name: (message.size, message.error) for name, message in messages.items()}
    return Result(spans, carried, rounding.doubts)
