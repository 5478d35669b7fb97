"""Plans: stages of contiguous layers on sets of devices.

    layers     0 1 2 3 4 | 5 6 7 | 8 9           stages cover all layers, in order
    devices    gpu0 gpu1 | gpu2  | gpu3          several devices: replicas of the stage

A device may have several stages (chunks, "virtual stages"): their device sets are then equal, otherwise disjoint.

A device of a stage can be one of a team, several GPUs that work on its replica in lock-step: it is then the first
member of the team, and `teams` has them all.
"""

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, Literal

from pipesim.base.checks import check_at_least, check_one_of
from pipesim.base.errors import InputError, PlanError
from pipesim.base.shown_values import Displayed
from pipesim.core.cluster import Cluster
from pipesim.core.model import Model
from pipesim.core.teams import SINGLE, Team, Widths

if TYPE_CHECKING:
    import pandas as pd

Replicas = Literal["split", "whole"]
REPLICAS: tuple[Replicas, ...] = ("split", "whole")

_RARE = {"unless_default": True}  # left out of files where it has its default
# Keys of a plan's JSON that are derived from it: recomputed when it is written, ignored when it is read.
DERIVED_KEYS = frozenset(
    {
        "replication",
        "cuts",
        "measured_interval",
        "origin",
        "notes",
        "gpus",
        "layout",
        "bound_s",
        "layout_bound_s",
        "planning_s",
        "scaling",
        "seconds_by_scaling",
    }
)


@dataclass(frozen=True, slots=True)
class Stage:
    """Layers start to stop - 1 on one device, or replicated on several."""

    start: int
    stop: int
    devices: tuple[str, ...]

    def __post_init__(self) -> None:
        if not 0 <= self.start < self.stop:
            raise PlanError(f"layers {self.start} to {self.stop} found; a stage needs at least one layer")
        if not self.devices:
            raise PlanError(f"layers {self.start} to {self.stop}: a stage needs at least one device")
        if len(set(self.devices)) < len(self.devices):
            raise PlanError(f"layers {self.start} to {self.stop}: duplicate device in {', '.join(self.devices)}")


@dataclass(frozen=True, repr=False)
class Plan(Displayed):
    """Stages in order, and the number of microbatches they are planned for; validated on construction.

    `split`: every replica of a stage works on its share of each microbatch (SPP, DAPPLE). `whole`: microbatch m goes to
    replica m mod k (PipeDream, Megatron). `objective_s` is what the planner minimised, in seconds.

    >>> plan = ps.Plan("m", layers=2, microbatches=4, stages=(ps.Stage(0, 1, ("a",)), ps.Stage(1, 2, ("b",))))
    >>> plan.devices, plan.cuts
    (('a', 'b'), (1,))
    """

    FORMAT: ClassVar[str] = "pipesim.plan"
    VERSION: ClassVar[int] = 1

    model: str
    layers: int
    microbatches: int
    stages: tuple[Stage, ...]
    replicas: Replicas = "split"
    planner: str = ""
    objective_s: float | None = None
    teams: tuple[Team, ...] = field(default=(), metadata=_RARE)
    """The members of each team of several GPUs; the first of them is the device that stages name."""
    context: int = field(default=1, metadata=_RARE)
    """Of the width of every team, how much divides sequences; the rest divides tensors."""

    def __post_init__(self) -> None:
        check_at_least("microbatches", self.microbatches, 1, PlanError)
        check_one_of("replicas", self.replicas, REPLICAS, PlanError)
        if not self.stages:
            raise PlanError("stages: a plan needs at least one")
        expected = 0
        for index, stage in enumerate(self.stages):
            if stage.start != expected:
                raise PlanError(f"stages[{index}].start: {stage.start} found; {expected} was expected, the next layer")
            expected = stage.stop
        if expected != self.layers:
            raise PlanError(
                f"stages[{len(self.stages) - 1}].stop: {expected} found; {self.layers} layers were expected"
            )
        self._check_devices()
        self._check_teams()

    def _check_devices(self) -> None:
        holder: dict[str, tuple[str, ...]] = {}
        for index, stage in enumerate(self.stages):
            for device in stage.devices:
                if set(holder.setdefault(device, stage.devices)) != set(stage.devices):
                    raise PlanError(
                        f"stages[{index}].devices: {device!r} is also in a stage on {', '.join(holder[device])}; "
                        "the devices of two stages must be the same or disjoint"
                    )

    def _check_teams(self) -> None:
        check_at_least("context", self.context, 1, PlanError)
        leaders = {device for stage in self.stages for device in stage.devices}
        seen: dict[str, int] = {}
        for index, team in enumerate(self.teams):
            if not team or team[0] not in leaders:
                raise PlanError(
                    f"teams[{index}]: {team[:1]} found; a device of a stage was expected as the first member"
                )
            for name in team:
                if seen.setdefault(name, index) != index or team.count(name) > 1:
                    raise PlanError(f"teams[{index}]: {name!r} is in a team twice")
        alone = next((name for name in leaders if name in seen and self.team(name)[0] != name), None)
        if alone is not None:
            raise PlanError(f"teams[{seen[alone]}]: {alone!r} is in this team and is a device of a stage itself")
        for n, stage in enumerate(self.stages):
            widths = sorted({len(self.team(device)) for device in stage.devices})
            if len(widths) > 1 or widths[0] % self.context:
                raise PlanError(
                    f"stages[{n}]: teams of {', '.join(map(str, widths))} GPUs found; one width, a multiple of "
                    f"context = {self.context}, was expected"
                )

    @cached_property
    def _team_of(self) -> dict[str, Team]:
        return {team[0]: team for team in self.teams}

    def frame(self) -> "pd.DataFrame":
        """A row for each stage."""
        import pandas as pd  # noqa: PLC0415 - slow to import, and only who asks for a frame needs it

        rows = [(n, one.start, one.stop - one.start, " ".join(one.devices)) for n, one in enumerate(self.stages)]
        return pd.DataFrame(rows, columns=["stage", "first_layer", "layers", "devices"])

    def team(self, device: str) -> Team:
        """The GPUs of the team of which a device is the first, or that device alone."""
        return self._team_of.get(device, (device,))

    def widths(self, stage: int) -> Widths:
        """The widths of the teams of a stage."""
        gpus = len(self.team(self.stages[stage].devices[0]))
        return Widths(gpus // self.context, self.context) if gpus > 1 else SINGLE

    def widths_of_stages(self, expert: int = 1) -> tuple[Widths, ...]:
        """The widths of the teams of each stage; experts are divided over replicas, which the costs know."""
        found = (self.widths(n) for n in range(len(self.stages)))
        return tuple(found if expert == 1 else (replace(each, expert=expert) for each in found))

    @cached_property
    def gpus(self) -> tuple[str, ...]:
        """All GPUs, in the order of `devices`."""
        return tuple(name for device in self.devices for name in self.team(device))

    @cached_property
    def devices(self) -> tuple[str, ...]:
        """Devices in order of first appearance; a schedule's rank i is devices[i].

        Where replicas take whole microbatches, of first appearance as the least replica: two copies of a model in
        opposite directions are in the order of the first.
        """
        places = [(device, (n, i)) for n, stage in enumerate(self.stages) for i, device in enumerate(stage.devices)]
        if self.replicas == "whole":
            places.sort(key=lambda item: item[1][1])
        place = dict(reversed(places))
        return tuple(sorted(place, key=place.__getitem__))

    @property
    def cuts(self) -> tuple[int, ...]:
        """The first layer of every stage but the first."""
        return tuple(stage.start for stage in self.stages[1:])

    @property
    def replication(self) -> tuple[int, ...]:
        """Number of devices of each stage."""
        return tuple(len(stage.devices) for stage in self.stages)

    @cached_property
    def chunks(self) -> tuple[tuple[int, ...], ...]:
        """The stages of each device, in the order of `devices`."""
        return tuple(
            tuple(n for n, stage in enumerate(self.stages) if device in stage.devices) for device in self.devices
        )

    def share(self, stage: int) -> float:
        """The part of a microbatch that one replica of a stage works on."""
        return 1.0 / len(self.stages[stage].devices) if self.replicas == "split" else 1.0

    def microbatches_of(self, stage: int, replica: int) -> range:
        """The microbatches that pass through a replica of a stage."""
        if self.replicas == "split":
            return range(self.microbatches)
        return range(replica, self.microbatches, len(self.stages[stage].devices))


def check_fits(plan: Plan, model: Model, cluster: Cluster) -> None:
    """Refuse a plan with another number of layers than the model, or with devices that the cluster does not have."""
    if plan.layers != len(model):
        raise PlanError(f"the plan is for {plan.layers} layers (of {plan.model!r}); {model.name!r} has {len(model)}")
    for n, stage in enumerate(plan.stages):
        for i, device in enumerate(stage.devices):
            if device not in cluster.index:
                raise PlanError(f"stages[{n}].devices[{i}]: cluster {cluster.name!r} has no device {device!r}")
    for n, team in enumerate(plan.teams):
        missing = next((name for name in team if name not in cluster.index), None)
        if missing is not None:
            raise PlanError(f"teams[{n}]: cluster {cluster.name!r} has no device {missing!r}")
        kinds = sorted({cluster.device(name).kind for name in team})
        if len(kinds) > 1:
            raise PlanError(f"teams[{n}]: devices of kinds {', '.join(kinds)} found; one kind was expected in a team")


def check_stages(stages: int | None, model: Model, cluster: Cluster) -> int:
    """The number of stages, of one device each: the given one, or the most that the devices and layers allow."""
    most = min(len(cluster.devices), len(model))
    count = most if stages is None else stages
    if not 1 <= count <= most:
        raise InputError(
            f"stages = {count} found; 1 to {most} was expected ({len(cluster.devices)} devices, {len(model)} layers)"
        )
    return count


def check_microbatches(microbatches: int) -> None:
    """Refuse fewer than one microbatch."""
    check_at_least("microbatches", microbatches, 1)
