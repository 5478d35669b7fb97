"""Gantt charts in text."""

import numpy as np

from pipesim.base import units
from pipesim.core.program import LETTERS, Program
from pipesim.core.timeline import Timeline
from pipesim.display.text.formatting import seconds

WIDTH = 110  # characters of a line where there is no terminal


def gantt(timeline: Timeline, slot_ns: int | None = None, columns: int | None = None, *, exactly: bool = False) -> str:
    """A Gantt chart in text: what each device does in the middle of each slot of time, as letter and microbatch.

    `exactly` takes slots of the greatest common divisor of all durations, if so many fit: in `columns`, or in twice the
    usual width where no limit is given.

    gpu0  F0 F1 .  .  .  B0 B0 B1 B1
    gpu1  .  F0 B0 B0 F1 B1 B1 .  .
    """
    program, names = timeline.program, timeline.program.devices
    width = max(len(_cell(program, task)) for task in program.order.values.tolist()) + 1
    left = max(map(len, names)) + 2
    slots = max(((columns or WIDTH) - left) // width, 1)
    slot = slot_ns or max(-(-timeline.makespan // slots), 1)
    unit = int(np.gcd.reduce(timeline.end[program.is_compute])) if exactly else 0
    if unit and timeline.makespan // unit <= (slots if columns else 2 * slots):
        slot = unit
    middles = np.arange(slot // 2, timeline.makespan, slot)
    lines = []
    for name, lane in zip(names, program.order, strict=True):
        at = np.searchsorted(timeline.start[lane], middles, side="right") - 1
        busy = (at >= 0) & (middles < timeline.end[lane[at]]) if len(lane) else np.zeros(len(middles), bool)
        cells = [
            _cell(program, int(lane[i])) if working else "."
            for i, working in zip(at.tolist(), busy.tolist(), strict=True)
        ]
        lines.append(name.ljust(left) + "".join(cell.ljust(width) for cell in cells).rstrip())
    return "\n".join([*lines, f"one column: {seconds(units.to_s(slot))}"])


def _cell(program: Program, task: int) -> str:
    microbatch = int(program.microbatch[task])
    return f"{LETTERS[int(program.kind[task])]}{microbatch if microbatch >= 0 else ''}"
