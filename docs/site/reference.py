"""The pages of the site that are generated from the code: the API reference and the command reference."""

import inspect
import re
from collections.abc import Iterator

import click

import pipesim
from pipesim.cli import cli

_HIDDEN = {"__version__"}
_VERBATIM = "\b"  # click's mark for a paragraph that keeps its lines


def api_page() -> str:
    """The public names of `import pipesim as ps`; mkdocstrings fills in what the docstrings have."""
    text = ["# API reference\n\nWhat `import pipesim as ps` offers; each name is imported when it is first used.\n"]
    public = {name: getattr(pipesim, name) for name in sorted(pipesim.__all__) if name not in _HIDDEN}
    for title, belongs in (("Functions", inspect.isroutine), ("Types", inspect.isclass), ("Modules", inspect.ismodule)):
        names = [name for name, value in public.items() if belongs(value)]
        if names:
            text.append(f"\n## {title}\n")
            text += [_entry(name, public[name]) for name in names]
    return "".join(text)


def _entry(name: str, value: object) -> str:
    path = value.__name__ if inspect.ismodule(value) else f"{value.__module__}.{value.__qualname__}"  # type: ignore[attr-defined]
    return f"\n::: {path}\n    options: {{heading: ps.{name}, toc_label: ps.{name}}}\n"


def commands_page() -> str:
    """Every command: usage, what it does, examples, options."""
    context = click.Context(cli, info_name="pipesim", max_content_width=110)
    parts = ["# Command reference\n\nAs `pipesim COMMAND --help` prints it.\n"]
    for name in cli.list_commands(context):
        command = cli.get_command(context, name)
        assert command is not None  # noqa: S101 - it is listed
        parts.append(f"\n## pipesim {name}\n\n{command_section(command, name, context)}")
    return "".join(parts)


def command_section(command: click.Command, name: str, parent: click.Context) -> str:
    """One command in Markdown."""
    context = click.Context(command, info_name=name, parent=parent, max_content_width=110)
    usage = " ".join(["pipesim", name, *command.collect_usage_pieces(context)])
    options = (one for one in command.get_params(context) if not isinstance(one, click.Argument))
    records = [record for one in options if (record := one.get_help_record(context))]
    rows = "".join(f"| {_cell(names, code=True)} | {_cell(text)} |\n" for names, text in records)
    table = f"\n| option | what it does |\n|---|---|\n{rows}"
    return f"```sh\n{usage}\n```\n\n{''.join(_paragraphs(command.help or ''))}{table}"


def _paragraphs(help_text: str) -> Iterator[str]:
    """A docstring's paragraphs; those that keep their lines become blocks."""
    for paragraph in re.split(r"\n\s*\n", inspect.cleandoc(help_text)):
        if not paragraph.startswith(_VERBATIM):
            yield f"{' '.join(paragraph.split())}\n\n"
            continue
        title, _, rest = paragraph.lstrip(f"{_VERBATIM}\n").partition("\n")
        block = inspect.cleandoc(f"\n{rest}") if title.endswith(":") else f"{title}\n{rest}"
        yield (f"{title}\n\n" if title.endswith(":") else "") + f"```text\n{block}\n```\n\n"


def _cell(text: str, *, code: bool = False) -> str:
    """Text in a table: without what Markdown would take for markup."""
    if code:
        return f"`{text}`".replace("|", r"\|")
    return re.sub(r"([|<>*_\[\]{}`])", r"\\\1", " ".join(text.split()))
