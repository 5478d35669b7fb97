"""Runs what a page of documentation shows: the files it writes, its Python sessions and its commands.

    ```toml title="slow.toml"      a file: written into the folder in which the page runs
    ```pycon                       a Python session: run as a doctest; all sessions of a page share their names
    ```console                     commands after `$ `, each followed by what it prints; nothing shown: anything may be
    ```console torch               as above, only where PyTorch is installed

`python -m helpers.pages FILE...` (`make pages`) updates the outputs of pages after a deliberate change; read the diff.
`pipesim` commands run in this process. `...` in an output is any text; such an output is not updated.
"""

import contextlib
import doctest
import importlib
import io
import os
import re
import shlex
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from pipesim.cli import main

FENCE = re.compile(r'^```(\w+)(?:[ ]+(\w+))?(?:[ ]+title="([^"]+)")?\n(.*?)^```$', re.MULTILINE | re.DOTALL)
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE | doctest.IGNORE_EXCEPTION_DETAIL


class Block(NamedTuple):
    """A fenced block: its language, a word after it, the file it is, its text and where that is in the page."""

    language: str
    needs: str
    title: str
    text: str
    start: int

    @property
    def is_session(self) -> bool:
        """Whether this is a Python session."""
        return self.language in {"pycon", "python"} and self.text.startswith(">>>")


def blocks(page: str) -> Iterator[Block]:
    """The fenced blocks of a page, in order."""
    for found in FENCE.finditer(page):
        language, needs, title, text = found.groups()
        yield Block(language, needs or "", title or "", text, found.start(4))


def run(page: str, folder: Path, *available: str) -> int:
    """Run every block in this folder; how many sessions and commands were run. A difference fails the test."""
    names: dict = {}
    count = 0
    with _inside(folder):
        for block in blocks(page):
            if block.needs and block.needs not in available:
                continue
            if block.title:
                _write(block)
            elif block.is_session:
                count += _run_session(block, names)
            elif block.language == "console":
                for command, expected in commands(block):
                    _check_command(command, expected)
                    count += 1
    return count


def rewritten(page: str, folder: Path) -> str:
    """The page with what its commands and sessions print now."""
    names: dict = {}
    parts, end = [], 0
    with _inside(folder):
        for block in blocks(page):
            text = block.text
            if block.title:
                _write(block)
            elif block.is_session:
                text = _session_now(block, names)
            elif block.language == "console" and not block.needs:
                text = "".join(_command_now(*pair) for pair in commands(block))
            parts += [page[end : block.start], text]
            end = block.start + len(block.text)
    return "".join([*parts, page[end:]])


@contextlib.contextmanager
def _inside(folder: Path) -> Iterator[None]:
    """In this folder, whose modules can be imported, and are forgotten afterwards."""
    path = list(sys.path)
    sys.path.insert(0, "")
    try:
        with contextlib.chdir(folder):
            importlib.invalidate_caches()
            yield
    finally:
        sys.path[:] = path
        for name, module in list(sys.modules.items()):
            if str(getattr(module, "__file__", None) or "").startswith(f"{folder}{os.sep}"):
                del sys.modules[name]


def _write(block: Block) -> None:
    path = Path(block.title)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(block.text, encoding="utf-8")


# --- Python sessions -------------------------------------------------------------------------------------------------


def _run_session(block: Block, names: dict) -> int:
    test = doctest.DocTestParser().get_doctest(block.text, names, "page", None, 0)
    runner = doctest.DocTestRunner(optionflags=FLAGS, verbose=False)
    printed: list[str] = []
    runner.run(test, out=printed.append, clear_globs=False)
    names.update(test.globs)
    assert not runner.failures, "".join(printed)
    return len(test.examples)


def _session_now(block: Block, names: dict) -> str:
    """The session with the values that its lines have now."""
    test = doctest.DocTestParser().get_doctest(block.text, names, "page", None, 0)
    got: list[str] = []

    class Recorder(doctest.DocTestRunner):
        def report_success(self, out, test, example, text):  # noqa: ARG002 - given by doctest
            got.append(example.want if example.exc_msg else text)

        def report_failure(self, out, test, example, text):  # noqa: ARG002 - given by doctest
            got.append(text)

        def report_unexpected_exception(self, out, test, example, exc_info):  # noqa: ARG002 - given by doctest
            raise exc_info[1]

    Recorder(optionflags=FLAGS, verbose=False).run(test, clear_globs=False)
    names.update(test.globs)
    pieces = doctest.DocTestParser().parse(block.text)
    outputs, parts = iter(got), []
    for piece in pieces:
        if isinstance(piece, str):
            parts.append(piece)
            continue
        lines = piece.source.splitlines()
        shown = [f">>> {lines[0]}", *(f"... {line}".rstrip() for line in lines[1:])]
        parts.append("\n".join(shown) + "\n" + next(outputs))
    return "".join(parts)


# --- commands --------------------------------------------------------------------------------------------------------


def commands(block: Block) -> list[tuple[str, str]]:
    """Each command of a console block, with what is shown below it; a backslash continues a line."""
    pieces = re.split(r"^\$ ", block.text, flags=re.MULTILINE)
    assert not pieces[0].strip(), f"a console block begins with a command, not with {pieces[0]!r}"
    found = []
    for piece in pieces[1:]:
        command = re.match(r"(?:.*\\\n)*.*\n", piece)
        assert command, piece
        found.append((command.group(), piece[command.end() :]))
    return found


def printed_by(command: str) -> tuple[int, str]:
    """Exit code and all that a command prints, on both streams; `> FILE` at the end is a file."""
    words = shlex.split(command.replace("\\\n", " "), comments=True)
    assert words[0] == "pipesim", f"only pipesim commands are run: {command!r}"
    target = words[-1] if ">" in words[:-1] and words[-2] == ">" else ""
    words = words[1:-2] if target else words[1:]
    out, code = io.StringIO(), 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        try:
            main(words)
        except SystemExit as stop:
            code = stop.code if isinstance(stop.code, int) else int(bool(stop.code))
    if target:
        Path(target).write_text(out.getvalue(), encoding="utf-8")
    return code, "" if target else out.getvalue()


def _check_command(command: str, expected: str) -> None:
    code, got = printed_by(command)
    assert (code == 0) != ("error:" in expected), f"$ {command}exit code {code}\n{got}"
    if expected.strip():
        pattern = ".*".join(map(re.escape, expected.strip().split("...")))
        assert re.fullmatch(pattern, got.strip(), re.DOTALL), f"$ {command}{got}"


def _command_now(command: str, expected: str) -> str:
    got = printed_by(command)[1]
    return f"$ {command}{got if expected.strip() and '...' not in expected else expected}"


if __name__ == "__main__":
    for shown in map(Path, sys.argv[1:]):
        with tempfile.TemporaryDirectory() as scratch:
            shown.write_text(rewritten(shown.read_text(encoding="utf-8"), Path(scratch)), encoding="utf-8")
