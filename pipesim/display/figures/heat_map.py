"""Heat maps: numbers on a scale from pale to dark, or text with a colour and hatch for each value."""

from typing import TYPE_CHECKING, Any

import numpy as np

from pipesim.display.figures import looks, paper
from pipesim.display.figures.chart import Chart
from pipesim.display.figures.chart_axes import Scale, scale_of
from pipesim.display.figures.chart_data import Cell, Data, Panel, text_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.cm import ScalarMappable
    from matplotlib.figure import Figure

_FONT, _LEAST = 6.5, 4.5  # points of the text in a cell; left out below the least
_NOTHING = "xxxxx"  # the hatch of a cell without a value


class HeatMap:
    """The colours of the cells of all panels."""

    def __init__(self, chart: Chart, data: Data) -> None:
        self.chart, self.data = chart, data
        levels = [cell.level for cell in data.cells()]
        shown = {text_of(level) for level in levels}
        self.words = tuple(word for word in data.words if word in shown) if _has_text(levels) else ()
        self.looks = dict(zip(self.words, looks.bars(self.words), strict=True))
        self.whole = not self.words and all(isinstance(v, int) for cell in data.cells() for v in cell.values)
        self.scale = Scale("") if self.words else scale_of(chart.value, chart.value_label, levels)
        self.mappable = None if self.words else _mappable([v / self.scale.factor for v in levels], log="v" in chart.log)

    def draw(self, axes: "Axes", panel: Panel) -> None:
        """The cells of a panel."""
        cells = panel.cells.get("", {})
        axes.set_xlim(-0.5, len(self.data.x) - 0.5)
        axes.set_ylim(-0.5, len(self.data.y) - 0.5)
        for column, x in enumerate(self.data.x):
            for row, y in enumerate(self.data.y):
                axes.add_patch(_rectangle(column, row, **self._look(cells.get((x, y)))))

    def _look(self, cell: Cell | None) -> dict[str, Any]:
        if cell is None:
            return {"facecolor": "white", "hatch": _NOTHING, "edgecolor": "#C8C8C8", "linewidth": 0}
        if self.mappable is None:
            return {**self.looks[text_of(cell.level)], "edgecolor": "white", "linewidth": 0.6}
        return {"facecolor": self._color(cell), "edgecolor": "white", "linewidth": 0.6}

    def _color(self, cell: Cell) -> paper.Color:
        if self.mappable is None:
            return paper.rgb(self.looks[text_of(cell.level)]["facecolor"])
        red, green, blue, _ = self.mappable.to_rgba(np.array([cell.level / self.scale.factor]))[0].tolist()
        return red, green, blue

    def write(self, axes: "Axes", panel: Panel) -> None:
        """Write the label or number of each cell, all in one size that fits; nothing if none does."""
        texts = {place: self._text(cell) for place, cell in panel.cells.get("", {}).items()}
        every = [self._text(cell) for cell in self.data.cells()]
        size = _fitting(axes, every, (len(self.data.x), len(self.data.y)))
        for (x, y), text in texts.items():
            if size and text:
                cell = panel.cells[""][x, y]
                dark = paper.lightness(self._color(cell)) < 0.55
                written = axes.text(
                    self.data.x.index(x), self.data.y.index(y), text, ha="center", va="center", fontsize=size,
                    color="white" if dark else paper.INK,
                )  # fmt: skip
                if self.words:  # text on a hatch is unreadable
                    written.set_color(paper.INK)
                    written.set_bbox({"facecolor": "white", "edgecolor": "none", "pad": 0.8})

    def _text(self, cell: Cell) -> str:
        if self.chart.label:
            return cell.label
        return "" if self.words else _number(cell.level / self.scale.factor, whole=self.whole)

    def legend(self, figure: "Figure", grid: list["Axes"]) -> None:
        """A colour bar, or a box for each text."""
        handles = [
            paper.patch(label=word, color=look["facecolor"], hatch=look["hatch"]) for word, look in self.looks.items()
        ]
        if self.mappable is not None:
            bar = figure.colorbar(self.mappable, ax=grid, label=self.scale.label, fraction=0.06, pad=0.02, aspect=25)
            bar.outline.set_linewidth(0.5)
            _plain_ticks(bar, [cell.level / self.scale.factor for cell in self.data.cells()], log="v" in self.chart.log)
        if len(self.data.cells()) < len(self.data.panels) * len(self.data.x) * len(self.data.y):
            handles.append(paper.patch("white", self.chart.blank, hatch=_NOTHING, edgecolor="#C8C8C8"))
        paper.legend_above(figure, handles)


def _number(value: float, *, whole: bool) -> str:
    """A number with three significant digits, or two below 0.1."""
    if whole or abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:#.2g}" if abs(value) < 0.1 else f"{value:#.3g}".removesuffix(".")


def _has_text(levels: list[Any]) -> bool:
    return any(isinstance(level, str) for level in levels)


def _mappable(levels: list[float], *, log: bool) -> "ScalarMappable":
    from matplotlib import colormaps  # noqa: PLC0415 - slow to import
    from matplotlib.cm import ScalarMappable  # noqa: PLC0415
    from matplotlib.colors import LogNorm, Normalize  # noqa: PLC0415

    log = log and min(levels) > 0
    norm = (LogNorm if log else Normalize)(min(levels), max(levels))
    return ScalarMappable(norm, colormaps["Blues"])


def _plain_ticks(bar: Any, levels: list[float], *, log: bool) -> None:  # noqa: ANN401 - a colour bar
    """A few ticks with plain numbers."""
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator  # noqa: PLC0415 - slow to import

    close = max(levels) < 300 * max(min(levels), 1e-300)
    bar.locator = LogLocator(subs=(1.0, 2.0, 5.0) if close else (1.0,)) if log else MaxNLocator(6)
    bar.formatter = FuncFormatter(lambda value, _: f"{value:g}")
    bar.minorlocator = NullLocator()
    bar.update_ticks()


def _rectangle(column: int, row: int, **look: Any) -> Any:  # noqa: ANN401 - matplotlib's own keywords
    from matplotlib.patches import Rectangle  # noqa: PLC0415 - slow to import

    return Rectangle((column - 0.5, row - 0.5), 1, 1, **look)


def _fitting(axes: "Axes", texts: list[str], shape: tuple[int, int]) -> float:
    """The size in points at which every text fits its cell; 0 if there is none."""
    figure = paper.figure_of(axes)
    width, height = (side / count for side, count in zip(paper.pixels(axes), shape, strict=True))
    widest = max((paper.text_width(figure, text, _FONT) for text in texts if text), default=0.0)
    line = _FONT * figure.dpi / paper.POINTS
    size = _FONT * min(1.0, 0.9 * width / max(widest, 1e-9), 0.8 * height / line)
    return size if size >= _LEAST else 0.0
