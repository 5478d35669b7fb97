"""pipesim layout and pipesim plan --to."""

import json

import pytest

import pipesim as ps
from pipesim.cli import main

FLAGS = [
    "--num-layers",
    "24",
    "--pipeline-model-parallel-size",
    "4",
    "--micro-batch-size",
    "4",
    "--global-batch-size",
    "32",
]
CLUSTER = 'flat(4, bandwidth="1GB/s")'


def test_arguments_are_shown_with_what_simulates_them(capsys):
    main(["layout", *FLAGS, "--model", "bert-large", "--cluster", CLUSTER])
    shown = capsys.readouterr().out
    assert "TP 1, PP 4, DP 1 = 4 GPUs" in shown
    assert "--planner 'megatron(blocks=(6, 6, 6, 6))' --pipeline 4 --data 1 --global-batch 32" in shown


def test_arguments_become_a_plan_and_the_plan_those_arguments(tmp_path, capsys):
    path = str(tmp_path / "plan.json")
    main(["layout", *FLAGS, "--model", "bert-large", "--cluster", CLUSTER, "-o", path])
    assert f"--plan {path} " in capsys.readouterr().out
    assert ps.load_plan(path).microbatches == 8
    main(["layout", path, "--to", "megatron", "--json"])
    data = json.loads(capsys.readouterr().out)
    assert data["text"].splitlines() == ["# WORLD_SIZE=4", "--num-layers 24", "--pipeline-model-parallel-size 4"]
    assert data["layout"]["pipeline"] == 4


def test_a_plan_is_shown_in_the_words_of_a_framework(tmp_path, capsys):
    main(["plan", "bert-large", CLUSTER, "--to", "deepspeed", "--json"])
    data = json.loads(capsys.readouterr().out)["framework"]
    assert json.loads(data["text"])["pipeline"]["stages"] == 4
    output = tmp_path / "arguments.sh"
    main(["layout", *FLAGS, "--to", "megatron-bridge", "-o", str(output)])
    assert "model.pipeline_model_parallel_size=4" in output.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--to", "megatrom", *FLAGS], "--to: unknown framework 'megatrom'"),
        (["nothing"], "no layout found"),
        ([*FLAGS, "-o", "plan.json"], "--model is missing"),
        (["--num-layers", "x"], "--num-layers: 'x' found"),
        ([*FLAGS, "--to", "deepspeed", "--sequence-parallel"], "sequence parallelism"),
    ],
)
def test_what_cannot_be_converted_ends_with_a_sentence(words, message, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as ended:
        main(["layout", *words])
    assert ended.value.code == 2
    assert message in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_the_best_layout_is_shown_in_the_words_of_a_framework(capsys):
    cluster = 'servers(2, 2, intra="25GB/s", inter="10Gb/s")'
    options = ["--gbs", "128", "--budget", "4", "-s", "1f1b", "--to", "megatron", "--json"]
    main(["tune", "bert-large", cluster, *options])
    data = json.loads(capsys.readouterr().out)
    best, made = data["rows"][0], data["framework"]["layout"]
    assert {name: made[name] for name in ("tensor", "pipeline", "data", "microbatch_size")} == {
        name: best[name] for name in ("tensor", "pipeline", "data", "microbatch_size")
    }
    assert data["framework"]["global_batch"] == 128
