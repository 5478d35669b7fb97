"""What README shows is what happens.

After a deliberate change: `python tests/project/test_readme.py` writes the output of its commands anew; read the diff.
"""

import contextlib
import csv
import doctest
import io
import json
import re
import shlex
import tomllib

import pytest

from helpers.places import ROOT
from pipesim.base import serialisation
from pipesim.cli import main
from pipesim.core.scenario import Scenario
from pipesim.studies import comparison, experiment

README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language):
    """The code blocks of a language."""
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


def test_the_first_code_block_goes_from_a_trace_to_a_gantt_chart(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    first = blocks("python")[0]
    assert sum(line.startswith((">>>", "...")) for line in first.splitlines()) < 10
    test = doctest.DocTestParser().get_doctest(first, {}, "README", "README.md", 0)
    runner = doctest.DocTestRunner()
    runner.run(test)
    assert runner.summarize().attempted > 0
    assert runner.summarize().failed == 0
    assert (tmp_path / "gantt.png").stat().st_size > 0


@pytest.mark.parametrize("block", blocks("console"))
def test_each_command_prints_what_is_shown(block, capsys):
    command, _, expected = block.partition("\n")
    main(shlex.split(command.removeprefix("$ pipesim ")))
    assert capsys.readouterr().out == expected


def test_the_scenario_is_one_that_the_cluster_of_the_examples_knows():
    scenario = serialisation.from_data(
        Scenario, {k: v for k, v in tomllib.loads(blocks("toml")[0]).items() if k not in {"format", "version"}}
    )
    cluster = experiment.load_cluster('servers(2, 4, intra="25GB/s", inter="10Gb/s")')
    scenario.check_devices(cluster)
    assert scenario.of_media(cluster)


def test_every_file_and_picture_that_is_linked_is_there():
    for target in re.findall(r"\]\(([^)#:]+)\)", README):
        assert (ROOT / target).exists(), target


def test_the_first_look_has_the_numbers_it_states():
    folder = ROOT / "experiments" / "first-look"
    with (folder / "expected.csv").open(encoding="utf-8", newline="") as file:
        expected = list(csv.DictReader(file))
    rows = comparison.compare(
        "bert-large", 'servers(2, 4, intra="25GB/s", inter="10Gb/s")', ["uniform", "balanced"], ["gpipe", "one_f_one_b"]
    )
    found = [row.as_data() for row in rows]
    columns = ("planner", "scheduler", "iteration_time_s", "peak_memory_bytes")
    assert expected == [{name: str(row[name]) for name in columns} for row in found]
    plan = json.loads((folder / "plan.json").read_text(encoding="utf-8"))
    assert plan["planner"] == "balanced"
    text = (folder / "README.md").read_text(encoding="utf-8")
    for row in found[2:]:
        assert f"{row['iteration_time_s'] * 1e3:.1f} ms" in text


def rewritten():
    """README with the output that its commands have now."""
    text = README
    for block in blocks("console"):
        command = block.partition("\n")[0]
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            main(shlex.split(command.removeprefix("$ pipesim ")))
        text = text.replace(block, f"{command}\n{printed.getvalue()}")
    return text


if __name__ == "__main__":
    (ROOT / "README.md").write_text(rewritten(), encoding="utf-8")
