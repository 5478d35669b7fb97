"""What no layout has less of: over all shapes of a search, and over all plans that a planner may choose from."""

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from pipesim.analysis.bounds.over_layouts import OpenLayout, layout_bound
from pipesim.analysis.bounds.over_plans import bound_of_widths, space_bound
from pipesim.studies.tuning.layout_prices import ROUNDING, Priced, Pricing
from pipesim.studies.tuning.space import EVEN, LayoutChoice


def open_bound(pricing: Pricing, every: Iterable[Priced]) -> float:
    """Seconds that no layout of these widths, microbatches and memory options has less of, whatever its cuts,
    chunks and schedule.

    Shapes are visited in the order of their work, which is a bound too: when it is above the least bound so far,
    so are those of all that follow.
    """
    shapes: dict[LayoutChoice, float] = {}
    for one in every:
        shape = replace(one.candidate, interleave=1, cuts=EVEN, scheduler="one_f_one_b", kinds="")
        shapes[shape] = 0.0
    for shape in shapes:
        shapes[shape] = _work(pricing, shape)
    least = np.inf
    for shape, work in sorted(shapes.items(), key=lambda item: (item[1], item[0])):
        if work >= least:
            break
        inputs, microbatches = pricing.inputs(shape), shape.microbatches(pricing.global_batch) * shape.data
        layout = OpenLayout(shape.pipeline, shape.data, microbatches)
        found = layout_bound(inputs.costs, inputs.cluster, layout, pricing.options(shape)).seconds
        least = min(least, found * pricing.least_part(shape.tensor))
    return float(least)


def _work(pricing: Pricing, shape: LayoutChoice) -> float:
    """Seconds of the work of a pipeline, divided over its ranks, on the fastest kind of device."""
    inputs = pricing.inputs(shape)
    kinds = {device.kind for device in inputs.cluster.devices}
    whole = min(float(inputs.before(pricing.recomputing(shape), kind)[:2, -1].sum()) for kind in kinds)
    whole *= shape.microbatches(pricing.global_batch) / shape.pipeline
    return whole * pricing.least_part(shape.tensor) * (1 - ROUNDING)


def several_widths_bound(pricing: Pricing, one: LayoutChoice) -> float:
    """What no layout with these microbatches and memory options has less of, whatever the widths of its teams."""
    costs, microbatches = pricing.costs(one, pricing.widths), one.microbatches(pricing.global_batch) * max(one.data, 1)
    widths = (costs.widths, *costs.others)
    found = bound_of_widths(costs, pricing.cluster, microbatches, pricing.options(one), widths)
    return found * min(map(pricing.least_part, pricing.widths))


def planned(pricing: Pricing, one: LayoutChoice) -> Priced:
    """A layout that a planner decides, with what no plan of its widths has less of; infinite where none fits."""
    if one.widths:
        found = several_widths_bound(pricing, one)
        return Priced(one, None, found, found)
    inputs = pricing.inputs(one)
    microbatches, options = one.microbatches(pricing.global_batch), pricing.options(one)
    found = space_bound(inputs.costs, inputs.cluster, microbatches, options).seconds * pricing.least_part(one.tensor)
    return Priced(one, None, found, found)
