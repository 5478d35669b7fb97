"""What users choose of figures: fonts, colours, hatches, names, order, legend, size.

    with ps.style(font="Times New Roman", names={"my_planner:greedy": "Ours"}, colors={"Ours": "#D55E00"}):
        ps.gantt(timeline, "gantt.pdf")

    ps.style(width="single").use()        for all figures from here on; ps.style().use() ends it

In a sweep, `[plot.style]` has the same keys for all its charts, and `style = { ... }` those of one chart. Names are
those of planners, schedulers and series, as rows have them or as they are shown.
"""

from collections.abc import Iterable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal, Self, TypeVar

from pipesim.base import lookup, spelling
from pipesim.base.errors import InputError, shown, within

WIDTHS = {"single": 3.4, "double": 7.0}  # inches: one and both columns of a page
PLACES = ("above", "right", "none")
HATCHES = r"/\|-+xoO.*"  # the characters of matplotlib
_SMALLEST, _LARGEST = 0.5, 40.0  # inches
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class FigureStyle:
    """A style; what is not stated is as in all figures. A `width` may also be single or double."""

    font: str = ""
    size: float | None = None
    colors: Mapping[str, str] = field(default_factory=dict)
    hatches: Mapping[str, str] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)
    order: tuple[str, ...] = ()
    legend_title: str = ""
    legend: Literal["above", "right", "none"] = "above"
    width: float | None = field(default=None, metadata={"parse": lambda value: WIDTHS.get(str(value), value)})
    height: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "order", tuple(self.order))
        object.__setattr__(self, "width", WIDTHS.get(str(self.width), self.width))
        for name in ("colors", "hatches", "names"):
            if not isinstance(getattr(self, name), Mapping):
                raise InputError(f"{name}: {shown(getattr(self, name))} found; names and values were expected")
        for name, hatch in self.hatches.items():
            if wrong := set(hatch) - set(HATCHES):
                raise InputError(f"hatches: {name}: {shown(min(wrong))} found; characters of {HATCHES} were expected")
        if self.legend not in PLACES:
            raise InputError(f"legend: {shown(self.legend)} found; one of {', '.join(PLACES)} was expected")
        for name in ("size", "width", "height"):
            value = getattr(self, name)
            most, also = (100.0 if name == "size" else _LARGEST), (", single or double" if name == "width" else "")
            if value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, int | float) or not _SMALLEST <= value <= most:
                raise InputError(f"{name}: {shown(value)} found; {_SMALLEST:g} to {most:g}{also} was expected")

    @classmethod
    def of(cls, data: Any) -> "FigureStyle":  # noqa: ANN401 - files may contain anything
        """The style of a table in a file."""
        if isinstance(data, FigureStyle):
            return data
        if not isinstance(data, Mapping):
            raise InputError(f"{shown(data)} found; a table was expected")
        known = [one.name for one in fields(cls)]
        for name in data:
            if name not in known:
                raise InputError(f"{name}: unknown key; {lookup.suggest(str(name), known)}")
        return cls(**data)

    def __enter__(self) -> Self:
        _STYLES.set((*_STYLES.get(), self))
        return self

    def __exit__(self, *_: object) -> None:
        _STYLES.set(_STYLES.get()[:-1])

    def use(self) -> None:
        """Draw all figures from here on in this style."""
        _STYLES.set((self,))

    def over(self, other: "FigureStyle") -> "FigureStyle":
        """This style where it states something, and the other elsewhere."""
        plain = FigureStyle()
        stated = {one.name: getattr(self, one.name) for one in fields(self)}
        return replace(other, **{name: value for name, value in stated.items() if value != getattr(plain, name)})

    def mistyped(self, values: Iterable[str]) -> dict[str, str]:
        """The names of this style that none of these values has, and the value that each probably means."""
        there = {*values, *self.names.values()}
        known = spelling.spellings((value, value) for value in there)
        used = dict.fromkeys([*self.order, *self.names, *self.colors, *self.hatches])
        meant = {
            name: known.get(spelling.plain(name)) or spelling.mistyped(name, known)
            for name in used
            if name not in there
        }
        return {name: value for name, value in meant.items() if value is not None}

    def name(self, given: object) -> str:
        """What a name is shown as."""
        return self.names.get(str(given), str(given))

    def color(self, given: object) -> str | None:
        """The colour of a name, if one is stated for it."""
        return self.colors.get(str(given), self.colors.get(self.name(given)))

    def hatch(self, given: object) -> str | None:
        """The hatch of a name, if one is stated for it."""
        return self.hatches.get(str(given), self.hatches.get(self.name(given)))

    def ordered(self, values: Iterable[T]) -> list[T]:
        """Values in the stated order; those that it does not have come after the others, as they are."""
        place = {name: at for at, name in enumerate(self.order)}
        last = len(place)
        return sorted(values, key=lambda value: min(place.get(str(value), last), place.get(self.name(value), last)))


_STYLES: ContextVar[tuple[FigureStyle, ...]] = ContextVar("styles", default=())


def current() -> FigureStyle:
    """The style of the figures that are drawn now."""
    styles = _STYLES.get()
    return styles[-1] if styles else FigureStyle()


def check_colors(style: FigureStyle) -> None:
    """Refuse what is no colour, or a font that is not there; imports matplotlib."""
    from matplotlib.colors import is_color_like  # noqa: PLC0415 - slow to import
    from matplotlib.font_manager import findfont, get_font_names  # noqa: PLC0415 - as above

    for name, color in style.colors.items():
        if not is_color_like(color):
            raise InputError(f"colors: {name}: {shown(color)} found; a colour such as #0072B2 was expected")
    if style.font:
        with within("font"):
            try:
                findfont(style.font, fallback_to_default=False)
            except ValueError:
                known = lookup.suggest(style.font, sorted(get_font_names()))
                raise InputError(f"{style.font!r} is not installed; {known}") from None
