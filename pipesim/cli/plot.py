"""pipesim plot."""

from typing import Any

import click

from pipesim.cli import options

_KEYS = ("x", "y", "value", "series", "label", "pick", "baseline", "log", "x_label", "y_label", "value_label", "blank")
_MORE = ("series_label", "title", "limit", "limit_label", "ideal")


def _texts(command: options.Command) -> options.Command:
    """An option for each key of a chart that is text."""
    for key in reversed((*_KEYS, *_MORE)):
        command = click.option(f"--{key.replace('_', '-')}", key, help=_HELP.get(key))(command)
    return command


_HELP = {
    "x": "Column or formula.",
    "y": "Column or formula.",
    "value": "What the colours of a heat map are.",
    "series": "A line, bar or box for each of its values.",
    "label": "What stands in the cells of a heat map, or on bars.",
    "pick": "Of several rows at one place: 'least iteration_time_s'.",
    "baseline": "Values relative to this series.",
    "x_label": "In place of the column's name, as the other labels.",
    "blank": "What the legend of a heat map calls cells without a value.",
    "limit": "What y cannot pass, as a dashed line: bound_s.",
    "limit_label": "What the legend calls the limit.",
    "ideal": "Perfect scaling: rising as x, falling as 1 / x, or flat; default: a time falls, all else rises.",
    "log": "Logarithmic axes: x, y, v (value), or several of them.",
}


@click.command()
@click.argument("file", type=click.Path())
@click.argument("names", nargs=-1)
@click.option("--kind", help="line, scaling, slopes, bars, heat_map, box or cdf: a chart given here and not in FILE.")
@_texts
@click.option("--panels", multiple=True, help="Small multiples by this column; twice for rows and columns.")
@click.option("--where", multiple=True, help="Only rows for which this formula holds.")
@click.option("--statistic", help="What several rows at one place come to: mean, median, min or max.")
@click.option("--band", multiple=True, help="ci95, minmax, p5-p95, std, none, or twice for two columns.")
@click.option("--own-y", is_flag=True, help="Small multiples with a y axis each.")
@click.option("--width", help="single or double column of a page.")
@click.option("--height", type=float, help="Inches.")
@click.option("--format", "formats", multiple=True, help="pdf, svg or png; may be given several times.")
@click.option("--output", "-o", type=click.Path(), help="Write one chart to this file; else FOLDER/NAME.FORMAT.")
@click.option("--folder", type=click.Path(), help="Where charts are written; default: beside FILE.")
@click.option("--rows", "rows_file", type=click.Path(), help="Rows from this .csv or .parquet in place of results.")
@click.option("--store", type=click.Path(), help="Where the results are, if not where FILE says.")
@options.as_json
def plot(file: str, names: tuple[str, ...], as_json: bool, **given: Any) -> None:
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

    if given["output"]:
        options.check_outputs(pictures=[given["output"]])
    keys = (*_KEYS, *_MORE, "kind", "panels", "where", "statistic", "band", "own_y", "width", "height", "formats")
    chart = {key: list(value) if isinstance(value, tuple) else value for key in keys if (value := given[key])}
    drawn = sweeps.draw(
        file,
        names,
        chart,
        output=given["output"],
        folder=given["folder"],
        rows_file=given["rows_file"],
        store=given["store"],
    )
    if as_json:
        options.echo_json({"figures": [{"name": name, "file": str(path)} for name, path in drawn]})
        return
    for name, path in drawn:
        options.wrote(str(path), name)
