"""Commands and options of pipesim 0.1 that have another name now: the old ones work for one release.

COMMANDS = {"old": "new"}        OPTIONS = {"command": {"--old": "--new"}}, by the present name of the command
"""

from collections.abc import Mapping, Sequence

import click

COMMANDS: Mapping[str, str] = {"replay": "rebuild"}
OPTIONS: Mapping[str, Mapping[str, str]] = {
    "schedule": {"-p": "--stages"},
    "gallery": {"-p": "--stages"},
    "whatif": {"--most": "--top"},
}


def with_present_names(
    words: Sequence[str],
    commands: Mapping[str, str] | None = None,
    options: Mapping[str, Mapping[str, str]] | None = None,
) -> list[str]:
    """The words of a command line under present names; what to write instead of an old one goes to standard error."""
    commands, options = COMMANDS if commands is None else commands, OPTIONS if options is None else options
    present = list(words)
    at = next((index for index, word in enumerate(present) if not word.startswith("-")), len(present))
    if at < len(present) and present[at] in commands:
        present[at] = _noted(present[at], commands[present[at]])
    renamed = options.get(present[at], {}) if at < len(present) else {}
    end = present.index("--") if "--" in present else len(present)
    for index in range(at + 1, end):
        name, equals, value = present[index].partition("=")
        if name in renamed:
            present[index] = f"{_noted(name, renamed[name])}{equals}{value}"
    return present


def _noted(old: str, new: str) -> str:
    """The new name, after a line that gives it."""
    click.echo(f"{old} is now {new}; the old name goes with the next release", err=True)
    return new
