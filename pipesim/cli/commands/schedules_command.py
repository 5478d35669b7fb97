"""pipesim schedules."""

import click

from pipesim.cli import options, setting_options
from pipesim.cli.table_outputs import TableOutputs


@click.command(cls=setting_options.GroupedCommand)
@setting_options.options(TableOutputs, "tables")
@options.as_json
def schedules(tables: TableOutputs, as_json: bool) -> None:
    """All schedulers, with one line each.

    \b
    Examples:
      pipesim schedules
      pipesim schedule zb_v --stages 4 --microbatches 8
    """
    from pipesim.display import text
    from pipesim.studies import equal_stages

    tables.check(as_json=as_json)
    options.check_outputs(pictures=[])
    found = [{"scheduler": name, "about": about} for name, about in equal_stages.family().items()]
    rows = tables.records(text.schedulers_columns(), found)
    if as_json:
        options.echo_json({row["scheduler"]: row["about"] for row in rows})
    elif not tables.is_alone:
        click.echo(text.facts([(row["scheduler"], row["about"]) for row in rows], options.terminal()))
    tables.write(text.schedulers_columns(), rows, quiet=as_json)
