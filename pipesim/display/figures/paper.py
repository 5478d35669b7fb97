"""Shared by all figures: sizes, fonts, colours, legends, and writing files.

matplotlib is imported inside functions: it takes longer to import than the rest of pipesim.
"""

import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from pipesim.base import files
from pipesim.base.arrays import Floats
from pipesim.base.errors import InputError
from pipesim.display.figures.figure_style import FigureStyle, check_colors, current

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Color = tuple[float, float, float]

WIDTH = 8.0  # inches: the width of a page
DPI = 200
POINTS = 72.0  # in an inch

INK = "#222222"
PALE = "#9A9A9A"
IDLE = "#EFEFEF"
WARNING = "#D55E00"

# Metadata that would differ from one run to the next is left out of files.
_METADATA: dict[str, dict[str, None]] = {
    ".png": {"Software": None},
    ".svg": {"Date": None},
    ".pdf": {"CreationDate": None},
}
_STYLE: dict[str, Any] = {
    "font.family": ["DejaVu Sans"],  # part of matplotlib: the same on every machine
    "font.size": 8,
    "text.parse_math": False,  # names may contain dollar signs
    "axes.titlesize": 9,
    "axes.titlelocation": "left",
    "axes.labelsize": 8,
    "axes.linewidth": 0.6,
    "axes.edgecolor": INK,
    "axes.axisbelow": True,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "legend.fontsize": 7,
    "legend.frameon": False,
    "legend.handlelength": 1.4,
    "legend.columnspacing": 1.4,
    "hatch.linewidth": 0.5,
    "grid.color": "#D8D8D8",
    "grid.linewidth": 0.5,
    "figure.dpi": DPI,
    "savefig.dpi": "figure",
    "pdf.fonttype": 42,  # TrueType, which publishers require
    "svg.hashsalt": "pipesim",  # else element names are random
}


# The warning of matplotlib before it draws axes of no size.
_NO_ROOM = "constrained_layout not applied"


def check_path(path: Path | str) -> Path:
    """Refuse a file name with the suffix of no figure format."""
    target = Path(path)
    if target.suffix.lower() not in _METADATA:
        raise InputError(
            f"{target}: cannot write a {target.suffix or 'file without suffix'}; use {', '.join(_METADATA)}"
        )
    return target


def drawn(path: Path | str | None, draw: Callable[[], "Figure"]) -> "Figure":
    """The result of `draw` in the style of all figures, written to `path` if one is given."""
    target = None if path is None else check_path(path)
    with style(), warnings.catch_warnings():
        warnings.filterwarnings("error", _NO_ROOM, UserWarning)
        try:
            figure = draw()
            if target is not None:
                _save(figure, target)
        except UserWarning as error:
            if not str(error).startswith(_NO_ROOM):
                raise
            raise InputError(
                "the figure has no room for its axes beside titles, labels and legend; make it higher or wider"
            ) from None
    return figure


@contextmanager
def style() -> Iterator[None]:
    """The style of all figures: the user's settings of text, axes and legends, then those of `ps.style`.

    Other settings of the user have no effect, since places are measured; all are restored afterwards.
    """
    import matplotlib as mpl  # noqa: PLC0415 - slow to import

    chosen = current()
    check_colors(chosen)
    names = [name for name in mpl.rcParams if name.partition(".")[0] in _OF_USERS]
    mine = {name: mpl.rcParams[name] for name in names if mpl.rcParams[name] != mpl.rcParamsDefault[name]}
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(cast("Any", _STYLE | _sizes(mine.get("font.size")) | mine | _stated(chosen)))
        yield


# The groups of matplotlib's settings that are the user's, where they are set.
_OF_USERS = frozenset({"font", "axes", "xtick", "ytick", "legend", "grid", "hatch"})


def _stated(chosen: FigureStyle) -> dict[str, Any]:
    """The settings of a style."""
    family = [chosen.font, "DejaVu Sans"]  # the second has what the first lacks
    return ({"font.family": family} if chosen.font else {}) | _sizes(chosen.size)


def _sizes(size: float | None) -> dict[str, float]:
    """The sizes of all text in proportion to that of the font; none where it is not stated."""
    if size is None:
        return {}
    small = dict.fromkeys(("xtick.labelsize", "ytick.labelsize", "legend.fontsize"), size * 7 / 8)
    return {"font.size": size, "axes.labelsize": size, "axes.titlesize": size * 9 / 8, **small}


def _save(figure: "Figure", path: Path) -> None:
    suffix = path.suffix.lower()
    with files.atomic_write(path) as temporary:
        figure.savefig(temporary, format=suffix[1:], metadata=_METADATA[suffix])


def sheet(width: float, height: float) -> "Figure":
    """An empty figure, in inches, that can measure text and makes room for everything outside of axes."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415 - slow to import

    from pipesim.display.figures.shown import Shown  # noqa: PLC0415 - as above

    chosen = current()
    figure = Shown(figsize=(chosen.width or width, chosen.height or height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def settle(figure: "Figure") -> None:
    """Fix the layout, with axes on whole pixels, so that later drawing can measure pixels."""
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    size = figure.get_size_inches() * figure.dpi
    for axes in figure.axes:
        low, high = (np.rint(corner * size) / size for corner in axes.get_position().get_points())
        axes.set_position((*low, *(high - low)))


def time_axis(axes: "Axes", horizon: int) -> float:
    """Time from 0 to the horizon (ns) in a fitting unit; returns the ns of one unit."""
    unit, scale = time_unit(horizon)
    axes.set_xlim(0, max(1, horizon) / scale)
    axes.set_xlabel(f"time ({unit})")
    return scale


def figure_of(axes: "Axes") -> "Figure":
    """The figure of these axes."""
    return cast("Figure", axes.get_figure(root=True))


def pixels(axes: "Axes") -> tuple[int, int]:
    """Width and height of axes in pixels, after `settle`."""
    box = axes.get_window_extent()
    return max(1, round(box.width)), max(1, round(box.height))


def text_width(figure: "Figure", text: str, points: float) -> float:
    """The width of a text in pixels."""
    probe = figure.text(0, 0, text, fontsize=points)
    width = probe.get_window_extent().width
    probe.remove()
    return float(width)


def legend_above(figure: "Figure", handles: Sequence["Artist"], title: str = "") -> None:
    """A legend above everything, in the fewest lines that fit, of about equal length."""
    chosen = current()
    title = chosen.legend_title or title
    if not handles or chosen.legend == "none":
        return
    if chosen.legend == "right":
        figure.legend(handles=list(handles), loc="outside right upper", title=title or None)
        return
    count = len(handles)
    for columns in sorted({math.ceil(count / rows) for rows in range(1, count + 1)}, reverse=True):
        legend = figure.legend(handles=list(handles), loc="outside upper right", ncols=columns, title=title or None)
        if columns == 1 or legend.get_window_extent().width <= 0.98 * figure.bbox.width:
            return
        legend.remove()


def patch(color: str | Color, label: str, **more: Any) -> "Artist":  # noqa: ANN401 - matplotlib's own keywords
    """A box for a legend."""
    from matplotlib.patches import Patch  # noqa: PLC0415 - slow to import

    look: dict[str, Any] = {"edgecolor": "#444444", "linewidth": 0.4}
    return Patch(facecolor=color, label=label, **look | more)


def line(color: str | tuple[float, float, float, float], label: str, **more: Any) -> "Artist":  # noqa: ANN401 - matplotlib's own keywords
    """A line for a legend."""
    from matplotlib.lines import Line2D  # noqa: PLC0415 - slow to import

    return Line2D([], [], color=color, label=label, **more)


def boxes(left: Floats, right: Floats, bottom: Floats, top: Floats) -> Floats:
    """The corners of many boxes, for matplotlib's PolyCollection."""
    x = np.stack([left, left, right, right], axis=1)
    y = np.stack([bottom, top, top, bottom], axis=1)
    return np.stack([x, y], axis=2)


def plain(axes: "Axes") -> None:
    """Remove the lines above and to the right."""
    axes.spines[["top", "right"]].set_visible(False)


def rgb(color: str) -> Color:
    """Red, green, blue of "#RRGGBB", from 0 to 1."""
    red, green, blue = (int(color[i : i + 2], 16) / 255 for i in (1, 3, 5))
    return red, green, blue


def mixed(color: Color, other: Color, part: float) -> Color:
    """The mixture of two colours, with this part of the other."""
    red, green, blue = (a * (1 - part) + b * part for a, b in zip(color, other, strict=True))
    return red, green, blue


def lightness(color: Color) -> float:
    """The lightness of a colour in grey, from 0 to 1."""
    red, green, blue = color
    return 0.299 * red + 0.587 * green + 0.114 * blue


_TIMES = (("s", 1e9), ("ms", 1e6), ("µs", 1e3), ("ns", 1.0))
_SIZES = (("GiB", 2.0**30), ("MiB", 2.0**20), ("KiB", 2.0**10), ("bytes", 1.0))
_RATES = (("TB/s", 1e12), ("GB/s", 1e9), ("MB/s", 1e6), ("kB/s", 1e3), ("B/s", 1.0))


def time_unit(ns: float) -> tuple[str, float]:
    """The largest unit of which this time has at least one, and its nanoseconds."""
    return _unit(ns, _TIMES)


def duration(ns: float) -> str:
    """A time with its unit: 39.25 ms."""
    unit, scale = time_unit(ns)
    return f"{ns / scale:.4g} {unit}"


def size_unit(size: float) -> tuple[str, float]:
    """GiB, or a smaller unit if this is less than a tenth of it; and the bytes of the unit."""
    return _unit(10 * size, _SIZES)


def rate(bytes_per_s: float) -> str:
    """A bandwidth with its unit: 12.5 GB/s."""
    name, scale = _unit(bytes_per_s, _RATES)
    return f"{bytes_per_s / scale:.4g} {name}"


def _unit(value: float, units: Sequence[tuple[str, float]]) -> tuple[str, float]:
    return next(((name, scale) for name, scale in units if value >= scale), units[-1])


def shortened(name: str, most: int) -> str:
    """A name of at most so many characters, with its middle left out."""
    if len(name) <= most:
        return name
    head = (most - 1) // 2
    return f"{name[:head]}…{name[len(name) - (most - 1 - head) :]}"


def thinned(count: int, room: float, each: float) -> int:
    """The step (1, 2, 5, 10, 20, ...) between shown labels, of `count`, if there is room for room / each of them."""
    needed = count * each / max(room, 1e-9)
    steps = [digit * power for power in (1, 10, 100, 1_000, 10_000, 100_000) for digit in (1, 2, 5)]
    return next((step for step in steps if step >= needed), max(1, count))
