"""pipesim compare."""

from typing import TYPE_CHECKING, Any

import click

from pipesim.cli import options
from pipesim.errors import InputError
from pipesim.planners import PLANNERS
from pipesim.schedulers import SCHEDULERS

if TYPE_CHECKING:
    from pipesim.experiment import Row


@click.command()
@options.inputs
@click.option(
    "--planner",
    "-p",
    "planners",
    multiple=True,
    shell_complete=options.complete(lambda: PLANNERS),
    help="May be given several times; default: all.",
)
@click.option(
    "--scheduler",
    "-s",
    "schedulers",
    multiple=True,
    shell_complete=options.complete(lambda: SCHEDULERS),
    help="May be given several times; default: all.",
)
@options.sizes
@options.network
@click.option("--plot", "plot_file", type=click.Path(), help="Draw the iteration times as bars.")
@click.option("--gantt", type=click.Path(), help="Draw all Gantt charts on one time axis.")
@options.as_json
def compare(planners: tuple[str, ...], schedulers: tuple[str, ...], as_json: bool, **given: Any) -> None:
    """Several planners and schedulers on one trace and cluster.

    \b
    Examples:
      pipesim compare bert-large dgx1_v100
      pipesim compare gpt2-xl 'flat(8, bandwidth="1GB/s")' -p uniform -p balanced -s gpipe -m 32 --plot bars.png
    """
    from pipesim import experiment, report

    planners, schedulers = planners or tuple(PLANNERS), schedulers or tuple(SCHEDULERS)
    lowering, scenario = options.lowering_options(given)
    found = experiment.compare(
        given["trace"],
        given["cluster"],
        planners,
        schedulers,
        given["microbatches"],
        given["microbatch_size"],
        lowering,
        scenario,
        given["engine"],
    )
    with options.progress(found, len(planners) * len(schedulers), "comparing", quiet=as_json) as shown:
        rows = list(shown)
    if not any(row.timeline for row in rows):
        raise InputError("; ".join(dict.fromkeys(row.error for row in rows)))
    best = experiment.best(rows)
    data, starred = [row.as_data() for row in rows], best.as_data() if best else None
    _draw(rows, best, given, quiet=as_json)
    if as_json:
        options.echo_json({"rows": data, "best": starred})
    else:
        click.echo(report.comparison(data, starred))


def _draw(rows: list["Row"], best: "Row | None", given: dict[str, Any], *, quiet: bool) -> None:
    """The pictures that were asked for, of what did not fail."""
    if not (given["plot_file"] or given["gantt"]):
        return
    from pipesim import plot

    done = [(row, row.timeline) for row in rows if row.timeline]
    if given["plot_file"]:
        plot.comparison([row.as_data() | {"starred": row is best} for row, _ in done], given["plot_file"])
        options.wrote(given["plot_file"], "comparison", quiet=quiet)
    if given["gantt"]:
        plot.gantt_grid({f"{row.planner}, {row.scheduler}": timeline for row, timeline in done}, given["gantt"])
        options.wrote(given["gantt"], "Gantt charts", quiet=quiet)
