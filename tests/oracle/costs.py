"""What a trace says: seconds of each layer, and bytes that layers hand on and hold."""

from collections import defaultdict
from fractions import Fraction
from functools import cache

from oracle.rounding import Refused

PHASES = ("forward", "backward", "backward_first", "backward_input", "backward_weight", "recompute")


class Recorded:
    """A trace read for one microbatch size."""

    def __init__(self, trace, microbatch_size=None, statistic="median", weight_share=0.5, scaling="recorded"):
        self.size = trace.microbatch_size if microbatch_size is None else microbatch_size
        self.scaling = scaling
        table = {name: column.tolist() for name, column in trace.layers.items()}
        rows = [dict(zip(table, values, strict=True)) for values in zip(*table.values(), strict=True)]
        self.layers = max(row["layer"] for row in rows) + 1
        samples = defaultdict(list)
        for row in rows:
            for phase, value in _times(row, Fraction(weight_share)).items():
                samples[row["device_kind"], row["microbatch_size"], row["layer"], phase].append(value)
        self.table = {key: _summary(values, statistic) for key, values in samples.items()}
        self.sizes = defaultdict(set)
        for kind, size, *_ in self.table:
            self.sizes[kind].add(size)
        self._read_bytes(rows)
        self.seconds = cache(self._seconds)

    def _read_bytes(self, rows) -> None:
        nearest = min({row["microbatch_size"] for row in rows}, key=lambda size: (abs(size - self.size), size))
        scale = Fraction(self.size, nearest)
        of = {}
        for row in rows:
            if row["microbatch_size"] == nearest:
                of.setdefault(row["layer"], row)
        each = [of[layer] for layer in range(self.layers)]
        self.output = [Fraction(row["output_bytes"]) * scale for row in each]
        self.stash = [Fraction(row["stash_bytes"]) * scale for row in each]
        self.parameters = [int(row["parameter_bytes"]) for row in each]
        kinds = [row["kind"] for row in each]
        matrix = self.parameters[kinds.index("embedding")] if "embedding" in kinds else 0
        self.tied = Fraction(matrix if "tied_head" in kinds else 0)
        self.inputs = [_inputs(row["inputs"], layer) for layer, row in enumerate(each)]

    def cut(self, layer: int) -> Fraction:
        """Bytes from this layer or before it that a layer after it reads."""
        carried = {i for reader in range(layer + 1, self.layers) for i in self.inputs[reader] if i <= layer}
        return sum((self.output[i] for i in carried), Fraction(0))

    def _seconds(self, phase: str, kind: str, share: Fraction) -> list[Fraction]:
        """Of each layer, for this share of a microbatch on this kind of device."""
        kind = kind if kind in self.sizes else "any"
        if kind not in self.sizes:
            raise Refused("device kind")
        if self.scaling == "linear":
            mix = {size: part * share for size, part in self._mix(kind, Fraction(self.size)).items()}
        else:
            mix = self._mix(kind, self.size * share)
        return [
            sum((self.table[kind, size, layer, phase] * part for size, part in mix.items()), Fraction(0))
            for layer in range(self.layers)
        ]

    def _mix(self, kind: str, wanted: Fraction) -> dict[int, Fraction]:
        """Recorded sizes and their weights: between two of them on the straight line, else in proportion."""
        below = [size for size in self.sizes[kind] if size <= wanted]
        above = [size for size in self.sizes[kind] if size >= wanted]
        if below and above and max(below) < min(above):
            low, high = max(below), min(above)
            part = (wanted - low) / (high - low)
            return {low: 1 - part, high: part}
        nearest = max(below) if below else min(above)
        return {nearest: wanted / nearest}

    def again(self, recompute: str, kind: str) -> list[bool]:
        """Which layers do their forward once more; how long that takes is looked up for this kind of device."""
        if recompute != "selective":
            return [recompute == "full"] * self.layers
        reads = [sum((self.output[i] for i in set(self.inputs[layer])), Fraction(0)) for layer in range(self.layers)]
        freed = [max(Fraction(0), stash - read) for stash, read in zip(self.stash, reads, strict=True)]
        took = self.seconds("recompute", kind, Fraction(1))
        more = 1 + Fraction(1, 10**9)
        return [a > 0 and a * sum(took) > sum(freed) * b * more for a, b in zip(freed, took, strict=True)]


def _times(row, weight_share: Fraction) -> dict[str, Fraction]:
    """Seconds of each phase in one row; what was not recorded follows from what was."""
    known = {name[:-2]: Fraction(v) for name, v in row.items() if name.endswith("_s") and v == v}  # noqa: PLR0124 - not NaN
    if "backward" not in known:
        known["backward"] = known["backward_input"] + known["backward_weight"]
    if "backward_weight" not in known:
        known["backward_weight"] = known["backward"] * weight_share
        known["backward_input"] = known["backward"] - known["backward_weight"]
    known.setdefault("backward_first", known["backward"])
    known.setdefault("recompute", known["forward"])
    return {phase: known[phase] for phase in PHASES}


def _summary(values: list[Fraction], statistic: str) -> Fraction:
    if statistic == "mean":
        return sum(values, Fraction(0)) / len(values)
    ordered, half = sorted(values), len(values) // 2
    if statistic == "median":
        return ordered[half] if len(values) % 2 else (ordered[half - 1] + ordered[half]) / 2
    return {"min": ordered[0], "max": ordered[-1]}[statistic]


def _inputs(text: str, layer: int) -> set[int]:
    if text.strip() == "-" or (not text.strip() and not layer):
        return set()
    return {int(part) for part in text.split(";")} if text.strip() else {layer - 1}
