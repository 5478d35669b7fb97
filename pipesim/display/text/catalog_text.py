"""Lists of everything that has a name, as text: members of families, traces, models, devices."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pipesim.core.devices import TFLOPS
from pipesim.display.text.columns import TextColumn, TextTable
from pipesim.display.text.formatting import rate, size, wrapped
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


def members_table(found: Mapping[str, Mapping[str, Any]]) -> TextTable:
    """Each member of a family with a sentence, as a table."""
    columns = (TextColumn("name", "name", on_left=True), TextColumn("what it is", "about", on_left=True))
    return TextTable(columns, [{"name": name, "about": one["about"]} for name, one in found.items()])


def traces(found: Mapping[str, Mapping[str, Any]]) -> TextTable:
    """A table of traces by name."""
    records = [{"trace": name, **one, "device_kinds": ", ".join(one["device_kinds"])} for name, one in found.items()]
    return TextTable(_TRACES, records)


_TRACES = (
    TextColumn("trace", "trace", on_left=True), TextColumn("layers", "layers"),
    TextColumn("microbatch", "microbatch_size"), TextColumn("device kinds", "device_kinds"),
    TextColumn("source", "source"),
)  # fmt: skip


def models(found: Iterable[Mapping[str, Any]]) -> TextTable:
    """A table of architectures and published models."""
    records = [
        {"name": one["call"] if one["needs"] else ", ".join(one["names"]), "about": one["about"]} for one in found
    ]
    return TextTable(
        (TextColumn("architecture", "name", on_left=True), TextColumn("what it is", "about", on_left=True)), records
    )


def device_kinds(found: Mapping[str, Mapping[str, Any]], peaks: Sequence[str] = _PEAKS) -> TextTable:
    """A table of device kinds by name, with peaks in TFLOP/s."""
    columns = [TextColumn(peak, f"peak.{peak}", _peak) for peak in peaks]
    records = [
        {"device": name, **one, "peak": {peak: one["peak"].get(peak) for peak in peaks}} for name, one in found.items()
    ]
    return TextTable((*_DEVICES, *columns), records)


def _peak(value: float | None) -> str:
    return "-" if value is None else f"{value / TFLOPS:g}"


_DEVICES = (
    TextColumn("device", "device", on_left=True), TextColumn("memory", "memory_bytes", size),
    TextColumn("its bandwidth", "memory_bandwidth", rate), TextColumn("to others", "interconnect", rate),
)  # fmt: skip
PEAKS_ARE = "Peaks are dense, in TFLOP/s; all numbers are from the vendors' data sheets."
