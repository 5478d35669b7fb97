"""A plan that exists is valid: its stages cover all layers in order, on devices that are the same or disjoint."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers import strategies
from pipesim.base import serialisation
from pipesim.base.errors import FormatError, InputError, PlanError
from pipesim.core import plan as plans
from pipesim.core.cluster import Cluster, Device
from pipesim.core.model import Layer, Model
from pipesim.core.plan import DERIVED_KEYS, Plan, Stage

TWO = (Stage(0, 2, ("a", "b")), Stage(2, 5, ("c",)))


@pytest.mark.parametrize(
    ("stages", "message"),
    [
        ((), "stages: a plan needs at least one"),
        ((Stage(1, 5, ("a",)),), r"stages\[0\]\.start: 1 found; 0 was expected"),
        ((Stage(0, 2, ("a",)), Stage(3, 5, ("b",))), r"stages\[1\]\.start: 3 found; 2 was expected"),
        ((Stage(0, 2, ("a",)), Stage(1, 5, ("b",))), r"stages\[1\]\.start: 1 found; 2 was expected"),
        ((Stage(0, 4, ("a",)),), r"stages\[0\]\.stop: 4 found; 5 layers were expected"),
        ((Stage(0, 6, ("a",)),), r"stages\[0\]\.stop: 6 found"),
        (
            (Stage(0, 2, ("a", "b")), Stage(2, 5, ("b", "c"))),
            r"stages\[1\]\.devices: 'b' is also in a stage on a, b; the devices of two stages must be the same or",
        ),
        ((Stage(0, 2, ("a", "b")), Stage(2, 5, ("a",))), r"stages\[1\]\.devices: 'a' is also in a stage on a, b"),
    ],
)
def test_stages_that_make_no_plan_are_refused(stages, message):
    with pytest.raises(PlanError, match=message):
        Plan("m", 5, 2, stages)


@pytest.mark.parametrize(
    ("start", "stop", "devices", "message"),
    [
        (2, 2, ("a",), "layers 2 to 2 found; a stage needs at least one layer"),
        (-1, 2, ("a",), "layers -1 to 2 found"),
        (0, 2, (), "a stage needs at least one device"),
        (0, 2, ("a", "b", "a"), "duplicate device in a, b, a"),
    ],
)
def test_impossible_stages_are_refused(start, stop, devices, message):
    with pytest.raises(PlanError, match=message):
        Stage(start, stop, devices)


@pytest.mark.parametrize("microbatches", [0, -1])
def test_a_plan_is_for_at_least_one_microbatch(microbatches):
    with pytest.raises(PlanError, match=f"microbatches = {microbatches} found"):
        Plan("m", 5, microbatches, TWO)
    with pytest.raises(InputError, match=f"microbatches = {microbatches} found"):
        plans.check_microbatches(microbatches)


def test_the_properties_of_a_plan():
    plan = Plan("m", 5, 3, TWO)
    assert plan.devices == ("a", "b", "c")
    assert plan.cuts == (2,)
    assert plan.replication == (2, 1)
    assert plan.chunks == ((0,), (0,), (1,))


def test_replicas_split_each_microbatch_or_take_whole_ones_in_turn():
    split, whole = (Plan("m", 5, 5, TWO, replicas) for replicas in ("split", "whole"))
    assert (split.share(0), split.share(1)) == (0.5, 1.0)
    assert (whole.share(0), whole.share(1)) == (1.0, 1.0)
    assert list(split.microbatches_of(0, 1)) == [0, 1, 2, 3, 4]
    assert [list(whole.microbatches_of(0, replica)) for replica in range(2)] == [[0, 2, 4], [1, 3]]
    assert list(whole.microbatches_of(1, 0)) == [0, 1, 2, 3, 4]


def test_a_device_may_hold_several_stages():
    """Virtual stages: the same devices, in whatever order they are named, come round again."""
    stages = (Stage(0, 1, ("a", "b")), Stage(1, 2, ("c",)), Stage(2, 4, ("b", "a")), Stage(4, 5, ("c",)))
    plan = Plan("m", 5, 2, stages)
    assert plan.devices == ("a", "b", "c")
    assert plan.chunks == ((0, 2), (0, 2), (1, 3))


@given(st.integers(1, 6).flatmap(lambda layers: strategies.plans(layers, ["a", "b", "c", "d"])))
def test_every_microbatch_passes_every_stage_once_as_a_whole(plan):
    """Shares of all replicas that work on a microbatch add up to one."""
    for n, stage in enumerate(plan.stages):
        worked = [0.0] * plan.microbatches
        for replica in range(len(stage.devices)):
            for microbatch in plan.microbatches_of(n, replica):
                worked[microbatch] += plan.share(n)
        assert worked == pytest.approx([1.0] * plan.microbatches)
    assert sorted(n for held in plan.chunks for n in set(held)) == sorted(
        n for n, stage in enumerate(plan.stages) for _ in stage.devices
    )


def test_a_plan_fits_its_own_model_and_a_cluster_with_its_devices():
    model = Model("m", 1, tuple(Layer(str(i), 1) for i in range(5)))
    cluster = Cluster("c", tuple(Device(name, "gpu") for name in "abcd"))
    plans.check_fits(Plan("m", 5, 2, TWO), model, cluster)
    with pytest.raises(PlanError, match=r"the plan is for 4 layers .of 'm'.; 'm' has 5"):
        plans.check_fits(Plan("m", 4, 2, (Stage(0, 4, ("a",)),)), model, cluster)
    with pytest.raises(PlanError, match=r"stages\[1\]\.devices\[0\]: cluster 'c' has no device 'x'"):
        plans.check_fits(Plan("m", 5, 2, (Stage(0, 2, ("a",)), Stage(2, 5, ("x",)))), model, cluster)


@pytest.mark.parametrize("suffix", [".json", ".toml"])
def test_a_plan_is_saved_and_loaded(tmp_path, suffix):
    plan = Plan("m", 5, 2, TWO, "whole", "by hand", 0.1)
    serialisation.save(plan, tmp_path / f"plan{suffix}")
    assert serialisation.load(Plan, tmp_path / f"plan{suffix}") == plan


def test_what_a_plan_s_file_shows_beside_the_plan_is_not_read(tmp_path):
    """Cuts, replication and bounds are there for people; the stages alone say what they are."""
    path = tmp_path / "plan.json"
    data = {"format": "pipesim.plan", "version": 1, **serialisation.to_data(Plan("m", 5, 2, TWO))}
    path.write_text(json.dumps(data | dict.fromkeys(DERIVED_KEYS, "whatever")))
    assert serialisation.load(Plan, path, DERIVED_KEYS) == Plan("m", 5, 2, TWO)


def test_a_wrong_plan_in_a_file_is_refused_with_its_place(tmp_path):
    path = tmp_path / "plan.json"
    data = {"format": "pipesim.plan", "version": 1, **serialisation.to_data(Plan("m", 5, 2, TWO))}
    path.write_text(json.dumps(data | {"stages": [{"start": 0, "stop": 5, "devices": []}]}))
    with pytest.raises(PlanError, match=r"plan\.json: stages\[0\]: layers 0 to 5: a stage needs at least one device"):
        serialisation.load(Plan, path)
    path.write_text(json.dumps(data | {"version": 9}))
    with pytest.raises(FormatError, match=r"plan\.json: pipesim\.plan version 9 is newer"):
        serialisation.load(Plan, path)


def test_a_team_is_of_one_kind_of_device():
    model = Model("m", 1, (Layer("l", 1),))
    plan = Plan("m", 1, 1, (Stage(0, 1, ("a",)),), teams=(("a", "b"),))
    plans.check_fits(plan, model, Cluster("same", (Device("a", "v100"), Device("b", "v100")), ()))
    with pytest.raises(PlanError, match=r"teams\[0\]: devices of kinds a100, v100 found; one kind was expected"):
        plans.check_fits(plan, model, Cluster("mixed", (Device("a", "v100"), Device("b", "a100")), ()))
