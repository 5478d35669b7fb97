"""What is printed reaches any standard output, whatever its encoding: no result is lost for a character."""

import io
import json
import logging
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from helpers.places import ROOT
from pipesim.cli import main, options, streams

FLAT = 'flat(2, bandwidth="1GB/s")'
COMMANDS = {
    "simulate": ["simulate", "bert-large", FLAT, "-p", "uniform", "-m", "2", "-v"],
    "compare": ["compare", "bert-large", FLAT, "-p", "uniform", "-s", "gpipe", "-m", "2"],
    "schedule": ["schedule", "gpipe", "--stages", "2", "-m", "2"],
    "show": ["show", FLAT],
    "devices": ["show", "devices"],
    "trace": ["show", "bert-large"],
}


def printed(words, encoding, monkeypatch):
    """The bytes that a command writes to a standard output of this encoding."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding) for _ in range(2))
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", err)
    try:
        main(words)
    finally:
        out.flush()
        err.flush()
        monkeypatch.setattr(sys, "stdout", sys.__stdout__)
        monkeypatch.setattr(sys, "stderr", sys.__stderr__)
    assert not err.buffer.getvalue()
    return out.buffer.getvalue()


@pytest.mark.parametrize("encoding", ["latin-1", "cp1252", "ascii", "cp437"])
@pytest.mark.parametrize("name", COMMANDS)
def test_tables_and_charts_keep_their_columns_in_any_encoding(name, encoding, monkeypatch):
    """They were computed, and then lost to a UnicodeEncodeError at the very end."""
    text = printed(COMMANDS[name], "utf-8", monkeypatch).decode()
    found = printed(COMMANDS[name], encoding, monkeypatch).decode(encoding)
    assert len(found) == len(text), "one character for one"
    replaced = {(a, b) for a, b in zip(text, found, strict=True) if a != b}
    assert replaced <= {("─", "-"), ("·", "."), ("…", "~"), ("±", "~"), ("µ", "u")}
    assert replaced or encoding == "cp437" or name == "schedule"  # which has these characters, or needs none


def test_the_demo_ends_well_in_any_encoding(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert b"-------" in printed(["demo", "-o", "demo"], "latin-1", monkeypatch)
    assert len(list((tmp_path / "demo").iterdir())) == 8


@pytest.mark.parametrize("encoding", ["latin-1", "cp1252", "ascii"])
def test_a_process_with_another_encoding_ends_well(encoding):
    """As where Windows redirects output: the encoding is that of the process."""
    environment = {**os.environ, "PYTHONIOENCODING": encoding}
    command = [sys.executable, "-m", "pipesim", *COMMANDS["compare"]]
    done = subprocess.run(command, env=environment, capture_output=True, check=True, cwd=ROOT)
    assert b"-------  ---------" in done.stdout
    assert done.stdout.isascii()


def test_names_of_other_scripts_are_escaped(monkeypatch):
    with pytest.raises(SystemExit):
        printed(["show", "\u4e2d\u00e9-model"], "utf-8", monkeypatch)
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), "ascii"))
    monkeypatch.setattr(sys, "stderr", err := io.TextIOWrapper(io.BytesIO(), "ascii"))
    with pytest.raises(SystemExit):
        main(["show", "\u4e2d\u00e9-model"])
    err.flush()
    assert err.buffer.getvalue().startswith(b"error: no cluster or trace is called '\\u4e2de-model'")


def test_json_says_the_same_in_any_encoding(monkeypatch, tmp_path):
    """Another character in place of one would be another name."""
    path = tmp_path / "c.json"
    main(["show", FLAT, "--output", str(path)])
    path.write_text(path.read_text(encoding="utf-8").replace("gpu0", "gpü\u4e2d0"), encoding="utf-8")
    words = ["show", str(path), "--json"]
    found = [printed(words, encoding, monkeypatch).decode(encoding) for encoding in ("utf-8", "latin-1", "ascii")]
    assert "gpü\u4e2d0" in found[0]
    assert json.loads(found[0]) == json.loads(found[1]) == json.loads(found[2])


def test_a_name_that_is_no_text_does_not_lose_the_result(monkeypatch, tmp_path):
    """File names may hold any bytes; Python keeps those that are not UTF-8 as characters that UTF-8 cannot write."""
    name = os.fsdecode(os.fsencode(str(tmp_path)) + b"/\xff.csv")
    out = printed([*COMMANDS["schedule"], "-o", name], "utf-8", monkeypatch)
    assert b"schedule written to" in out
    assert b"\\udcff.csv" in out
    assert Path(name).exists()


def test_a_terminal_is_informed_once_when_kernels_are_compiled(capsys, monkeypatch):
    logger = logging.getLogger("pipesim.base.kernels.compilation")
    monkeypatch.setattr(streams, "is_watched", lambda: True)
    streams.announce_compilation()
    logger.info("compiling %s", "one")
    logger.info("compiling %s", "another")
    assert capsys.readouterr().err.count("compiling for this machine, once") == 1
    assert not logger.handlers


def test_what_takes_longer_than_its_patience_is_shown_and_taken_back(capsys, monkeypatch):
    monkeypatch.setattr(streams, "is_watched", lambda: True)
    with options.busy("reading", quiet=False, patience=0.0):
        time.sleep(0.05)
    assert re.fullmatch(r"(\rreading .)+\r +\r", capsys.readouterr().err)
    with options.busy("reading", quiet=False, patience=60.0):
        pass
    assert not capsys.readouterr().err
