"""Tab completion is installed where the shell reads it, once."""

import pytest

from pipesim.base.errors import InputError
from pipesim.cli import shell_completion


@pytest.fixture
def home(tmp_path, monkeypatch):
    for name in ("XDG_CONFIG_HOME", "ZDOTDIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize(
    ("shell", "file"), [("bash", ".bashrc"), ("zsh", ".zshrc"), ("fish", ".config/fish/completions/pipesim.fish")]
)
def test_the_line_is_added_once_and_what_was_there_stays(home, shell, file):
    path = home / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("alias a=b")
    assert shell_completion.install(shell, home) == (path, True)
    assert path.read_text() == f"alias a=b\n# pipesim: tab completion\n{shell_completion.line_of(shell)}\n"
    assert shell_completion.install(shell, home) == (path, False)
    assert path.read_text().count("PIPESIM_COMPLETE") == 1


def test_the_shell_is_that_of_the_environment_unless_it_is_named(home, monkeypatch, run):
    monkeypatch.setenv("SHELL", "/usr/bin/zsh")
    code, out, _ = run("--install-completion")
    assert code == 0
    assert out.endswith(f"written to {home / '.zshrc'}; open a new shell to use it\n")
    assert "already in" in run("--install-completion", "zsh")[1]
    assert run("--install-completion", "bash")[0] == 0
    assert (home / ".bashrc").exists()


@pytest.mark.parametrize(("shell", "found"), [("/bin/tcsh", "'tcsh' found"), ("", "no shell found")])
def test_a_shell_without_completion_is_refused(shell, found):
    with pytest.raises(InputError, match=found):
        shell_completion.shell_of(shell)


def test_a_file_that_cannot_be_written_is_an_error_with_the_line_to_add(home):
    (home / ".bashrc").mkdir()
    with pytest.raises(InputError, match="add this line to it: eval"):
        shell_completion.install("bash", home)
