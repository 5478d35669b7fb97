"""pipesim tune."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import click

from pipesim.base.errors import within
from pipesim.base.settings import setting
from pipesim.cli import failures, options, setting_options
from pipesim.cli.table_outputs import TableOutputs
from pipesim.studies.simulation import Simulation
from pipesim.studies.tuning_options import TuningOptions, prices_of

if TYPE_CHECKING:
    from pipesim.display.pages import Page
    from pipesim.studies.tuning import TuningResult, Watch
    from pipesim.studies.tuning.space import LayoutChoice

# What is searched in another way, or given by the search.
_NOT_TAKEN = ("planner", "plan", "objective", "fit", "microbatches", "recompute_blocks")


@dataclass(frozen=True, slots=True)
class TuningOutput:
    """What is shown of a search."""

    to: str | None = setting(
        None, str, "Also show the best layout that a framework has as its arguments: megatron, megatron-bridge, "
        "torchtitan, torch or deepspeed.", metavar="FRAMEWORK",
    )  # fmt: skip
    plot_file: str | None = setting(
        None, str, "Draw time and memory of layouts, with the Pareto front; implies --front.", flag="--plot",
        is_file=True,
    )  # fmt: skip
    html: str | None = setting(None, str, "Write an interactive page, one .html file for any browser.", is_file=True)


_SHOWN = 10  # rows of the table where --top is not given
ON_PAGE = 3  # layouts whose timelines are on a page


@click.command(cls=setting_options.GroupedCommand)
@options.simulation(without=_NOT_TAKEN)
@setting_options.options(TuningOptions, "search")
@setting_options.options(TuningOutput, "shown")
@setting_options.options(TableOutputs, "tables")
@options.require_fit
@options.as_json
def tune(
    simulation: Simulation,
    search: TuningOptions,
    shown: TuningOutput,
    tables: TableOutputs,
    *,
    require_fit: bool,
    as_json: bool,
) -> None:
    """Search the best layout of a model on a cluster.

    Searched are tensor, pipeline and data widths, sequence parallelism, chunks, the size of microbatches, the schedule,
    recomputation, sharding and the cuts between layers; an option that is given is kept. Bounds and memory leave
    layouts out, the simulation with shared links decides between the others.

    \b
    Examples:
      pipesim tune llama3-70b 'hgx_h100(8)' --global-batch 1024 --sequence 8192 --framework megatron
      pipesim tune bert-large 'servers(2, 4, intra="25GB/s", inter="10Gb/s")' --global-batch 256 --plot front.png
      pipesim tune llama3-8b 'hgx_h100(2)' --gbs 256 --tp 2 --within 'microbatch_size <= 2' --store results.sqlite -j 2
      pipesim tune llama3-8b 'hgx_h100(1)' --global-batch 64 --to megatron
    """
    from pipesim.display import text
    from pipesim.studies import framework_layouts, results, tuning

    tables.check(as_json=as_json)
    options.check_outputs(pictures=[shown.plot_file], pages=[shown.html])
    quiet = as_json or tables.is_alone
    framework = None if shown.to is None else framework_layouts.check_framework(shown.to)
    with within("--price"):
        search = replace(search, price=prices_of(search.price), front=search.front or shown.plot_file is not None)
    given = setting_options.given_names()
    with _watched(search.budget, quiet=quiet) as watch:
        found = tuning.tuned(simulation, given, search, watch)
    made = None if framework is None else framework_layouts.best_of([row.simulation for row in found.rows], framework)
    data, on = found.as_data(), options.terminal()
    records = text.tuning_rows(data)
    rows = tables.records(text.tuning_columns(data), records)
    if as_json:
        kept = data if rows == records else data | {"rows": [data["rows"][row["place"] - 1] for row in rows]}
        options.echo_json(kept | ({} if made is None else {"framework": made.as_data()}))
    elif not tables.is_alone:
        click.echo(text.tuning(data, found.best.command, tables.top or _SHOWN, on, rows))
        click.echo(f"\n{text.origin(found.origin, found.notes, on)}")
        if made is not None:
            click.echo(f"\n{text.converted(made.text, made.notes, made.exact_s, made.rounded_s, made.files)}")
    tables.write(text.tuning_columns(data), rows, quiet=as_json)
    if shown.plot_file:
        from pipesim.display import figures

        options.write_file(
            shown.plot_file, "time and memory", lambda path: figures.front(data["rows"], path), quiet=quiet
        )
    options.write_page(shown.html, lambda: _page(found), quiet=quiet)
    if require_fit and not found.best.metrics["fits_memory"]:  # not known, as no layout is here that does not fit
        failures.check_fit(results.simulate(found.best.simulation))


@contextmanager
def _watched(budget: int, *, quiet: bool) -> "Iterator[Watch]":
    """What the search is to call; before its first call bounds are computed, after it there is a bar."""
    with ExitStack() as shown:
        end = shown.enter_context(options.busy("bounding all layouts", quiet=quiet))
        steps: list[Callable[..., None]] = []
        done = 0

        def watch(simulated: int, _: int) -> None:
            nonlocal done
            if not steps:
                end()
                steps.append(shown.enter_context(options.bar(budget, "tuning", quiet=quiet, most=True)))
            steps[0](simulated - done, f"{simulated} simulated")
            done = simulated

        yield watch
        if steps and done < budget:
            steps[0](0, f"{done} simulated; all others are ruled out")


def _page(found: "TuningResult") -> "Page":
    """The table, and the timelines of the best layouts."""
    from pipesim.display import pages
    from pipesim.studies import results

    made = [results.simulate(row.simulation) for row in found.rows[:ON_PAGE]]
    names = [f"{n}: {_named(row.candidate)}" for n, row in enumerate(found.rows[:ON_PAGE], 1)]
    timelines = {name: result.timeline for name, result in zip(names, made, strict=True)}
    setup = made[0].setup
    return pages.tuning_page(found.as_data(), timelines, f"layouts of {setup.costs.model.name} on {setup.cluster.name}")


def _named(one: "LayoutChoice") -> str:
    sizes = one.planner or f"PP {one.pipeline}, DP {one.data}"
    return f"{one.scheduler}, TP {one.widths or one.tensor}, {sizes}"
