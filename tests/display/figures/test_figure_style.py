"""What users choose of figures."""

import pytest
from matplotlib.colors import to_hex

from helpers.pictures import straight
from pipesim.base.errors import InputError
from pipesim.display import figures
from pipesim.display.figures.chart import Chart
from pipesim.display.figures.figure_style import FigureStyle, current

ROWS = [
    {"planner": planner, "scheduler": "gpipe", "iteration_time_s": seconds}
    for planner, seconds in (("spp", 1.0), ("my_planner:greedy", 2.0), ("balanced", 3.0))
]
COLUMNS = {"gpus": [1, 2, 1, 2], "planner": ["spp", "spp", "mine", "mine"], "time": [4.0, 2.0, 3.0, 1.5]}


def texts(axis):
    return [tick.get_text() for tick in axis.get_ticklabels()]


def test_names_order_colours_and_size_of_a_comparison_are_those_of_the_style():
    style = FigureStyle(
        names={"my_planner:greedy": "Ours", "gpipe": "GPipe"},
        order=["Ours", "balanced"],
        colors={"GPipe": "#123456"},
        hatches={"gpipe": "xx"},
        legend_title="schedule",
        width="single",
        height=2.5,
        font="DejaVu Serif",
        size=10,
    )
    with style:
        figure = figures.comparison(ROWS)
    (axes,) = figure.axes
    assert texts(axes.xaxis) == ["Ours", "balanced", "spp"]
    assert to_hex(axes.patches[0].get_facecolor()) == "#123456"
    assert axes.patches[0].get_hatch() == "xx"
    assert figure.legends[0].get_title().get_text() == "schedule"
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["GPipe"]
    assert tuple(figure.get_size_inches()) == (3.4, 2.5)
    assert axes.yaxis.label.get_fontfamily()[0] == "DejaVu Serif"
    assert axes.yaxis.label.get_fontsize() == 10
    assert current() == FigureStyle(), "it ends with its block"


def test_a_style_that_is_used_holds_until_another_is():
    FigureStyle(legend="none").use()
    assert not figures.comparison(ROWS).legends
    FigureStyle().use()
    assert figures.comparison(ROWS).legends


def test_names_of_a_style_that_nothing_has_are_found_and_what_they_probably_mean():
    """An order of ["dappel", ...] changed nothing, and nobody said why."""
    style = FigureStyle(
        order=("dappel", "PipeDream", "gpipe"), colors={"Ours": "red", "oursx": "blue"}, names={"spp": "Ours"}
    )
    assert style.mistyped(["dapple", "pipedream", "spp"]) == {"dappel": "dapple", "PipeDream": "pipedream"}


@pytest.mark.parametrize("place", ["above", "right"])
def test_the_legend_is_where_the_style_has_it(place):
    with FigureStyle(legend=place):
        figure = figures.gantt(straight(2, 2))
    assert figure.legends


def test_a_chart_has_the_style_of_its_table_over_that_of_the_block():
    chart = Chart(
        kind="line", x="gpus", y="time", series="planner", style={"names": {"mine": "Ours"}, "order": ["mine"]}
    )
    with FigureStyle(legend_title="planner", names={"mine": "not this"}):
        (legend,) = figures.chart(COLUMNS, chart).legends
    assert [text.get_text() for text in legend.get_texts()] == ["Ours", "spp"]
    assert legend.get_title().get_text() == "planner"


def test_series_that_are_numbers_have_the_name_of_their_column_over_the_legend():
    rows = COLUMNS | {"planner": [1, 1, 4, 4]}
    (legend,) = figures.chart(
        rows, Chart(kind="line", x="gpus", y="time", series="planner", series_label="Gb/s")
    ).legends
    assert legend.get_title().get_text() == "Gb/s"
    assert [text.get_text() for text in legend.get_texts()] == ["1", "4"]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"colour": {}}, "colour: unknown key; did you mean 'colors'"),
        ({"legend": "left"}, "legend: 'left' found; one of above, right, none"),
        ({"hatches": {"Ours": "/q"}}, "hatches: Ours: 'q' found; characters of"),
        ({"width": "triple"}, "width: 'triple' found; 0.5 to 40, single or double"),
        ({"height": -1}, "height: -1 found"),
        ({"size": "big"}, "size: 'big' found"),
        ({"names": ["a"]}, r"names: \['a'\] found; names and values were expected"),
        (3, "3 found; a table was expected"),
    ],
)
def test_what_is_no_style_is_refused(given, message):
    with pytest.raises(InputError, match=message):
        FigureStyle.of(given)


@pytest.mark.parametrize(
    ("style", "message"),
    [
        (FigureStyle(colors={"spp": "blueish"}), "colors: spp: 'blueish' found; a colour"),
        (FigureStyle(font="Nonesuch Sans"), "font: 'Nonesuch Sans' is not installed"),
    ],
)
def test_colours_and_fonts_that_are_not_there_are_refused_when_something_is_drawn(style, message):
    with style, pytest.raises(InputError, match=message):
        figures.comparison(ROWS)
