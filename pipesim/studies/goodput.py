"""What failures leave of the time of a training run: checkpoints, work that is done again, restarts.

    failure every m = MTBF of a GPU / GPUs
    | save | tau of work | save | tau of work ... x | restart | work since the last save again | ...

    part of time without progress    c / tau  +  tau / 2m  +  r / m       c to save, r to restart
    least at                         tau = sqrt(2 c m)                    Young (1974)

It holds where saves and restarts are short beside the time between failures, and is refused elsewhere.
"""

from dataclasses import dataclass
from math import inf, sqrt

from pipesim.base.errors import InputError


@dataclass(frozen=True, slots=True)
class Failures:
    """Seconds between failures of one GPU, and what a failure and a checkpoint take."""

    mtbf: float
    restart: float = 0.0
    checkpoint: float = 0.0

    def between(self, gpus: int) -> float:
        """Seconds between failures of any of so many GPUs."""
        return self.mtbf / gpus

    def interval(self, gpus: int) -> float:
        """Seconds of work between two checkpoints with which least is lost; infinite if saving takes no time."""
        return sqrt(2 * self.checkpoint * self.between(gpus)) if self.checkpoint else inf

    def goodput(self, gpus: int) -> float:
        """The part of the time in which training makes progress that lasts.

        >>> from pipesim.studies.goodput import Failures
        >>> round(Failures(mtbf=50_000 * 3600, restart=600, checkpoint=60).goodput(1024), 3)
        0.971
        """
        between, tau = self.between(gpus), self.interval(gpus)
        lost = self.restart / between + (self.checkpoint / tau + tau / (2 * between) if self.checkpoint else 0.0)
        if lost >= 0.5:
            raise InputError(
                f"a failure every {between:.0f} s among {gpus} GPUs found, {self.restart:.0f} s to restart and "
                f"{self.checkpoint:.0f} s to save; failures so rare that half of the time is left were expected"
            )
        return 1 - lost


def longest_wait(all_s: float, rest_s: float, restart_s: float) -> float:
    """Seconds of a repair up to which waiting for it is better than going on without what was lost.

    Going on takes a restart at once and another one when the repair has ended, and iterations of `rest_s` in between:
    (d - r) / rest < r / all, with iterations of `all_s` when all is there.

    >>> longest_wait(10.0, 12.0, 600.0)
    1320.0
    """
    return restart_s * (1 + rest_s / all_s)
