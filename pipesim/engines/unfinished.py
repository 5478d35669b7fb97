"""The error message for a program that cannot finish."""

from collections.abc import Sequence

from pipesim.core.program import Program


def unfinished_tasks(program: Program, end: Sequence[int], shown: int = 8) -> str:
    """For each lane with a task that has not ended: the first such task, and what it waits for."""
    running = sum(time < 0 for time in end)
    lines = [f"{running} of {len(program)} tasks can never start; every lane below waits for another"]
    for tasks in program.order:
        waiting = next((t for t in tasks.tolist() if end[t] < 0), None)
        if waiting is not None:
            absent = [program.label(t) for t in program.needs[waiting].tolist() if end[t] < 0]
            lines.append(f"  {program.label(waiting)} waits for {', '.join(absent[:3]) or 'its lane'}")
    more = len(lines) - 1 - shown
    return "\n".join(lines[: shown + 1] + ([f"  and {more} more"] if more > 0 else []))
