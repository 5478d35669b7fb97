"""What a page must know to check a schedule that is edited in it, and to time it as a simulation would.

That is possible where times do not depend on the order: links without contention, eager transfers, no reductions, one
time for each stage and kind of action on a device.
"""

from typing import Any

import numpy as np

from pipesim.base.arrays import Ints
from pipesim.core.program import ACTIVATION, BACKWARD, FORWARD, GRADIENT, INPUT, WEIGHT, Program
from pipesim.core.timeline import Timeline


def editing_data(timeline: Timeline) -> dict[str, Any]:
    """Times and places of actions; or `refused`, the reason why the page cannot time other orders."""
    program = timeline.program
    reason = _reason(program)
    if reason:
        return {"refused": reason}
    actions = np.flatnonzero(program.is_compute)
    moves = np.flatnonzero(~program.is_compute)
    table = [[_cell(program, task) for task in lane.tolist()] for lane in program.order]
    ranks = sorted({
        (int(program.stage[t]), int(program.microbatch[t]), int(program.lane[t])) for t in actions.tolist()
    })  # fmt: skip
    return {
        "devices": list(program.devices),
        "stages": int(program.stage[actions].max(initial=0)) + 1,
        "microbatches": program.microbatches,
        "table": table,
        "ranks": ranks,  # [stage, microbatch, rank]
        "times": _groups(program, actions, program.lane),  # [stage, kind, rank, ns]
        "hops": _groups(program, moves, np.zeros_like(program.lane)),  # [stage, kind, 0, ns]
    }


def _cell(program: Program, task: int) -> str:
    return f"{program.stage[task]}{'FBIW'[program.kind[task]]}{program.microbatch[task]}"


def _groups(program: Program, tasks: Ints, place: Ints) -> list[list[int]]:
    keys = np.stack([program.stage[tasks], program.kind[tasks], place[tasks]], axis=1)
    found, first = np.unique(keys, axis=0, return_index=True)
    return np.column_stack([found, program.duration[tasks[first]]]).tolist() if len(tasks) else []


def _reason(program: Program) -> str:  # noqa: PLR0911 - one return per reason
    """Why times may depend on the order; empty if they do not."""
    compute, kind = program.is_compute, program.kind
    if program.folded is not None:
        return "only one of those that are alike is simulated"
    if program.transfers != "eager":
        return f"transfers are {program.transfers}, which wait for both ends"
    if program.sharing_rule.contended and (program.size > 0).any():
        return f"transfers share links ({program.sharing})"
    if program.sharing_rule.one_at_a_time and (program.duration[~compute] > 0).any():
        return f"a link carries one transfer at a time ({program.sharing})"
    if program.lane_speeds or program.media_speeds:
        return "devices or links are slower for a time"
    known = np.where(compute, kind <= WEIGHT, np.isin(kind, (ACTIVATION, GRADIENT)))
    if not (known & (program.microbatch >= 0)).all():
        return "it has reductions or optimizer steps"
    for tasks, place in ((np.flatnonzero(compute), program.lane), (np.flatnonzero(~compute), 0 * program.lane)):
        keys = np.stack([program.stage[tasks], kind[tasks], place[tasks], program.duration[tasks]], axis=1)
        if len(np.unique(keys[:, :3], axis=0)) != len(np.unique(keys, axis=0)):
            return "actions of one kind on a stage take different times"
    return "" if _expected_needs(program) == _found_needs(program) else "actions wait for more than their inputs"


def _found_needs(program: Program) -> set[tuple[int, int]]:
    return set(zip(program.needs.row_of_value().tolist(), program.needs.values.tolist(), strict=True))


def _expected_needs(program: Program) -> set[tuple[int, int]]:
    """(task, what it needs) of an order without overlapped pairs, where each microbatch is whole on one device."""
    stage, microbatch, kind = (column.tolist() for column in (program.stage, program.microbatch, program.kind))
    task_of = {key: task for task, key in enumerate(zip(stage, kind, microbatch, strict=True))}
    found = set[tuple[int, int]]()
    for (s, k, m), task in task_of.items():
        back = next((task_of[s, n, m] for n in (BACKWARD, INPUT) if (s, n, m) in task_of), None)
        if k == ACTIVATION:
            needed = [task_of.get((s, FORWARD, m))]
        elif k == GRADIENT:
            needed = [back]
        elif k == FORWARD:
            needed = [task_of.get((s - 1, ACTIVATION, m), task_of.get((s - 1, FORWARD, m)))]
        elif k == WEIGHT:
            needed = [task_of.get((s, INPUT, m))]
        else:
            after = next((task_of[s + 1, n, m] for n in (GRADIENT, BACKWARD, INPUT) if (s + 1, n, m) in task_of), None)
            needed = [task_of.get((s, FORWARD, m)), after]
        found.update((task, other) for other in needed if other is not None)
    return found
