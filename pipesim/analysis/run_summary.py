"""What a recorded run is: parallelism, steps, what ranks computed, what is missing, how good its clocks are."""

from typing import Any

import numpy as np

from pipesim.base import units
from pipesim.base.arrays import Bools, Floats, Ints
from pipesim.core import recorded_run as runs
from pipesim.core.recorded_run import KINDS, RecordedRun

MOST = 5  # ranks and steps that are named


def summary(run: RecordedRun) -> dict[str, Any]:
    """The facts of a run, as `pipesim show RUN --json` prints them."""
    seconds = run.step_ns / units.NS_PER_S
    kinds = np.bincount(run.kind, minlength=len(KINDS)).tolist()
    slow = slowdowns(run)
    by_rank = np.median(slow, axis=0)
    has_peers = len(run.ranks) > len(np.unique(run.position))  # else each rank is the median of its place
    slowest = np.argsort(-by_rank, kind="stable")[: MOST if has_peers else 0].tolist()
    return {
        "source": run.source,
        "pp": run.layout.pp,
        "dp": run.layout.dp,
        "tp": run.layout.tp,
        "vpp": run.layout.vpp,
        "ranks": len(run.ranks),
        "microbatches": run.microbatches,
        "operations": len(run),
        "kinds": {KINDS[at]: count for at, count in enumerate(kinds) if count},
        "step_count": len(run.steps),
        "first_step": run.steps[0],
        "last_step": run.steps[-1],
        "consecutive": run.steps[-1] - run.steps[0] + 1 == len(run.steps),
        "step_s": {
            "mean": float(seconds.mean()),
            "median": float(np.median(seconds)),
            "p95": float(np.percentile(seconds, 95)),
            "least": float(seconds.min()),
            "most": float(seconds.max()),
        },
        "stages": [_stage(run, stage) for stage in range(run.layout.stages)],
        "slowest_ranks": [{"rank": run.ranks[at], "times_the_median": float(by_rank[at])} for at in slowest],
        "missing": missing(run),
        "clock": clock(run),
        "notes": list(run.notes),
    }


def _stage(run: RecordedRun, stage: int) -> dict[str, Any]:
    """Seconds of a microbatch on a stage, medians."""
    found: dict[str, Any] = {"stage": stage}
    for kind in runs.COMPUTATIONS:
        rows = (run.stage == stage) & (run.kind == kind)
        if rows.any():
            found[f"{KINDS[kind]}_s"] = units.to_s(float(np.median(run.working[rows])))
    return found


def computed(run: RecordedRun) -> Floats:
    """Seconds of forwards and backwards of each step (row) on each rank (column); NaN where there are none."""
    found = np.zeros((len(run.steps), len(run.ranks)))
    rows = run.is_computation
    np.add.at(found, (run.step[rows], run.rank[rows]), run.working[rows] / units.NS_PER_S)
    found[found == 0] = np.nan
    return found


def slowdowns(run: RecordedRun) -> Floats:
    """What each rank computed in each step, over the median of all ranks with its place in the pipeline; 1 if none."""
    seconds = computed(run)
    found = np.ones_like(seconds)
    for position in np.unique(run.position).tolist():
        of_place = seconds[:, run.position == position]
        if np.isfinite(of_place).any():
            found[:, run.position == position] = of_place / np.nanmedian(of_place)
    return np.nan_to_num(found, nan=1.0)


def missing(run: RecordedRun) -> dict[str, Any]:
    """What a whole run of this layout would have and this one does not."""
    return {
        "ranks": run.layout.pp * run.layout.dp * run.layout.tp - len(run.ranks),
        **_missing_computations(run),
        "unmatched_messages": int((np.isin(run.kind, runs.POINT_TO_POINT) & (run.match < 0)).sum()),
        "without_bytes": int((run.is_communication & np.isnan(run.size)).sum()),
        "has_messages": bool(np.isin(run.kind, runs.POINT_TO_POINT).any()) or run.layout.pp == 1,
        "has_optimizer": bool((run.kind == runs.OPTIMIZER).any()),
    }


def _missing_computations(run: RecordedRun) -> dict[str, Any]:
    """How many forwards and backwards of recorded ranks are missing, and in which steps."""
    splits = bool((run.kind == runs.WEIGHT).any())
    whole = np.zeros(len(run.steps), np.int64)
    found: dict[str, Any] = {}
    for name, kinds in (
        ("forwards", [runs.FORWARD]),
        ("backwards", [runs.BACKWARD, runs.INPUT]),
        ("weight_gradients", [runs.WEIGHT] if splits and not (run.kind == runs.BACKWARD).any() else []),
    ):
        rows = np.isin(run.kind, kinds)
        lacking = _expected(run, rows) - np.bincount(run.step[rows], minlength=len(run.steps))
        found[name] = int(lacking.sum()) if kinds else 0
        whole += lacking if kinds else 0
    lacks = np.flatnonzero(whole)
    return found | {"incomplete_steps": [run.steps[at] for at in lacks.tolist()]}


def _expected(run: RecordedRun, rows: Bools) -> Ints:
    """How many of these a step should have: each stage that a rank ever computed, with all microbatches of its replica.

    A rank of a run whose microbatches are assigned to replicas of a stage has those that it ever has.
    """
    key = np.unique(np.stack([run.rank[rows], run.stage[rows], run.microbatch[rows]]), axis=1)
    return np.full(len(run.steps), key.shape[1], np.int64)


def clock(run: RecordedRun) -> dict[str, Any]:
    """How well the clocks of the ranks agree."""
    drift = run.clock.drift[np.isfinite(run.clock.drift)]
    return {
        "kind": run.clock.kind,
        "doubt_s": units.to_s(float(run.clock.doubt.max(initial=0))),
        "drift": float(np.abs(drift).max()) if len(drift) else None,
        "early": run.clock.early,
        "worst_early_s": units.to_s(run.clock.worst_early),
    }
