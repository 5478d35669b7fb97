"""Tab completion, installed for the shell of the user: pipesim --install-completion."""

import os
from pathlib import Path

from pipesim.base.errors import InputError

SHELLS = ("bash", "zsh", "fish")
_MARK = "# pipesim: tab completion"


def shell_of(environment_shell: str) -> str:
    """The shell of a path such as /usr/bin/zsh; refused if completion is not known for it."""
    name = Path(environment_shell).name
    if name not in SHELLS:
        found = f"the shell {name!r} found" if name else "no shell found (SHELL is not set)"
        raise InputError(f"{found}; write --install-completion {'|'.join(SHELLS)}")
    return name


def line_of(shell: str) -> str:
    """What a shell reads at its start for the completion of pipesim."""
    if shell == "fish":
        return "env _PIPESIM_COMPLETE=fish_source pipesim | source"
    return f'eval "$(_PIPESIM_COMPLETE={shell}_source pipesim)"'


def start_file(shell: str, user_folder: Path) -> Path:
    """The file that a shell reads at its start."""
    if shell == "fish":
        config = Path(os.environ.get("XDG_CONFIG_HOME") or user_folder / ".config")
        return config / "fish" / "completions" / "pipesim.fish"
    folder = Path(os.environ.get("ZDOTDIR") or user_folder) if shell == "zsh" else user_folder
    return folder / f".{shell}rc"


def install(shell: str, user_folder: Path) -> tuple[Path, bool]:
    """Add the line to the file that the shell reads, unless it is there; the file, and whether it was changed."""
    path, line = start_file(shell, user_folder), line_of(shell)
    try:
        before = path.read_text(encoding="utf-8") if path.exists() else ""
        if line in before:
            return path, False
        path.parent.mkdir(parents=True, exist_ok=True)
        gap = "\n" if before and not before.endswith("\n") else ""
        with path.open("a", encoding="utf-8") as file:  # appended: the file may be a link, and is the user's own
            file.write(f"{gap}{_MARK}\n{line}\n")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be changed ({error}); add this line to it: {line}") from None
    return path, True
