"""pipesim rows."""

from dataclasses import dataclass
from pathlib import Path

import click

from pipesim.base.errors import InputError
from pipesim.base.settings import setting
from pipesim.cli import options, setting_options
from pipesim.cli.table_outputs import STANDARD_OUTPUT, TableOutputs

_SHOWN = 50  # rows that a terminal is shown; files and JSON have all


@dataclass(frozen=True, slots=True)
class Tables:
    """Files that rows are written to."""

    csv_file: str | None = setting(
        None, str, "Write the rows to this .csv; - is standard output.", flag="--csv", is_file=True
    )
    parquet_file: str | None = setting(None, str, "Write the rows to this .parquet.", flag="--parquet", is_file=True)


@click.command(cls=setting_options.GroupedCommand)
@click.argument("file", type=click.Path())
@click.option("--query", "-q", help="A condition, or a SELECT over the table 'rows' (SQLite).")
@setting_options.options(TableOutputs, "tables", without=("csv_file",))
@setting_options.options(Tables, "to")
@click.option("--store", type=click.Path(), help="Where the results are, if not where FILE puts them.")
@click.option("--unfinished", is_flag=True, help="With points that have no result yet.")
@click.option("--check", is_flag=True, help="Compare every row of the file with its digest, and report damage.")
@options.as_json
def rows(
    file: str,
    query: str | None,
    *,
    tables: TableOutputs,
    to: Tables,
    store: str | None,
    unfinished: bool,
    check: bool,
    as_json: bool,
) -> None:
    """The results of a sweep, in the order of its grid. FILE is the experiment, or its results (.sqlite).

    The same results make the same bytes, in whatever order and on whatever workers they were computed.

    \b
    Examples:
      pipesim rows experiment.toml --csv rows.csv
      pipesim rows experiment.toml --sort iteration_time_s --top 10 --markdown fastest.md
      pipesim rows experiment.toml --query 'gpus > 8 and fits_memory'
      pipesim rows experiment.toml --query 'select planner, avg(iteration_time_s) from rows group by planner'
      pipesim rows experiment.toml --query 'error is not null'
      pipesim rows experiment.sqlite --check
    """
    from pipesim.studies import sweep as sweeps

    tables.check(as_json=as_json)
    options.check_outputs(pictures=[])
    if check:
        _check(file, store, as_json=as_json)
        return
    sweeps.check_table(to.csv_file, ".csv")
    sweeps.check_table(to.parquet_file, ".parquet")
    from pipesim.display import text

    quiet = as_json or tables.is_alone or to.csv_file == STANDARD_OUTPUT
    with options.busy("reading", quiet=quiet):
        columns, every = sweeps.rows(file, query, store=store, unfinished=unfinished)
    shown = text.rows_columns(columns, every)
    records = [dict(zip(columns, row, strict=True)) for row in every] if tables.is_used else []
    order = tables.chosen(shown, records)
    found = [every[n] for n in order] if records else every
    if to.csv_file == STANDARD_OUTPUT and not tables.is_alone:
        click.echo(sweeps.csv_text(columns, found).encode(), nl=False)  # the bytes that a file would have
        return
    if as_json:
        options.echo_json({"rows": [dict(zip(columns, row, strict=True)) for row in found]})
    elif not (to.csv_file or to.parquet_file or tables.is_alone):
        click.echo(text.sweep_rows(columns, found, tables.top or _SHOWN, options.terminal()))
    if records:
        tables.write(shown, [records[n] for n in order], quiet=as_json)
    if tables.is_alone:
        return
    for path in filter(None, (to.csv_file, to.parquet_file)):
        options.write_file(
            path, f"{len(found):,} rows", lambda path: sweeps.write_table(Path(path), columns, found), quiet=as_json
        )


def _check(file: str, store: str | None, *, as_json: bool) -> None:
    """What a file holds, and what of it is damaged; an error if anything is."""
    from pipesim.display import text
    from pipesim.studies import sweep as sweeps

    path, damage = sweeps.checked(file, store)
    counts = {"results": damage.results, "experiments": damage.experiments, "points": damage.points}
    keys = [key.hex() if isinstance(key, bytes) else repr(key) for key in damage.keys]
    if as_json:
        damaged = {"structure": damage.structure, "results": keys, "experiments": [str(n) for n in damage.names]}
        options.echo_json({"file": str(path), **counts, "digests": not damage.undigested, "damaged": damaged})
    else:
        facts = [("file", str(path)), *((name, f"{count:,}") for name, count in counts.items())]
        if damage.undigested:
            facts.append(("digests", "none: written by an older version; the next sweep adds them"))
        facts.append(("damaged", damage.structure or f"{len(keys):,} results, {len(damage.names):,} experiments"))
        facts += [("damaged result", key) for key in keys[:_SHOWN]]
        facts += [("damaged experiment", str(name)) for name in damage.names]
        click.echo(text.facts(facts))
    if damage.found:
        raise InputError(f"{path}: is damaged; `pipesim sweep` computes again the rows whose digests differ")
