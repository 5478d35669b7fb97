"""Cuts that a source states, as a planner: so many blocks on each stage, in order.

2 | 3 | 3 | 2      embedding before the first block, final norm and head after the last; a stage of 0 blocks holds
                   those alone

Stage n is on device n mod p, or the stages go down the devices and up again.
"""

from collections.abc import Callable, Sequence
from itertools import accumulate, pairwise

from tables import Row, whole

from pipesim.core.cluster import Cluster
from pipesim.core.costs import Costs
from pipesim.core.model import Model
from pipesim.core.plan import Plan, Stage


def padded(row: Row) -> list[int]:
    """Equal chunks of the blocks and two more, of which first and last chunk lack one."""
    chunks = whole(row, "pp") * whole(row, "vpp")
    each = (whole(row, "layers") + 2) // chunks
    return [each - (n in {0, chunks - 1}) for n in range(chunks)]


def stated(row: Row) -> list[int]:
    """The layers of "5|7|7|7", of which the embedding is the first and the head the last."""
    return [int(part) for part in row["layout"].split("(")[0].strip().split("|")]


def stated_blocks(counts: Sequence[int]) -> str:
    """Planner megatron with so many blocks on each stage."""
    return f"megatron(blocks={tuple(counts)})"


def planner(blocks: Sequence[int], *, v_shape: bool = False) -> Callable[..., Plan]:
    """A planner that cuts there: stage n on device n mod p, or down the devices and up again."""

    def stated_layout(model: Model, cluster: Cluster, costs: Costs, microbatches: int) -> Plan:
        del costs
        names = [layer.name.partition(".")[0] for layer in model.layers]
        inside = [n for n, name in enumerate(names) if name.startswith("block")]
        first = [n for n in inside if n == 0 or names[n - 1] != names[n]]
        cuts = [*first, inside[-1] + 1]  # before each block, and after the last
        ends = [0, *(cuts[count] for count in accumulate(blocks[:-1])), len(model)]
        lanes = len(cluster.devices)
        stages = [
            Stage(a, b, (cluster.devices[_lane(n, lanes, v_shape=v_shape)].name,))
            for n, (a, b) in enumerate(pairwise(ends))
        ]
        return Plan(model.name, len(model), microbatches, tuple(stages), planner="stated layout")

    return stated_layout


def _lane(stage: int, lanes: int, *, v_shape: bool) -> int:
    return 2 * lanes - 1 - stage if v_shape and stage >= lanes else stage % lanes
