"""The keys of many points are made fast, and are those of the points one by one."""

import hashlib
import random
import tracemalloc

import pytest

from helpers import sweeps
from pipesim.studies import sweep
from pipesim.studies.simulation import Simulation
from pipesim.studies.sweep import running
from pipesim.studies.sweep.inputs import Inputs
from pipesim.studies.sweep.keys import Keys
from pipesim.studies.sweep.points import key

SIMULATE = """[simulate]
architecture = "gpt({layers}, 64, 2, sequence=16)"
cluster = 'flat({gpus}, bandwidth="{rate} GB/s")'
"""
AXES = (
    "layers = [2, 4]",
    "gpus = [1, 2, 8]",
    "rate = [1, 1.0, 2.5]",
    'planner = ["balanced", "uniform", "uniform(stages={gpus})"]',
    'microbatches = [8, "{gpus * 2}", 16]',
    'scheduler = ["one_f_one_b", "gpipe"]',
    "iterations = [2, 3]",
    "seed = [0, 1]",
    "jitter = [0.0, 0.25]",
    "efficiency = [0.5, 0.25]",
    'sharing = ["fair", "none"]',
    "optimizer_s_per_byte = [0, 0.0001]",
)


def drawn(rng):
    """A grid of some of these axes, with a filter, and sometimes axes that vary together."""
    needed, more = AXES[:3], rng.sample(AXES[3:], rng.randint(1, 4))
    if "jitter = [0.0, 0.25]" in more or "seed = [0, 1]" in more:
        more = [*{*more, "iterations = [2, 3]"}]
    where = rng.choice(["", 'where = "gpus > 1 or rate > 1"', 'where = ["layers == 2", "gpus * layers < 9"]'])
    together = rng.choice(["", "[[grid.zip]]\nmicrobatch_size = [1, 2, 2]\ntransfers = ['eager', 'eager', 'blocking']"])
    return "\n".join([sweeps.HEAD, SIMULATE, "[grid]", *needed, *sorted(more), where, together])


@pytest.mark.parametrize("seed", range(20))
def test_keys_of_a_grid_are_those_of_its_points(tmp_path, seed):
    """A key says what is the same: were one made otherwise, results would be computed again, or be another's."""
    made = sweep.load(sweeps.write(tmp_path, drawn(random.Random(seed))))
    inputs = Inputs(made.path)
    fast = list(made.keys(inputs))
    assert fast == [(number, key(made.point(number), inputs.contents)) for number, _ in fast]
    old = list(made.keys(inputs, as_0_1=True))
    assert old == [(number, key(made.point(number), inputs.contents, as_0_1=True)) for number, _ in old]
    assert {key for _, key in old}.isdisjoint(key for _, key in fast)
    assert len(fast) > 1


def test_a_key_holds_the_semantics_and_not_the_version():
    """Else a release would discard every result; these change only when the same point comes to other numbers."""
    point = Simulation(trace="bert-large", cluster="flat(2)", microbatches=4)
    text = '[13,{"cluster":"flat(2)","microbatches":4,"trace":"sha256:1"}]'
    assert key(point, {"trace bert-large": "sha256:1"}) == hashlib.sha256(text.encode()).digest()[:16]
    text = text.replace("13,", '13,"0.1.0",')
    assert key(point, {"trace bert-large": "sha256:1"}, as_0_1=True) == hashlib.sha256(text.encode()).digest()[:16]


def test_points_are_worked_on_in_the_order_in_which_they_share_plans(tmp_path):
    text = f"""{sweeps.HEAD}
[simulate]
trace = "bert-large"
cluster = 'flat({{gpus}}, bandwidth="1GB/s")'
[[grid]]
sharing = ["fair", "none"]
gpus = [2, 4]
[[grid]]
gpus = [8]
scheduler = ["gpipe", "one_f_one_b"]
"""
    made = sweep.load(sweeps.write(tmp_path, text))
    numbers = sweep.read(made)[1].numbers
    ordered = [made.values(number) for number in made.ordered(numbers[::-1])]
    assert [point["gpus"] for point in ordered] == [2, 2, 4, 4, 8, 8]
    assert [point.get("sharing") for point in ordered] == ["fair", "none", "fair", "none", None, None]


def test_a_list_of_keys_is_small_and_finds_them():
    keys = Keys()
    rng = random.Random(1)
    expected = {3 * n: rng.randbytes(16) for n in range(1000)}
    for number, one in expected.items():
        keys.append(number, one)
    assert (len(keys), dict(keys), keys.different) == (1000, expected, 1000)
    assert all(keys.key(number) == one for number, one in expected.items())
    keys.append(3000, expected[0])
    assert (len(keys), keys.different) == (1001, 1000)


def test_many_points_are_counted_without_an_object_for_each(tmp_path):
    """A million points took minutes and hundreds of megabytes before the first was simulated."""
    text = sweeps.SMALL.replace("[2, 3]", "{ from = 2, to = 21, step = 1 }").replace(
        '"helpers.sweeps:counted"', '"tasks"'
    )
    made = sweep.load(sweeps.write(tmp_path, text, 1000))
    tracemalloc.start()
    try:
        _, keys = sweep.read(made)
        made.ordered(keys.numbers)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(keys) == keys.different == 20_000
    assert peak < 100 * len(keys), f"{peak / len(keys):.0f} bytes for each point"


@pytest.mark.parametrize("seed", range(10))
def test_what_is_listed_of_many_points_is_what_each_of_them_has(tmp_path, seed):
    """Values are found for many points at a time, by columns; some are left out."""
    text = drawn(random.Random(seed)).replace("[grid]", "[[grid]]")
    made = sweep.load(sweeps.write(tmp_path, text + "\n[[grid]]\nlayers = [2]\ngpus = [4]\nrate = [true, 7]\n"))
    keys = sweep.read(made)[1]
    expected = []
    for number, one in keys:
        values = made.values(number)
        expected.append((number, one, tuple(values.get(name) for name in made.axes)))
    assert list(made.listed(keys)) == expected


def test_steps_before_the_first_point_are_reported_from_the_beginning(tmp_path, monkeypatch):
    """Ten minutes of hashing looked like a command that hangs."""
    monkeypatch.setattr(running, "_OFTEN", 4)
    seen = []
    made = sweep.load(sweeps.write(tmp_path, sweeps.SMALL, 5))
    sweep.run(made, workers=1, watch=lambda _: seen.append("point"), watch_preparation=seen.append)
    before = seen[: seen.index("point")]
    assert before == [one for one in seen if one != "point"]
    assert before[0] == sweep.Preparation("hashing", 0, 10)
    assert list(dict.fromkeys(one.step for one in before)) == [
        "hashing", "checking results", "writing", "looking for what is left",
    ]  # fmt: skip
    for step in ("hashing", "writing"):
        assert [one.done for one in before if one.step == step] == [0, 4, 8]
