"""Layers as PipeDream and DAPPLE recorded them, each beside the layer of the same architecture here."""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pipesim.architectures import ARCHITECTURES
from pipesim.architectures.roofline import Efficiency, roofline
from pipesim.base import lookup
from pipesim.core.model import Model, model_of
from pipesim.core.trace import Trace
from pipesim.importers.pipedream import pipedream

DEVICE = "v100-16gb"
Floats = NDArray[np.float64]

# What is fitted; what is only checked, since times are rounded, backwards twice the forwards, or layers whole cells.
FITTED = ("vgg16", "alexnet", "resnet50", "inception_v3", "bert-24")
CHECKED = ("xlnet-24", "vgg-19", "amoeba-18")
# Profile -> file, architecture. Samples are those that the sizes in the file show.
SOURCES = {
    "vgg16": ("pipedream/vgg16.txt", "vgg-16(microbatch=128)"),
    "alexnet": ("pipedream/alexnet.txt", "alexnet(microbatch=256)"),
    "resnet50": ("pipedream/resnet50.txt", "resnet-50(microbatch=128)"),
    "inception_v3": ("pipedream/inception_v3.txt", "inception-v3(microbatch=128)"),
    "bert-24": ("dapple/bert-24-pbs-6.txt", "bert-large(microbatch=6, sequence=384)"),
    "xlnet-24": ("dapple/xlnet-24-pbs-1.txt", "xlnet-large(microbatch=1)"),
    "vgg-19": ("dapple/vgg-19-pbs-32.txt", "vgg-19(microbatch=32)"),
    "amoeba-18": ("dapple/amoeba-18-pbs-8.txt", "amoebanet-18x512(microbatch=8)"),
}


@dataclass(frozen=True, slots=True)
class Layers:
    """What was recorded of a model's layers, beside the model; `group` adds calculated layers up to recorded ones."""

    name: str
    model: Model
    chosen: tuple[int, ...]
    group: int
    forward: Floats
    backward: Floats

    def calculated(self, efficiency: Efficiency) -> tuple[Floats, Floats]:
        """Seconds forward and backward by a roofline."""
        table = roofline(self.model, [DEVICE], efficiency=efficiency).layers
        chosen = list(self.chosen)
        backward = table["backward_input_s"] + table["backward_weight_s"]
        return _summed(table["forward_s"][chosen], self.group), _summed(backward[chosen], self.group)

    @property
    def recorded(self) -> tuple[Floats, Floats]:
        """Seconds forward and backward."""
        return self.forward, self.backward


def _summed(values: Floats, group: int) -> Floats:
    return np.asarray(values.reshape(-1, group).sum(axis=1))


# A node of one of these kinds is a layer of ours; what follows (norm, ReLU, dropout) is part of it.
OWN = {"Conv2d": "conv", "Linear": "fc", "MaxPool2d": "pool", "AvgPool2d": "pool", "Add": "add", "Concat": "concat"}
SMALL_BYTES = 6e6  # 20 us at the V100's bandwidth, read twice and written once


def pipedream_layers(name: str, folder: Path, recorder: tuple[float, float]) -> Layers:
    """A PipeDream profile's nodes merged into layers, matched with ours by kind, parameters and output."""
    trace, model = sources(name, folder)
    waiting: dict[tuple[str, int, int], list[list[int]]] = defaultdict(list)
    for nodes in _merged(trace):
        waiting[_key(trace, nodes)].append(nodes)
    chosen, forward, backward = [], [], []
    for index, layer in enumerate(model.layers):
        candidates = waiting[layer.kind, layer.parameter_bytes, int(layer.output_bytes)]
        if not candidates:
            continue
        nodes = candidates.pop(0)
        seconds = trace.layers["forward_s"][nodes]
        if not seconds.any():  # sums and concatenations were not timed
            continue
        chosen.append(index)
        forward.append(max(seconds.sum() - recorder[0] * (seconds > 0).sum(), 0.0))
        backward.append(trace.layers["backward_s"][nodes].sum())
    # The first forward starts the libraries: 22 ms in three of the four, however large the layer is.
    return Layers(name, model, tuple(chosen[1:]), 1, np.array(forward[1:]), np.array(backward[1:]))


def _merged(trace: Trace) -> list[list[int]]:
    """The nodes of each layer: one of a kind in OWN, and all that hang on it without being one."""
    kinds = trace.layers["kind"]
    inputs = [model_of(trace).inputs(index) for index in range(trace.layer_count)]
    head: list[int] = []
    for index, reads in enumerate(inputs):
        head.append(index if kinds[index] in OWN or not reads else head[reads[0]])
    return [[i for i, first in enumerate(head) if first == start] for start in dict.fromkeys(head)]


def _key(trace: Trace, nodes: list[int]) -> tuple[str, int, int]:
    """Kind, parameters and output of a merged layer: those of the last node that changes the values."""
    table = trace.layers
    sized = [i for i in nodes if table["kind"][i] not in {"Size", "View", "Dropout"}]
    kind = OWN.get(table["kind"][nodes[0]], "")
    kind = "pool" if table["kind"][nodes[0]] == "Mean" else kind
    return kind, int(table["parameter_bytes"][nodes].sum()), int(table["output_bytes"][sized[-1]])


def recorder_seconds(folder: Path) -> tuple[float, float]:
    """What the recorder adds to a forward, and what an operation takes at least: from the smallest ReLUs.

    Forwards were timed by waiting for the device after each, backwards were not.
    """
    forward, backward = [], []
    for name in FITTED[:4]:
        table = sources(name, folder)[0].layers
        small = (table["kind"] == "ReLU") & (table["output_bytes"] < SMALL_BYTES)
        forward += table["forward_s"][small].tolist()
        backward += table["backward_s"][small].tolist()
    least = float(np.median(backward))
    return float(np.median(forward)) - least, least


def dapple_layers(name: str, folder: Path) -> Layers:
    """A DAPPLE profile: one node for each block of a transformer, or for each layer of an image model."""
    trace, model = sources(name, folder)
    names = [text.lower() for text in trace.layers["name"]]
    transformer = any(text.startswith("layer_") for text in names)
    nodes = [i for i, text in enumerate(names) if (text.startswith("layer_") if transformer else "loss" not in text)]
    wanted = {"attention", "mlp"} if transformer else {"conv", "pool", "fc", "cell"}
    chosen = [i for i, layer in enumerate(model.layers) if layer.kind in wanted and layer.name != "mean"]
    return Layers(
        name, model, tuple(chosen), 2 if transformer else 1,
        trace.layers["forward_s"][nodes], trace.layers["backward_s"][nodes],
    )  # fmt: skip


def sources(name: str, folder: Path) -> tuple[Trace, Model]:
    """The profile as it is, and the model that it is of."""
    file, text = SOURCES[name]
    build: Callable[..., Model] = lookup.resolve(text, ARCHITECTURES, "architecture")
    return pipedream(folder / file), build(precision="fp32")


def read(folder: Path) -> tuple[dict[str, Layers], float]:
    """All profiles, and what an operation takes at least."""
    recorder = recorder_seconds(folder)
    found = {name: pipedream_layers(name, folder, recorder) for name in FITTED[:4]}
    found |= {name: dapple_layers(name, folder) for name in (*FITTED[4:], *CHECKED)}
    return found, recorder[1]
