"""What PyTorch calls the schedules, and on which placement of stages each works."""

from pipesim.base import lookup
from pipesim.frameworks.training_layout import InexpressibleError, TrainingLayout

# Name in torch.distributed.pipelining -> name here, several stages on each rank, placement.
SCHEDULES = {
    "1F1B": ("one_f_one_b", False, "loop"),
    "GPipe": ("gpipe", False, "loop"),
    "Interleaved1F1B": ("interleaved", True, "loop"),
    "LoopedBFS": ("looped_bfs", True, "loop"),
    "InterleavedZeroBubble": ("interleaved_zb_1p", True, "loop"),
    "ZBVZeroBubble": ("zb_v", True, "wave"),
    "DualPipeV": ("dualpipe_v", True, "wave"),
}
_HERE = {here: (name, several, placement) for name, (here, several, placement) in SCHEDULES.items()}
RUNTIME = "_PipelineScheduleRuntime"  # what runs a schedule of a file


def named(layout: TrainingLayout) -> str | None:
    """PyTorch's name for a layout's schedule; None where it has to be a file.

    A class of PyTorch chooses its groups of microbatches itself: a stated group has to be a file, too.
    """
    name, _, options = lookup.parse_call(layout.scheduler, "scheduler")
    found = _HERE.get(name)
    if found is None or set(options) - {"chunks"} or (layout.interleave > 1) != found[1]:
        return None
    return found[0] if layout.placement == found[2] else None


def placed(schedule: str) -> tuple[str, str] | None:
    """The scheduler and the placement of a schedule's name in PyTorch, with or without `Schedule` before it."""
    plain = {name.lower(): value for name, value in SCHEDULES.items()}
    found = plain.get(schedule.removeprefix("Schedule").lower())
    return None if found is None else (found[0], found[2])


def file_of(layout: TrainingLayout) -> str:
    """The file that a layout's schedule is in; refused where it is not one."""
    if not layout.scheduler.endswith(".csv"):
        raise InexpressibleError(
            f"scheduler {layout.scheduler} found; PyTorch has {', '.join(SCHEDULES)}, and others as a .csv file, "
            "which ps.layout.convert makes"
        )
    return layout.scheduler
