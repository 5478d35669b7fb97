"""What all pictures are drawn on: sizes, fonts, colours, legends, and how a picture becomes a file.

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

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Color = tuple[float, float, float]

WIDTH = 8.0  # inches: a page's width
DPI = 200
POINTS = 72.0  # in an inch

INK = "#222222"
PALE = "#9A9A9A"
IDLE = "#EFEFEF"
WARNING = "#D55E00"

# What stands in a file beside the picture: nothing that differs from one run to the next.
_METADATA: dict[str, dict[str, None]] = {
    ".png": {"Software": None},
    ".svg": {"Date": None},
    ".pdf": {"CreationDate": None},
}
_STYLE: dict[str, Any] = {
    "font.family": ["DejaVu Sans"],  # comes with matplotlib: the same on every machine
    "font.size": 8,
    "text.parse_math": False,  # a dollar in a device's name is a dollar
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
    "pdf.fonttype": 42,  # TrueType, which publishers ask for
    "svg.hashsalt": "pipesim",  # else element names are random
}


# What matplotlib says, and then draws axes of no size.
_NO_ROOM = "constrained_layout not applied"


def check_path(path: Path | str) -> Path:
    """Refuse a file name that is no picture's."""
    target = Path(path)
    if target.suffix.lower() not in _METADATA:
        raise InputError(
            f"{target}: cannot draw a {target.suffix or 'file without suffix'}; use {', '.join(_METADATA)}"
        )
    return target


def drawn(path: Path | str | None, draw: Callable[[], "Figure"]) -> "Figure":
    """What `draw` makes in the style of all pictures, written to `path` where one is given."""
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
                "the picture has no room for its axes beside titles, labels and legend; make it higher or wider"
            ) from None
    return figure


@contextmanager
def style() -> Iterator[None]:
    """The style of all pictures, whatever the user's own settings are; those hold again afterwards."""
    import matplotlib as mpl  # noqa: PLC0415 - slow to import

    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(cast("Any", _STYLE))
        yield


def _save(figure: "Figure", path: Path) -> None:
    suffix = path.suffix.lower()
    with files.atomic_write(path) as temporary:
        figure.savefig(temporary, format=suffix[1:], metadata=_METADATA[suffix])


def sheet(width: float, height: float) -> "Figure":
    """An empty figure, in inches, that can measure text and finds room for everything that is not inside axes."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415 - slow to import

    from pipesim.display.figures.shown import Shown  # noqa: PLC0415 - as above

    figure = Shown(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def settle(figure: "Figure") -> None:
    """Fix the layout, axes on whole pixels: what is drawn afterwards knows how many pixels it has."""
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
    """The figure that axes stand in."""
    return cast("Figure", axes.get_figure(root=True))


def pixels(axes: "Axes") -> tuple[int, int]:
    """Width and height of axes whose layout is settled."""
    box = axes.get_window_extent()
    return max(1, round(box.width)), max(1, round(box.height))


def text_width(figure: "Figure", text: str, points: float) -> float:
    """How many pixels wide a text is."""
    probe = figure.text(0, 0, text, fontsize=points)
    width = probe.get_window_extent().width
    probe.remove()
    return float(width)


def legend_above(figure: "Figure", handles: Sequence["Artist"]) -> None:
    """A legend above everything, in as few lines as fit the width, and these as long as each other."""
    if not handles:
        return
    count = len(handles)
    for columns in sorted({math.ceil(count / rows) for rows in range(1, count + 1)}, reverse=True):
        legend = figure.legend(handles=list(handles), loc="outside upper right", ncols=columns)
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
    """The corners of many boxes, as matplotlib's collections of polygons take them."""
    x = np.stack([left, left, right, right], axis=1)
    y = np.stack([bottom, top, top, bottom], axis=1)
    return np.stack([x, y], axis=2)


def plain(axes: "Axes") -> None:
    """No lines above and to the right."""
    axes.spines[["top", "right"]].set_visible(False)


def rgb(color: str) -> Color:
    """Red, green, blue of "#RRGGBB", from 0 to 1."""
    red, green, blue = (int(color[i : i + 2], 16) / 255 for i in (1, 3, 5))
    return red, green, blue


def mixed(color: Color, other: Color, part: float) -> Color:
    """A colour with this part of another in it."""
    red, green, blue = (a * (1 - part) + b * part for a, b in zip(color, other, strict=True))
    return red, green, blue


def lightness(color: Color) -> float:
    """How light a colour looks in grey, from 0 to 1."""
    red, green, blue = color
    return 0.299 * red + 0.587 * green + 0.114 * blue


_TIMES = (("s", 1e9), ("ms", 1e6), ("µs", 1e3), ("ns", 1.0))
_SIZES = (("GiB", 2.0**30), ("MiB", 2.0**20), ("KiB", 2.0**10), ("bytes", 1.0))
_RATES = (("TB/s", 1e12), ("GB/s", 1e9), ("MB/s", 1e6), ("kB/s", 1e3), ("B/s", 1.0))


def time_unit(ns: float) -> tuple[str, float]:
    """The largest unit of which this time has at least one, and its nanoseconds."""
    return _unit(ns, _TIMES)


def duration(ns: float) -> str:
    """A time as people write it: 39.25 ms."""
    unit, scale = time_unit(ns)
    return f"{ns / scale:.4g} {unit}"


def size_unit(size: float) -> tuple[str, float]:
    """GiB, or a smaller unit where this is less than a tenth of it; and the unit's bytes."""
    return _unit(10 * size, _SIZES)


def rate(bytes_per_s: float) -> str:
    """A bandwidth as people write it: 12.5 GB/s."""
    name, scale = _unit(bytes_per_s, _RATES)
    return f"{bytes_per_s / scale:.4g} {name}"


def _unit(value: float, units: Sequence[tuple[str, float]]) -> tuple[str, float]:
    return next(((name, scale) for name, scale in units if value >= scale), units[-1])


def shortened(name: str, most: int) -> str:
    """A name with its middle left out where it is longer than that."""
    if len(name) <= most:
        return name
    head = (most - 1) // 2
    return f"{name[:head]}…{name[len(name) - (most - 1 - head) :]}"


def thinned(count: int, room: float, each: float) -> int:
    """Every how many of `count` labels fit, where there is room for room / each: 1, 2, 5, 10, 20, ..."""
    needed = count * each / max(room, 1e-9)
    steps = [digit * power for power in (1, 10, 100, 1_000, 10_000, 100_000) for digit in (1, 2, 5)]
    return next((step for step in steps if step >= needed), max(1, count))
