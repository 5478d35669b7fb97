"""pipesim schedules."""

import click

from pipesim.cli import options


@click.command()
@options.as_json
def schedules(as_json: bool) -> None:
    """All schedulers, with one line each.

    \b
    Examples:
      pipesim schedules
      pipesim schedule zb_v --stages 4 --microbatches 8
    """
    from pipesim.display import text
    from pipesim.studies import equal_stages

    found = equal_stages.family()
    if as_json:
        options.echo_json(found)
    else:
        click.echo(text.facts(found.items()))
