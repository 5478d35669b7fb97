"""Layouts as text: a plan in the arguments of a framework, and what a framework's arguments state."""

from collections.abc import Mapping, Sequence

from pipesim.display.text.columns import TextColumn, TextTable
from pipesim.display.text.formatting import facts, seconds
from pipesim.frameworks.layout_text import text_of
from pipesim.frameworks.training_layout import LETTERS, TrainingLayout, chunks


def converted(
    written: str,
    notes: Sequence[str],
    exact_s: float | None = None,
    rounded_s: float | None = None,
    files: Mapping[str, str] | None = None,
) -> str:
    """A framework's text, notes as comments before it, what rounding costs, and the files that the text names."""
    lines = [f"# {note}" for note in notes]
    if exact_s is not None and rounded_s is not None:
        change = f"{100 * (rounded_s / exact_s - 1) + 0.0:+.1f} %".replace("-0.0", "+0.0")
        lines.append(f"# simulated: {seconds(rounded_s)} in place of {seconds(exact_s)} as planned ({change})")
    lines.append(written)
    for name, text in (files or {}).items():
        lines += ["", f"# {name}", text.rstrip("\n")]
    return "\n".join(lines)


def training_layout(layout: TrainingLayout, framework: str, notes: Sequence[str] = (), command: str = "") -> str:
    """What a framework's arguments state: sizes, the stages, and how to simulate it."""
    widths = [("TP", layout.tensor), ("CP", layout.context), ("EP", layout.expert), ("PP", layout.pipeline)]
    widths += [("VPP", layout.interleave), ("DP", layout.data or 0)]
    shown = ", ".join(
        f"{name} {size or 'not stated'}" for name, size in widths if size != 1 or name in {"TP", "PP", "DP"}
    )
    head = [("read as", framework), ("layout", f"{shown}{_gpus(layout)}")]
    head += [("batch", _batch(layout)), ("schedule", layout.scheduler), ("memory", _memory(layout))]
    if layout.has_blocks:
        head.append(("stages", text_of(layout.joined().stages)))
    parts = [facts(head), layout_stages(layout).text()]
    parts += ["\n".join(f"note: {note}" for note in notes)] if notes else []
    parts += [f"simulate it:\n  {command}"] if command else []
    return "\n\n".join(parts)


def layout_stages(layout: TrainingLayout) -> TextTable:
    """The stages of a layout and where they are, as a table."""
    places = zip(layout.positions, layout.stages, strict=True)
    records = [{"stage": n, "position": position, "holds": _held(held)} for n, (position, held) in enumerate(places)]
    return TextTable([TextColumn(name, name, on_left=True) for name in ("stage", "position", "holds")], records)


def _gpus(layout: TrainingLayout) -> str:
    return "" if layout.gpus is None else f" = {layout.gpus} GPUs"


def _batch(layout: TrainingLayout) -> str:
    size = "not stated" if layout.microbatch_size is None else layout.microbatch_size
    count = "not stated" if layout.microbatches is None else f"{layout.microbatches} for each pipeline"
    whole = "" if layout.global_batch is None else f", {layout.global_batch} samples in an iteration"
    return f"microbatches of {size}, {count}{whole}"


def _memory(layout: TrainingLayout) -> str:
    kept = "" if layout.recompute_blocks is None else f" ({layout.recompute_blocks} blocks of each stage)"
    return f"recompute {layout.recompute}{kept}, sharding {layout.sharding}"


def _held(stage: str) -> str:
    runs = [(letter, count) for letter, count in chunks(stage)]
    words = [LETTERS[letter] if count == 1 else f"{count} x {LETTERS[letter]}" for letter, count in runs]
    return ", ".join(words) or "nothing"
