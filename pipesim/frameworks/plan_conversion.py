"""Plans as layouts of frameworks, and back: what the layers of a model are, which devices hold which stage.

Frameworks number GPUs tensor first, then context, data and pipeline: rank = t + T (c + C (d + D position)).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from pipesim.base.arrays import Ints
from pipesim.base.errors import InputError
from pipesim.core.cluster import Cluster
from pipesim.core.model import Model
from pipesim.core.plan import Plan, Stage
from pipesim.core.teams import Team
from pipesim.frameworks.training_layout import (
    BLOCK,
    EMBEDDING,
    INTERLEAVED,
    LAYER,
    LOSS,
    ONE_F_ONE_B,
    PREDICTION,
    InexpressibleError,
    TrainingLayout,
)


@dataclass(frozen=True, slots=True)
class ModelUnits:
    """What frameworks divide: blocks, and layers that are in none; the first layer of each, and where the last ends."""

    model: str
    letters: str
    names: tuple[str, ...]
    bounds: tuple[int, ...]
    parameters: tuple[float, ...]

    @classmethod
    def of(cls, model: Model) -> "ModelUnits":
        """The units of a model; layers, where its blocks are not all that is between its first and its last."""
        blocks = model.blocks
        starts = [n for n, block in enumerate(blocks) if not n or block < 0 or block != blocks[n - 1]]
        kinds = "".join(BLOCK if blocks[n] >= 0 else LAYER for n in starts)
        before, after = len(kinds) - len(kinds.lstrip(LAYER)), len(kinds) - len(kinds.rstrip(LAYER))
        middle = kinds[before : len(kinds) - after]
        if middle and set(middle) == {BLOCK}:
            kinds = EMBEDDING * before + middle + LOSS * after
        else:
            starts, kinds = list(range(len(model))), LAYER * len(model)
        bounds = (*starts, len(model))
        sizes = (sum(layer.parameter_bytes for layer in model.layers[a:b]) for a, b in pairwise(bounds))
        names = (
            f"block{blocks[n]}" if kind == BLOCK else str(model.layers[n].name)
            for n, kind in zip(starts, kinds, strict=True)
        )
        return cls(str(model.name), kinds, tuple(names), bounds, tuple(map(float, sizes)))

    @property
    def blocks(self) -> int | None:
        """The number of blocks; None for a model without."""
        return self.letters.count(BLOCK) or None

    def divided(self, stages: Sequence[str]) -> list[int]:
        """The first layer of each stage, and the end of the last, where stages hold these letters."""
        letters = "".join(stages)
        if PREDICTION in letters:
            raise InputError("layers of multi-token prediction (m) found; models here have none")
        if letters.count(BLOCK) != self.letters.count(BLOCK) or letters.count(LAYER) != self.letters.count(LAYER):
            raise InputError(
                f"{letters.count(BLOCK) + letters.count(LAYER)} blocks found; {self.model!r} has "
                f"{self.letters.count(BLOCK) + self.letters.count(LAYER)}"
            )
        each = {letter: self._counts(letter, letters.count(letter)) for letter in (EMBEDDING, LOSS)}
        sizes = [each[letter].pop(0) if letter in each else 1 for letter in letters]
        ends = np.cumsum([0, *sizes])
        places = accumulate((len(stage) for stage in stages), initial=0)
        found = [self.bounds[int(ends[place])] for place in places]
        empty = next((n for n, (a, b) in enumerate(pairwise(found)) if a == b), None)
        if empty is not None:
            raise InputError(f"stage {empty} holds no layer; a plan has a layer in each stage")
        return found

    def _counts(self, letter: str, given: int) -> list[int]:
        """How many units each of the given letters is: one letter may be all of them."""
        own = self.letters.count(letter)
        if own == given:
            return [1] * given
        if given == 1 and own:
            return [own]
        if not own and given:
            return [0] * given
        raise InputError(f"{given} x {letter} found in stages; 1 or {own} was expected, as {self.model!r} has")


def layout_of_plan(plan: Plan, units: ModelUnits, size: int | None = None, **fields: Any) -> TrainingLayout:  # noqa: ANN401 - of TrainingLayout
    """The layout of a plan for microbatches of `size` samples; refused by name where no framework has such a plan."""
    if plan.layers != units.bounds[-1]:
        raise InputError(f"the plan is for {plan.layers} layers; {units.model!r} has {units.bounds[-1]}")
    counts = sorted(set(plan.replication))
    if len(counts) > 1:
        raise InexpressibleError(
            f"stages with {', '.join(map(str, counts))} replicas found; frameworks have as many in all stages"
        )
    widths = list({plan.widths(n) for n in range(len(plan.stages))})
    if len(widths) > 1:
        raise InexpressibleError("stages with teams of different widths found; frameworks have one tensor width")
    data = counts[0]
    groups = [frozenset(stage.devices) for stage in plan.stages]
    first = list(dict.fromkeys(groups))
    pipeline, chunks = len(first), len(groups) // len(first)
    placement = next(
        (name for name in ("loop", "wave") if _order(name, pipeline, chunks) == [first.index(one) for one in groups]),
        None,
    )
    if placement is None or any(
        tuple(stage.devices) != tuple(plan.stages[n % pipeline].devices)
        for n, stage in enumerate(plan.stages)
        if placement == "loop"
    ):
        raise InexpressibleError(
            "stages found that go round the devices neither in a loop nor down and up again; no framework has that"
        )
    microbatches = plan.microbatches
    if data > 1 and plan.replicas == "split":
        if size is not None and size % data:
            raise InexpressibleError(
                f"{data} replicas that divide microbatches of {size} found; frameworks give whole microbatches "
                f"to each: a microbatch size that is a multiple of {data} was expected"
            )
        size = None if size is None else size // data
    elif microbatches % data:
        raise InexpressibleError(
            f"{microbatches} microbatches for {data} replicas found; frameworks give each as many: a multiple of "
            f"{data} was expected"
        )
    else:
        microbatches //= data
    given = {"scheduler": ONE_F_ONE_B if chunks == 1 else INTERLEAVED}
    return TrainingLayout(
        _letters(plan, units),
        pipeline=pipeline,
        data=data,
        tensor=widths[0].tensor,
        context=widths[0].context,
        placement=placement,
        microbatch_size=size,
        microbatches=microbatches,
        **given | fields,
    )  # fmt: skip


def _order(placement: str, pipeline: int, chunks: int) -> list[int]:
    last = pipeline - 1
    return [last - n if placement == "wave" and chunk % 2 else n for chunk in range(chunks) for n in range(pipeline)]


def _letters(plan: Plan, units: ModelUnits) -> tuple[str, ...]:
    """What each stage holds; blocks that are cut are refused, with the plans in which they are not."""
    place = {bound: n for n, bound in enumerate(units.bounds)}
    bounds = [0, *plan.cuts, plan.layers]
    inside = [cut for cut in plan.cuts if cut not in place]
    if not inside:
        return tuple(units.letters[place[a] : place[b]] for a, b in pairwise(bounds))
    raise InexpressibleError(
        f"{len(inside)} cuts inside of a block found (before layer {inside[0]}); frameworks cut between blocks"
    )


def uncut(plan: Plan, units: ModelUnits) -> list[Plan]:
    """The plan with cuts between blocks: each cut before its block, after it, or where it is nearest.

    Those that would leave a stage empty are left out.
    """
    bounds = np.asarray(units.bounds)
    found = []
    for way in ("nearest", "before", "after"):
        cuts = [_moved(cut, bounds, way) for cut in plan.cuts]
        ends = [0, *cuts, plan.layers]
        if all(a < b for a, b in pairwise(ends)):
            stages = (Stage(a, b, stage.devices) for (a, b), stage in zip(pairwise(ends), plan.stages, strict=True))
            found.append(replace(plan, stages=tuple(stages)))
    return list(dict.fromkeys(found))


def _moved(cut: int, bounds: Ints, way: str) -> int:
    after = int(bounds[np.searchsorted(bounds, cut)])
    before = int(bounds[np.searchsorted(bounds, cut, side="right") - 1])
    if way == "nearest":
        return before if cut - before <= after - cut else after
    return before if way == "before" else after


def plan_of_layout(layout: TrainingLayout, units: ModelUnits, cluster: Cluster) -> Plan:
    """The plan of a layout on the first GPUs of a cluster, node by node, as frameworks number them."""
    if layout.microbatches is None:
        raise InputError(
            "the number of microbatches is not stated; the batches and the number of GPUs were expected "
            "(WORLD_SIZE=...)"
        )
    width, nodes = layout.tensor * layout.context, list(dict.fromkeys(device.node for device in cluster.devices))
    names = [device.name for node in nodes for device in cluster.devices if device.node == node]
    data = layout.data or 1
    needed = width * layout.pipeline * data
    if needed > len(names):
        raise InputError(
            f"{needed} GPUs found in the layout; {len(names)} at most were expected, all of {cluster.name!r}"
        )
    teams: list[Team] = [tuple(names[n * width : (n + 1) * width]) for n in range(layout.pipeline * data)]
    groups = [tuple(team[0] for team in teams[n * data : (n + 1) * data]) for n in range(layout.pipeline)]
    bounds = units.divided(layout.stages)
    return Plan(
        model=units.model,
        layers=units.bounds[-1],
        microbatches=layout.microbatches * data,
        stages=tuple(Stage(a, b, groups[n]) for (a, b), n in zip(pairwise(bounds), layout.positions, strict=True)),
        replicas="whole",
        planner="layout",
        teams=tuple(teams) if width > 1 else (),
        context=layout.context,
    )


def ranks_of(plan: Plan) -> tuple[str, ...]:
    """The device of each rank of a framework that runs a plan."""
    first = dict.fromkeys(stage.devices for stage in plan.stages)
    seen = {frozenset(devices): devices for devices in reversed(first)}
    return tuple(name for devices in reversed(seen.values()) for device in devices for name in plan.team(device))
