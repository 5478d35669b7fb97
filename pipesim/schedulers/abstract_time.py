"""The time of a schedule on the abstract pipeline: no contention, a message takes the time of its hop."""

from pipesim.core.schedule import BACKWARD, FORWARD, INPUT, WEIGHT, Schedule
from pipesim.schedulers.abstract_pipeline import AbstractPipeline


def makespan(pipeline: AbstractPipeline, schedule: Schedule) -> int:
    """Nanoseconds until everything has ended; the schedule must be free of deadlocks."""
    rows = [schedule.part(ranks[0]) for ranks in pipeline.ranks]
    lane_end, at = [0] * len(rows), [0] * len(rows)
    seconds = {FORWARD: pipeline.forward, BACKWARD: pipeline.backward, INPUT: pipeline.input, WEIGHT: pipeline.weight}
    took = {kind: column.tolist() for kind, column in seconds.items()}
    ended: dict[tuple[int, bool, int], tuple[int, int]] = {}  # (stage, is backward, microbatch) -> (end, lane)
    ahead, back, last = pipeline.ahead.tolist(), pipeline.back.tolist(), pipeline.stages - 1

    def ready_at(lane: int, stage: int, kind: int, microbatch: int) -> int | None:
        """When all dependencies of an action have arrived; None if one has not been timed yet."""
        own = ended.get((stage, kind == WEIGHT, microbatch)) if kind != FORWARD else (0, lane)
        before = stage - 1 if kind == FORWARD else stage + 1
        if own is None or kind == WEIGHT or not 0 <= before <= last:
            return None if own is None else own[0]
        other = ended.get((before, kind != FORWARD, microbatch))
        if other is None:
            return None
        hop = 0 if other[1] == lane else (ahead if kind == FORWARD else back)[before]
        return max(own[0], other[0] + hop)

    moved = True
    while moved:
        moved = False
        for lane, row in enumerate(rows):
            while at[lane] < len(row):
                pair = 2 if row[at[lane]][3] else 1
                cells = row[at[lane] : at[lane] + pair]
                ready = [ready_at(lane, *cell[:3]) for cell in cells]
                if any(time is None for time in ready):
                    break
                begin = max(lane_end[lane], *(time or 0 for time in ready))
                lane_end[lane] = begin + sum(took[kind][stage] for stage, kind, _, _ in cells)
                for stage, kind, microbatch, _ in cells:
                    if kind != WEIGHT:
                        ended[stage, kind != FORWARD, microbatch] = lane_end[lane], lane
                at[lane] += pair
                moved = True
    return max(lane_end)
