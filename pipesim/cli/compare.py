"""pipesim compare."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import click

from pipesim.base.errors import InputError
from pipesim.cli import failures, options
from pipesim.planners import PLANNERS
from pipesim.schedulers import COMPARED, SCHEDULERS

if TYPE_CHECKING:
    from pipesim.studies.comparison import Row


def _several(
    name: str, short: str, target: str, family: Mapping[str, str], default: str = "all"
) -> Callable[[options.Command], options.Command]:
    """An option that may be given several times, and means all members of a family when it is not."""
    complete = options.complete(lambda: family)
    return click.option(
        name,
        short,
        target,
        multiple=True,
        shell_complete=complete,
        help=f"May be given several times, or as 'all'; default: {default}.",
    )


@click.command()
@options.inputs
@_several("--planner", "-p", "planners", PLANNERS)
@_several("--scheduler", "-s", "schedulers", SCHEDULERS, ", ".join(COMPARED))
@options.sizes
@options.network
@click.option("--plot", "plot_file", type=click.Path(), help="Draw the iteration times as bars.")
@click.option("--gantt", type=click.Path(), help="Draw all Gantt charts on one time axis.")
@options.require_fit
@options.as_json
def compare(planners: tuple[str, ...], schedulers: tuple[str, ...], as_json: bool, **given: Any) -> None:
    """Several planners and schedulers on one trace and cluster.

    Where a trace has several microbatch sizes and a plan splits microbatches over replicas, another column shows the
    time under the scaling that was not asked for: with --scaling linear, what SPP assumes beside what was recorded.

    \b
    Examples:
      pipesim compare bert-large dgx1_v100
      pipesim compare gpt2-xl 'flat(8, bandwidth="1GB/s")' -p uniform -p balanced -s gpipe -m 32 --plot bars.png
    """
    from pipesim.display import text
    from pipesim.studies import comparison

    planners = tuple(PLANNERS) if "all" in planners else planners or tuple(PLANNERS)
    schedulers = tuple(SCHEDULERS) if "all" in schedulers else schedulers or COMPARED
    lowering, scenario = options.lowering_options(given)
    options.check_outputs(pictures=[given["plot_file"], given["gantt"]])
    found = comparison.compare(
        given["trace"],
        given["cluster"],
        planners,
        schedulers,
        given["microbatches"],
        given["microbatch_size"],
        lowering,
        scenario,
        given["engine"],
        given["scaling"],
        given["host_memory"],
    )
    with options.progress(found, len(planners) * len(schedulers), "comparing", quiet=as_json) as shown:
        rows = list(shown)
    if not any(row.timeline for row in rows):
        raise InputError("; ".join(dict.fromkeys(row.error for row in rows)))
    best = comparison.best(rows)
    index = next((index for index, row in enumerate(rows) if row is best), None)
    stars = comparison.starred(rows)
    data = [row.as_data() | {"starred": star} for row, star in zip(rows, stars, strict=True)]
    _draw(rows, best, given, quiet=as_json)
    if as_json:
        options.echo_json({"rows": data, "best": None if index is None else data[index]})
    else:
        click.echo(text.comparison(data, index))
    if given["require_fit"] and best is not None and best.timeline is not None:  # the best fits if any does
        failures.check_fit(best.timeline)


def _draw(rows: list["Row"], best: "Row | None", given: dict[str, Any], *, quiet: bool) -> None:
    """The pictures that were asked for, of what did not fail."""
    if not (given["plot_file"] or given["gantt"]):
        return
    from pipesim.display import figures

    done = [(row, row.timeline) for row in rows if row.timeline]
    if given["plot_file"]:
        figures.comparison([row.as_data() | {"starred": row is best} for row, _ in done], given["plot_file"])
        options.wrote(given["plot_file"], "comparison", quiet=quiet)
    if given["gantt"]:
        figures.gantt_grid({f"{row.planner}, {row.scheduler}": timeline for row, timeline in done}, given["gantt"])
        options.wrote(given["gantt"], "Gantt charts", quiet=quiet)
