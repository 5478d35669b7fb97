"""pipesim compare."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import click

from pipesim.base import lookup
from pipesim.base.errors import InputError
from pipesim.base.settings import setting
from pipesim.cli import failures, options, setting_options
from pipesim.cli.table_outputs import TableOutputs
from pipesim.planners import PLANNERS
from pipesim.schedulers import COMPARED, SCHEDULERS
from pipesim.studies.simulation import Simulation

if TYPE_CHECKING:
    from pipesim.core.timeline import Timeline
    from pipesim.studies.comparison import ComparisonRow

_SEVERAL = "May be given several times, or as 'all'; default: "


@dataclass(frozen=True, slots=True)
class Chosen:
    """The planners and schedulers that are compared."""

    planners: tuple[str, ...] = setting(
        (),
        str,
        f"{_SEVERAL}all, or megatron where the layout is given.",
        flag="--planner",
        short="p",
        family="planners",
        multiple=True,
        group="plan",
    )
    plans: tuple[str, ...] = setting(
        (),
        str,
        "A plan from a file, compared too; may be given several times.",
        flag="--plan",
        is_file=True,
        multiple=True,
        group="plan",
    )
    schedulers: tuple[str, ...] = setting(
        (),
        str,
        f"A name, module:function or a schedule file. {_SEVERAL}{', '.join(COMPARED)}.",
        flag="--scheduler",
        short="s",
        family="schedulers",
        multiple=True,
        group="schedule",
    )

    def names(self, simulation: Simulation) -> tuple[Sequence[str], Sequence[str]]:
        """Planners and schedulers by name."""
        from pipesim.studies import comparison

        named = tuple(PLANNERS) if "all" in self.planners else self.planners
        planners = (*named, *self.plans) or comparison.planners_for(simulation)
        schedulers = tuple(SCHEDULERS) if "all" in self.schedulers else self.schedulers or COMPARED
        return planners, schedulers


@dataclass(frozen=True, slots=True)
class Pictures:
    """What is drawn of a comparison."""

    plot_file: str | None = setting(None, str, "Draw the iteration times as bars.", flag="--plot", is_file=True)
    gantt: str | None = setting(None, str, "Draw all Gantt charts on one time axis.", is_file=True)
    labels: tuple[str, ...] = setting(
        (), str, "What a planner or scheduler is called in tables and pictures: 'my_planner:greedy=Ours'; may be given "
        "several times.", flag="--label", metavar="NAME=LABEL", multiple=True,
    )  # fmt: skip

    def names(self, compared: Sequence[str]) -> dict[str, str]:
        """The labels by name, of those that are compared."""
        found: dict[str, str] = {}
        for label in self.labels:
            name, equals, shown = label.rpartition("=")
            if not equals or not shown.strip():
                raise InputError(f"--label {label!r} found; NAME=LABEL was expected")
            if name not in compared:
                raise InputError(f"--label: {name!r} is not compared; {lookup.suggest(name, list(compared))}")
            found[name] = shown.strip()
        return found

    html: str | None = setting(None, str, "Write an interactive page, one .html file for any browser.", is_file=True)


@click.command(cls=setting_options.GroupedCommand)
@options.simulation(without=(*options.FAMILIES_COMPARED, *options.DRAWS))
@setting_options.options(Chosen, "chosen")
@setting_options.options(Pictures, "pictures")
@setting_options.options(TableOutputs, "tables")
@options.require_fit
@options.verbose
@options.as_json
def compare(
    simulation: Simulation,
    chosen: Chosen,
    pictures: Pictures,
    tables: TableOutputs,
    *,
    require_fit: bool,
    verbose: bool,
    as_json: bool,
) -> None:
    """Several planners and schedulers on one trace and cluster.

    The best in five lines, then all; with -v, how far each is above the certified bound for its kind.

    Where a trace has several microbatch sizes and a plan splits microbatches over replicas, another column shows the
    time under the scaling that was not asked for: with --scaling linear, what SPP assumes beside what was recorded.

    \b
    Examples:
      pipesim compare bert-large dgx1_v100
      pipesim compare bert-large 'flat(4, bandwidth="1GB/s")' -p spp --plan mine.json -s mine.csv -s one_f_one_b
      pipesim compare gpt2-xl 'flat(8, bandwidth="1GB/s")' -p uniform -p balanced -s gpipe -m 32 --plot bars.png
    """
    from pipesim.studies import comparison, early_compilation

    tables.check(as_json=as_json)
    options.check_outputs(pictures=[pictures.plot_file, pictures.gantt], pages=[pictures.html])
    early_compilation.compile_bounds()
    planners, schedulers = chosen.names(simulation)
    names = pictures.names([*planners, *schedulers])
    quiet = as_json or tables.is_alone
    found = comparison.compared(simulation, planners, schedulers)
    pairs = [f"{comparison.name_of(one)} with {comparison.name_of(other)}" for one in planners for other in schedulers]
    with options.named_progress(found, pairs, "comparing", quiet=quiet) as shown:
        rows = list(shown)
    if not any(row.timeline for row in rows):
        raise InputError("; ".join(dict.fromkeys(row.error for row in rows)))
    called = rows if as_json else _renamed(rows, names)
    _show(called, comparison.best(called), tables, verbose=verbose, as_json=as_json)
    best = comparison.best(rows)
    _draw(rows, best, pictures, names, quiet=quiet)
    if require_fit and best is not None and best.result is not None:  # the best fits if any does
        failures.check_fit(best.result)


def _renamed(rows: "list[ComparisonRow]", names: Mapping[str, str]) -> "list[ComparisonRow]":
    """The rows with what their planners and schedulers are called."""
    return [
        replace(row, planner=names.get(row.planner, row.planner), scheduler=names.get(row.scheduler, row.scheduler))
        for row in rows
    ]


def _show(
    rows: "list[ComparisonRow]", best: "ComparisonRow | None", tables: TableOutputs, *, verbose: bool, as_json: bool
) -> None:
    """The rows at once, then the bounds that they are measured against, which may take longer than all simulations."""
    from pipesim.display import text
    from pipesim.studies import comparison

    stars = comparison.starred(rows)
    data = [row.as_data(bound=False) | {"starred": star} for row, star in zip(rows, stars, strict=True)]
    columns = text.comparison_columns(data)
    order = tables.chosen(columns, data)
    rows, data = [rows[n] for n in order], [data[n] for n in order]
    if not (tables.is_alone or as_json):
        _print(rows, best, data)
    if not tables.is_alone:
        asked = rows if verbose or as_json else [row for row in (best,) if row is not None]
        bounded = _bounded(asked, quiet=as_json)
        if as_json:
            starred = [full | {"starred": row["starred"]} for full, row in zip(bounded, data, strict=True)]
            _print_json(rows, best, starred)
        else:
            on = options.terminal()
            shown = text.gaps(bounded, on) if verbose else "".join(text.nearest_bound(row, on) for row in bounded)
            click.echo(f"\n{shown}")
    tables.write(columns, data, quiet=as_json)


def _bounded(rows: "Sequence[ComparisonRow]", *, quiet: bool) -> list[dict[str, Any]]:
    """The data of rows with their certified bounds."""
    with options.named_progress(
        rows, [f"{row.planner} with {row.scheduler}" for row in rows], "bounding", quiet=quiet
    ) as shown:
        return [row.as_data() for row in shown]


def _print_json(rows: "list[ComparisonRow]", best: "ComparisonRow | None", bounded: list[dict[str, Any]]) -> None:
    index = next((index for index, row in enumerate(rows) if row is best), None)
    origin = next((row.result.origin for row in rows if row.result is not None), None)
    options.echo_json({"origin": origin, "rows": bounded, "best": None if index is None else bounded[index]})


def _print(rows: "list[ComparisonRow]", best: "ComparisonRow | None", data: list[dict[str, Any]]) -> None:
    """The best in a few lines, then one line for each row."""
    from pipesim.display import text

    on = options.terminal()
    if best is not None and best.result is not None:
        result, fits = best.result, best.result.fits_memory is not False
        of = f"{best.planner} with {best.scheduler}: the fastest{'' if fits else '; none fits'}"
        click.echo(f"{text.answer(result.as_data(), on, of)}\n\n{text.origin(result.origin, result.notes, on)}\n")
    index = next((index for index, row in enumerate(rows) if row is best), None)
    click.echo(text.comparison(data, index, on))


def _draw(
    rows: "list[ComparisonRow]",
    best: "ComparisonRow | None",
    pictures: Pictures,
    names: Mapping[str, str],
    *,
    quiet: bool,
) -> None:
    """The pictures that were asked for, of what did not fail."""
    if not (pictures.plot_file or pictures.gantt or pictures.html):
        return
    from pipesim.display import figures, pages
    from pipesim.display.figures.figure_style import FigureStyle, current

    done = [(row, row.timeline) for row in rows if row.timeline]

    def titles(chosen: "list[tuple[ComparisonRow, Timeline]]") -> list[str]:
        return [f"{row.planner}, {row.scheduler}" for row in _renamed([row for row, _ in chosen], names)]

    if pictures.plot_file:
        bounded = _bounded([row for row, _ in done], quiet=quiet)
        bars = [data | {"starred": row is best} for data, (row, _) in zip(bounded, done, strict=True)]
        with FigureStyle(names=names).over(current()):
            options.write_file(
                pictures.plot_file, "comparison", lambda path: figures.comparison(bars, path), quiet=quiet
            )
    charts = dict(zip(titles(done), (timeline for _, timeline in done), strict=True))
    options.write_file(pictures.gantt, "Gantt charts", lambda path: figures.gantt_grid(charts, path), quiet=quiet)
    ranked = sorted(done, key=lambda one: one[0] is not best)  # the best first, then in the order of the table
    timelines = dict(zip(titles(ranked), (timeline for _, timeline in ranked), strict=True))
    data = [row.as_data(bound=False) for row in _renamed(rows, names)]
    title = next(f"{r.setup.costs.model.name} on {r.setup.cluster.name}" for row, _ in done if (r := row.result))
    options.write_page(pictures.html, lambda: pages.comparison_page(data, timelines, title), quiet=quiet)
