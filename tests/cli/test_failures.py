"""How commands end that do not succeed: nothing that a user can type ends in a traceback."""

import os
import re
import signal
import subprocess
import sys
import time
import tomllib

import pytest

from helpers.places import ROOT
from pipesim import cli
from pipesim.cli import failures
from pipesim.cli.failures import EXIT_CODES
from pipesim.studies import sources

FLAT = 'flat(2, bandwidth="1GB/s")'
SMALL = ["bert-large", FLAT, "-p", "uniform", "-m", "2"]


def pipesim(*words, **given):
    return subprocess.run(
        [sys.executable, "-m", "pipesim", *words], capture_output=True, text=True, check=False, cwd=ROOT, **given
    )


# --- the last handler ------------------------------------------------------------------------------------------------


def test_the_documented_exit_codes_are_those_of_the_program():
    table = re.findall(
        r"^\| (\d+) \| ([a-z ]+) \|", (ROOT / "docs/exit-codes.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert {name: int(code) for code, name in table} == EXIT_CODES


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (ValueError("odd"), 70, "internal error while running the command: ValueError: odd"),
        (RecursionError("too deep"), 70, "RecursionError: too deep"),
        (MemoryError(), 2, "takes more memory than this machine gives"),
        (KeyError("a\nb"), 70, "KeyError"),
        (EOFError(), 70, "EOFError"),
        (OSError("no reason"), 2, "no reason"),
    ],
)
def test_whatever_is_raised_ends_in_one_line_and_its_code(error, code, words, run, monkeypatch):
    def failing(*_):
        raise error

    monkeypatch.setattr(sources, "load_trace", failing)
    found, out, err = run("simulate", *SMALL)
    assert (found, out) == (code, "")
    assert err.startswith("error: ")
    assert words in err
    assert err.count("\n") == 1
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("module", "name", "step"),
    [
        ("pipesim.importers.native", "Trace", "reading the trace"),
        ("pipesim.planners.uniform", "Stage", "planning"),
        ("pipesim.schedulers.one_f_one_b", "warm_up_depths", "ordering the microbatches"),
        ("pipesim.lowering", "_assemble", "lowering the plan to tasks"),
        ("pipesim.analysis.metrics", "busy", "evaluating the timeline"),
    ],
)
def test_an_internal_error_names_the_step_in_which_it_happened(module, name, step, run, monkeypatch):
    """The step is read from the traceback: here something that is called in that step has gone."""
    monkeypatch.setattr(f"{module}.{name}", None)
    code, _, err = run("simulate", *SMALL)
    assert code == 70
    assert f"internal error while {step}: " in err
    assert "'NoneType' object" in err


def test_the_traceback_is_printed_on_request(tmp_path):
    (tmp_path / "mine.py").write_text("def plan(model, cluster, costs, microbatches):\n    return {}['stages']\n")
    words = ["plan", "bert-large", FLAT, "-p", "mine:plan"]
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{tmp_path}"}
    plain, detailed = (pipesim(*words, env=environment | {"PIPESIM_TRACEBACK": each}) for each in ("0", "1"))
    assert (plain.returncode, detailed.returncode) == (2, 2)
    assert "Traceback" not in plain.stderr
    assert "return {}['stages']" in detailed.stderr
    assert detailed.stderr.endswith(plain.stderr)
    assert pipesim(*words, "--traceback", env=environment | {"PIPESIM_TRACEBACK": ""}).stderr == detailed.stderr


def test_a_message_does_not_repeat_all_of_what_was_typed(run):
    """100,000 characters came back, and the reason at their end."""
    long = "a" * 100_000
    for words in (
        ["show", long],
        ["show", f"{long}(1)"],
        ["simulate", long, FLAT],
        ["simulate", "bert-large", long],
        ["simulate", *SMALL[:2], "-p", long],
        ["simulate", *SMALL[:2], "-p", f"uniform({long})"],
        ["simulate", *SMALL[:2], "-p", f"uniform({long}=1)"],
        ["simulate", *SMALL[:2], "-s", f"{long}:x"],
        ["simulate", *SMALL[:2], "--plan", f"{long}.json"],
        ["simulate", *SMALL, "--sharing", long],
        ["simulate", *SMALL, "-m", long],
        ["trace", long, "-d", "h100", "-o", "x"],
        ["trace", "bert-large", "-d", long, "-o", "x"],
        ["trace", "bert-large", "-d", "h100", "--efficiency", long, "-o", "x"],
        [long],
    ):
        code, _, err = run(*words)
        assert code == 2, words[0]
        assert len(err) < 6000, f"{words[0]} {[word[:20] for word in words]}: {len(err)}"
        assert err.startswith("error: ")


def test_an_expression_may_be_longer_than_the_name_of_a_file(run):
    """`show` asked the system whether there is a file of this name, which it refuses to say."""
    expression = f"random(4, bandwidths=[1e9{', 2e9' * 80}], seed=1)"
    assert run("show", expression)[0] == 0
    code, _, err = run("show", expression.replace("seed", "sed"))
    assert code == 2
    assert "unexpected keyword argument 'sed'" in err
    assert "too long" not in err


# --- memory of the devices -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["simulate", "plan", "compare"])
def test_what_does_not_fit_ends_with_code_3_where_that_is_asked_for(command, run):
    tight, roomy = (f'flat(2, bandwidth="1GB/s", memory="{size}")' for size in ("2GB", "90GB"))
    words = ["-p", "uniform", "-m", "2", "--json"]
    plain = run(command, "bert-large", tight, *words)
    asked = run(command, "bert-large", tight, *words, "--require-fit")
    assert (plain[0], plain[2]) == (0, "")
    assert asked[0] == 3
    assert re.fullmatch(
        r"error: does not fit in memory: gpu\d is short of .* GiB, the most of 2 of 2 devices\n", asked[2]
    )
    if command != "plan":  # whose seconds of planning differ
        assert asked[1] == plain[1], "the result is printed all the same"
    assert run(command, "bert-large", roomy, *words, "--require-fit")[0] == 0
    unknown = 'flat(2, bandwidth="1GB/s", memory=0)'
    assert run(command, "bert-large", unknown, *words, "--require-fit")[0] == 0


def test_a_report_of_what_does_not_fit_is_written_and_ends_with_code_3_where_that_is_asked_for(run, tmp_path):
    file, page = tmp_path / "tight.toml", tmp_path / "tight.html"
    file.write_text('trace = "bert-large"\ncluster = \'flat(2, bandwidth="1GB/s", memory="1GiB")\'\nfit = false\n')
    assert run("report", file, "-o", page)[0] == 0
    page.unlink()
    code, _, err = run("report", file, "-o", page, "--require-fit")
    assert (code, page.exists()) == (3, True)
    assert err.startswith("error: does not fit in memory: gpu0 is short of")


def test_a_search_ends_with_code_3_where_no_layout_fits_or_none_is_known_to(run, tmp_path):
    words = ("--global-batch", "8", "--budget", "2")
    code, _, err = run("tune", "bert-large", 'flat(2, bandwidth="1GB/s", memory="300MiB")', *words)
    assert code == 3
    assert "61 do not fit in memory" in err
    layers = "layer,forward_s,backward_s,output_bytes\n0,0.01,0.02,1000\n1,0.01,0.02,1000\n"
    (tmp_path / "times.csv").write_text(layers)
    trace = tmp_path / "no-bytes"
    assert run("import", tmp_path / "times.csv", "-o", trace, "--microbatch-size", "4")[0] == 0
    cluster = 'flat(2, bandwidth="1GB/s", memory="1GB")'
    assert run("tune", trace, cluster, *words)[0] == 0
    code, out, err = run("tune", trace, cluster, *words, "--require-fit")
    assert code == 3
    assert out.startswith("best layout")
    assert "whether it fits in memory is unknown" in err


@pytest.mark.parametrize("planner", ["piper", "spp(memory='pe')"])
def test_a_planner_that_finds_no_plan_that_fits_ends_with_code_3(planner, run):
    code, _, err = run("plan", "bert-large", 'flat(2, bandwidth="1GB/s", memory="1GB")', "-p", planner)
    assert code == 3
    assert "fits" in err


# --- interruption ----------------------------------------------------------------------------------------------------


@pytest.mark.skipif(os.name != "posix", reason="signals as a terminal sends them")
def test_an_interruption_while_modules_are_imported_prints_no_traceback(tmp_path):
    """Ctrl-C in the first 0.3 s met Python's imports, and Python's traceback. Here click takes its time to import."""
    (tmp_path / "click.py").write_text("import time\nprint('importing', flush=True)\ntime.sleep(60)\n")
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"}
    command = [sys.executable, "-m", "pipesim", "--help"]
    with subprocess.Popen(
        command, env=environment, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as started:
        assert started.stdout.readline() == "importing\n"
        started.send_signal(signal.SIGINT)
        _, errors = started.communicate(timeout=30)
    assert (started.returncode, errors) == (130, "")


@pytest.mark.parametrize(("cause", "code"), [("KeyboardInterrupt", 130), ("ValueError", 1)])
def test_an_interruption_while_a_class_is_defined_prints_no_traceback(cause, code, tmp_path):
    """Python 3.11 raises RuntimeError in its place, as this click does; any other RuntimeError is shown."""
    (tmp_path / "click.py").write_text(f"raise RuntimeError('calling __set_name__') from {cause}()\n")
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"}
    command = [sys.executable, "-m", "pipesim", "--help"]
    done = subprocess.run(command, env=environment, cwd=tmp_path, check=False, capture_output=True, text=True)
    assert done.returncode == code
    assert ("Traceback" in done.stderr) == (code == 1)


def test_the_console_script_starts_where_imports_may_be_interrupted():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["scripts"] == {"pipesim": "pipesim.__main__:main"}


@pytest.mark.skipif(os.name != "posix", reason="signals as a terminal sends them")
@pytest.mark.parametrize("after", [0.0, 0.1, 0.3])
def test_an_interruption_prints_no_traceback(after):
    """From when Python has started, and imported the package: before, nothing of ours can catch it."""
    begin = time.monotonic()
    subprocess.run([sys.executable, "-c", "import pipesim"], check=True, cwd=ROOT)
    after += 1.5 * (time.monotonic() - begin)
    command = [sys.executable, "-m", "pipesim", "simulate", "bert-large", FLAT, "-m", "20000", "--engine", "event"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT) as started:
        time.sleep(after)
        started.send_signal(signal.SIGINT)
        _, errors = started.communicate(timeout=60)
    # Before Python is ready to take the signal as an exception, the system ends it: as silent, as fine.
    assert started.returncode in {130, -signal.SIGINT}
    assert "pipesim" not in errors.replace("interrupted", "")


@pytest.mark.parametrize("wraps", [True, False])
def test_an_error_in_place_of_an_interruption_is_an_interruption(wraps, monkeypatch, capsys):
    """Python raises RuntimeError where a class is being made, and compiled code SystemError."""

    def command(**_):
        raise RuntimeError("error calling __set_name__") from (KeyboardInterrupt() if wraps else ValueError())

    monkeypatch.setattr(cli.cli, "main", command)
    with pytest.raises(SystemExit) as ended:
        cli.main(["show"])
    assert ended.value.code == (130 if wraps else 70)
    assert ("this is a fault" in capsys.readouterr().err) == (not wraps)


# --- standard error --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("to", ["2>&-", "2>/dev/full"])
def test_the_exit_code_is_the_same_where_nothing_can_be_said(to):
    """Closed standard error: exit code 1, since the message could not be written."""
    command = f"{sys.executable} -m pipesim simulate bert-large nosuch {to}"
    done = subprocess.run(command, shell=True, check=False, cwd=ROOT, capture_output=True)  # noqa: S602 - as a shell does it
    assert done.returncode == 2


def test_a_command_whose_standard_error_was_closed_does_its_work():
    command = f"{sys.executable} -m pipesim plan bert-large '{FLAT}' -p uniform 2>&-"
    done = subprocess.run(command, shell=True, check=False, cwd=ROOT, capture_output=True)  # noqa: S602 - as above
    assert done.returncode == 0


def test_steps_are_named_after_modules_that_exist():
    there = {path.stem for pattern in ("*", "*/*") for path in (ROOT / "pipesim").glob(pattern)}
    assert set(failures._STEPS) <= there
