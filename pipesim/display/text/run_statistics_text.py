"""Stragglers of a recorded run, and steps drawn from it, as text."""

from collections.abc import Mapping
from typing import Any

from pipesim.display.text.formatting import facts, percent, seconds, table
from pipesim.display.text.simulation_text import statistics
from pipesim.display.text.terminal import PLAIN, Terminal

_LEVELS = {
    "step": "a step",
    "rank": "a rank, in all steps",
    "rank_in_step": "a rank in a step",
    "microbatch": "a microbatch",
    "rest": "nothing",
}


def stragglers(data: Mapping[str, Any], most: int = 5, on: Terminal = PLAIN) -> str:
    """How much slower a run is for its stragglers; `data` is that of `StragglerMetrics.as_data`."""
    last, worst = data["last_stage"], data["worst_ranks"]
    ranks, own, ideal = ", ".join(map(str, worst["ranks"])), data["without_gaps_s"], data["ideal_s"]
    whole = f"{data['slowdown']:.3f}: {seconds(own)}, and {seconds(ideal)} with every operation at its mean"
    head = facts(
        [
            ("slowdown by stragglers", whole),
            ("slowdown by launch gaps", f"{data['launch_slowdown']:.3f}"),
            ("the last stage at its mean", _saved(last)),
            (f"the worst rank{'s' * (len(worst['ranks']) > 1)}, {ranks}", _saved(worst)),
        ],
        on,
    )
    rows = [
        [f"{what} {name}".strip(), f"{value:.3f}"]
        for what, key in (("replica", "by_replica"), ("stage", "by_stage"), ("", "by_operation"))
        for name, value in list(data[key].items())[:most]
    ]
    return f"{head}\n\n{table(['its own times, others at their mean', 'slowdown'], rows)}"


def _saved(group: Mapping[str, Any]) -> str:
    return f"{seconds(group['removed_s'])}, {percent(group['part'])} of the slowdown"


def _probability(p: float) -> str:
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def prediction(data: Mapping[str, Any]) -> str:
    """Steps drawn from a run; `data` is that of `Prediction.as_data`."""
    variance = data["variance"]
    rows = [
        [_LEVELS[level], percent(share), "-" if level == "rest" else _probability(variance["p"][level])]
        for level, share in variance["shares"].items()
    ]
    low, high = seconds(data["interval90_low_s"]), seconds(data["interval90_high_s"])
    more = [("90 % of steps", f"{low} to {high}")]
    if data["slowest_replica_share"] is not None:
        more.append(
            ("slowest replica", f"{percent(data['slowest_replica_share'])} of the step: the others wait for it")
        )
    if data["unusual_steps"]:
        more.append(("left out", f"unusual outside of computing: step {', '.join(map(str, data['unusual_steps']))}"))
    shares = table(["computing times share with", "of variance", "p"], rows)
    return f"steps drawn from the run\n{statistics(data)}\n\n{facts(more)}\n\n{shares}"
