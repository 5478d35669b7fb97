"""pipesim validate: the report, a user's runs, and what is refused."""

import csv
import json

import pytest

from pipesim.cli import main

CLUSTER = 'flat(2, bandwidth="1GB/s", device="cpu", memory="8GiB")'


def refused(capsys, *words):
    with pytest.raises(SystemExit) as ended:
        main(["validate", *words])
    assert ended.value.code == 2
    return capsys.readouterr().err


def test_without_runs_it_prints_what_ships(capsys):
    main(["validate"])
    shown = capsys.readouterr().out
    assert shown.index("(a)") < shown.index("(d)") < shown.index("intervals:")
    head = shown.split("\n\n")[0].splitlines()
    assert [line.split()[0] for line in head] == ["(a)", "(b)", "(c)", "(d)", "intervals"]
    main(["validate", "--json"])
    assert [one["tier"] for one in json.loads(capsys.readouterr().out)["tiers"]] == list("abcde")


def test_rows_of_all_tiers_are_one_table_when_they_are_sorted_or_written(tmp_path, capsys):
    main(["validate", "--sort", "-worst", "--top", "3", "--json"])
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert len(rows) == 3
    assert [row["worst"] for row in rows] == sorted((row["worst"] for row in rows), reverse=True)
    main(["validate", "--sort", "-worst", "--top", "3", "--csv", str(tmp_path / "sets.csv")])
    assert capsys.readouterr().out.splitlines()[-2].split()[0] == rows[-1]["tier"]
    with (tmp_path / "sets.csv").open(encoding="utf-8") as file:
        assert [row["data_set"] for row in csv.DictReader(file)] == [row["data_set"] for row in rows]
    assert "--top has no effect beside --markdown" in refused(capsys, "--markdown", "--top", "1")


def test_a_table_takes_what_its_lines_do_not_state_from_the_command_line(tmp_path, capsys):
    (tmp_path / "runs.csv").write_text("id,microbatches,iteration_s\none,4,2.0\ntwo,8,3.0\n", encoding="utf-8")
    main(["validate", str(tmp_path / "runs.csv"), "gpt-small-cpu", CLUSTER, "--json"])
    data = json.loads(capsys.readouterr().out)
    assert [(row["id"], row["measured_s"]) for row in data["rows"]] == [("one", 2.0), ("two", 3.0)]
    main(["validate", str(tmp_path / "runs.csv"), "gpt-small-cpu", CLUSTER])
    shown = capsys.readouterr().out
    assert "\nd     one " in shown
    assert "in the interval that results state:" in shown


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["--json", "--markdown"], "--json and --markdown found"),
        (["--microbatches", "4"], "--microbatches has no effect without RUNS"),
        (["no-such-file"], "no-such-file: no such file"),
        (["no-such-file", "gpt-small-cpu"], "Missing argument 'CLUSTER'"),
        (["no-such-file", "--microbatches", "4"], "--microbatches has no effect without TRACE and CLUSTER"),
        (["no-such-file", "--markdown"], "--markdown has no effect"),
        (["--factory", "x:y"], "--factory has no effect without --live"),
        (["--live", "live", "--microbatches", "4"], "--microbatches has no effect beside --live"),
        (["--live", "live", "--markdown"], "--markdown has no effect beside --live"),
    ],
)
def test_what_makes_no_sense_is_refused(words, found, capsys):
    assert found in refused(capsys, *words)


def test_an_empty_table_is_refused(tmp_path, capsys):
    (tmp_path / "runs.csv").write_text("iteration_s\n", encoding="utf-8")
    assert "no measured iterations found" in refused(capsys, str(tmp_path / "runs.csv"))


def test_live_runs_need_pytorch_and_write_nothing_without(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("pipesim.recorders.torch_extra.importlib.util.find_spec", lambda _: None)
    assert "pip install 'pipesim[torch]'" in refused(capsys, "--live", str(tmp_path / "live"))
    assert not (tmp_path / "live").exists()
