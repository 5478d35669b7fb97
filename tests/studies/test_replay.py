"""Iterations with drawn times depend on the seed alone."""

import numpy as np
import pytest

from helpers.networks import chain, pipeline_trace
from helpers.strategies import even_trace
from pipesim.analysis.joint_samples import draw_of
from pipesim.base.errors import InputError
from pipesim.core.trace import Trace
from pipesim.studies import replay, results
from pipesim.studies.simulation import simulation_of

FLAT = 'flat(4, bandwidth="1GB/s")'


def sampled_case():
    base = pipeline_trace([1000, 1000], [2000, 2000], [10]).layers
    layers = {name: np.repeat(values, 2) for name, values in base.items()} | {"sample": np.array([0, 1, 0, 1])}
    layers["forward_s"] = layers["forward_s"] * np.array([1, 3, 1, 3])
    trace = Trace("sampled", "test", 1, layers)
    return results.make_setup(trace, chain(2), "balanced", "gpipe", 4)


def test_replays_depend_on_the_seed_and_on_nothing_else():
    case = sampled_case()
    ten = list(replay.replay(case, 10, seed=3))
    assert ten == list(replay.replay(case, 10, seed=3))
    assert ten[:4] == list(replay.replay(case, 4, seed=3)), "iteration i does not depend on how many there are"
    assert ten != list(replay.replay(case, 10, seed=4))
    assert len(set(ten)) > 1


def test_replays_stay_within_the_fastest_and_slowest_samples():
    seconds = list(replay.replay(sampled_case(), 30))
    fastest, slowest = (2 * 1000 + 3 * 1000 + 2 * 2000 + 3 * 2000) * 1e-9, (5 * 3000 + 5 * 2000 + 20) * 1e-9
    assert all(fastest <= s <= slowest for s in seconds)


def test_a_replay_in_which_nothing_varies_is_refused():
    case = results.make_setup(even_trace(4), FLAT)
    with pytest.raises(InputError, match="one sample per layer, so every iteration would be the same"):
        list(replay.replay(case, 3))
    assert len(set(replay.replay(case, 3, jitter=0.1))) == 3


@pytest.mark.parametrize(
    ("wrong", "message"), [((0, 0, 0.1), "iterations"), ((3, 0, -1), "jitter"), ((3, -1, 0.1), "seed")]
)
def test_wrong_numbers_are_refused(wrong, message):
    with pytest.raises(InputError, match=message):
        list(replay.replay(sampled_case(), *wrong))


def joint_case(samples="microbatch"):
    """Two stages whose samples are of microbatches that are short or four times as long."""
    base = pipeline_trace([1000, 1000], [2000, 2000], [10]).layers
    length = np.tile(np.repeat([1.0, 4.0], 20), 2)
    layers = {name: np.repeat(values, 40) for name, values in base.items()} | {"sample": np.tile(np.arange(40), 2)}
    layers |= {name: layers[name] * length for name in ("forward_s", "backward_s")}
    trace = Trace("joint", "test", 1, layers, samples=samples)
    return results.make_setup(trace, chain(2), "balanced", "gpipe", 4)


def test_the_draw_is_found_from_the_samples_and_can_be_given():
    case = joint_case()
    assert draw_of(case.costs)[0] == "microbatch"
    assert draw_of(case.costs, "step")[0] == "step"
    assert draw_of(joint_case(samples="").costs)[0] == "independent"
    found = {draw: np.std(list(replay.replay(case, 40, draw=draw))) for draw in ("independent", "microbatch", "step")}
    assert found["independent"] < found["microbatch"] < found["step"], "what is shared does not average out"
    assert list(replay.replay(case, 3)) == list(replay.replay(case, 3, draw="microbatch"))


def test_samples_of_no_stated_meaning_are_not_drawn_together():
    with pytest.raises(InputError, match="does not state what samples of different layers"):
        list(replay.replay(sampled_case(), 3, draw="microbatch"))
    assert list(replay.replay(sampled_case(), 3, draw="layer"))
    with pytest.raises(InputError, match="draw"):
        list(replay.replay(sampled_case(), 3, draw="rank"))


def test_a_simulation_states_how_its_iterations_were_drawn():
    case = joint_case()
    simulation = simulation_of(case.costs.model.name, "flat(2)", iterations=5)
    data = results.simulated(case, simulation).as_data()["replay"]
    assert data["draw"] == "microbatch"
    assert data["joint_samples"]["shared_by_layers"] == pytest.approx(1)
