"""What a chart shows, as `[plot]` in an experiment says it in one line.

    time = { kind = "line", x = "gpus", y = "iteration_time_s", series = "planner", panels = "size", log = "xy" }

    line       y over x, a line per series; where several rows have the same x, their mean and a band around it
    scaling    as line, on logarithmic axes, with what perfect scaling from the best first x would be: on twice the
               GPUs twice the throughput, and half the time
    slopes     points on logarithmic axes, the line that fits each series best, and its slope: the power of x
    bars       groups of bars: x the groups, series the bars of each
    heat_map   x and y are the axes, `value` the colour; `label` is written into the cells
    box        how y is spread over rows, for each x and series
    cdf        the share of rows up to each x, a line per series

x, y, value, label, series and limit are columns, or formulas of columns: "throughput_samples_per_s / gpus".
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Literal

from pipesim.base import formulas, lookup
from pipesim.base.errors import InputError, within

KINDS = ("line", "scaling", "slopes", "bars", "heat_map", "box", "cdf")
Kind = Literal["line", "scaling", "slopes", "bars", "heat_map", "box", "cdf"]
BANDS = ("ci95", "minmax", "p5-p95", "std", "none")
FORMATS = ("pdf", "svg", "png")
_TALLEST = 12.0  # inches

# Which keys a kind needs, and which mean nothing to it.
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


def _listed(value: Any) -> Any:  # noqa: ANN401 - what a file holds is anything
    """One text for a list of one."""
    return [value] if isinstance(value, str) else value


def _some() -> Any:  # noqa: ANN401 - a field of a dataclass
    return field(default=(), metadata={"parse": _listed})


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart, checked.

    `where` keeps rows, `pick` ("least iteration_time_s") keeps one row of those at one place, `statistic` is what
    several rows at one place come to, and `band` what is drawn around it: ci95 (of the mean), minmax, p5-p95, std,
    none, or two columns. `baseline` names a series: values are then relative to it. `panels` are one column, or two:
    rows and columns of small multiples, which share their axes unless `own_y`. `log` is x, y, v (the value of
    a heat map), or several of them. `blank` is what the legend of a
    heat map calls cells without a value. `limit` is what y cannot pass, such as bound_s: a dashed line. `ideal` is what
    perfect scaling is: rising as x, falling as 1 / x, or flat; unless it is said, a column of seconds falls and
    everything else rises.
    """

    kind: Kind
    x: str
    y: str = ""
    value: str = ""
    series: str = ""
    label: str = ""
    panels: tuple[str, ...] = _some()
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

    def __post_init__(self) -> None:
        for name in ("panels", "where", "band", "formats"):  # from Python too, one text may stand for a list of one
            object.__setattr__(self, name, tuple(_listed(getattr(self, name))))
        self._check_keys()
        if len(self.panels) > 2:
            raise InputError(f"panels: {len(self.panels)} columns found; at most two were expected: rows and columns")
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
        """Refuse what is missing, and what would have no effect."""
        for name in _NEEDS[self.kind]:
            if not getattr(self, name):
                raise InputError(f"{name}: missing; a {self.kind} needs {', '.join(_NEEDS[self.kind])}")
        blank = {f.name: f.default for f in fields(self)}
        for name in _IDLE[self.kind]:
            if getattr(self, name) != blank[name]:
                raise InputError(f"{name}: has no effect on a {self.kind}")
        if self.baseline and not self.series:
            raise InputError("baseline: is the name of a series, and there is none")

    def formulas(self) -> list[tuple[str, str]]:
        """Every key that speaks of columns, with what it says."""
        found = [(name, getattr(self, name)) for name in ("x", "y", "value", "series", "label", "limit")]
        found += [(f"panels[{i}]", text) for i, text in enumerate(self.panels)]
        found += [(f"where[{i}]", text) for i, text in enumerate(self.where)]
        found += [(f"band[{i}]", text) for i, text in enumerate(self.band) if len(self.band) == 2]
        found += [("pick", self.picked[1])]
        return [(name, text) for name, text in found if text]

    @property
    def power(self) -> int:
        """The power of x by which y grows where it scales perfectly."""
        seconds = self.y.isidentifier() and self.y.endswith("_s") and not self.y.endswith("_per_s")
        return {"rising": 1, "flat": 0, "falling": -1}[self.ideal or ("falling" if seconds else "rising")]

    @property
    def is_log_x(self) -> bool:
        """Whether x stands on a logarithmic axis."""
        return self.kind in {"scaling", "slopes"} or "x" in self.log

    @property
    def picked(self) -> tuple[bool, str]:
        """Whether the most (else the least) is picked, and of what."""
        word, _, rest = self.pick.partition(" ")
        return (word == "most", rest) if word in {"least", "most"} and rest else (False, self.pick)

    def check_columns(self, columns: Sequence[str]) -> None:
        """Refuse what speaks of columns that rows do not have."""
        for name, text in self.formulas():
            for word in sorted(formulas.parse(text).names - set(columns)):
                raise InputError(f"{name}: no column is called {word!r}; {lookup.suggest(word, list(columns))}")
