"""Groups of tasks, as the jobs of a cluster, and their colours in figures."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pipesim.base.arrays import Floats, Ints
from pipesim.base.errors import InputError
from pipesim.core.program import BACKWARD, INPUT, KINDS, OPTIMIZER, WEIGHT
from pipesim.display.figures import paper

# Of Okabe and Ito, so that neighbours also differ in grey.
_BASE = ("#0072B2", "#E69F00", "#007358", "#C8540A", "#A64D79", "#56B4E9", "#7F7F7F", "#5C8A3A")
_DARKER = {BACKWARD: 0.3, INPUT: 0.3, WEIGHT: 0.45, OPTIMIZER: 0.6}


@dataclass(frozen=True, eq=False)
class TaskGroups:
    """The group of each task of a program, -1 for none, and the names of the groups."""

    of_task: Ints
    names: Sequence[str]

    def check(self, tasks: int) -> None:
        """Refuse groups of another program."""
        if len(self.of_task) != tasks:
            raise InputError(f"groups: {len(self.of_task)} tasks found; {tasks} were expected, those of the timeline")

    def color(self, group: int) -> paper.Color:
        """The colour of a group."""
        return paper.rgb(_BASE[group % len(_BASE)])

    @property
    def palette(self) -> Floats:
        """(group + 1) * kinds + kind -> red, green, blue: the colour of the group, backwards darker; -1 is idle."""
        rows = [paper.rgb(paper.IDLE)] * len(KINDS)
        for group in range(len(self.names)):
            rows += [paper.mixed(self.color(group), (0, 0, 0), _DARKER.get(kind, 0.0)) for kind in range(len(KINDS))]
        return np.array(rows)
