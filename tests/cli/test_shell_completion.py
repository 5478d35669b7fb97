"""Tab completion is installed where the shell reads it, once."""

import subprocess
import sys
from pathlib import Path

import pytest

from pipesim.base.errors import InputError
from pipesim.cli import cli, shell_completion

ROOT = Path(__file__).parents[2]


@pytest.fixture
def home(tmp_path, monkeypatch):
    for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "ZDOTDIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize(("shell", "start"), [("bash", ".bashrc"), ("zsh", ".zshrc")])
def test_the_line_is_added_once_and_what_was_there_stays(home, shell, start):
    (home / start).write_text("alias a=b")
    script = home / ".local" / "share" / "pipesim" / f"completion.{shell}"
    line = f'[ -r "{script}" ] && . "{script}"'
    assert shell_completion.install(shell, home, cli) == (script, line, home / start, True)
    assert (home / start).read_text() == f"alias a=b\n# pipesim: tab completion\n{line}\n"
    assert "_PIPESIM_COMPLETE" in script.read_text()
    assert not shell_completion.install(shell, home, cli).is_new
    assert (home / start).read_text().count(str(script)) == 2


def test_fish_finds_its_file_by_its_name(home):
    script = home / ".config" / "fish" / "completions" / "pipesim.fish"
    assert shell_completion.install("fish", home, cli) == (script, "", None, True)
    assert "complete" in script.read_text()


def test_a_shell_starts_without_pipesim_and_completes_once_an_environment_has_it(home, tmp_path):
    """In an environment of its own pipesim is not there when a shell starts, which then complained each time."""
    shell_completion.install("bash", home, cli)
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "pipesim"
    program.write_text(f'#!/bin/sh\nPYTHONPATH="{ROOT}" exec "{sys.executable}" -m pipesim "$@"\n')
    program.chmod(0o755)
    begin = (
        f'PATH=/usr/bin:/bin; . "{home}/.bashrc"; PATH="{tmp_path}/bin:$PATH"; COMP_WORDS=(pipesim sched); COMP_CWORD=1'
    )
    ask = '_pipesim_completion pipesim; echo "${COMPREPLY[@]}"'
    found = subprocess.run(["bash", "-c", f"{begin}; {ask}"], capture_output=True, text=True, check=True)  # noqa: S607
    assert (found.stdout, found.stderr) == ("schedule schedules\n", "")


def test_the_shell_is_that_of_the_environment_unless_it_is_named(home, monkeypatch, run):
    monkeypatch.setenv("SHELL", "/usr/bin/zsh")
    code, out, _ = run("--install-completion")
    assert code == 0
    assert out.endswith(f"completion.zsh, read by {home / '.zshrc'}; open a new shell to use it\n")
    assert "is already in" in run("--install-completion", "zsh")[1]
    assert run("--install-completion", "bash")[0] == 0
    assert (home / ".bashrc").exists()


@pytest.mark.parametrize(("shell", "found"), [("/bin/tcsh", "'tcsh' found"), ("", "no shell found")])
def test_a_shell_without_completion_is_refused(shell, found):
    with pytest.raises(InputError, match=found):
        shell_completion.shell_of(shell)


def test_a_file_that_cannot_be_written_is_an_error_with_the_line_to_add(home):
    (home / ".bashrc").mkdir()
    with pytest.raises(InputError, match=r"add this line to it: \[ -r"):
        shell_completion.install("bash", home, cli)
    (home / ".config").write_text("a file")
    with pytest.raises(InputError, match=r"pipesim.fish: cannot be written"):
        shell_completion.install("fish", home, cli)
