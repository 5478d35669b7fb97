"""Numbers with their units, tables and lists of facts as text."""

import textwrap
from collections.abc import Collection, Iterable, Sequence

import numpy as np

from pipesim.display.text.terminal import PLAIN, Terminal

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


def no_layout_faster(bound_s: float, time_s: float | None = None) -> str:
    """The bound of all layouts in a space as a sentence, and how far a time is above it."""
    above = "" if time_s is None or not bound_s else f"; the best is {percent(time_s / bound_s - 1)} above"
    return f"no layout in this space has a shorter iteration than {seconds(bound_s)}{above}"


def _digits(value: float) -> str:
    """Four significant digits, no exponent."""
    return f"{value:.{max(0, 3 - int(np.floor(np.log10(value)))) if value >= 1 else 3}f}"


def table(  # noqa: PLR0917 - what is shown, then how
    headers: Sequence[str],
    rows: Iterable[Sequence[str]],
    left: int = 1,
    on: Terminal = PLAIN,
    bold: Collection[int] = (),
    red: Collection[int] = (),
    drop: Sequence[str] = (),
) -> str:
    """Columns under their headers: the first `left` of them aligned left, the others right.

    `bold` and `red` are rows. Where the terminal is too narrow, columns are left out, first those of `drop`, then from
    the right, and a line below names them; then names on the left are shortened.
    """
    lines = [list(headers), *(list(row) for row in rows)]
    kept, most = _columns_on(lines, left, on, drop)
    lines = [[_cut(line[i], most[i]) for i in kept] for line in lines]
    widths = [max(len(line[i]) for line in lines) for i in range(len(kept))]
    shown = [
        "  ".join(
            cell.ljust(w) if i < left else cell.rjust(w) for i, (cell, w) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in [lines[0], ["─" * width for width in widths], *lines[1:]]
    ]
    for row in range(len(lines) - 1):
        styled = on.red if row in red else on.bold if row in bold else str
        shown[row + 2] = styled(shown[row + 2])
    without = [header for i, header in enumerate(headers) if i not in kept]
    note = [wrapped(f"left out, as the terminal is narrow: {', '.join(without)}", on)] if without else []
    return "\n".join([*shown, *note])


_GAP = 2  # characters between columns
_NARROWEST = 8  # characters to which names are shortened


def _columns_on(
    lines: Sequence[Sequence[str]], left: int, on: Terminal, drop: Sequence[str]
) -> tuple[list[int], list[int]]:
    """The columns that a terminal has room for, and the most characters of each."""
    headers = lines[0]
    widths = [max(len(line[i]) for line in lines) for i in range(len(headers))]
    kept = list(range(len(headers)))
    if on.width is None:
        return kept, widths
    first = [headers.index(name) for name in drop if name in headers]
    for each in [*first, *(i for i in reversed(range(left, len(headers))) if i not in first)]:
        if sum(widths[i] + _GAP for i in kept) - _GAP <= on.width or len(kept) <= left + 1:
            break
        kept.remove(each)
    over = sum(widths[i] + _GAP for i in kept) - _GAP - on.width
    for i in sorted(range(min(left, len(kept))), key=lambda i: -widths[i]):
        taken = min(max(over, 0), max(widths[i] - _NARROWEST, 0))
        widths[i], over = widths[i] - taken, over - taken
    return kept, widths


def _cut(cell: str, most: int) -> str:
    return cell if len(cell) <= most else shortened(cell, most)


def facts(pairs: Iterable[tuple[str, str]], on: Terminal = PLAIN) -> str:
    """Names and values, one pair per line; on a terminal, long values go on below where they begin."""
    pairs = list(pairs)
    width = max(len(name) for name, _ in pairs)
    return "\n".join(wrapped(f"{name.ljust(width)}  {value}", on, width + _GAP) for name, value in pairs)


def wrapped(line: str, on: Terminal = PLAIN, indent: int = 0) -> str:
    """A line that goes on in the next ones, after so many spaces, where the terminal is too narrow for it."""
    if on.width is None or len(line) <= on.width or on.width - indent < _NARROWEST:
        return line
    more = " " * indent
    rest = textwrap.wrap(
        line[indent:], on.width, initial_indent=more, subsequent_indent=more, break_long_words=False,
        break_on_hyphens=False,
    )  # fmt: skip
    return "\n".join([line[:indent] + rest[0][indent:], *rest[1:]])


def shortened(name: str, most: int = 40) -> str:
    """A name of at most so many characters; an ellipsis replaces the rest."""
    return name if len(name) <= most else f"{name[: most - 1]}…"
