"""The columns of a trace's tables, and what their rows must be like."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipesim.base import units
from pipesim.base.errors import InputError
from pipesim.base.tables import Column, Table

ANY_KIND = "any"
NO_INPUTS = "-"
_NAN = float("nan")

LAYER_COLUMNS = (
    Column("layer", int, note="index of the layer, in topological order, from 0"),
    Column("name", str),
    Column("kind", str, "", note="what sort of layer: conv, attention, ..."),
    Column("device_kind", str, ANY_KIND, note="the device it was timed on; 'any' matches every device"),
    Column("microbatch_size", int, 0, note="samples in the microbatch; 0 means as in trace.toml"),
    Column("sample", int, 0, note="number of the repetition"),
    Column("forward_s", float),
    Column("backward_s", float, _NAN, note="whole backward of an accumulating microbatch"),
    Column("backward_first_s", float, _NAN, note="whole backward of the first microbatch, where recorded separately"),
    Column("backward_input_s", float, _NAN, note="gradient of the input, where recorded separately"),
    Column("backward_weight_s", float, _NAN, note="gradient of the weights, where recorded separately"),
    Column("recompute_s", float, _NAN, note="forward again before the backward, where recorded"),
    Column("forward_flops", float, _NAN),
    Column("output_bytes", int, note="activations passed to later layers, whole microbatch"),
    Column("parameter_bytes", int, 0),
    Column("stash_bytes", int, 0, note="kept from forward to backward, whole microbatch"),
    Column("inputs", str, "", note="layers this one reads, '3;7'; empty: the one before; '-': none"),
    Column("tensor", int, 1, note="tensor-parallel width it was timed at; times and bytes are those of one GPU"),
    Column("context", int, 1, note="context-parallel width"),
    Column("expert", int, 1, note="expert-parallel width"),
    Column("core_stash_bytes", int, 0, note="part of stash_bytes that selective recomputation frees: attention's core"),
    Column("core_recompute_s", float, _NAN, note="forward of attention's core again, where recorded"),
)
TRANSFER_COLUMNS = (
    Column("source", str),
    Column("target", str),
    Column("bytes", int),
    Column("seconds", float),
    Column("kind", str, "p2p"),
    Column("participants", int, 2),
    Column("sample", int, 0),
    Column("round", int, 0),
)
# 11 days; longer times are probably not in seconds.
LONGEST_S = 1e6
# Equal in all rows of a layer.
_PER_LAYER = ("name", "kind", "inputs")
WIDTHS = ("tensor", "context", "expert")
_PER_WIDTHS = ("parameter_bytes",)
_PER_SIZE = ("output_bytes", "stash_bytes", "forward_flops", "core_stash_bytes")
# What rows of different layers with the same sample number may have in common.
JOINT = ("", "microbatch", "step")


def parse_inputs(text: str, layer: int) -> tuple[int, ...] | None:
    """The layers in "3;7"; None for "" (the layer before), () for "-"."""
    stripped = text.strip()
    if not stripped:
        return None
    if stripped == NO_INPUTS:
        return ()
    try:
        inputs = tuple(units.whole(part) for part in stripped.split(";"))
    except ValueError:
        raise InputError(f"layer {layer}: inputs: {text[:60]!r} found; layers such as '3;7' were expected") from None
    for source in inputs:
        if not 0 <= source < layer:
            raise InputError(
                f"layer {layer}: inputs: layer {source} found; only layers before it, 0 to {layer - 1}, can be inputs "
                "(layers are in topological order)"
            )
    return inputs


def first_rows(layer: NDArray[np.int64]) -> NDArray[np.int64]:
    """The first row of each layer."""
    return np.unique(layer, return_index=True)[1]


def check_layers(layers: Table) -> None:
    """Refuse layers that are missing, that do not agree with themselves, or whose times cannot be."""
    layer = layers["layer"]
    if not len(layer):
        raise InputError("has no layers")
    count = int(layer.max()) + 1
    present = np.unique(layer)
    if len(present) != count:
        missing = int(np.argmax(present != np.arange(len(present))))
        raise InputError(f"layer {missing} is missing; layers were expected to be numbered 0 to {count - 1}")
    _check_complete(layers, count)
    _check_agreement(layers, layer, _PER_LAYER)
    widths = [layers[name] for name in WIDTHS]
    for name, column in zip(WIDTHS, widths, strict=True):
        if (column < 1).any():
            row = int(np.argmax(column < 1))
            raise InputError(f"layer {layer[row]}: {name}: {column[row]} found; a width of 1 or more was expected")
    _check_agreement(layers, _codes(layer, *widths), _PER_WIDTHS)
    _check_agreement(layers, _codes(layer, layers["microbatch_size"], *widths), _PER_SIZE)
    _check_core(layers)
    _check_times(layers)
    for index, text in enumerate(layers["inputs"][first_rows(layer)]):
        parse_inputs(text, index)


def check_samples(joint: str, layers: Table) -> None:
    """Check that samples that have something in common are there for every layer, at every size and width."""
    if joint not in JOINT:
        raise InputError(f"samples = {joint!r} found; 'microbatch' or 'step' was expected, or no such key")
    if not joint:
        return
    code = _codes(*(layers[name] for name in ("device_kind", "microbatch_size", *WIDTHS, "sample")))
    count, found = int(layers["layer"].max()) + 1, np.bincount(code)
    twice = np.bincount(_codes(code, layers["layer"])).max() > 1
    if twice or (found != count).any():
        row = int(np.argmax((found != count)[code]))
        raise InputError(
            f"sample {layers['sample'][row]}: {found[code[row]]} rows found; one for each of the {count} layers was "
            f"expected, where samples = {joint!r}"
        )


def _check_core(layers: Table) -> None:
    """Check that attention's core keeps no more than its layer."""
    more = layers["core_stash_bytes"] > layers["stash_bytes"]
    if more.any():
        row = int(np.argmax(more))
        raise InputError(
            f"layer {layers['layer'][row]}: core_stash_bytes: {layers['core_stash_bytes'][row]} found; at most "
            f"stash_bytes, {layers['stash_bytes'][row]}, was expected"
        )


def _check_times(layers: Table) -> None:
    """Check that each row has a backward, whole or in both parts, and no time is too long."""
    layer = layers["layer"]
    whole, parts = ~np.isnan(layers["backward_s"]), [
        ~np.isnan(layers["backward_input_s"]),
        ~np.isnan(layers["backward_weight_s"]),
    ]  # fmt: skip
    bad = ~(whole | (parts[0] & parts[1])) | (parts[0] != parts[1])
    if bad.any():
        raise InputError(
            f"layer {layer[int(np.argmax(bad))]}: backward_s, or both backward_input_s and backward_weight_s, "
            "must be given"
        )
    for name in (name for name in layers if name.endswith("_s")):
        slow = layers[name] > LONGEST_S
        if slow.any():
            row = int(np.argmax(slow))
            raise InputError(
                f"layer {layer[row]}: {name}: {layers[name][row]} found; seconds, at most {LONGEST_S:g}, were expected"
            )


def _codes(*columns: NDArray[Any]) -> NDArray[np.int64]:
    """A number for each distinct combination of values."""
    code = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        values, inverse = np.unique(column, return_inverse=True)
        code = np.unique(code * len(values) + inverse, return_inverse=True)[1].astype(np.int64)
    return code


def _check_complete(layers: Table, count: int) -> None:
    """Check that every device kind, microbatch size and width has every layer, without duplicate samples."""
    layer = layers["layer"]
    combination = _codes(*(layers[name] for name in ("device_kind", "microbatch_size", *WIDTHS)))
    pairs = np.unique(combination * count + layer)
    if len(pairs) != (int(combination.max()) + 1) * count:
        for code in range(int(combination.max()) + 1):
            rows = combination == code
            absent = np.setdiff1d(np.arange(count), layer[rows])
            if len(absent):
                kind, size = layers["device_kind"][rows][0], layers["microbatch_size"][rows][0]
                raise InputError(f"layer {absent[0]} has no row for device kind {kind[:60]!r}, microbatch size {size}")
    twice = np.unique(_codes(combination, layer, layers["sample"]), return_counts=True)[1]
    if (twice > 1).any():
        order = _codes(combination, layer, layers["sample"])
        row = int(np.argmax(np.isin(order, np.flatnonzero(twice > 1))))
        raise InputError(f"layer {layer[row]}: duplicate sample {layers['sample'][row]}")


def _check_agreement(layers: Table, group: NDArray[np.int64], names: tuple[str, ...]) -> None:
    _, first, inverse = np.unique(group, return_index=True, return_inverse=True)
    for name in names:
        values = layers[name]
        expected = values[first][inverse]
        differs = values != expected
        if values.dtype.kind == "f":
            differs &= ~(np.isnan(values) & np.isnan(expected))
        if differs.any():
            row = int(np.argmax(differs))
            one, other = (repr(column.tolist()[row])[:60] for column in (values, expected))
            raise InputError(
                f"layer {layers['layer'][row]}: {name}: {one} in one row and {other} in another; rows of one layer "
                "must agree"
            )
