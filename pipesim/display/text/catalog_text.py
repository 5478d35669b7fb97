"""Lists of everything that has a name, as text: members of families, traces, models, devices."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pipesim.core.devices import TFLOPS
from pipesim.display.text.formatting import rate, size, table, wrapped
from pipesim.display.text.terminal import PLAIN, Terminal

_PEAKS = ("fp32", "tf32", "bf16", "fp16", "fp8")


def members(found: Mapping[str, Mapping[str, Any]], on: Terminal = PLAIN) -> str:
    """Each member of a family with its required arguments, a sentence, and its options."""
    parts = []
    for name, member in found.items():
        lines = [f"{name}({', '.join(member['needs'])})" if member["needs"] else name, member["about"]]
        if member["options"]:
            lines.append("options: " + ", ".join(f"{key}={_brief(value)}" for key, value in member["options"].items()))
        if member.get("aliases"):
            lines.append("also: " + ", ".join(member["aliases"]))
        indented = [lines[0], *(f"    {line}" for line in lines[1:])]
        parts.append("\n".join(wrapped(line, on, 4) for line in indented))
    return "\n".join(parts)


def _brief(value: str, most: int = 24) -> str:
    return value if len(value) <= most else "..."


def traces(found: Mapping[str, Mapping[str, Any]], on: Terminal = PLAIN) -> str:
    """A table of traces by name."""
    rows = [
        [name, f"{one['layers']}", f"{one['microbatch_size']}", ", ".join(one["device_kinds"]), one["source"]]
        for name, one in found.items()
    ]
    return table(["trace", "layers", "microbatch", "device kinds", "source"], rows, on=on)


def models(found: Iterable[Mapping[str, Any]], on: Terminal = PLAIN) -> str:
    """A table of architectures and published models."""
    rows = [[one["call"] if one["needs"] else ", ".join(one["names"]), one["about"]] for one in found]
    return table(["architecture", "what it is"], rows, left=2, on=on)


def device_kinds(found: Mapping[str, Mapping[str, Any]], peaks: Sequence[str] = _PEAKS, on: Terminal = PLAIN) -> str:
    """A table of device kinds by name, with peaks in TFLOP/s."""
    rows = [
        [name, size(one["memory_bytes"]), rate(one["memory_bandwidth"]), rate(one["interconnect"])]
        + [f"{one['peak'][peak] / TFLOPS:g}" if peak in one["peak"] else "-" for peak in peaks]
        for name, one in found.items()
    ]
    text = table(["device", "memory", "its bandwidth", "to others", *peaks], rows, on=on)
    more = "Peaks are dense, in TFLOP/s; all numbers are from the vendors' data sheets."
    return f"{text}\n\n{wrapped(more, on)}"
