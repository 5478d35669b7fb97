"""What pictures are drawn of in tests, and what can be found on them."""

import itertools

import numpy as np
from matplotlib.collections import PolyCollection
from matplotlib.colors import to_hex
from matplotlib.text import Text

from helpers.networks import pipeline
from pipesim import topologies
from pipesim.base.lookup import call
from pipesim.core.cluster import Cluster, Device, Link
from pipesim.core.costs import costs_of
from pipesim.core.plan import Plan, Stage
from pipesim.core.trace import Trace
from pipesim.engines.event import run
from pipesim.lowering import Options, Setup, lower
from pipesim.schedulers.gpipe import gpipe

MS = 1_000_000  # ns


def straight(stages=4, microbatches=8, schedule="one_f_one_b", sharing="fair", ms=(1, 2)):
    """A pipeline of equal stages; a hop takes as long as a forward."""
    forward, backward = ([t * MS] * stages for t in ms)
    hops = [ms[0] * MS] * (stages - 1)
    return run(pipeline(forward, backward, microbatches, schedule, hop_bytes=hops, sharing=sharing))


def planned(stages, microbatches=4, schedule=gpipe, sharing="fair", replicas="split"):
    """Stages of one layer each, on the devices of a star; `stages` says which devices each has."""
    layers = len(stages)
    columns = {
        "layer": range(layers),
        "name": [f"layer{n}" for n in range(layers)],
        "forward_s": [1e-3] * layers,
        "backward_s": [2e-3] * layers,
        "output_bytes": [100_000] * layers,
        "parameter_bytes": [1_000_000] * layers,
        "stash_bytes": [1_000_000] * layers,
    }
    costs = costs_of(Trace("by hand", "test", 1, {name: np.array(values) for name, values in columns.items()}))
    plan = Plan("by hand", layers, microbatches, tuple(Stage(n, n + 1, d) for n, d in enumerate(stages)), replicas)
    names = tuple(dict.fromkeys(itertools.chain(*stages)))
    cluster = Cluster(
        "star", tuple(Device(n, "any") for n in names), tuple(Link(n, "switch", 1e9, 1e-6) for n in names)
    )
    return run(lower(Setup(plan, schedule(plan), costs, cluster, Options(sharing))))


REPLICATED = (("a",), ("b", "c"), ("d",))
CHUNKED = (("a",), ("b",), ("a",), ("b",))


def topology(text):
    return call(text, topologies.TOPOLOGIES, "topology")


# --- what is on a figure ---------------------------------------------------------------------------------------------


def drawn_boxes(axes):
    """(left, right, top, bottom) and colour of every box, those of the background left out; empty ones too."""
    found = []
    for collection in axes.collections:
        if isinstance(collection, PolyCollection) and collection.get_zorder() == 1:
            for path, color in zip(collection.get_paths(), collection.get_facecolors(), strict=True):
                (left, top), (right, bottom) = path.vertices.min(axis=0), path.vertices.max(axis=0)
                found.append(((left, right, top, bottom), to_hex(color)))
    return found


def numbers(axes):
    """The texts inside axes."""
    return [text.get_text() for text in axes.texts]


def in_legend(figure):
    return [text.get_text() for legend in figure.legends for text in legend.get_texts()]


def all_texts(figure):
    """Every text that can be seen, with its extent. What axes keep for themselves (an empty title) is left out."""
    figure.draw_without_rendering()
    hidden = {
        t for axes in figure.axes if not axes.axison for axis in (axes.xaxis, axes.yaxis) for t in axis.findobj(Text)
    }
    seen = {}
    for text in figure.findobj(Text):
        if text.get_text() and text.get_visible() and text not in hidden:
            box = text.get_window_extent()
            if box.width > 0:
                seen[text] = box
    return _in_view(figure, seen)


def _in_view(figure, seen):
    """Without labels of ticks outside the limits of their axis, which are not drawn."""
    for axes in figure.axes:
        for axis, view in ((axes.xaxis, axes.get_xlim()), (axes.yaxis, axes.get_ylim())):
            low, high = sorted(view)
            margin = 1e-9 * (high - low)
            for tick in [*axis.get_major_ticks(), *axis.get_minor_ticks()]:
                if not low - margin <= tick.get_loc() <= high + margin:
                    seen.pop(tick.label1, None)
                    seen.pop(tick.label2, None)  # of a colour bar
    return seen


def check_no_text_is_hidden(figure):
    """No two texts overlap, and none leaves the picture."""
    boxes = all_texts(figure)
    assert boxes
    straight = [item for item in boxes.items() if item[0].get_rotation() % 90 == 0]  # of slanted ones, boxes say little
    for (one, a), (other, b) in itertools.combinations(straight, 2):
        apart = a.x1 <= b.x0 + 0.5 or b.x1 <= a.x0 + 0.5 or a.y1 <= b.y0 + 0.5 or b.y1 <= a.y0 + 0.5
        assert apart, f"{one.get_text()!r} and {other.get_text()!r} overlap"
    for text, box in boxes.items():
        inside = box.x0 >= -1 and box.y0 >= -1 and box.x1 <= figure.bbox.x1 + 1 and box.y1 <= figure.bbox.y1 + 1
        assert inside, f"{text.get_text()!r} leaves the picture"
