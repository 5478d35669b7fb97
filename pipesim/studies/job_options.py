"""Other jobs beside a simulation: options of `pipesim simulate`."""

from dataclasses import dataclass

from pipesim.base.settings import setting

ITERATIONS = 8


@dataclass(frozen=True, slots=True)
class JobOptions:
    """Other jobs beside a simulation, as options of a command."""

    beside: tuple[str, ...] = setting(
        (), str, "Another job on the same cluster: a file with its fields, and its devices and start.",
        flag="--with", metavar="FILE", is_file=True, multiple=True, group="jobs",
    )  # fmt: skip
    devices: tuple[str, ...] = setting(
        (), str, "Devices of this job beside others: names or patterns; default: those that no other job names.",
        metavar="PATTERN", multiple=True, group="jobs",
    )  # fmt: skip
    share_devices: bool = setting(False, bool, "Let jobs take turns on the same devices.", group="jobs")
    job_iterations: int = setting(
        ITERATIONS, int, "Iterations of the job whose iterations take longest.", group="jobs"
    )  # fmt: skip
