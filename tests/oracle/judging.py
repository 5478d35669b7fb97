"""Both engines before the oracle."""

from collections import Counter

import numpy as np

from oracle.loop import Stuck
from oracle.rounding import Refused
from oracle.simulate import Result, simulate
from pipesim.base.errors import DeadlockError, InputError, RefusedError
from pipesim.core.program import LETTERS
from pipesim.engines import compiled, event

ENGINES = (event, compiled)


def judged(case) -> str:
    """What pipesim made of a case, in a word; an AssertionError if the oracle, or an engine, says otherwise."""
    try:
        program = case.program()
    except (InputError, RefusedError) as error:
        return _refused(case, error)
    names = names_of(program)
    assert len(set(names)) == len(names), "two tasks have one name"
    found = _expected(case, {} if case.drawn is None else _work_of(program, names))
    timelines = played(program)
    if isinstance(timelines, str):
        left = int(timelines.split()[0])
        assert found == Stuck(left), f"the engines say that {left} tasks cannot start; the oracle: {found}"
        return f"stuck: {case.options.transfers}"
    assert isinstance(found, Result), f"pipesim simulates it; the oracle: {found!r}"
    _check_bytes(program, names, found.carried)
    if found.doubts:
        return "undecided: rounding"
    check_equal(timelines[0], dict(zip(names, _spans(timelines[0]), strict=True)), found.spans)
    return "equal"


def _refused(case, error) -> str:
    """What pipesim refuses, the oracle refuses or cannot finish."""
    found = _expected(case, {})
    if isinstance(error, DeadlockError):
        assert not isinstance(found, Result), f"the oracle comes to the end of an impossible order: {error}"
        return "stuck: impossible order"
    assert isinstance(found, Refused), f"pipesim refuses what the oracle simulates: {error}"
    return f"refused: {found}"


def _expected(case, work_ns) -> Result | Stuck | Refused:
    try:
        return simulate(*case[:-1], work_ns=work_ns)
    except (Stuck, Refused) as found:
        return found


def _check_bytes(program, names, carried) -> None:
    """Every message has its bytes."""
    for name, size in zip(names, program.size.tolist(), strict=True):
        expected, error = carried.get(name, (0, 0.0))
        assert abs(size - expected) <= error, f"{name}: {size} bytes; the oracle says {float(expected)}"


def played(program):
    """The timelines of all engines, the same to the last bit, that keep the rules; or why none comes to its end."""
    timelines, stuck = [], []
    for engine in ENGINES:
        try:
            timelines.append(engine.run(program))
        except DeadlockError as error:
            stuck.append(str(error))
    assert len(stuck) in {0, len(ENGINES)}, "one engine comes to its end, another does not"
    if stuck:
        assert len(set(stuck)) == 1, "engines say different things about the same deadlock"
        return stuck[0]
    ordered = compiled.in_fixed_order(program)
    timelines += [ordered] if ordered is not None else []
    reference = timelines[0]
    for other in timelines[1:]:
        check_equal(other, dict(enumerate(_spans(other))), dict(enumerate(_spans(reference))), "the event engine")
    for timeline in timelines:
        timeline.verify()
    if reference.rates is not None:
        for name in ("task", "time", "rate"):
            same = np.array_equal(getattr(reference.rates, name), getattr(timelines[1].rates, name))
            assert same, f"engines keep different rates: {name}"
    return timelines


def check_equal(timeline, mine: dict, expected: dict, whose: str = "the oracle") -> None:
    """Every task starts and ends at the expected nanosecond; the first that does not, in order of time, is shown."""
    only = sorted(set(mine) ^ set(expected), key=str)
    assert not only, f"tasks on one side only: {only[:5]}"
    wrong = sorted((min(mine[name] + expected[name]), str(name), name) for name in mine if mine[name] != expected[name])
    assert not wrong, (
        f"{len(wrong)} of {len(mine)} tasks differ; first {wrong[0][2]}: {timeline.engine} says {mine[wrong[0][2]]}, "
        f"{whose} {expected[wrong[0][2]]}"
    )


def names_of(program) -> list[tuple]:
    """What people see of each task, as the oracle names it."""
    devices, names, times = program.devices, [], Counter()
    columns = (program.kind, program.stage, program.microbatch, program.source, program.target)
    for kind, stage, microbatch, source, target in zip(*(column.tolist() for column in columns), strict=True):
        letter = LETTERS[kind]
        ends = (devices[source],) if letter in "FBIWO" else (devices[source], devices[target])
        name = (letter, stage, *ends) if letter in "OAG" else (letter, stage, microbatch, *ends)
        times[name] += letter in "AG"
        names.append(name if times[name] < 2 else (*name, f"#{times[name]}"))
    return names


def _work_of(program, names) -> dict:
    return {name: int(ns) for name, ns in zip(names, program.duration, strict=True) if name[0] in "FBIW"}


def _spans(timeline) -> list[tuple[int, int]]:
    return list(zip(timeline.start.tolist(), timeline.end.tolist(), strict=True))
