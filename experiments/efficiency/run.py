"""Fits the constants of devices to measured runs and prints their errors: python experiments/efficiency/run.py.

    measured iterations ──┐
    profiled stages ──────┼── least mean error over all tables ── constants ── tables, each model left out once
    operators one by one ─┘

The runs are those of others; pipesim does not contain them. README.md keeps what this prints.
"""

import csv
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial

import numpy as np
from iterations import MEASURED, Fitted, Row, layers_of, read, seconds, whole

from pipesim.architectures import device_curves
from pipesim.architectures.device_curves import DeviceCurve, Speed
from pipesim.architectures.roofline import LINK_DELAY_S
from pipesim.architectures.team_links import TeamLink
from pipesim.base.minimise import nelder_mead
from pipesim.core.devices import device_kind
from pipesim.core.work import FUSED_BACKWARD, Attention, Product

Errors = Callable[[Fitted], list[float]]


@dataclass(frozen=True)
class Table:
    """Measurements of one source: a name, the model of each, and the relative error of each under some constants."""

    name: str
    models: tuple[str, ...]
    errors: Errors

    def without(self, model: str) -> "Table":
        """The same without the rows of a model."""
        kept = [n for n, name in enumerate(self.models) if name != model]

        def errors(fitted: Fitted) -> list[float]:
            found = self.errors(fitted)
            return [found[n] for n in kept]

        return Table(self.name, tuple(self.models[n] for n in kept), errors)


# --- tables of measurements ------------------------------------------------------------------------------------------


def iterations(source: str, rows: Sequence[Row], name: str = "") -> Table:
    """Measured iterations."""

    def errors(fitted: Fitted) -> list[float]:
        return [seconds(row, fitted, source) / float(row["iteration_s"]) - 1 for row in rows]

    models = tuple(f"{row['layers']}x{row['hidden']}" for row in rows)
    return Table(name or source, models, errors)


def head_size(row: Row) -> int:
    """Values of a head."""
    return whole(row, "hidden") // whole(row, "heads")


def bigscience(*, aligned: bool) -> Table:
    """A100s; rows whose sizes are all stated, with heads whose rows are multiples of 16 bytes, or not."""
    rows = [
        row
        for row in read("bigscience")
        if row["gpu"].startswith("A100") and row["heads"] and row["microbatch"] and (head_size(row) % 8 == 0) == aligned
    ]
    return iterations("bigscience", rows, "bigscience" if aligned else "bigscience, heads not aligned")


def profiled_stages() -> Table:
    """Forward, and both gradients together, of a middle stage, as the zero-bubble paper profiled them."""
    with (MEASURED / "zero_bubble" / "rows.csv").open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["profiled_forward_s"]]
    found = {(row["model"], row["pp"], row["microbatch"]): row for row in rows}
    stages = list(found.values())

    def errors(fitted: Fitted) -> list[float]:
        speed = Speed.of(fitted.curve, device_kind("a100-80gb"), "fp16", 2)
        return [error for row in stages for error in _stage_errors(row, speed)]

    return Table("zero_bubble, profiled stages", tuple(row["model"] for row in stages for _ in range(2)), errors)


def _stage_errors(row: Row, speed: Speed) -> tuple[float, float]:
    sizes = (("vocabulary", 32000), ("sequence_parallel", 0), ("fused", 0))
    whole_sizes = (whole(row, name) for name in ("hidden", "heads", "sequence", "microbatch"))
    _, attention, mlp, *_ = layers_of("gpt", *whole_sizes, 1, sizes)
    blocks = (whole(row, "layers") + 2) // whole(row, "pp")
    operations = [one for layer in (attention, mlp) if layer.work for one in layer.work.operations]
    forward, of_inputs, of_weights = (
        blocks * math.fsum(speed.seconds(one, phase) for one in operations)
        for phase in ("forward", "backward_input", "backward_weight")
    )
    profiled = [float(row[f"profiled_{name}_s"]) for name in ("forward", "backward_input", "backward_weight")]
    return forward / profiled[0] - 1, (of_inputs + of_weights) / math.fsum(profiled[1:]) - 1


@cache
def operators(system: str, wanted: str) -> list[tuple[float, float]]:
    """(FLOPs over peak, measured seconds) of every shape of an operator."""
    with (MEASURED / "simumax" / "operator_efficiency.csv").open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if (row["system"], row["op"]) == (system, wanted)]
    found = []
    for row in rows:
        sizes = {name: int(value) for name, value in re.findall(r"(\w+)=([0-9]+)", row["shape"])}
        if sizes:
            flops, computed = _flops(wanted, sizes)
            peak = float(row["peak_flops"])
            found.append((computed / peak, flops / peak / float(row["efficiency"])))
    return found


def _flops(operator: str, sizes: Mapping[str, int]) -> tuple[float, float]:
    """FLOPs as the source counts them, and as the kernel computes them (half of the scores)."""
    if operator == "matmul":
        flops = Product(sizes["m"], sizes["n"], sizes["k"], sizes["b"]).flops
        return flops, flops
    length, heads = sizes["seq_len"], sizes["batch"] * sizes["head_num"]
    one = Attention(heads, length, length, sizes["qk_head_dim"], sizes["v_head_dim"], causal=True)
    factor = FUSED_BACKWARD if operator == "sdp_bwd" else 1.0
    return factor * one.flops, factor * one.computed_flops


def operator_table(system: str, wanted: str) -> Table:
    """Operators as a table, each shape a row."""
    at_peak, measured = np.array(operators(system, wanted)).T

    def errors(fitted: Fitted) -> list[float]:
        part = fitted.curve.product if wanted == "matmul" else fitted.curve.attention
        return list(at_peak / part / measured - 1)

    return Table(f"{system}, {wanted}", ("shapes",) * len(measured), errors)


# --- fits ------------------------------------------------------------------------------------------------------------


def mean(values: Iterable[float]) -> float:
    """Of the errors without sign."""
    return float(np.mean(np.abs(list(values))))


def fit(tables: Sequence[Table], start: Fitted, free: Sequence[str], evaluations: int = 160) -> Fitted:
    """The constants with the least mean over tables of their mean errors."""

    def made(logarithms: Sequence[float]) -> Fitted:
        values = {name: math.exp(value) for name, value in zip(free, logarithms, strict=True)}
        network = values.pop("network", start.network)
        return Fitted(replace(start.curve, **values), network)

    def cost(logarithms: Sequence[float]) -> float:
        candidate = made(logarithms)
        return math.fsum(mean(table.errors(candidate)) for table in tables if table.models) / len(tables)

    first = [math.log(start.network if name == "network" else getattr(start.curve, name)) for name in free]
    return made(nelder_mead(cost, first, evaluations=evaluations)[0])


def fit_attention(system: str) -> float:
    """The part of the peak of fused attention, forward and backward; the seconds of a launch are fitted beside."""
    at_peak, measured = np.array([pair for name in ("sdp_fwd", "sdp_bwd") for pair in operators(system, name)]).T

    def cost(logarithms: Sequence[float]) -> float:
        part, launch = np.exp(logarithms)
        return mean((at_peak / part + launch) / measured - 1)

    return math.exp(nelder_mead(cost, [math.log(0.5), math.log(5e-5)])[0][0])


def rounded(curve: DeviceCurve) -> DeviceCurve:
    """Two digits: more would promise too much."""
    names = ("product", "attention", "memory", "launch_s", "unaligned")
    return replace(curve, **{name: float(f"{getattr(curve, name):.2g}") for name in names})


@dataclass(frozen=True)
class Device:
    """A device: its tables, those that are fitted first; the names of what is free; what is fitted afterwards."""

    name: str
    tables: tuple[Table, ...]
    checked: tuple[Table, ...]
    free: tuple[str, ...]
    start: Callable[[], Fitted]
    finish: Callable[[Fitted], Fitted] = lambda fitted: fitted

    def fitted(self, left_out: str = "") -> Fitted:
        """The constants, without the rows of a model."""
        tables = [table.without(left_out) for table in self.tables] if left_out else self.tables
        return self.finish(fit(tables, self.start(), self.free))


def a100() -> Device:
    """fp16 and bf16; the network of BigScience is fitted beside, as none is stated.

    Of vTrain's runs, those whose time does not depend on transfers between stages: without a pipeline, or with stages
    of whole nodes.
    """
    rows = read("vtrain")
    single = [row for row in rows if row["pp"] == "1" and whole(row, "tp") <= whole(row, "gpus_per_node")]
    nodes = [row for row in rows if row["pp"] != "1" and row["tp"] == row["gpus_per_node"]]
    published = [row for row in read("megatron_published") if row["gpu"].startswith("A100")]
    unaligned = bigscience(aligned=False)

    def finish(fitted: Fitted) -> Fitted:
        return fit([unaligned], fitted, ("unaligned",), 40)

    return Device(
        "a100",
        (
            iterations("vtrain", [*single, *nodes], "vtrain, no pipeline or a node per stage"),
            iterations("megatron_published", published),
            bigscience(aligned=True),
            profiled_stages(),
        ),
        (unaligned,),
        ("product", "memory", "launch_s", "network"),
        lambda: Fitted(
            DeviceCurve(product=0.7, attention=fit_attention("a100_pcie"), memory=0.75, launch_s=10e-6), 8e9
        ),
        finish,
    )


def v100(name: str, source: str) -> Device:
    """fp16; the memory, launches and attention of an A100. BigScience's are SXM2 with 300 W, those of a DGX-2 SXM3 with
    350 W.

    The network of BigScience is fitted beside.
    """
    rows = [row for row in read(source) if row["gpu"].startswith("V100") and row["microbatch"] and row["heads"]]
    return Device(
        name,
        (iterations(source, rows),),
        (),
        ("product", "network") if source == "bigscience" else ("product",),
        lambda: Fitted(replace(device_curves.CURVES["a100"]["fp16"], product=0.6), 8e9),
    )


def h100_fp8() -> Device:
    """fp8; the memory, launches and attention of an A100. These runs hide part of what teams exchange."""
    return Device(
        "h100 fp8",
        (iterations("mlperf", read("mlperf")),),
        (),
        ("product",),
        lambda: Fitted(replace(device_curves.CURVES["a100"]["fp16"], product=0.5)),
    )


def b200() -> Device:
    """bf16; operators and iterations of dense models together; the memory as SimuMax states it for its kernels."""
    rows = [row for row in read("simumax") if not row["experts"] and whole(row, "cp", 1) == 1]
    return Device(
        "b200",
        (operator_table("b200_bf16_ceperm", "matmul"), iterations("simumax", rows)),
        (),
        ("product", "launch_s"),
        lambda: Fitted(
            DeviceCurve(product=0.5, attention=fit_attention("b200_bf16_ceperm"), memory=0.666, launch_s=20e-6)
        ),
    )


DEVICES: Mapping[str, Callable[[], Device]] = {
    "a100": a100,
    "v100": partial(v100, "v100", "bigscience"),
    "v100-sxm3": partial(v100, "v100-sxm3", "megatron_published"),
    "b200": b200,
    "h100 fp8": h100_fp8,
}


def nccl() -> tuple[float, float, float]:
    """The part of NVSwitch's bandwidth and the seconds of a step beside the links' delay, on A100s; the error."""
    with (MEASURED / "vtrain" / "allreduce.csv").open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["gpu"] == "a100"]
    points = [(float(row["bytes"]), int(row["ranks"]), float(row["time_in_place_s"])) for row in rows]
    full = device_kind("a100-80gb").interconnect

    def cost(logarithms: Sequence[float]) -> float:
        part, step = np.exp(logarithms)
        link = TeamLink(full * part, step)
        return mean(link.seconds("all_reduce", size, ranks) / taken - 1 for size, ranks, taken in points)

    (part, step), error = nelder_mead(cost, [math.log(0.7), math.log(5e-6)], evaluations=100)
    return math.exp(part), math.exp(step) - LINK_DELAY_S, error


# --- what is printed -------------------------------------------------------------------------------------------------


def line(*cells: object) -> str:
    """A row of a table in Markdown."""
    return "| " + " | ".join(str(cell) for cell in cells) + " |"


def percent(value: float, *, sign: bool = False) -> str:
    """A part as a percentage."""
    return f"{100 * value:{'+' if sign else ''}.1f}%"


def left_out(device: Device) -> dict[str, list[float]]:
    """Table -> the errors of its rows under constants that were fitted without the rows of their model."""
    models = dict.fromkeys(model for table in device.tables for model in table.models)
    found: dict[str, list[float]] = {table.name: [] for table in device.tables}
    if len(models) < 2:
        return found
    for model in models:
        without = device.fitted(model)
        for table in device.tables:
            errors = table.errors(without)
            found[table.name] += [errors[n] for n, name in enumerate(table.models) if name == model]
    return found


def printed() -> str:
    """The constants, and the errors of each table: in sample with all digits and rounded, and with models left out."""
    part, step, error = nccl()
    lines = [f"NCCL on A100s: {part:.2f} of the bandwidth, {step * 1e6:.1f} us a step; error {percent(error)}.", ""]
    rows = [
        line(
            "device", "measurements", "rows", "models", "mean error", "bias", "worst", "rounded constants", "left out"
        ),
        line(*["---"] * 2, *["---:"] * 7),
    ]
    for make in DEVICES.values():
        device = make()
        fitted = device.fitted()
        curve = rounded(fitted.curve)
        constants = len(device.free) - ("network" in device.free)
        lines.append(f"{device.name}, {constants} constants: {curve}, unaligned = {curve.unaligned:g}.")
        others = left_out(device)
        for table in (*device.tables, *device.checked):
            errors, again = table.errors(fitted), table.errors(Fitted(curve, fitted.network))
            apart = others.get(table.name)
            rows.append(
                line(
                    device.name,
                    table.name,
                    len(errors),
                    len(set(table.models)),
                    percent(mean(errors)),
                    percent(float(np.mean(errors)), sign=True),
                    percent(max(errors, key=abs), sign=True),
                    percent(mean(again)),
                    percent(mean(apart)) if apart else "",
                )
            )
    return "\n".join([*lines, "", *rows])


if __name__ == "__main__":
    print(printed())  # noqa: T201 - a script
