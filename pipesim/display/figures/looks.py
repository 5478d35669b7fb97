"""Which fill, hatch, marker and dashes a name has: the same in every picture, for planners, schedules and orders.

    names                     family       look of each
    SPP, DAPPLE, GPipe        planners     those of spp, dapple, gpipe
    GPipe, 1F1B, PE           schedules    those of gpipe, one_f_one_b, pe: others than planners have
    RDO, random, mine         others       RDO's, random's, and the next that nobody has
    1, 4, 16                  steps        from light to dark

The family is the one that knows most of the names. Colours are not all there is to tell them apart, on paper in grey or
by eyes that confuse some: fills differ in lightness and hatch too, lines in marker and dashes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

Look = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Family:
    """Names that have a look of their own, in its order, and what looks are made of."""

    names: tuple[str, ...]
    fills: tuple[str, ...]
    lines: tuple[str, ...]
    hatches: tuple[str, ...]


# Lines are darker than fills where these are pale.
PLANNERS = Family(
    names=(
        "spp", "spp_plus", "dapple", "pipedream", "hetpipe", "alpa", "gpipe", "data_parallel",
        "megatron", "piper", "annealing", "uniform", "balanced", "brute",
    ),
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
SCHEDULES = Family(
    names=(
        "pe", "gpipe", "one_f_one_b", "eager_1f1b", "zb_h1", "list_schedule", "interleaved", "looped_bfs",
        "hanayo", "zb_1p", "zb_2p", "interleaved_zb", "zb_v", "v_half", "v_min", "chimera",
        "dualpipe", "dualpipe_v", "auto", "exact",
    ),
    fills=("#332288", "#DDCC77", "#CC6677", "#44AA99", "#C98BAE", "#D9D5F0", "#999933", "#F3D9DC"),
    lines=("#332288", "#B59F2E", "#CC6677", "#2F8C7D", "#882255", "#8A80C8", "#7F7F22", "#D08A96"),
    hatches=("", "////", "\\\\\\\\", "....", "xxxx", "----", "||||", "oo"),
)  # fmt: skip
OTHERS = Family(
    names=("rdo", "hierarchical", "given", "random"),
    fills=("#762A83", "#B8793A", "#6FBFB6", "#B2182B", "#D3B6E0", "#E8D9A8", "#2B2B2B", "#4E9A55"),
    lines=("#762A83", "#A8611C", "#2E968B", "#B2182B", "#A273BC", "#B89A3E", "#2B2B2B", "#4E9A55"),
    hatches=("", "////", "....", "\\\\\\\\", "xxxx", "----", "++++", "oo"),
)
_ALIASES = {"1f1b": "one_f_one_b", "as_given": "given"}
_MARKERS = "osD^vPX*"
_SIZES = (3.4, 3.4, 3.4, 3.8, 3.8, 4.4, 4.4, 6.0)  # points, of each: they look alike in size
_DASHES: tuple[Any, ...] = ("-", (0, (4, 1.5)), (0, (1, 1)), (0, (5, 1.5, 1, 1.5)))
_STEPS = 0.82, 0.0  # of the colour map, of the first and of the last number
_LINE: Look = {"linewidth": 1.1, "markeredgewidth": 0.4, "markeredgecolor": "white"}


def bars(names: Sequence[Any], family: Family | None = None) -> list[Look]:
    """Fill and hatch of each name's bar, box or cell; the family is said where it is known."""
    family, places = _placed(names, family)
    fills = _steps(len(names)) if family is None else family.fills
    hatches = (OTHERS if family is None else family).hatches
    return [
        {"facecolor": fills[n % len(fills)], "hatch": hatches[(n + n // len(fills)) % len(hatches)]} for n in places
    ]


def lines(names: Sequence[Any]) -> list[Look]:
    """Colour, marker and dashes of each name's line."""
    family, places = _placed(names, None)
    colors = _steps(len(names)) if family is None else family.lines
    return [
        {
            "color": colors[n % len(colors)],
            "marker": _MARKERS[n % len(_MARKERS)],
            "linestyle": _DASHES[(n + n // len(_MARKERS)) % len(_DASHES)],
            **_LINE,
            "markersize": _SIZES[n % len(_MARKERS)],
        }
        for n in places
    ]


def _placed(names: Sequence[Any], family: Family | None) -> tuple[Family | None, list[int]]:
    """The family of the names, none where they are numbers, and which of its looks each has."""
    if family is None and names and all(isinstance(name, int | float) and not isinstance(name, bool) for name in names):
        return None, list(range(len(names)))
    keys = [_key(name) for name in names]
    family = family or _knowing(keys)
    places: list[int | None] = []
    for key in keys:  # of two that are one planner with other options, the first has its look
        place = family.names.index(key) if key in family.names else None
        places.append(None if place in places else place)
    free = iter(sorted(set(range(len(names) + len(family.names))) - set(places)))
    return family, [next(free) if place is None else place for place in places]


def _knowing(keys: Sequence[str]) -> Family:
    """The family that knows most of the names, of equals the first; what has no series is blue."""
    if keys == [""]:
        return PLANNERS
    known = {sum(key in family.names for key in keys): family for family in (OTHERS, SCHEDULES, PLANNERS)}
    return known[max(known)] if max(known) else OTHERS


def _key(name: Any) -> str:  # noqa: ANN401 - whatever a column holds
    """The name of a member of a family, however a person writes it: "SPP+" is spp_plus, "1F1B" one_f_one_b."""
    key = str(name).partition("(")[0].strip().lower().replace("+", "_plus").replace(" ", "_").replace("-", "_")
    return _ALIASES.get(key, key)


def _steps(count: int) -> tuple[str, ...]:
    """Colours from light to dark."""
    from matplotlib import colormaps  # noqa: PLC0415 - slow to import
    from matplotlib.colors import to_hex  # noqa: PLC0415

    first, last = _STEPS
    colors = colormaps["viridis"]
    return tuple(to_hex(colors(first + (last - first) * n / max(1, count - 1))) for n in range(count))
