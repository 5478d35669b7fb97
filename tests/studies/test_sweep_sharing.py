"""What points of a sweep share is made once in a worker, and every point has what it would have alone."""

import json

import pytest

from helpers import sweeps
from pipesim.analysis import bounds
from pipesim.studies import loading, setups, sweep
from pipesim.studies.sweep import worker as workers
from pipesim.studies.sweep.kept_values import KeptValues
from pipesim.studies.sweep.worker import Worker, WorkerConfig

METRICS = (
    "iteration_time_s",
    "bound_s",
    "replay_mean_s",
    "replay_p99_s",
    "plan_replicas",
    "tasks",
    "peak_memory_bytes",
)
TEXT = f"""{sweeps.HEAD}
[simulate]
trace = "bert-large"
cluster = 'flat(2, bandwidth="1GB/s")'
planner = "balanced"
microbatches = 4
iterations = 2
jitter = 0.1
[grid]
scheduler = ["one_f_one_b", "gpipe", "auto(among=['gpipe', 'one_f_one_b'])"]
sharing = ["fair", "fifo"]
slow = ["gpu0=1.5", "gpu1=1.5"]
seed = [0, 1]
[output]
metrics = {json.dumps(METRICS)}
"""


def config_of(made):
    return WorkerConfig(sweep.read(made)[0].values, made.metrics, "auto")


def counted(monkeypatch, module, name):
    """The arguments of all calls of a function from now on."""
    calls, function = [], getattr(module, name)
    monkeypatch.setattr(module, name, lambda *given, **named: calls.append(given) or function(*given, **named))
    return calls


def test_plans_schedules_programs_and_bounds_are_made_once_for_points_that_share_them(tmp_path, monkeypatch):
    made = sweep.load(sweeps.write(tmp_path, TEXT))
    plans, orders, programs = (
        counted(monkeypatch, module, name)
        for module, name in ((setups, "plan_with"), (workers, "ordered_with"), (workers, "played"))
    )
    before = bounds.plan_bound.cache_info()
    worker = Worker(config_of(made))
    assert [worker.outcome(b"", made.point(n)).error for n in range(24)] == [None] * 24
    assert len(plans) == 1
    assert len(orders) == 2 + 2  # a scheduler that simulates has another one for each sharing
    assert len(programs) == 12  # one for all seeds
    after = bounds.plan_bound.cache_info()
    assert after.misses - before.misses <= 4  # one for each sharing, in step and not
    assert after.hits > before.hits


def test_a_trace_that_was_read_is_not_read_again_for_every_cluster(tmp_path, monkeypatch):
    """A name of both a trace and a model depends on the cluster; its file was read for each of them, in each worker."""
    text = TEXT.replace("1GB/s", "{rate} GB/s").replace("seed = [0, 1]", "rate = [1, 2]")
    made = sweep.load(sweeps.write(tmp_path, text))
    config = config_of(made)
    opened = counted(monkeypatch, loading, "open_trace")
    worker = Worker(config)
    assert [worker.outcome(b"", made.point(n)).error for n in range(4)] == [None] * 4
    assert opened == []


def test_a_point_has_what_it_has_alone_whatever_was_simulated_before(tmp_path):
    made = sweep.load(sweeps.write(tmp_path, TEXT))
    shared = Worker(config_of(made))
    for number in [*range(24), *range(23, -1, -5)]:
        alone = Worker(config_of(made)).outcome(b"", made.point(number))
        assert alone.error is None
        assert shared.outcome(b"", made.point(number))[:-1] == alone[:-1]


def test_with_an_objective_a_program_is_of_how_times_are_drawn(tmp_path):
    """The plan depends on it then, so that what was made for another jitter is another program."""
    text = TEXT.replace('"balanced"', '"annealing(evaluations=20)"').replace("jitter = 0.1", 'objective = "p95"')
    text = text.replace("seed = [0, 1]", "jitter = [0.05, 2.0]").replace('slow = ["gpu0=1.5", "gpu1=1.5"]\n', "")
    made = sweep.load(sweeps.write(tmp_path, text))
    shared = Worker(config_of(made))
    for number in range(4):
        alone = Worker(config_of(made)).outcome(b"", made.point(number))
        assert alone.error is None
        assert shared.outcome(b"", made.point(number))[:-1] == alone[:-1]


def test_values_are_kept_until_they_are_too_many_the_oldest_going_first():
    kept = KeptValues(10, len)
    made = []

    def text(key, size):
        return kept.of(key, lambda: made.append(key) or key * size)

    assert [text("a", 4), text("b", 4), text("a", 4)] == ["aaaa", "bbbb", "aaaa"]
    assert made == ["a", "b"]
    text("c", 4)  # b is the one that was asked for longest ago
    assert [text("a", 4), text("b", 4)] == ["aaaa", "bbbb"]
    assert made == ["a", "b", "c", "b"]
    text("d", 11)  # larger than all that may be kept
    text("d", 11)
    assert made == ["a", "b", "c", "b", "d", "d"]


def test_what_fails_is_not_kept():
    kept = KeptValues(10, len)

    def failing():
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        kept.of("a", failing)
    assert kept.of("a", lambda: "a") == "a"
