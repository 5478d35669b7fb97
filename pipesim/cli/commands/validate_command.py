"""pipesim validate."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pipesim.base.settings import setting, settings_of
from pipesim.cli import options, setting_options
from pipesim.cli.table_outputs import TableOutputs
from pipesim.studies.simulation import Simulation

if TYPE_CHECKING:
    from pipesim.studies.validation import OwnReport


@dataclass(frozen=True, slots=True)
class LiveOptions:
    """What is run by real processes here."""

    live_folder: str | None = setting(
        None, str, "Record a model and links, run pipelines of two PyTorch processes, and keep all in this folder.",
        flag="--live", group="live", is_file=True,
    )  # fmt: skip
    factory: str | None = setting(
        None, str, "The model, as 'pipesim record' takes it, whose last layer is the loss; default: a small GPT.",
        group="live",
    )  # fmt: skip
    patience: float | None = setting(
        None, float, "Seconds to wait, each time, for a quiet machine; default: 60.", group="live"
    )


_TABLES = tuple(name for name in settings_of(TableOutputs) if name != "markdown_file")
_SHOWN = 24  # rows of a user's runs where --top is not given
_OF_LIVE = ("factory", "patience", "force")


@click.command(cls=setting_options.GroupedCommand)
@click.argument("runs", required=False, type=click.Path(), metavar="[RUNS]")
@options.simulation(without=options.DRAWS, complete=False)
@click.option("--markdown", is_flag=True, help="Print the page of the documentation, in place of text.")
@setting_options.options(TableOutputs, "tables", without=("markdown_file",))
@setting_options.options(LiveOptions, "live")
@options.force
@options.as_json
def validate(
    runs: str | None,
    *,
    simulation: Simulation,
    markdown: bool,
    tables: TableOutputs,
    live: LiveOptions,
    force: bool,
    as_json: bool,
) -> None:
    """How far to trust it: measured runs beside their simulations, and your own.

    Without RUNS, the measured runs that come with pipesim: recorded steps replayed, steps held out, other schedules,
    other configurations, live processes; and how many of them are in the intervals that results state.

    RUNS is a recorded run as 'pipesim rebuild' reads it: its steps are replayed with their own operations, its second
    half is predicted from its first, and TRACE on CLUSTER is simulated beside its steps. Or it is a CSV file with a
    line for each measured iteration: the column iteration_s, and fields of a simulation (docs/simulation.md), for
    which TRACE, CLUSTER and options count where a line has none.

    --live records the layers of a small GPT and the links between two processes on this machine, then runs PyTorch's
    own schedules on them in 22 configurations, and compares. It waits for a quiet machine; what was disturbed is not
    measured, and where nothing was, nothing is written.

    \b
    Examples:
      pipesim validate
      pipesim validate operations.parquet
      pipesim validate operations.parquet llama3-70b 'hgx_h100(8)' --tp 8 --pp 4 --microbatches 16
      pipesim validate runs.csv --json
      pipesim validate --sort -worst --top 5
      pipesim validate --live live-runs
    """
    from pipesim.studies import validation

    tables.check(as_json=as_json)
    options.check_outputs(pictures=[])
    if as_json and markdown:
        raise click.UsageError("--json and --markdown found; one of them was expected", click.get_current_context())
    options.check_given("without --live", is_there=live.live_folder is not None, without=_OF_LIVE)
    if live.live_folder is not None:
        _run_live(live, tables, force=force, as_json=as_json)
        return
    if runs is None:
        given = setting_options.given_names() - {"as_json", "markdown", *_TABLES}
        options.check_given("without RUNS", is_there=False, without=tuple(sorted(given)))
        options.check_given("beside --markdown", is_there=not markdown, without=_TABLES)
        _show_report(validation.trust_report().as_data(), tables, markdown=markdown, as_json=as_json)
        return
    options.check_given("beside RUNS", is_there=not markdown, without=("markdown",))
    _show_own(_of_runs(runs, simulation, quiet=as_json or tables.is_alone).as_data(), tables, as_json=as_json)


def _show_report(report: dict[str, Any], tables: TableOutputs, *, markdown: bool, as_json: bool) -> None:
    from pipesim.display import text

    if markdown:
        click.echo(text.trust_page(report).rstrip())
        return
    records = text.trust_rows(report)
    rows = tables.records(text.trust_columns(), records)
    if as_json:
        options.echo_json(report if rows == records else report | {"rows": rows})
    elif not tables.is_alone:
        click.echo(text.trust_report(report, options.terminal(), None if rows == records else rows))
    tables.write(text.trust_columns(), rows, quiet=as_json)


def _show_own(data: dict[str, Any], tables: TableOutputs, *, as_json: bool) -> None:
    from pipesim.display import text

    rows = tables.records(text.own_columns(), data["rows"])
    if as_json:
        options.echo_json(data | {"rows": rows})
    elif not tables.is_alone:
        click.echo(text.own_report(data, tables.top or _SHOWN, options.terminal(), rows))
    tables.write(text.own_columns(), rows, quiet=as_json)


def _of_runs(runs: str, simulation: Simulation, *, quiet: bool) -> "OwnReport":
    from pipesim.studies import validation
    from pipesim.studies.measured_table import table_text

    has_inputs = simulation.trace is not None or simulation.architecture is not None
    is_table = table_text(Path(runs)) is not None
    if not is_table and not has_inputs:
        kept = {"runs", "as_json", "engine", *_TABLES}
        given = tuple(name for name in setting_options.given_names() if name not in kept)
        options.check_given("without TRACE and CLUSTER", is_there=False, without=given)
    with options.busy("simulating", quiet=quiet):
        return validation.validated([Path(runs)], simulation if has_inputs or is_table else None)


def _run_live(live: LiveOptions, tables: TableOutputs, *, force: bool, as_json: bool) -> None:
    """Record, run, keep, and print how far simulations are from what was measured."""
    from pipesim.recorders import allocator
    from pipesim.recorders.torch_extra import require_torch
    from pipesim.studies import live_validation

    others = setting_options.given_names() - {"live_folder", "as_json", *_OF_LIVE, *_TABLES}
    options.check_given("beside --live", is_there=False, without=tuple(sorted(others)))
    options.check_free(live.live_folder or "", force=force)
    allocator.keep_memory()  # before PyTorch allocates anything
    require_torch("running live pipelines")
    with options.busy("recording and running", quiet=as_json):
        found = live_validation.live_runs(
            live.factory or live_validation.FACTORY, 60.0 if live.patience is None else live.patience
        )
    report = live_validation.keep(found, Path(live.live_folder or ""))
    data = report.as_data() | {"not_measured": found.not_measured}
    _show_own(data, tables, as_json=as_json)
    if as_json or tables.is_alone:
        return
    if found.not_measured:
        click.echo(f"\nnot measured, disturbed: {', '.join(found.not_measured)}")
    options.wrote(live.live_folder or "", "live runs")
