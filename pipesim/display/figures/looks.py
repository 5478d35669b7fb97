"""Fill, hatch, marker and dashes of a name: the same in every figure, for planners, schedules and orders of devices.

    names                     family       look of each
    SPP, DAPPLE, GPipe        planners     those of spp, dapple, gpipe
    GPipe, 1F1B, PE           schedules    those of gpipe, one_f_one_b, pe: others than planners have
    RDO, random, mine         others       those of rdo and random, and the first that is free
    1, 4, 16                  steps        from light to dark

A planner or schedule may declare its place in the palette of its family; else it has the first free one. The family of
a chart is the one that has most of its names. Looks differ in more than colour, for paper in grey and for readers who
confuse some colours: fills in lightness and hatch too, lines in marker and dashes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import count
from typing import Any

from pipesim.base import spelling
from pipesim.core.members import Drawn, PlannerInfo, SchedulerInfo, infos
from pipesim.display.figures.figure_style import current
from pipesim.planners import PLANNERS
from pipesim.schedulers import SCHEDULERS

Look = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Palette:
    """Fills of bars, and lines, which are darker where fills are pale; hatches."""

    fills: tuple[str, ...]
    lines: tuple[str, ...]
    hatches: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Family:
    """Names that have a place in a palette, and their spellings, in plain letters."""

    places: Mapping[str, int]
    aliases: Mapping[str, str]
    palette: Palette

    @property
    def names(self) -> list[str]:
        """All names, in the order of their places."""
        return sorted(self.places, key=lambda name: self.places[name])


_PLANNERS = Palette(
    fills=(
        "#0072B2", "#E69F00", "#8CCBF2", "#C8540A", "#007358", "#F0E442", "#A64D79", "#BFBFBF",
        "#9C755F", "#FBB4C4", "#B7D968", "#FFFFFF", "#C9B8E8", "#5A5A5A",
    ),
    lines=(
        "#0072B2", "#E69F00", "#56B4E9", "#C8540A", "#009E73", "#8C8C00", "#A64D79", "#7A7A7A",
        "#8A5A3C", "#E377A2", "#6F9A1F", "#222222", "#8E72C8", "#5A5A5A",
    ),
    hatches=(
        "", "////", "....", "\\\\\\\\", "xxxx", "----", "++++", "oo",
        "||||", "xx", "\\\\", "//", "--", "..",
    ),
)  # fmt: skip
_SCHEDULES = Palette(
    fills=("#332288", "#DDCC77", "#CC6677", "#44AA99", "#C98BAE", "#D9D5F0", "#999933", "#F3D9DC"),
    lines=("#332288", "#B59F2E", "#CC6677", "#2F8C7D", "#882255", "#8A80C8", "#7F7F22", "#D08A96"),
    hatches=("", "////", "\\\\\\\\", "....", "xxxx", "----", "||||", "oo"),
)
_OTHERS = Palette(
    fills=("#762A83", "#B8793A", "#6FBFB6", "#B2182B", "#D3B6E0", "#E8D9A8", "#2B2B2B", "#4E9A55"),
    lines=("#762A83", "#A8611C", "#2E968B", "#B2182B", "#A273BC", "#B89A3E", "#2B2B2B", "#4E9A55"),
    hatches=("", "////", "....", "\\\\\\\\", "xxxx", "----", "++++", "oo"),
)
_MARKERS = "osD^vPX*"
_SIZES = (3.4, 3.4, 3.4, 3.8, 3.8, 4.4, 4.4, 6.0)  # points, of each: they look alike in size
_DASHES: tuple[Any, ...] = ("-", (0, (4, 1.5)), (0, (1, 1)), (0, (5, 1.5, 1, 1.5)))
_STEPS = 0.82, 0.0  # of the colour map, of the first and of the last number
_LINE: Look = {"linewidth": 1.1, "markeredgewidth": 0.4, "markeredgecolor": "white"}


@cache
def planners() -> Family:
    """The planners, at the places that they declare."""
    return family_of(infos(PLANNERS, "planner", PlannerInfo), _PLANNERS)


@cache
def schedules() -> Family:
    """The schedules, at the places that they declare."""
    return family_of(infos(SCHEDULERS, "scheduler", SchedulerInfo), _SCHEDULES)


@cache
def others() -> Family:
    """Orders of devices."""
    places = {"rdo": 0, "hierarchical": 1, "given": 2, "random": 3}
    return Family(places, spelling.spellings([*((name, name) for name in places), ("as_given", "given")]), _OTHERS)


def family_of(declared: Mapping[str, Drawn], palette: Palette) -> Family:
    """Each name at the place that it declares; where it declares none, at the first free place."""
    places = {name: info.look for name, info in declared.items() if info.look is not None}
    free = (place for place in count() if place not in places.values())
    places |= {name: next(free) for name in declared if name not in places}
    aliases = [(alias, name) for name, info in declared.items() for alias in (name, *info.aliases)]
    return Family(places, spelling.spellings(aliases), palette)


def bars(names: Sequence[Any], family: Family | None = None) -> list[Look]:
    """Fill and hatch of each name's bar, box or cell; by default in the family that has most of the names."""
    family, places = _placed(names, family)
    fills = _steps(len(names)) if family is None else family.palette.fills
    hatches = (_OTHERS if family is None else family.palette).hatches
    chosen = current()
    return [
        {
            "facecolor": chosen.color(name) or fills[n % len(fills)],
            "hatch": hatches[(n + n // len(fills)) % len(hatches)] if (own := chosen.hatch(name)) is None else own,
        }
        for name, n in zip(names, places, strict=True)
    ]


def lines(names: Sequence[Any], family: Family | None = None) -> list[Look]:
    """Colour, marker and dashes of each name's line; by default in the family that has most of the names."""
    family, places = _placed(names, family)
    colors = _steps(len(names)) if family is None else family.palette.lines
    return [
        {
            "color": current().color(name) or colors[n % len(colors)],
            "marker": _MARKERS[n % len(_MARKERS)],
            "linestyle": _DASHES[(n + n // len(_MARKERS)) % len(_DASHES)],
            **_LINE,
            "markersize": _SIZES[n % len(_MARKERS)],
        }
        for name, n in zip(names, places, strict=True)
    ]


def _placed(names: Sequence[Any], family: Family | None) -> tuple[Family | None, list[int]]:
    """The family of the names, none where they are numbers, and the place in its palette of each."""
    if family is None and names and all(isinstance(name, int | float) and not isinstance(name, bool) for name in names):
        return None, list(range(len(names)))
    family = family or _family_with_most(names)
    places: list[int | None] = []
    for name in names:  # of two that are one planner with different options, the first has its look
        place = family.places.get(_key(name, family))
        places.append(None if place in places else place)
    places = _apart(places, len(family.palette.fills))
    count = len(family.palette.fills)
    colors = {place % count for place in places if place is not None}
    left = set(range(len(names) + len(family.places))) - set(places)
    free = iter(sorted(left, key=lambda place: (place >= count or place in colors, place)))
    return family, [next(free) if place is None else place for place in places]


def _apart(places: list[int | None], count: int) -> list[int | None]:
    """Places without two that share one of so many colours, as long as there are colours.

    Places below `count` stay; of those beyond, which begin again with the first colour, some have a free one instead.
    """
    found = list(places)
    taken = {place for place in places if place is not None and place < count}
    for n, place in enumerate(places):
        if place is None or place < count:
            continue
        free = [color for color in range(count) if color not in taken]
        if place % count in taken and free:
            found[n] = free[0]
        taken.add((place if found[n] is None else found[n]) % count)  # type: ignore[operator]
    return found


def _family_with_most(names: Sequence[Any]) -> Family:
    """The family that has most of the names, of equals the first; what has no series is blue."""
    if list(map(str, names)) == [""]:
        return planners()
    families = planners(), schedules(), others()
    known = [sum(_key(name, family) in family.places for name in names) for family in families]
    return families[known.index(max(known))] if max(known) else others()


def _key(name: Any, family: Family) -> str:  # noqa: ANN401 - whatever a column holds
    """The member of a family that a person means: "SPP+" is spp_plus, "1F1B" is one_f_one_b."""
    key = str(name).partition("(")[0].strip()
    return family.aliases.get(spelling.plain(key), key)


def _steps(count: int) -> tuple[str, ...]:
    """Colours from light to dark."""
    from matplotlib import colormaps  # noqa: PLC0415 - slow to import
    from matplotlib.colors import to_hex  # noqa: PLC0415

    first, last = _STEPS
    colors = colormaps["viridis"]
    return tuple(to_hex(colors(first + (last - first) * n / max(1, count - 1))) for n in range(count))
