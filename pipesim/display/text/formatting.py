"""Numbers with their units, tables and lists of facts as text."""

from collections.abc import Iterable, Sequence

import numpy as np

_SCALES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))

_TIMES = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"))
FEW = 24  # rows of a table that are shown unless all are requested


def seconds(value: float | None) -> str:
    """Four digits and a unit: 385.0 ms."""
    if value is None:
        return "-"
    scale, unit = next(((scale, unit) for scale, unit in _TIMES if value >= scale), (1e-9, "ns"))
    return f"{_digits(value / scale)} {unit}" if value else "0 s"


def size(value: float | None) -> str:
    """Bytes in powers of 1024: 14.65 GiB."""
    if value is None:
        return "-"
    sign, value = ("-" if value < 0 else ""), abs(value)
    for power, unit in ((4, "TiB"), (3, "GiB"), (2, "MiB"), (1, "KiB")):
        if value >= 1024**power:
            return f"{sign}{_digits(value / 1024**power)} {unit}"
    return f"{sign}{value:.0f} B"


def rate(value: float, unit: str = "B/s") -> str:
    """A rate in powers of 1000: 12.50 GB/s."""
    if not np.isfinite(value):
        return "-"
    scale, prefix = next(((scale, prefix) for scale, prefix in _SCALES if value >= scale), (1.0, ""))
    return f"{_digits(value / scale)} {prefix}{unit}"


def percent(value: float | None) -> str:
    """A share as 12.3 %."""
    return "-" if value is None else f"{100 * value:.1f} %"


def _digits(value: float) -> str:
    """Four significant digits, no exponent."""
    return f"{value:.{max(0, 3 - int(np.floor(np.log10(value)))) if value >= 1 else 3}f}"


def table(headers: Sequence[str], rows: Iterable[Sequence[str]], left: int = 1) -> str:
    """Columns under their headers: the first `left` of them aligned left, the others right."""
    lines = [list(headers), *(list(row) for row in rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(headers))]
    lines.insert(1, ["─" * width for width in widths])
    return "\n".join(
        "  ".join(
            cell.ljust(w) if i < left else cell.rjust(w) for i, (cell, w) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


def facts(pairs: Iterable[tuple[str, str]]) -> str:
    """Names and values, one pair per line."""
    pairs = list(pairs)
    width = max(len(name) for name, _ in pairs)
    return "\n".join(f"{name.ljust(width)}  {value}" for name, value in pairs)


def shortened(name: str, most: int = 40) -> str:
    """A name of at most so many characters; an ellipsis replaces the rest."""
    return name if len(name) <= most else f"{name[: most - 1]}…"
