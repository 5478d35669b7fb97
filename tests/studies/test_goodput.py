"""What failures leave of the time of a training run, beside runs that are drawn."""

import random

import pytest

from pipesim.base.errors import InputError
from pipesim.studies.goodput import Failures, longest_wait


def drawn(failures, gpus, interval, total, rng):
    """The part of the time that is progress that lasts, of a run with drawn failures."""
    done = passed = 0.0
    until = rng.expovariate(1 / failures.between(gpus))
    while done < total:
        if until > interval + failures.checkpoint:
            passed, done, until = (
                passed + interval + failures.checkpoint,
                done + interval,
                until - interval - failures.checkpoint,
            )
        else:
            passed += until + failures.restart
            until = rng.expovariate(1 / failures.between(gpus))
    return done / passed


def test_the_closed_form_is_what_drawn_runs_come_to():
    failures, gpus = Failures(mtbf=3600 * 20_000, restart=300, checkpoint=20), 1000
    parts = [drawn(failures, gpus, failures.interval(gpus), 3e6, random.Random(seed)) for seed in range(8)]
    assert sum(parts) / len(parts) == pytest.approx(failures.goodput(gpus), abs=0.004)


def test_the_interval_is_the_best():
    failures, gpus = Failures(mtbf=3600 * 20_000, restart=300, checkpoint=20), 1000
    best = failures.interval(gpus)

    def lost(tau):
        return failures.checkpoint / tau + tau / (2 * failures.between(gpus))

    assert lost(best) < min(lost(best * 0.9), lost(best * 1.1))


def test_more_gpus_leave_less_and_too_many_failures_are_refused():
    failures = Failures(mtbf=3600 * 50_000, restart=600, checkpoint=60)
    assert failures.goodput(64) > failures.goodput(1024)
    with pytest.raises(InputError, match=r"a failure every .* s among 1000000 GPUs found"):
        failures.goodput(1_000_000)


def test_waiting_for_a_repair_is_better_up_to_where_both_make_the_same_progress():
    wait = longest_wait(10.0, 13.0, 600.0)
    going_on = (wait - 600.0) / 13.0
    assert going_on == pytest.approx(600.0 / 10.0)
