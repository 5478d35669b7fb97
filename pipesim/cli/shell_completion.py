"""Tab completion, installed for the shell of the user: pipesim --install-completion."""

import os
from pathlib import Path
from typing import NamedTuple

import click

from pipesim.base.errors import InputError

SHELLS = ("bash", "zsh", "fish")
_MARK = "# pipesim: tab completion"
# What completes needs no pipesim at the start of a shell: that may be in an environment that is activated later.
_FOR_ZSH = "(( $+functions[compdef] )) || { autoload -Uz compinit && compinit; }\n"


class Installed(NamedTuple):
    """The file that completes, the line that has it read and the file of that line, if any, and whether it is new."""

    script: Path
    line: str
    start: Path | None
    is_new: bool


def shell_of(environment_shell: str) -> str:
    """The shell of a path such as /usr/bin/zsh; refused if completion is not known for it."""
    name = Path(environment_shell).name
    if name not in SHELLS:
        found = f"the shell {name!r} found" if name else "no shell found (SHELL is not set)"
        raise InputError(f"{found}; write --install-completion {'|'.join(SHELLS)}")
    return name


def script_of(shell: str, command: click.Command) -> str:
    """The functions with which a shell asks pipesim for what may follow."""
    from click.shell_completion import get_completion_class

    complete = get_completion_class(shell)
    if complete is None:
        raise InputError(f"no completion is known for {shell}; write --install-completion {'|'.join(SHELLS)}")
    source = complete(command, {}, "pipesim", "_PIPESIM_COMPLETE").source()
    return f"{_FOR_ZSH if shell == 'zsh' else ''}{source.strip()}\n"


def script_file(shell: str, user_folder: Path) -> Path:
    """The file for them; fish reads its own."""
    if shell == "fish":
        config = Path(os.environ.get("XDG_CONFIG_HOME") or user_folder / ".config")
        return config / "fish" / "completions" / "pipesim.fish"
    data = Path(os.environ.get("XDG_DATA_HOME") or user_folder / ".local" / "share")
    return data / "pipesim" / f"completion.{shell}"


def start_file(shell: str, user_folder: Path) -> Path | None:
    """The file that a shell reads at its start; None for fish, which finds completions by their names."""
    if shell == "fish":
        return None
    folder = Path(os.environ.get("ZDOTDIR") or user_folder) if shell == "zsh" else user_folder
    return folder / f".{shell}rc"


def install(shell: str, user_folder: Path, command: click.Command) -> Installed:
    """Write the functions, and add the line that reads them to what the shell reads, unless it is there."""
    script, start = script_file(shell, user_folder), start_file(shell, user_folder)
    line = f'[ -r "{script}" ] && . "{script}"'
    try:
        script.parent.mkdir(parents=True, exist_ok=True)
        text = script_of(shell, command)
        is_new = not script.exists() or script.read_text(encoding="utf-8") != text
        script.write_text(text, encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{script}: cannot be written ({error})") from None
    if start is None:
        return Installed(script, "", None, is_new)
    try:
        before = start.read_text(encoding="utf-8") if start.exists() else ""
        if line in before:
            return Installed(script, line, start, is_new)
        gap = "\n" if before and not before.endswith("\n") else ""
        with start.open("a", encoding="utf-8") as file:  # appended: the file may be a link, and is the user's own
            file.write(f"{gap}{_MARK}\n{line}\n")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{start}: cannot be changed ({error}); add this line to it: {line}") from None
    return Installed(script, line, start, is_new=True)
