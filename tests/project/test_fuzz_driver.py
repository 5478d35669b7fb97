"""The driver of `make fuzz`: seeds in order, every failure kept, and nothing lost when it is stopped."""

import json
import signal
import subprocess
import sys
import time

import pytest

from helpers.places import TESTS

DRIVER = TESTS / "fuzz" / "driver.py"


@pytest.fixture
def fuzz(tmp_path):
    """Write campaigns (name -> text) and run the driver on them: (exit code, output, records)."""

    def call(*arguments, **campaigns):
        for name, text in campaigns.items():
            (tmp_path / f"{name}.py").write_text(text)
        done = subprocess.run(command(tmp_path, *arguments), capture_output=True, text=True, timeout=60, check=False)
        return done.returncode, done.stdout + done.stderr, records(tmp_path)

    return call


def command(folder, *arguments):
    return [sys.executable, str(DRIVER), "--folder", str(folder), "--state", str(folder / "state.json"), *arguments]


def records(folder):
    path = folder / "state.json"
    return json.loads(path.read_text())["campaigns"] if path.exists() else {}


EVEN = "def attempt(seed):\n    return 'even' if seed % 2 == 0 else 'odd'\n"
LISTED = """
from pathlib import Path
from helpers.places import TESTS
def attempt(seed):
    with (Path(__file__).parent / "order.txt").open("a") as file:
        file.write(f"{seed}\\n")
    return "done"
"""
SOMETIMES = """
def attempt(seed):
    assert seed != 3, f"{seed} is three"
    return "fine"
"""


def test_seeds_go_from_zero_up_and_on_in_the_next_run(fuzz, tmp_path):
    for seeds in (7, 12):
        assert fuzz("--seeds", str(seeds), "--processes", "1", listed=LISTED)[0] == 0
        assert (tmp_path / "order.txt").read_text().split() == [str(seed) for seed in range(seeds)]
        kept = records(tmp_path)["listed"]
        assert (kept["next"], kept["done"], kept["labels"]) == (seeds, seeds, {"done": seeds})


def test_it_stops_when_the_time_is_up(fuzz):
    begin = time.monotonic()
    assert fuzz("--minutes", "0.02", even=EVEN)[2]["even"]["done"] > 1
    assert 1.2 < time.monotonic() - begin < 20


def test_what_is_owed_is_left_if_a_time_was_asked_for(fuzz):
    owing = "SEEDS = 25\n" + EVEN
    code, _, kept = fuzz("--minutes", "0", owing=owing)
    assert (code, kept["owing"]["done"]) == (0, 0)


def test_what_is_owed_is_done_though_the_default_time_is_over(tmp_path, monkeypatch, capsys):
    monkeypatch.syspath_prepend(DRIVER.parent)
    import driver

    monkeypatch.setattr(driver, "MINUTES", 0.0)
    (tmp_path / "owing.py").write_text("SEEDS = 25\n" + EVEN)
    assert driver.main(["--folder", str(tmp_path), "--state", str(tmp_path / "state.json")]) == 0
    assert records(tmp_path)["owing"]["labels"] == {"even": 13, "odd": 12}
    assert "owing: 25 seeds, " in capsys.readouterr().out


def test_a_failure_is_kept_with_its_seed_and_message_and_the_others_go_on(fuzz):
    code, printed, kept = fuzz("--seeds", "9", sometimes=SOMETIMES)
    assert code == 1
    assert list(kept["sometimes"]["failures"]) == ["3"]
    assert (kept["sometimes"]["done"], kept["sometimes"]["labels"]) == (9, {"fine": 8})
    assert "sometimes --seed 3" in printed
    assert "AssertionError: 3 is three\n      sometimes.py:3 in attempt" in printed


def test_what_failed_is_attempted_first_and_dropped_when_it_is_repaired(fuzz):
    fuzz("--seeds", "9", sometimes=SOMETIMES)
    for again in (("--minutes", "0"), ("--seeds", "9")):
        code, printed, before = fuzz(*again)
        assert (code, list(before["sometimes"]["failures"]), before["sometimes"]["done"]) == (1, ["3"], 9)
        assert "python tests/fuzz/driver.py sometimes --seed 3" in printed
    code, _, after = fuzz("--seeds", "9", sometimes=SOMETIMES.replace("assert", "assert True or"))
    assert (code, after["sometimes"]["failures"]) == (0, {})
    assert (after["sometimes"]["done"], after["sometimes"]["labels"]) == (9, {"fine": 9})


def test_one_seed_again_shows_its_traceback(fuzz):
    code, printed, kept = fuzz("sometimes", "--seed", "3", sometimes=SOMETIMES)
    assert (code, kept) == (1, {})
    assert printed.rstrip().endswith("AssertionError: 3 is three")
    assert fuzz("sometimes", "--seed", "4")[:2] == (0, "sometimes --seed 4: fine\n")


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("    try:\n        time.sleep(9)\n    except Exception:\n        pass", "TooLongError: not done after 0.2 s"),
        ("    os.kill(os.getpid(), 9)", "the process ended with code -9"),
        ("    sys.exit(0)", "SystemExit: 0"),
        ("    bytearray(2**40)", "MemoryError: "),
        ("    bytearray(7 * 2**30)", "MemoryError: "),
    ],
)
def test_a_hang_a_crash_and_too_much_memory_are_failures(fuzz, body, message):
    text = f"import os, sys, time\nSECONDS = 0.2\ndef attempt(seed):\n    if seed:\n        return 'fine'\n{body}\n"
    code, _, kept = fuzz("--seeds", "3", "--processes", "1", bad=text)
    assert code == 1
    assert {seed: words.splitlines()[0] for seed, words in kept["bad"]["failures"].items()} == {"0": message}


def test_a_hang_that_no_signal_ends_is_a_failure_too(tmp_path, monkeypatch, capsys):
    monkeypatch.syspath_prepend(DRIVER.parent)
    import driver

    monkeypatch.setattr(driver, "GRACE", 0.5)
    hangs = (
        "import signal, time\nSECONDS = 0.1\ndef attempt(seed):\n    signal.signal(signal.SIGALRM, signal.SIG_IGN)\n"
    )
    (tmp_path / "deaf.py").write_text(hangs + "    time.sleep(60)\n")
    arguments = ["--folder", str(tmp_path), "--state", str(tmp_path / "state.json"), "--seeds", "1"]
    assert driver.main([*arguments, "--processes", "1"]) == 1
    assert "FAILURE deaf --seed 0: hangs where no signal is handled" in capsys.readouterr().out


def test_a_campaign_that_cannot_be_imported_fails_and_stops_no_other(fuzz):
    _, _, kept = fuzz("--seeds", "2", "--processes", "1", broken="import nothing_of_this_name\n" + EVEN, even=EVEN)
    assert kept["even"]["labels"] == {"even": 1, "odd": 1}
    assert "cannot be imported: ModuleNotFoundError" in kept["broken"]["failures"]["0"]


def test_time_is_shared_by_weight(fuzz):
    sleeping = "import time\ndef attempt(seed):\n    time.sleep(0.01)\n    return 'slept'\n"
    _, _, kept = fuzz("--minutes", "0.03", "--processes", "1", light=sleeping, heavy="WEIGHT = 3\n" + sleeping)
    assert 2 < kept["heavy"]["seconds"] / kept["light"]["seconds"] < 4


def heed_interrupts():
    """As in a terminal: what a shell starts in the background ignores interrupts, and so do its children."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def test_interrupted_it_reports_and_the_next_run_does_what_was_cut_off(fuzz, tmp_path):
    slow = "import time\ndef attempt(seed):\n    time.sleep(0 if seed < 5 else 30)\n    return 'done'\n"
    (tmp_path / "slow.py").write_text(slow)
    with subprocess.Popen(
        command(tmp_path, "--processes", "1"),
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=heed_interrupts,  # noqa: PLW1509 - it calls nothing that another thread may hold
    ) as process:
        while "begun" not in str(records(tmp_path)) or not records(tmp_path)["slow"]["done"]:
            time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        printed, _ = process.communicate(timeout=20)
    assert process.returncode == 130
    assert "slow: 5 seeds" in printed
    assert "the next run goes on from here" in printed
    assert records(tmp_path)["slow"]["begun"] == [5]
    _, _, kept = fuzz("--seeds", "8", "--processes", "1", slow=slow.replace("30", "0"))
    assert kept["slow"]["done"] == kept["slow"]["next"] == 8
    assert kept["slow"]["begun"] == kept["slow"]["again"] == []


def test_the_campaigns_of_pipesim_are_found_and_helpers_are_not(monkeypatch):
    monkeypatch.syspath_prepend(DRIVER.parent)
    import _state

    names = [campaign.name for campaign in _state.discover(DRIVER.parent)]
    assert {"importers"} <= set(names)
    assert not {"driver", "_state", "_worker"} & set(names)
