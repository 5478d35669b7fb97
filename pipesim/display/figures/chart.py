"""The description of a chart, one line of `[plot]` in an experiment file.

    time = { kind = "line", x = "gpus", y = "iteration_time_s", series = "planner", panels = "size", log = "xy" }

    line       y over x, a line per series; the mean of rows with the same x, and a band around it
    scaling    as line, on logarithmic axes, with perfect scaling from the best series at the first x: twice the GPUs,
               twice the throughput or half the time
    slopes     points on logarithmic axes, a line fitted to each series, and its slope: the power of x
    bars       groups of bars: x the groups, series the bars of each; with log = "y" dots
    heat_map   x and y are the axes, `value` the colour; `label` is the text in the cells
    box        the distribution of y over rows, for each x and series
    cdf        the share of rows up to each x, a line per series

x, y, value, label, series and limit are columns, or formulas of columns: "throughput_samples_per_s / gpus".
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Literal

from pipesim.base import formulas, lookup
from pipesim.base.errors import InputError, within
from pipesim.display.figures.figure_style import FigureStyle

KINDS = ("line", "scaling", "slopes", "bars", "heat_map", "box", "cdf")
Kind = Literal["line", "scaling", "slopes", "bars", "heat_map", "box", "cdf"]
BANDS = ("ci95", "minmax", "p5-p95", "std", "none")
FORMATS = ("pdf", "svg", "png")
_TALLEST = 12.0  # inches

# The keys that a kind needs, and those without effect on it.
_NEEDS: dict[str, tuple[str, ...]] = {
    "line": ("x", "y"),
    "scaling": ("x", "y"),
    "slopes": ("x", "y"),
    "bars": ("x", "y"),
    "heat_map": ("x", "y", "value"),
    "box": ("x", "y"),
    "cdf": ("x",),
}
_IDLE: dict[str, tuple[str, ...]] = {
    "line": ("value", "label", "value_label", "blank", "ideal"),
    "scaling": ("value", "label", "value_label", "baseline", "blank"),
    "slopes": ("value", "label", "band", "value_label", "blank", "log", "ideal"),
    "bars": ("value", "value_label", "blank", "ideal"),
    "heat_map": ("series", "band", "baseline", "series_label", "own_y", "limit", "limit_label", "ideal"),
    "box": ("value", "label", "band", "statistic", "value_label", "blank", "limit", "limit_label", "ideal"),
    "cdf": (
        "y",
        "value",
        "label",
        "band",
        "statistic",
        "baseline",
        "value_label",
        "blank",
        "limit",
        "limit_label",
        "ideal",
    ),
}


def _listed(value: Any) -> Any:  # noqa: ANN401 - files may contain anything
    """A list; one text means a list of one."""
    return [value] if isinstance(value, str) else value


def _some() -> Any:  # noqa: ANN401 - a field of a dataclass
    return field(default=(), metadata={"parse": _listed})


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart, validated on construction.

    `where` filters rows, `pick` ("least iteration_time_s") selects one row for each place, `statistic` aggregates the
    rows at a place, and `band` is drawn around it: ci95 (of the mean), minmax, p5-p95, std, none, or two columns.
    `baseline` names a series that values are divided by. `panels` are one column, or two: rows and columns of small
    multiples, which share their axes unless `own_y`; `panel_title` is what is above each: "{rate} Gb/s". `log` is x, y,
    v (the value of a heat map), or several of them. `blank` is the legend of cells of a heat map without a value.
    `limit` is an upper or lower limit of y, such as bound_s: a dashed line. `ideal` is perfect scaling: rising as x,
    falling as 1 / x, or flat; by default falling for a column of seconds and rising for all others.
    """

    kind: Kind
    x: str
    y: str = ""
    value: str = ""
    series: str = ""
    label: str = ""
    panels: tuple[str, ...] = _some()
    panel_title: str = ""
    where: tuple[str, ...] = _some()
    pick: str = ""
    statistic: Literal["mean", "median", "min", "max"] = "mean"
    band: tuple[str, ...] = field(default=("ci95",), metadata={"parse": _listed})
    baseline: str = ""
    log: str = ""
    own_y: bool = False
    x_label: str = ""
    y_label: str = ""
    value_label: str = ""
    limit: str = ""
    limit_label: str = "bound"
    ideal: Literal["", "rising", "falling", "flat"] = ""
    blank: str = "no value"
    series_label: str = ""
    title: str = ""
    width: Literal["single", "double"] = "single"
    height: float | None = None
    formats: tuple[str, ...] = field(default=("pdf",), metadata={"parse": _listed})
    style: FigureStyle = field(default_factory=FigureStyle)

    def __post_init__(self) -> None:
        for name in ("panels", "where", "band", "formats"):  # also from Python, one text means a list of one
            object.__setattr__(self, name, tuple(_listed(getattr(self, name))))
        with within("style"):
            object.__setattr__(self, "style", FigureStyle.of(self.style))
        self._check_keys()
        if len(self.panels) > 2:
            raise InputError(f"panels: {len(self.panels)} columns found; at most two were expected: rows and columns")
        if self.panel_title and not any(f"{{{column}}}" in self.panel_title for column in self.panels):
            named = " or ".join(f"{{{column}}}" for column in self.panels) or "panels"
            raise InputError(f"panel_title: {self.panel_title!r} found; {named} in it was expected")
        if not set(self.log) <= set("xyv"):
            raise InputError(f"log: {self.log!r} found; x, y, v, or several of them, were expected")
        if len(self.band) != 2 and self.band not in {(name,) for name in BANDS}:
            raise InputError(f"band: {list(self.band)} found; {', '.join(BANDS)}, or two columns, were expected")
        if self.height is not None and not 0.5 <= self.height <= _TALLEST:
            raise InputError(f"height: {self.height} found; inches, 0.5 to {_TALLEST:g}, were expected")
        for index, name in enumerate(self.formats):
            if name not in FORMATS:
                raise InputError(f"formats[{index}]: {name!r} found; one of {', '.join(FORMATS)} was expected")
        for name, text in self.formulas():
            with within(name):
                formulas.parse(text)

    def _check_keys(self) -> None:
        """Refuse missing keys, and keys without effect."""
        for name in _NEEDS[self.kind]:
            if not getattr(self, name):
                raise InputError(f"{name}: missing; a {self.kind} needs {', '.join(_NEEDS[self.kind])}")
        blank = {f.name: f.default for f in fields(self)}
        for name in _IDLE[self.kind]:
            if getattr(self, name) != blank[name]:
                raise InputError(f"{name}: has no effect on a {self.kind}")
        if self.baseline and not self.series:
            raise InputError(f"baseline: {self.baseline!r} found; a chart without 'series' has no baseline")

    def formulas(self) -> list[tuple[str, str]]:
        """Every key with columns or formulas, and its value."""
        found = [(name, getattr(self, name)) for name in ("x", "y", "value", "series", "label", "limit")]
        found += [(f"panels[{i}]", text) for i, text in enumerate(self.panels)]
        found += [(f"where[{i}]", text) for i, text in enumerate(self.where)]
        found += [(f"band[{i}]", text) for i, text in enumerate(self.band) if len(self.band) == 2]
        found += [("pick", self.picked[1])]
        return [(name, text) for name, text in found if text]

    @property
    def power(self) -> int:
        """The power of x that y is proportional to under perfect scaling."""
        seconds = self.y.isidentifier() and self.y.endswith("_s") and not self.y.endswith("_per_s")
        return {"rising": 1, "flat": 0, "falling": -1}[self.ideal or ("falling" if seconds else "rising")]

    @property
    def is_log_x(self) -> bool:
        """Whether the x axis is logarithmic."""
        return self.kind in {"scaling", "slopes"} or "x" in self.log

    @property
    def has_dots(self) -> bool:
        """Whether dots are drawn for bars: on a logarithmic axis the length of a bar means nothing."""
        return self.kind == "bars" and "y" in self.log

    @property
    def picked(self) -> tuple[bool, str]:
        """Whether the greatest (else the least) value is picked, and of which column."""
        word, _, rest = self.pick.partition(" ")
        return (word == "most", rest) if word in {"least", "most"} and rest else (False, self.pick)

    def check_columns(self, columns: Sequence[str]) -> None:
        """Refuse columns that rows do not have."""
        for name, text in self.formulas():
            for word in sorted(formulas.parse(text).names - set(columns)):
                raise InputError(f"{name}: unknown column {word!r}; {lookup.suggest(word, list(columns))}")
