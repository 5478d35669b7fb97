"""Files are read whole with errors that say why not, and written whole or not at all."""

import os
import threading
import time
from pathlib import Path

import pytest

from pipesim.base import files
from pipesim.base.errors import FormatError, InputError


def test_text_is_read_with_plain_newlines_and_without_byte_order_mark(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"\xef\xbb\xbfone\r\ntwo\rthree\n")
    assert files.read_text(tmp_path / "a.txt") == "one\ntwo\nthree\n"


def test_the_beginning_of_a_file_can_be_read_alone(tmp_path):
    (tmp_path / "a").write_bytes(b"0123456789")
    assert files.read_bytes(tmp_path / "a", 4) == b"0123"
    assert files.read_bytes(tmp_path / "a") == b"0123456789"


@pytest.mark.parametrize(
    ("name", "message"),
    [("absent", "absent: no such file"), ("", "is a folder; a file was expected"), ("a\0b", "cannot be read")],
)
def test_what_cannot_be_read_is_named_with_the_reason(tmp_path, name, message):
    with pytest.raises(InputError, match=message) as caught:
        files.read_bytes(tmp_path / name)
    assert str(tmp_path) in str(caught.value)


def test_bytes_that_are_no_text_are_refused_with_their_place(tmp_path):
    (tmp_path / "a").write_bytes(b"abc\xff")
    with pytest.raises(FormatError, match=r"byte 3"):
        files.read_text(tmp_path / "a")


def test_writing_makes_the_folders_above_and_leaves_only_the_file(tmp_path):
    path = tmp_path / "x" / "y" / "a.txt"
    files.write_text(path, "é\n")
    assert path.read_bytes() == "é\n".encode()
    assert [p.name for p in path.parent.iterdir()] == ["a.txt"]


def test_a_write_that_fails_leaves_the_old_file_as_it_was(tmp_path):
    path = tmp_path / "a"
    files.write_bytes(path, b"old")

    def interrupted():
        with files.atomic_write(path) as temporary:
            temporary.write_bytes(b"half of the ne")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert path.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["a"]


def test_a_place_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be written"):
        files.write_text(tmp_path / "file" / "a.txt", "text")


def test_a_folder_is_replaced_only_if_it_holds_the_marker(tmp_path):
    """A folder of something else is never overwritten because its name was given by mistake."""
    folder = tmp_path / "precious"
    folder.mkdir()
    (folder / "thesis.txt").write_text("ten years of work")
    with pytest.raises(InputError, match=r"not a folder with trace\.toml"), files.atomic_folder(
        folder, "trace.toml"
    ):  # fmt: skip
        pytest.fail("must not get here")
    assert (folder / "thesis.txt").read_text() == "ten years of work"


def test_replacing_a_folder_keeps_other_files_but_not_the_other_form_of_a_table(tmp_path):
    """A README stays; a layers.parquet beside a new layers.csv would be an older truth."""
    folder = tmp_path / "trace"
    for name in ("README.md", "layers.parquet"):
        with files.atomic_folder(folder, "trace.toml") as new:
            (new / "trace.toml").write_text(name)
            (new / name).write_text(name)
    with files.atomic_folder(folder, "trace.toml") as new:
        (new / "trace.toml").write_text("new")
        (new / "layers.csv").write_text("new")
    assert {p.name: p.read_text() for p in folder.iterdir()} == {
        "README.md": "README.md",
        "trace.toml": "new",
        "layers.csv": "new",
    }
    assert [p.name for p in tmp_path.iterdir()] == ["trace"]


def test_a_folder_that_fails_half_way_leaves_the_old_one(tmp_path):
    folder = tmp_path / "trace"
    with files.atomic_folder(folder, "trace.toml") as new:
        (new / "trace.toml").write_text("old")

    def failing():
        with files.atomic_folder(folder, "trace.toml") as new:
            (new / "trace.toml").write_text("new")
            raise InputError("a layer is wrong")

    with pytest.raises(InputError, match="a layer is wrong"):
        failing()
    assert (folder / "trace.toml").read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["trace"]


@pytest.mark.parametrize("name", ["x" * 5000, "x/" * 5000, "a\0b"])
def test_a_name_that_no_file_can_have_is_refused_as_one_that_cannot_be_read(name, tmp_path):
    with pytest.raises(InputError, match="cannot be read"):
        files.read_bytes(tmp_path / name)


def test_nothing_is_at_a_path_that_no_file_can_have(tmp_path):
    assert files.exists(tmp_path)
    assert not files.exists(tmp_path / "absent")
    assert not files.exists(tmp_path / ("a" * 300))
    assert not files.exists(tmp_path / "a\0b")


# --- what has no end -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("device", ["/dev/zero", "/dev/urandom", "/dev/null"])
def test_a_device_is_refused_itself_and_by_another_name(device, tmp_path):
    """/dev/zero has no end: it was read until the memory was full."""
    (tmp_path / "plan.json").symlink_to(device)
    for path in (Path(device), tmp_path / "plan.json"):
        with pytest.raises(InputError, match="is a device or a socket"):
            files.read_bytes(path)
        with pytest.raises(InputError, match="is a device or a socket"):
            files.read_bytes(path, 10)


def test_a_file_larger_than_its_kind_is_refused_before_it_is_read(tmp_path):
    path = tmp_path / "large"
    with path.open("wb") as file:
        file.truncate(files.DOCUMENT + 1)  # a hole: nothing is on the disk
    began = time.perf_counter()
    with pytest.raises(
        InputError, match=rf"has {files.DOCUMENT + 1} bytes; the limit for files of this kind is {files.DOCUMENT}"
    ):
        files.read_bytes(path)
    assert time.perf_counter() - began < 0.1
    assert files.read_bytes(path, 3) == b"\0\0\0"


def test_a_pipe_without_a_writer_is_refused(tmp_path, monkeypatch):
    """Opening it waited for ever."""
    monkeypatch.setattr(files, "_WAIT_S", 0.1)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match=r"is a pipe without a writer for 0\.1 s"):
        files.read_bytes(tmp_path / "pipe")


def test_a_pipe_is_read_to_its_end_however_slowly_it_comes(tmp_path, monkeypatch):
    """The writer opens it late, and waits between pieces for longer than one waits for a writer."""
    monkeypatch.setattr(files, "_WAIT_S", 0.3)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)

    def write():
        time.sleep(0.1)
        with pipe.open("wb") as file:
            for piece in (b"one, ", b"two"):
                time.sleep(0.5)
                file.write(piece)
                file.flush()

    writer = threading.Thread(target=write)
    writer.start()
    assert files.read_bytes(pipe) == b"one, two"
    writer.join()


def test_a_pipe_without_end_is_read_up_to_a_limit(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)

    def write():
        try:
            with pipe.open("wb", buffering=0) as file:
                while True:
                    file.write(bytes(2**16))
        except BrokenPipeError:
            pass

    writer = threading.Thread(target=write)
    writer.start()
    with pytest.raises(InputError, match="has more than 1000000 bytes"):
        files.read_bytes(pipe, limit=10**6)
    writer.join()
