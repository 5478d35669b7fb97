"""pipesim validate."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from pipesim.cli import options, setting_options
from pipesim.studies.simulation import Simulation

if TYPE_CHECKING:
    from pipesim.studies.validation import OwnReport


@click.command(cls=setting_options.GroupedCommand)
@click.argument("runs", required=False, type=click.Path(), metavar="[RUNS]")
@options.simulation(without=options.DRAWS, complete=False)
@click.option("--markdown", is_flag=True, help="Print the page of the documentation, in place of text.")
@options.as_json
def validate(runs: str | None, *, simulation: Simulation, markdown: bool, as_json: bool) -> None:
    """How far to trust it: measured runs beside their simulations, and your own.

    Without RUNS, the measured runs that come with pipesim: recorded steps replayed, steps held out, other schedules,
    other configurations, live processes; and how many of them are in the intervals that results state.

    RUNS is a recorded run as 'pipesim rebuild' reads it: its steps are replayed with their own operations, its second
    half is predicted from its first, and TRACE on CLUSTER is simulated beside its steps. Or it is a CSV file with a
    line for each measured iteration: the column iteration_s, and fields of a simulation (docs/simulation.md), for
    which TRACE, CLUSTER and options count where a line has none.

    \b
    Examples:
      pipesim validate
      pipesim validate operations.parquet
      pipesim validate operations.parquet llama3-70b 'hgx_h100(8)' --tp 8 --pp 4 --microbatches 16
      pipesim validate runs.csv --json
    """
    from pipesim.display import text
    from pipesim.studies import validation

    if as_json and markdown:
        raise click.UsageError("--json and --markdown found; one of them was expected", click.get_current_context())
    if runs is None:
        given = setting_options.given_names() - {"as_json", "markdown"}
        options.check_given("without RUNS", is_there=False, without=tuple(sorted(given)))
        report = validation.trust_report().as_data()
        if as_json:
            options.echo_json(report)
        else:
            click.echo(text.trust_page(report).rstrip() if markdown else text.trust_report(report))
        return
    options.check_given("beside RUNS", is_there=not markdown, without=("markdown",))
    found = _of_runs(runs, simulation, quiet=as_json)
    if as_json:
        options.echo_json(found.as_data())
    else:
        click.echo(text.own_report(found.as_data()))


def _of_runs(runs: str, simulation: Simulation, *, quiet: bool) -> "OwnReport":
    from pipesim.studies import validation
    from pipesim.studies.measured_table import table_text

    has_inputs = simulation.trace is not None or simulation.architecture is not None
    is_table = table_text(Path(runs)) is not None
    if not is_table and not has_inputs:
        given = tuple(name for name in setting_options.given_names() if name not in {"runs", "as_json", "engine"})
        options.check_given("without TRACE and CLUSTER", is_there=False, without=given)
    with options.busy("simulating", quiet=quiet):
        return validation.validated([Path(runs)], simulation if has_inputs or is_table else None)
