"""pipesim plot."""

from dataclasses import dataclass
from typing import Any

import click

from pipesim.base.settings import setting, settings_of
from pipesim.cli import options, setting_options


@dataclass(frozen=True, slots=True)
class ChartOptions:
    """A chart that is given by options, or what replaces keys of the charts of a file."""

    kind: str | None = setting(
        None, str, "line, scaling, slopes, bars, heat_map, box or cdf: a chart given here and not in FILE."
    )
    x: str | None = setting(None, str, "Column or formula.")
    y: str | None = setting(None, str, "Column or formula.")
    value: str | None = setting(None, str, "What the colours of a heat map are.")
    series: str | None = setting(None, str, "A line, bar or box for each of its values.")
    label: str | None = setting(None, str, "The text in the cells of a heat map, or on bars.")
    pick: str | None = setting(None, str, "Of several rows at one place: 'least iteration_time_s'.")
    baseline: str | None = setting(None, str, "Values relative to this series.")
    log: str | None = setting(None, str, "Logarithmic axes: x, y, v (value), or several of them.")
    x_label: str | None = setting(None, str, "In place of the column's name, as the other labels.")
    y_label: str | None = setting(None, str, "Label of the y axis.")
    value_label: str | None = setting(None, str, "Label of the colours of a heat map.")
    blank: str | None = setting(None, str, "The legend's name of cells of a heat map without a value.")
    series_label: str | None = setting(None, str, "Title of the legend.")
    title: str | None = setting(None, str, "Title of the figure.")
    limit: str | None = setting(None, str, "What y cannot pass, as a dashed line: bound_s.")
    limit_label: str | None = setting(None, str, "The legend's name of the limit.")
    ideal: str | None = setting(
        None, str, "Perfect scaling: rising as x, falling as 1 / x, or flat; default: a time falls, all else rises."
    )
    panels: tuple[str, ...] = setting(
        (), str, "Small multiples by this column; twice for rows and columns.", multiple=True
    )
    panel_title: str | None = setting(None, str, "What is above each of them, with its values: '{rate} Gb/s'.")
    where: tuple[str, ...] = setting((), str, "Only rows for which this formula holds.", multiple=True)
    statistic: str | None = setting(None, str, "How several rows at one place become one: mean, median, min or max.")
    band: tuple[str, ...] = setting(
        (), str, "ci95, minmax, p5-p95, std, none, or twice for two columns.", multiple=True
    )
    own_y: bool = setting(False, bool, "Small multiples with a y axis each.")
    width: str | None = setting(None, str, "single or double column of a page.")
    height: float | None = setting(None, float, "Inches.")
    formats: tuple[str, ...] = setting(
        (), str, "pdf, svg or png; may be given several times.", flag="--format", multiple=True
    )

    def given(self) -> dict[str, Any]:
        """The keys of a chart that were given."""
        values = ((name, getattr(self, name)) for name in settings_of(ChartOptions))
        return {name: list(value) if isinstance(value, tuple) else value for name, value in values if value}


@dataclass(frozen=True, slots=True)
class ChartFiles:
    """Where rows come from, and where charts go."""

    output: str | None = setting(
        None, str, "Write one chart to this file; else FOLDER/NAME.FORMAT.", short="o", is_file=True
    )
    folder: str | None = setting(None, str, "Where charts are written; default: beside FILE.", is_file=True)
    rows_file: str | None = setting(
        None, str, "Rows from this .csv or .parquet in place of results.", flag="--rows", is_file=True
    )
    store: str | None = setting(None, str, "Where the results are, if not where FILE puts them.", is_file=True)


@click.command(cls=setting_options.GroupedCommand)
@click.argument("file", type=click.Path())
@click.argument("names", nargs=-1)
@setting_options.options(ChartOptions, "chart", group="chart")
@setting_options.options(ChartFiles, "places")
@options.as_json
def plot(file: str, names: tuple[str, ...], chart: ChartOptions, places: ChartFiles, as_json: bool) -> None:
    """Draw the charts of a sweep: those of its [plot] table, or one given by options.

    FILE is the experiment, its results (.sqlite), or with --kind also a table (.csv, .parquet).

    \b
    Examples:
      pipesim plot experiment.toml
      pipesim plot experiment.toml time --format png
      pipesim plot experiment.toml --kind line --x gpus --y iteration_time_s --series planner -o time.pdf
      pipesim plot rows.csv --kind heat_map --x rate --y gpus --value iteration_time_s --statistic min -o best.png
    """
    from pipesim.studies import sweep as sweeps

    if places.output:
        options.check_outputs(pictures=[places.output])
    with options.busy("drawing", quiet=as_json):
        drawn = sweeps.draw(
            file,
            names,
            chart.given(),
            output=places.output,
            folder=places.folder,
            rows_file=places.rows_file,
            store=places.store,
            tell=lambda text: click.echo(f"note: {text}", err=True),
        )
    if as_json:
        options.echo_json({"figures": [{"name": name, "file": str(path)} for name, path in drawn]})
        return
    for name, path in drawn:
        options.wrote(str(path), name)
