import json

import pytest

from helpers.recorded_links import run
from pipesim.base.errors import InputError
from pipesim.cli import main
from pipesim.core.trace import OptimizerStep, Trace


def trace_with(*optimizers):
    columns = {"layer": [0], "name": ["a"], "forward_s": [1.0], "backward_s": [2.0], "output_bytes": [4]}
    return Trace("m", "by hand", 4, columns | {"parameter_bytes": [1000]}, optimizers=optimizers)


def test_what_optimizers_take_is_kept_in_the_trace(tmp_path):
    trace = trace_with(OptimizerStep("sgd", 1e-11), OptimizerStep("adamw", 1e-9, 2.0))
    trace.save(tmp_path / "t")
    again = Trace.load(tmp_path / "t")
    assert again.same_as(trace)
    assert again.optimizer("adamw") == OptimizerStep("adamw", 1e-9, 2.0)
    assert not again.same_as(trace_with())


def test_a_trace_without_optimizers_says_nothing_of_them(tmp_path):
    trace_with().save(tmp_path / "t")
    assert "optimizers" not in (tmp_path / "t" / "trace.toml").read_text()


def test_an_unknown_optimizer_is_answered_with_those_there_are():
    with pytest.raises(InputError, match=r"no optimizer 'adam'; did you mean 'adamw'\? known are sgd, adamw"):
        trace_with(OptimizerStep("sgd", 0.0), OptimizerStep("adamw", 0.0)).optimizer("adam")
    with pytest.raises(InputError, match="it has none"):
        trace_with().optimizer("adam")


@pytest.mark.parametrize("bad", [(-1.0, 0.0), (float("nan"), 0.0), (0.0, -1.0), (1e9, 0.0)])
def test_steps_that_nothing_takes_are_refused(bad):
    with pytest.raises(InputError, match="optimizer 'sgd'"):
        OptimizerStep("sgd", *bad)


def test_an_optimizer_is_named_once():
    with pytest.raises(InputError, match="duplicate name 'sgd'"):
        trace_with(OptimizerStep("sgd", 0.0), OptimizerStep("sgd", 1.0))


def test_an_iteration_with_a_recorded_optimizer_takes_its_step_longer(tmp_path, capsys):
    """1000 bytes of parameters at 1 ms per byte are a second."""
    trace_with(OptimizerStep("slow", 1e-3, 2.0)).save(tmp_path / "t")

    def seconds(*more):
        cluster = 'flat(1, bandwidth="1GB/s", device="cpu", memory="1 GiB")'
        main(["simulate", str(tmp_path / "t"), cluster, "-m", "1", "--json", *more])
        return json.loads(capsys.readouterr().out)["iteration_time_s"]

    assert seconds("--optimizer", "slow") == pytest.approx(seconds() + 1.0)


def test_an_optimizer_is_either_named_or_stated(tmp_path, capsys):
    trace_with(OptimizerStep("slow", 1e-3, 2.0)).save(tmp_path / "t")
    arguments = ["simulate", tmp_path / "t", "dgx1_v100", "--optimizer", "slow", "--optimizer-state", "1"]
    code, _, err = run(capsys, *arguments)
    assert code == 2
    assert "--optimizer-state has no effect beside --optimizer" in err
