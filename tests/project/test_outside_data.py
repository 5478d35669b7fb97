"""Recordings that are not part of the repository: tests that need them are skipped, or fail where they must not be."""

import re

import pytest

from helpers import places
from helpers.places import ROOT, TESTS, needs_data


@pytest.fixture
def data(tmp_path, monkeypatch):
    """An empty folder of recordings."""
    monkeypatch.setattr(places, "DATA", tmp_path)
    monkeypatch.delenv("PIPESIM_REQUIRE_DATA", raising=False)
    return tmp_path


def test_a_file_that_is_there_is_given(data):
    (data / "a").touch()
    assert needs_data(data / "a") == data / "a"


def test_a_test_without_its_file_is_skipped(data):
    with pytest.raises(pytest.skip.Exception, match="a is missing; PIPESIM_DATA names the folder"):
        needs_data(data / "a")


def test_it_fails_where_the_folder_is_there_and_ci_requires_its_files(data, monkeypatch):
    monkeypatch.setenv("PIPESIM_REQUIRE_DATA", "1")
    with pytest.raises(pytest.fail.Exception, match="a is missing; PIPESIM_DATA names the folder"):
        needs_data(data / "a")
    monkeypatch.setattr(places, "DATA", data / "nowhere")
    with pytest.raises(pytest.skip.Exception):
        needs_data(data / "nowhere" / "a")
    assert "export PIPESIM_REQUIRE_DATA=1" in (ROOT / ".ci" / "run").read_text()


def test_every_test_that_reads_such_files_asks_for_them():
    """A test that skips by itself would be skipped in CI too."""
    files = {path: path.read_text(encoding="utf-8") for path in TESTS.rglob("test_*.py")}
    asking = [path for path, text in files.items() if re.search(r"places import .*\b(PROFILES|DATA)\b", text)]
    assert asking
    assert [path.name for path in asking if "needs_data(" not in files[path]] == []
