"""Expressions and numbers as people type them, mutated: each gives a value or is refused in a sentence.

`attempt(seed)` takes a valid cluster, planner, scheduler, architecture, format, formula, template, quantity or number,
spoils it up to four times, and uses it as the command line does.
"""

import functools
import math
import random
import re
import signal
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from pipesim.architectures import ARCHITECTURES, described
from pipesim.base import formulas, lookup, units
from pipesim.base.errors import PipesimError
from pipesim.core import schedule, trace
from pipesim.core.cluster import Cluster
from pipesim.core.costs import costs_of
from pipesim.core.plan import Plan
from pipesim.core.trace import Trace
from pipesim.engines import by_name
from pipesim.importers import IMPORTERS
from pipesim.lowering import lower
from pipesim.planners import PLANNERS
from pipesim.schedulers import SCHEDULERS
from pipesim.studies import equal_stages, loading, setups
from pipesim.topologies import TOPOLOGIES

SECONDS = 30  # nothing here may take longer
LONGEST = 6000  # characters of a message

POOLS: dict[str, tuple[str, ...]] = {
    "cluster": (
        'flat(4, bandwidth="1GB/s")',
        'servers(2, 2, intra="25GB/s", inter="10Gb/s", latency="5us")',
        'ring(3, bandwidth="1e9 B/s", device="t4")',
        'torus2d(2, 3, bandwidth="1GB/s")',
        'fat_tree(2, bandwidth="1GB/s")',
        'leaf_spine(2, 2, 1, bandwidth="1GB/s")',
        "random(4, bandwidths=[1e9, 2e9], seed=1)",
        "dgx1_v100(1)",
        "dgx_a100",
        'hgx_h100(1, device="a100-40gb")',
    ),
    "planner": (
        "balanced",
        "uniform(stages=2)",
        "spp(order='hierarchical', most_stages=2)",
        "megatron(pipeline=2, data=1)",
        "dapple",
        "gpipe",
        "pipedream",
        "piper(memory_limit=False)",
        "hetpipe",
        "data_parallel",
    ),
    "scheduler": (
        "gpipe",
        "one_f_one_b(warm_up='2A')",
        "interleaved(chunks=2)",
        "zb_h1",
        "zb_v",
        "hanayo(waves=1)",
        "looped_bfs(chunks=2)",
        "chimera",
        "auto(among=['gpipe', 'pe'])",
        "list_schedule(limit=2)",
    ),
    "architecture": (
        "gpt(2, 64, 2)",
        "llama(1, 64, 2, inner=128)",
        "gpt(1, 32, 2, sequence=16, vocabulary=100)",
        "vgg-16(image=32)",
        "vgg-11(image=32)",
    ),
    "format": (
        'csv(columns={"forward_s": "fwd"}, time_unit="ms")',
        "kineto(at_least=0.5)",
        "metis(output_bytes='8MiB')",
    ),
    "formula": (
        "gpus % 8 == 0 and planner != 'brute'",
        "max(1, gpus // 8)",
        "-gpus ** 2 / 3",
        "1 if gpus in [1, 2] else 0",
    ),
    "template": ("servers({gpus // 8}, 8, inter='{rate} Gb/s')", "{gpus}", "{{x}} {rate * 2}"),
    "bandwidth": ("25 Gb/s", "1GB/s", "1e9", "300 GiB/s", "1.5Tbps"),
    "size": ("16 GiB", "64 MB", "1024", ".5KiB", "1e3 B"),
    "duration": ("5us", "1.5 ms", "10", "1e-6 s", "3ns"),
    "fraction": ("10%", "0.1", "1", "100 %"),
    "number": ("1", "-2.5", "1e9", ".5", "1e-300"),
    "whole": ("1", "-2", "1000000", "007"),
    "inputs": ("3;7", "-", "", "0", "1; 2"),
    "schedule": ("0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1", "0F0,0I0,0W0", "(0F1;0B0)OVERLAP_F_B,0F0,0B1"),
}
_SLOW = {"annealing", "brute", "exact", "auto", "zb_1p", "zb_2p", "spp_plus"}  # seconds each
_PIECES = (
    *"()[]{},.=:;'\"+-*/%\\ \t\n_0123456789eExX",
    *("nan", "inf", "None", "True", "1_0", "1e999", "-1", "0", "9" * 30, "\u0661\u0662", "\uff11", "\u00b5s", "\u4e2d"),
    *("\x00", "\udcff", "\u202e", "((((", "lambda: 0", "__import__", "{}", "[]", "x=1", "**", "GB/s", "a" * 200),
)
_NUMBER = re.compile(r"\d+")
# Larger whole numbers are left to tests of limits: they may be valid, and take long.
_MOST = {"cluster": 12, "planner": 12, "scheduler": 12, "schedule": 12, "architecture": 512}


def attempt(seed: int) -> str:
    """Spoil the expression of this seed, and use it; its kind and whether it is still one."""
    rng = random.Random(seed)
    kind = rng.choice(list(POOLS))
    text = _with_option(kind, rng) if kind in _FAMILIES and rng.random() < 0.5 else rng.choice(POOLS[kind])
    text = _spoilt(text, rng) if rng.random() < 0.8 else text
    if kind in _MOST and any(_MOST[kind] < int(number[:30]) < 2**60 for number in _NUMBER.findall(text)):
        return f"{kind}: large, left out"
    with warnings.catch_warnings(), _limited(f"{kind} {text[:500]!r}"):
        warnings.simplefilter("error")
        refusal = _refusal(kind, text)
    assert refusal is None or 0 < len(refusal) < LONGEST, f"{kind} {text[:500]!r}: {len(refusal or '')} characters"
    return f"{kind}: {'used' if refusal is None else 'refused'}"


def _refusal(kind: str, text: str) -> str | None:
    """Why a text is no such expression; None if it is one."""
    try:
        _USES[kind](text)
    except PipesimError as error:
        return str(error)
    except ValueError as error:  # what the number parser says, and nothing else
        if kind not in {"number", "whole"}:
            raise AssertionError(f"{kind} {text[:500]!r}: {error!r}") from error
        return "no number"
    return None


_FAMILIES = {"cluster": TOPOLOGIES, "planner": PLANNERS, "scheduler": SCHEDULERS, "architecture": ARCHITECTURES}
_WILD = (
    *("0", "1", "2", "-1", "0.5", "1e308", "1e-320", "True", "None", "''", "'x'", "'1GB/s'", "[]", "[1]", "['x']"),
    *("{}", "{'x': 1}", "(1, 2)", "9" * 30, "[[1]]", "'auto'", "b'x'", "1j", "..."),
)


def _with_option(kind: str, rng: random.Random) -> str:
    """An expression with one more option that its function has, of any value."""
    text = rng.choice(POOLS[kind])
    if kind not in {"cluster", "architecture"}:  # the others need nothing
        text = rng.choice([name for name in _FAMILIES[kind] if name not in _SLOW])
    name, _, rest = text.partition("(")
    member = lookup.described({name: _FAMILIES[kind].get(name, name)}, kind)[name]
    options = [*member["options"], *member["needs"]]
    if not options:
        return text
    given = f"{rng.choice(options)}={rng.choice(_WILD)}"
    return f"{name}({rest.removesuffix(')')}, {given})" if rest else f"{name}({given})"


def _spoilt(text: str, rng: random.Random) -> str:
    for _ in range(rng.randint(0, 4)):
        at = rng.randint(0, len(text))
        stop = min(len(text), at + rng.randint(1, 6))
        match rng.randrange(7):
            case 0:
                text = text[:at] + text[stop:]
            case 1:
                text = text[:at] + rng.choice(_PIECES) + text[at:]
            case 2:
                text = text[:at] + rng.choice(_PIECES) + text[stop:]
            case 3:
                text = text[:at] + text[at:stop] * rng.choice((2, 3, 1000)) + text[stop:]
            case 4:
                text = _NUMBER.sub(lambda _: rng.choice(("0", "1", "3", "-1", "1e9", "0.5", "9" * 30)), text, count=1)
            case 5:
                other = rng.choice(rng.choice(list(POOLS.values())))
                text = text[:at] + other[rng.randint(0, len(other)) :]
            case _:
                text = "".join(rng.sample(text, len(text))) if rng.random() < 0.2 else text.swapcase()
    return text


# --- uses ------------------------------------------------------------------------------------------------------------


@functools.cache
def _small() -> Trace:
    return described.trace_called("gpt(2, 64, 2)", ["v100-16gb"], {"sequence": 16})


@functools.cache
def _flat() -> Cluster:
    return loading.load_cluster('flat(3, bandwidth="1GB/s")')


def _cluster(text: str) -> None:
    cluster = loading.load_cluster(text)
    assert cluster.bandwidth_matrix.shape == (len(cluster.devices),) * 2


def _planner(text: str) -> None:
    plan = setups.plan_with(text, costs_of(_small()), _flat(), 2)
    assert isinstance(plan, Plan)


def _scheduler(text: str) -> None:
    made = equal_stages.setup(text, 2, 3, equal_stages.Times.of(1.0, None, None, None, 0.0))
    assert by_name.run(lower(made)).makespan > 0


def _architecture(text: str) -> None:
    costs = costs_of(described.trace_called(text, ["v100-16gb"], {}))
    assert (costs.forward("v100-16gb") >= 0).all()


def _format(text: str) -> None:
    assert callable(lookup.resolve(text, IMPORTERS, "format"))


_VALUES = {"gpus": 8, "planner": "spp", "rate": 2.5, "x": 0}


def _formula(text: str) -> None:
    assert not isinstance(formulas.parse(text).value(_VALUES), complex)


def _template(text: str) -> None:
    formulas.template(text).value(_VALUES)


def _quantity(read: Callable[[float | str], float]) -> Callable[[str], None]:
    def use(text: str) -> None:
        value = read(text)
        assert math.isfinite(value), f"{text!r} is {value}"
        assert value >= 0, f"{text!r} is {value}"
        assert _is_plain(text), f"{text!r} is {value}"

    return use


def _is_plain(text: str) -> bool:
    """Whether the digits of a number are those of ASCII, and not grouped."""
    return "_" not in text and not any(character.isdigit() and not character.isascii() for character in text)


def _number(read: Callable[[str], float]) -> Callable[[str], None]:
    def use(text: str) -> None:
        assert read(text) == read(text) or math.isnan(read(text))
        assert _is_plain(text), text

    return use


def _inputs(text: str) -> None:
    found = trace.parse_inputs(text, 9)
    assert found is None or all(0 <= source < 9 for source in found)
    assert _is_plain(text), text


def _schedule(text: str) -> None:
    found = schedule.parse(text)
    assert schedule.parse(str(found)) == found
    assert _is_plain(text.replace("OVERLAP_F_B", "").replace("SEND_", "").replace("RECV_", "").replace("_GRAD", "")), (
        text
    )


_USES: dict[str, Callable[[str], None]] = {
    "cluster": _cluster,
    "planner": _planner,
    "scheduler": _scheduler,
    "architecture": _architecture,
    "format": _format,
    "formula": _formula,
    "template": _template,
    "bandwidth": _quantity(units.bandwidth),
    "size": _quantity(units.size),
    "duration": _quantity(units.duration),
    "fraction": _quantity(units.fraction),
    "number": _number(units.number),
    "whole": _number(units.whole),
    "inputs": _inputs,
    "schedule": _schedule,
}


class _TooSlow(BaseException):
    """No handler of errors takes it for one."""


@contextmanager
def _limited(what: str) -> Iterator[None]:
    def ring(*_: object) -> None:
        raise _TooSlow(f"{what} takes longer than {SECONDS} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
