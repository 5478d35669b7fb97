"""pipesim help."""

import click


@click.command()
@click.argument("command", required=False, metavar="[COMMAND]")
def help(command: str | None) -> None:  # noqa: A001 - the name of the command
    """The help of a command, as with --help after it; without one, all commands.

    \b
    Examples:
      pipesim help simulate
    """
    context = click.get_current_context().find_root()
    group = context.command
    if command is None or not isinstance(group, click.Group):
        click.echo(group.get_help(context))
        return
    name, found, _ = group.resolve_command(context, [command])
    if found is not None:
        with click.Context(found, info_name=name, parent=context) as inner:
            click.echo(found.get_help(inner))
