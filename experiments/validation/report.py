"""Lines of results -> tables of text, files, and the figure."""

import csv
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, fields
from pathlib import Path

from standing import BAR, MAIN

from pipesim.analysis import scores

MARKERS = "osD^vPX"
# Okabe and Ito's colours, distinguished by readers who confuse some colours; markers differ too.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
FEWEST = 8  # rows of a table that has a rank correlation of its own


@dataclass(frozen=True, slots=True)
class Line:
    """A row as it came out; empty where something is unknown."""

    source: str
    id: str
    group: str
    table: str
    tolerance: float
    measured_s: float
    simulated_s: float | None = None
    measured_bytes: float | None = None
    simulated_bytes: float | None = None
    other_s: float | None = None
    other_bytes: float | None = None
    refused: str = ""

    @property
    def error(self) -> float | None:
        """Of the seconds."""
        return None if self.simulated_s is None else self.simulated_s / self.measured_s - 1

    @property
    def memory_error(self) -> float | None:
        """Of the bytes, where both are known."""
        if self.simulated_bytes is None or self.measured_bytes is None:
            return None
        return self.simulated_bytes / self.measured_bytes - 1

    @property
    def other_error(self) -> float | None:
        """Of the seconds that another simulator published."""
        return None if self.other_s is None else self.other_s / self.measured_s - 1

    @property
    def other_memory_error(self) -> float | None:
        """Of the bytes that another simulator published."""
        return (
            None
            if self.other_bytes is None or self.measured_bytes is None
            else self.other_bytes / self.measured_bytes - 1
        )


def by_group(lines: Iterable[Line]) -> dict[tuple[str, str], list[Line]]:
    """Lines of each source and group, `main` first."""
    found: dict[tuple[str, str], list[Line]] = {}
    for line in lines:
        found.setdefault((line.source, line.group), []).append(line)
    order = list(dict.fromkeys(source for source, _ in found))
    return dict(sorted(found.items(), key=lambda item: (order.index(item[0][0]), item[0][1] != MAIN, item[0][1])))


HEAD = (
    "source",
    "rows",
    "scored",
    "mean",
    "median",
    "p90",
    "worst",
    "bias",
    "Spearman",
    "pairs in order",
    "memory",
    "others",
)


def table(lines: Sequence[Line]) -> str:
    """The statistics of every group, as Markdown."""
    body = [_summary(*key, members) for key, members in by_group(lines).items()]
    return markdown([HEAD, *body])


def _summary(source: str, group: str, lines: Sequence[Line]) -> tuple[str, ...]:
    scored = [line for line in lines if line.simulated_s is not None]
    found = scores.errors(line.error for line in scored if line.error is not None)
    name = source if group == MAIN else f"{source}, {group}"
    counts = (str(len(lines)), str(len(scored)))
    if found is None:
        return (name, *counts, *[""] * (len(HEAD) - 3))
    bar = f" (bar {BAR[source]:.0%})" if group == MAIN else ""
    numbers = (f"{found.mean:.1%}{bar}", *(f"{x:.1%}" for x in (found.median, found.p90, found.worst)))
    return (
        name, *counts, *numbers, f"{found.bias:+.1%}", correlations(scored), pairs(scored),
        mean(line.memory_error for line in scored), _others(scored),
    )  # fmt: skip


def correlations(lines: Sequence[Line]) -> str:
    """Spearman's correlation of each table that is large enough."""
    found = [
        f"{value:.2f}"
        for members in tables_of(lines)
        if len(members) >= FEWEST and (value := scores.spearman(*_columns(members))) is not None
    ]
    return ", ".join(found)


def pairs(lines: Sequence[Line]) -> str:
    """The share of pairs in the measured order, of smaller tables together."""
    counts = [scores.ordered_pairs(*_columns(members)) for members in tables_of(lines) if len(members) < FEWEST]
    right, every = (sum(column) for column in zip(*counts, strict=True)) if counts else (0, 0)
    return f"{right} of {every}" if every else ""


def tables_of(lines: Sequence[Line]) -> list[list[Line]]:
    """Lines that are ranked beside each other."""
    found: dict[str, list[Line]] = {}
    for line in lines:
        found.setdefault(line.table, []).append(line)
    return list(found.values())


def _columns(lines: Sequence[Line]) -> tuple[list[float], list[float], list[float]]:
    return (
        [line.measured_s for line in lines],
        [line.simulated_s or 0.0 for line in lines],
        [line.tolerance for line in lines],
    )


def mean(values: Iterable[float | None]) -> str:
    """The mean without signs, and with signs, of values that are known."""
    found = scores.errors(value for value in values if value is not None)
    return "" if found is None else f"{found.mean:.1%} ({found.bias:+.1%})"


def _others(lines: Sequence[Line]) -> str:
    seconds, memory = (mean(getattr(line, name) for line in lines) for name in ("other_error", "other_memory_error"))
    return f"{seconds}; memory {memory}" if seconds else ""


def markdown(rows: Sequence[Sequence[str]]) -> str:
    """A table whose first row is its head; names to the left, numbers to the right."""
    ruler = ["---", *["---:"] * (len(rows[0]) - 1)]
    return "\n".join(f"| {' | '.join(row)} |" for row in [rows[0], ruler, *rows[1:]])


def write(lines: Sequence[Line], path: Path) -> None:
    """All lines as a CSV file, with their errors; seconds and bytes to six digits."""
    names = [field.name for field in fields(Line)]
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([*names, "error", "memory_error"])
        for line in lines:
            values = (*astuple(line), line.error, line.memory_error)
            writer.writerow([_text(value) for value in values])


def read(path: Path) -> list[Line]:
    """The lines of a file that `write` wrote."""
    numbers = {field.name for field in fields(Line)} - {"source", "id", "group", "table", "refused"}
    with path.open(encoding="utf-8", newline="") as file:
        return [
            Line(
                **{
                    field.name: (float(row[field.name]) if row[field.name] else None)
                    if field.name in numbers
                    else row[field.name]
                    for field in fields(Line)
                }
            )
            for row in csv.DictReader(file)
        ]


def read_plain(path: Path) -> list[tuple[str, ...]]:
    """The rows of a file that `write_plain` wrote, its head among them."""
    with path.open(encoding="utf-8", newline="") as file:
        return [tuple(row) for row in csv.reader(file)]


def write_plain(rows: Sequence[Sequence[str]], path: Path) -> None:
    """A table of text as a CSV file."""
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(rows)


def _text(value: str | float | None) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else f"{value:.6g}"


WIDE = 1000.0  # of ends of an axis; with less between them, powers of ten are too few labels


def figure(lines: Sequence[Line], path: Path) -> None:
    """Simulated against measured seconds, and bytes, on logarithmic axes; filled where a row is of `main`."""
    import matplotlib as mpl  # noqa: PLC0415 - slow to import

    mpl.use("Agg")
    from matplotlib import pyplot as plt  # noqa: PLC0415

    sheet, (left, right) = plt.subplots(1, 2, figsize=(9, 4.4), layout="constrained")
    sources = list(dict.fromkeys(line.source for line in lines))
    looks = {source: (MARKERS[n], COLOURS[n]) for n, source in enumerate(sources)}
    gib = 2.0**30
    for ax, unit, pick in (
        (left, "s", lambda line: (line.measured_s, line.simulated_s)),
        (right, "GiB", lambda line: _over((line.measured_bytes, line.simulated_bytes), gib)),
    ):
        _panel(ax, {line.id: (*pick(line), looks[line.source], line.group == MAIN) for line in lines})
        ax.set_xlabel(f"measured ({unit})")
        ax.set_ylabel(f"simulated ({unit})")
    handles = [
        mpl.lines.Line2D([], [], color=colour, marker=marker, linestyle="", label=source)
        for source, (marker, colour) in looks.items()
    ]
    handles += [
        mpl.lines.Line2D(
            [], [], color="0.4", marker="o", linestyle="", markerfacecolor="none", label="hollow: not all stated"
        ),
        mpl.patches.Patch(color="0.9", label="within 10 %"),
    ]
    left.legend(handles=handles, fontsize=7, frameon=False, loc="upper left")
    sheet.savefig(path, dpi=160)
    plt.close(sheet)


def _over(pair: tuple[float | None, float | None], unit: float) -> tuple[float | None, float | None]:
    first, second = (None if value is None else value / unit for value in pair)
    return first, second


def _ticks(ax: object, ratio: float) -> None:
    """Plain numbers at powers of ten; where the axis spans few of them, at twice and five times these too."""
    from matplotlib import ticker  # noqa: PLC0415 - slow to import

    for axis in (ax.xaxis, ax.yaxis):  # type: ignore[attr-defined]
        axis.set_major_locator(ticker.LogLocator(subs=(1, 2, 5) if ratio < WIDE else (1,)))
        axis.set_major_formatter("{x:g}")
        axis.set_minor_formatter("")


def _panel(ax: object, points: Mapping[str, tuple[float | None, float | None, tuple[str, str], bool]]) -> None:
    known = [(x, y, look, is_main) for x, y, look, is_main in points.values() if x is not None and y is not None]
    if not known:
        return
    ends = [min(min(x, y) for x, y, *_ in known) * 0.8, max(max(x, y) for x, y, *_ in known) * 1.25]
    ax.set(xscale="log", yscale="log", xlim=ends, ylim=ends, aspect="equal")  # type: ignore[attr-defined]
    _ticks(ax, ends[1] / ends[0])
    ax.plot(ends, ends, color="0.4", linewidth=0.8)  # type: ignore[attr-defined]
    ax.fill_between(ends, [end * 0.9 for end in ends], [end * 1.1 for end in ends], color="0.9")  # type: ignore[attr-defined]
    for x, y, (marker, colour), is_main in known:
        fill = colour if is_main else "none"
        ax.plot(x, y, marker, color=colour, markerfacecolor=fill, markersize=4, markeredgewidth=0.7)  # type: ignore[attr-defined]
