"""Kernels on disk: what is kept of them is never older than what they say."""

import os
import shutil

import pytest

from helpers.kernel_programs import CALLED, CALLING, result, run


@pytest.mark.parametrize("called", [CALLED, CALLED.replace("@compiled\n", "")], ids=["compiled", "plain"])
def test_a_kernel_is_compiled_again_when_one_that_it_calls_has_changed(called, tmp_path):
    (tmp_path / "calling.py").write_text(CALLING)
    (tmp_path / "inside.py").write_text(called.format(1))
    assert result(tmp_path) == "20\n"
    (tmp_path / "inside.py").write_text(called.format(4))
    assert result(tmp_path) == "50\n"
    (tmp_path / "inside.py").write_text(called.format(1))
    assert result(tmp_path) == "20\n"


RECORD = "from typing import NamedTuple\n\nclass Pair(NamedTuple):\n    {}: int\n    {}: int\n"
TAKING = (
    "from typing import NamedTuple\nfrom inside import Pair\nfrom pipesim.base.kernels import compiled\n\n"
    "class Both(NamedTuple):\n    size: int\n    pair: Pair\n\n"
    "def first(both: Both):\n    return both.pair.x\n\ndef outer(both: Both):\n    return both.size * first(both)\n\n"
    "both = Both(10, Pair(1, 2))\nprint(compiled(outer)(both), outer(both))\n"
)


def test_a_kernel_is_compiled_again_when_a_record_in_the_one_that_it_takes_has_changed(tmp_path):
    (tmp_path / "calling.py").write_text(TAKING)
    for fields, printed in [("xy", "10 10\n"), ("yx", "20 20\n")]:
        (tmp_path / "inside.py").write_text(RECORD.format(*fields))
        assert result(tmp_path) == printed


def test_a_kernel_is_compiled_again_when_a_constant_from_another_file_has_changed(tmp_path):
    (tmp_path / "calling.py").write_text(
        CALLING.replace("inside.inner", "inside.number").replace("inner(x)", "inner * x")
    )
    for number, printed in [(2, "20\n"), (3, "30\n")]:
        (tmp_path / "inside.py").write_text(f"number = {number}\n")
        assert result(tmp_path) == printed


def test_a_copy_of_a_folder_has_its_kernels_compiled(tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    (first / "calling.py").write_text(CALLING)
    (first / "inside.py").write_text(CALLED.format(1))
    assert "data saved to" in result(first, NUMBA_DEBUG_CACHE="1")
    shutil.copytree(first, second)
    (first / "inside.py").unlink()
    printed = result(second, NUMBA_DEBUG_CACHE="1")
    assert f"data loaded from '{second}" in printed
    assert "data saved to" not in printed
    assert printed.endswith("20\n")


@pytest.fixture
def read_only(tmp_path):
    """A folder with kernels in which none can be kept, even by root: a file has the place of the folder for it."""
    folder = tmp_path / "installed"
    folder.mkdir()
    (folder / "calling.py").write_text(CALLING)
    (folder / "inside.py").write_text(CALLED.format(1))
    (folder / "__pycache__").write_text("")
    return folder


def kept_in(folder):
    return {path.relative_to(folder).parts[0] for path in folder.rglob("*.nbi")}


def test_kernels_of_a_read_only_installation_are_cached_with_the_user(read_only, tmp_path):
    caches = tmp_path / "caches"
    assert result(read_only, XDG_CACHE_HOME=str(caches)) == "20\n"
    assert kept_in(caches) == {"pipesim"}
    (read_only / "inside.py").write_text(CALLED.format(4))
    assert result(read_only, XDG_CACHE_HOME=str(caches)) == "50\n"


def test_kernels_are_cached_in_a_private_folder_where_there_is_no_home(read_only, tmp_path):
    """In containers: RuntimeError: cannot cache function ...: no locator available."""
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    done = run(read_only, HOME="/proc", XDG_CACHE_HOME="", TMPDIR=str(temporary))
    assert (done.stdout, done.stderr) == ("20\n", "")
    (kept,) = temporary.iterdir()
    assert kept.name == f"pipesim-{os.getuid()}"
    assert kept.stat().st_mode & 0o077 == 0, "no other user may change what is executed"
    assert kept_in(kept)


@pytest.mark.parametrize("there", ["a folder of all", "a link", "a file"])
def test_kernels_are_not_cached_where_others_could_write(there, read_only, tmp_path):
    temporary, other = tmp_path / "temporary", tmp_path / "other"
    temporary.mkdir()
    other.mkdir(mode=0o700)
    place = temporary / f"pipesim-{os.getuid()}"
    if there == "a folder of all":
        place.mkdir()
        place.chmod(0o777)
    elif there == "a link":
        place.symlink_to(other)
    else:
        place.write_text("")
    done = run(read_only, HOME="/proc", XDG_CACHE_HOME="", TMPDIR=str(temporary))
    assert done.stdout == "20\n"
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("compiled code cannot be cached, so every run compiles again")
    assert not list(temporary.rglob("*.nbi"))
    assert not list(other.iterdir())


def test_kernels_are_cached_in_the_folder_that_the_user_sets(read_only, tmp_path):
    assert result(read_only, NUMBA_CACHE_DIR=str(tmp_path / "stated")) == "20\n"
    assert kept_in(tmp_path / "stated")
