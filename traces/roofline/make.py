"""Makes the traces in this folder from data sheets, byte for byte, and the tables in its README."""

import argparse
import math
from pathlib import Path

from pipesim.architectures.described import model_called
from pipesim.architectures.roofline import roofline
from pipesim.base import files
from pipesim.core.devices import GB, TFLOPS, device_kind
from pipesim.core.model import model_of
from pipesim.core.trace import Trace

HERE = Path(__file__).resolve().parent
COMMAND = "python traces/roofline/make.py"
DEVICE_KINDS = ("v100-16gb", "a100-40gb")
PRECISION = "fp16"
EFFICIENCY = 0.5
MICROBATCH = {"bert-large": 4, "gpt2-xl": 1, "gpt3-6.7b": 1, "vgg-19": 32, "resnet-152": 32}

# The tables are in the README between these two lines.
BEGIN, END = "<!-- tables: made by make.py -->", "<!-- end of tables -->"


def main() -> None:
    """Write every trace, then the README with its tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=HERE, metavar="DIR", help="default: the folder of this script")
    output = parser.parse_args().output
    traces = [make(name, microbatch) for name, microbatch in MICROBATCH.items()]
    for trace in traces:
        trace.save(output / trace.model)
    files.write_text(output / "README.md", with_tables(files.read_text(HERE / "README.md"), traces))


def make(name: str, microbatch: int) -> Trace:
    """The trace of one model."""
    model = model_called(name, {"microbatch": microbatch, "precision": PRECISION})
    return roofline(model, DEVICE_KINDS, efficiency=EFFICIENCY, command=COMMAND)


def with_tables(text: str, traces: list[Trace]) -> str:
    """The README with new tables."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{models_table(traces)}\n{devices_table()}\n{END}{after}"


def models_table(traces: list[Trace]) -> str:
    """One line per model: its size, and how long it takes on each kind of device."""
    times = [f"{phase}, {kind} (ms)" for kind in DEVICE_KINDS for phase in ("forward", "backward")]
    lines = [["model", "layers", "parameters (M)", "microbatch", "forward (GFLOP)", *times]]
    for trace in traces:
        model = model_of(trace)
        parameters = sum(layer.parameter_bytes for layer in model.layers) // 2
        gflop = math.fsum(layer.forward_flops or 0 for layer in model.layers) / 1e9
        sizes = [f"{len(model)}", f"{parameters / 1e6:,.1f}", f"{model.microbatch_size}", f"{gflop:,.1f}"]
        lines.append([trace.model, *sizes, *(f"{ms:,.2f}" for ms in milliseconds(trace))])
    return markdown(lines)


def milliseconds(trace: Trace) -> list[float]:
    """Forward and backward of the whole model, for each kind of device."""
    table = trace.layers
    backward = table["backward_input_s"] + table["backward_weight_s"]
    return [
        math.fsum(seconds[table["device_kind"] == kind].tolist()) * 1e3
        for kind in DEVICE_KINDS
        for seconds in (table["forward_s"], backward)
    ]


def devices_table() -> str:
    """One line per kind of device: the numbers of its data sheet that were used."""
    kinds = [device_kind(name) for name in DEVICE_KINDS]
    lines = [["device kind", f"peak {PRECISION} (TFLOP/s)", "of it used (TFLOP/s)", "memory bandwidth (GB/s)"]]
    for kind in kinds:
        peak = kind.peak[PRECISION] / TFLOPS
        lines.append([kind.name, f"{peak:g}", f"{peak * EFFICIENCY:g}", f"{kind.memory_bandwidth / GB:g}"])
    return markdown(lines)


def markdown(lines: list[list[str]]) -> str:
    """A table whose first column is text and whose others are numbers."""
    head, *body = lines
    rule = ["---", *(["---:"] * (len(head) - 1))]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in (head, rule, *body))


if __name__ == "__main__":
    main()
