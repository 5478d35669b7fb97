"""pipesim calibrate."""

import json

import pytest

TABLE = """architecture,cluster,microbatches,iteration_s,id
"gpt(2, 1024, 8, sequence=256, microbatch=4)","flat(2, '100 GB/s', device='a100-80gb')",4,80 ms,first
"gpt(2, 2048, 8, sequence=256, microbatch=4)","flat(2, '100 GB/s', device='a100-80gb')",4,0.2,second
"""


@pytest.fixture
def table(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs.csv").write_text(TABLE)
    return "runs.csv"


def test_a_device_is_fitted_and_written_with_what_it_was_fitted_on(run, table, tmp_path):
    code, out, err = run("calibrate", table, "-o", "own.toml", "--name", "mine")
    assert (code, err) == (0, "")
    assert "use device own.toml:mine written to own.toml" in out
    text = (tmp_path / "own.toml").read_text()
    assert 'source = "product fitted on 2 measurements of runs.csv; mean error ' in text


def test_json_has_constants_and_residuals(run, table):
    code, out, _ = run("calibrate", table, "-o", "own.toml", "--json")
    data = json.loads(out)
    assert code == 0
    assert data["device"]["base"] == "a100-80gb"
    assert data["fitted"] == ["product"]
    assert [(one["label"], one["measured_s"]) for one in data["residuals"]] == [("first", 0.08), ("second", 0.2)]
    assert data["output"] == "own.toml"


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["runs.csv", "-o", "own.json"], "a file that ends in .toml was expected"),
        (["-o", "own.toml"], "RUN"),
        (["runs.csv", "-o", "own.toml", "--constants", "product,speed"], "constant 'speed' is unknown"),
        (["nothing.csv", "-o", "own.toml"], "nothing.csv"),
    ],
)
@pytest.mark.usefixtures("table")
def test_what_is_wrong_ends_with_exit_code_2(run, words, complaint, tmp_path):
    code, out, err = run("calibrate", *words)
    assert (code, out) == (2, "")
    assert complaint in err
    assert not (tmp_path / "own.toml").exists()
