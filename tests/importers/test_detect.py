import os
import subprocess
import sys

import pytest

from helpers import strategies
from helpers.pipedream_files import node
from pipesim.base.errors import InputError
from pipesim.importers import IMPORTERS
from pipesim.importers.detect import importer_for


def test_formats_are_told_apart_by_what_is_in_the_file(tmp_path):
    strategies.even_trace(2).save(tmp_path / "t")
    assert importer_for(tmp_path / "t") == "native"
    assert importer_for(tmp_path / "t" / "trace.toml") == "native"
    (tmp_path / "graph").write_text("\n \n" + node(1))
    assert importer_for(tmp_path / "graph") == "pipedream"
    assert {importer_for(tmp_path / "t"), importer_for(tmp_path / "graph")} <= set(IMPORTERS)


def test_a_trace_folder_is_recognised_without_importing_what_reads_other_formats(tmp_path):
    """Every `simulate` and every worker of a sweep took a seventh of a second longer for that."""
    strategies.even_trace(2).save(tmp_path / "t")
    program = "import sys; from pipesim.importers.opening import open_trace; from pathlib import Path\n"
    program += "open_trace([Path(sys.argv[1])]); print(*sorted(n for n in sys.modules if 'importers.' in n))"
    command = [sys.executable, "-c", program, str(tmp_path / "t")]
    found = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert found == [f"pipesim.importers.{name}" for name in ("detect", "native", "opening")]


@pytest.mark.parametrize(
    "content", [b"", b"layer,name\n", b"\xff\xfe\x00", b"a -- b", node(1).replace(" -- ", ",").encode()]
)
def test_a_file_that_looks_like_nothing_known_says_what_was_tried(tmp_path, content):
    (tmp_path / "file").write_bytes(content)
    with pytest.raises(InputError, match=r"file: its format cannot be guessed: .*known: native, pipedream"):
        importer_for(tmp_path / "file")


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (b"", "is empty"),
        (b" \n\n", "has blank lines only"),
        (b"\x00\xff\x1f" * 9, "is binary and begins with the bytes 00 ff 1f 00 ff 1f 00 ff"),
        (b"\n  Dear all,\n", "begins with 'Dear all,'"),
    ],
)
def test_a_file_of_no_format_says_what_is_in_it(tmp_path, content, found):
    (tmp_path / "file").write_bytes(content)
    with pytest.raises(InputError, match=rf"file: its format cannot be guessed: it {found}; "):
        importer_for(tmp_path / "file")


def test_a_pipe_is_not_guessed_since_reading_it_empties_it(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match=r"pipe: its format cannot be guessed: it is a pipe, .* name the format"):
        importer_for(tmp_path / "pipe")


def test_folders_that_are_no_trace_and_paths_to_nothing_are_refused(tmp_path):
    with pytest.raises(InputError, match=r"is a folder of no known format; .* found nothing; .*native, pipe"):
        importer_for(tmp_path)
    with pytest.raises(InputError, match="no such file"):
        importer_for(tmp_path / "nowhere")
