"""Layouts whose ranks have teams of several tensor widths, on clusters whose devices differ.

section   the devices of one kind, in nodes of one size                  32 x a100 and 32 x v100, in nodes of 8 each
widths    one for each section, for as many ranks as it has room for     4;4;8 with four pipelines side by side

They are asked for with the microbatches and the memory options of the best layouts of one width.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import permutations, product

from pipesim.base.errors import InputError
from pipesim.core.cluster import Cluster
from pipesim.studies.tuning.layout_prices import Pricing
from pipesim.studies.tuning.open_bounds import several_widths_bound
from pipesim.studies.tuning.planner_layouts import WIDTHS
from pipesim.studies.tuning.space import BALANCED, EVEN, WAVES, LayoutChoice

_MOST_SECTIONS = 3

Sections = dict[tuple[str, int], int]
"""How many devices there are of a kind in nodes with so many of them."""


def sections_of(cluster: Cluster) -> Sections:
    """The sections of a cluster, in the order of its devices."""
    nodes = Counter((device.node, device.kind) for device in cluster.devices)
    found = Sections()
    for (_, kind), count in nodes.items():
        found[kind, count] = found.get((kind, count), 0) + count
    return found


def has_several(pricing: Pricing) -> bool:
    """Whether a cluster has several sections, and not too many, and there are several widths."""
    return 1 < len(sections_of(pricing.cluster)) <= _MOST_SECTIONS and len(pricing.widths) > 1


def layouts_of(best: Iterable[LayoutChoice], pricing: Pricing, *, same_schedule: bool = False) -> list[LayoutChoice]:
    """Layouts of several widths with the microbatches and options of the first of these that differ in them.

    Schedules that cut the layers again become 1F1B, or with `same_schedule` such layouts are left out.
    """
    options = dict[LayoutChoice, None]()
    for one in best:
        if not one.planner and not (same_schedule and one.scheduler.partition("(")[0] in WAVES):
            how = "one_f_one_b" if one.scheduler in WAVES else one.scheduler
            shape = {"tensor": 1, "pipeline": 1, "data": 1, "cuts": EVEN, "kinds": "", "widths": ""}
            options[replace(one, scheduler=how, **shape)] = None  # type: ignore[arg-type]  # fields of it
    found, sections = list[LayoutChoice](), sections_of(pricing.cluster)
    for option in list(options)[:WIDTHS]:
        microbatches = pricing.global_batch // option.microbatch_size
        for order in _orders(sections):
            every = product(pricing.widths, repeat=len(order))
            for widths in (each for each in every if len(set(each)) > 1):
                for data in (n for n in range(1, sum(sections.values()) + 1) if microbatches % n == 0):
                    counts = {one: sections[one] for one in order}
                    found += _layouts(replace(option, data=data), pricing, counts, widths)
    return found


def _orders(sections: Sections) -> Iterator[tuple[tuple[str, int], ...]]:
    """Orders of the sections in which those of a kind stay as the cluster has them."""
    kinds = list(dict.fromkeys(kind for kind, _ in sections))
    for order in permutations(kinds):
        yield tuple(one for kind in order for one in sections if one[0] == kind)


def _layouts(option: LayoutChoice, pricing: Pricing, sections: Sections, widths: Sequence[int]) -> list[LayoutChoice]:
    """Even and balanced cuts of one shape; none if a section has no room for a rank, or there are too few blocks."""
    data = option.data
    ranks = [gpus // (width * data) for gpus, width in zip(sections.values(), widths, strict=True)]
    count = sum(ranks)
    if min(ranks) < 1 or count * option.interleave > pricing.blocks:
        return []
    of_ranks = [width for width, each in zip(widths, ranks, strict=True) for _ in range(each)]
    kinds = list(dict.fromkeys(kind for kind, _ in sections))
    stated = list(dict.fromkeys(device.kind for device in pricing.cluster.devices))
    shape = replace(
        option, tensor=of_ranks[0], pipeline=count, widths=";".join(map(str, of_ranks)),
        kinds="" if kinds == stated else ",".join(kinds), sharding="none" if data == 1 else option.sharding,
    )  # fmt: skip
    with suppress(InputError):
        pricing.kinds(shape)  # refused where nodes have no room for a team
        return [shape, replace(shape, cuts=BALANCED)]
    return []


def bounds_of(every: Iterable[LayoutChoice], pricing: Pricing) -> list[float]:
    """Seconds that no layout has less of with the microbatches and options of these, whatever its ranks' widths."""
    shapes = (replace(one, pipeline=1, data=1, scheduler="", cuts="", kinds="", widths="") for one in every)
    return [several_widths_bound(pricing, one) for one in dict.fromkeys(shapes)]
