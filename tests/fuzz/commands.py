"""Command lines drawn from the options themselves: any combination gives a result, or a refusal in words.

`attempt(seed)` draws a command and, for each of its parameters, nothing, a good value or a bad one, and runs it in this
process in a folder with one small file of each kind. A command ends with 0 or 3, or with 2 and a paragraph that begins
with "error:"; never with a traceback, another code or a warning; it does not change its inputs, and leaves nothing
half-written behind.
"""

import functools
import io
import itertools
import os
import random
import signal
import sys
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import click
import numpy as np

sys.path.append(str(Path(__file__).parents[1]))  # what tests share

from helpers import chakra_files as et
from helpers import profiles
from pipesim.base import serialisation
from pipesim.cli import COMMANDS, cli, main, parameters
from pipesim.core.scenario import CALM, Degraded, Scenario, Slow
from pipesim.core.trace import Trace
from pipesim.importers import IMPORTERS
from pipesim.planners import PLANNERS
from pipesim.schedulers import SCHEDULERS
from pipesim.studies import loading, results

SECONDS = 60  # no command here may take longer

# record needs torch and measures, demo is one fixed line that tests run.
NAMES = [name for name in COMMANDS if name not in {"record", "record-links", "demo"}]
_CLUSTER = 'flat(3, bandwidth="1GB/s", memory="16GiB")'
_CLUSTERS = (
    *(_CLUSTER, 'flat(2, bandwidth="1GB/s", memory=10000)', 'servers(2, 2, intra="25GB/s", inter="10Gb/s")'),
    *('ring(3, bandwidth="1e9 B/s")', "dgx1_v100", 'flat(1, bandwidth="1GB/s")', "c.toml", "c.json"),
    *("random(4, bandwidths=[1e9, 2e9], seed=1)", 'nvidia_smi("topo.txt", 1, device="v100-16gb")'),
)
_BAD_CLUSTERS = ("flat", "flat(2)", "flat(0, bandwidth=1)", "", "nosuch.toml", "flat(2, bandwidth=nan)", "trace", "(")
_SLOW = {"annealing", "brute", "exact", "spp_plus", "zb_1p", "zb_2p", "auto"}  # seconds each: drawn seldom

_GOOD = {
    "trace": ("trace", "trace", "profile.txt", "trace/trace.toml", "layers.csv"),
    "trace_a": ("trace", "profile.txt"),
    "trace_b": ("trace", "profile.txt"),
    "cluster": (_CLUSTER, *_CLUSTERS),
    "what": (*_CLUSTERS, "trace", "planners", "devices", "bert-large"),
    "planner": tuple(PLANNERS),
    "planners": tuple(PLANNERS),
    "scheduler": (*SCHEDULERS, "order.csv", "one_f_one_b(warm_up='2A')"),
    "schedulers": tuple(SCHEDULERS),
    "engine": ("auto", "event", "compiled"),
    "plan_file": ("plan.json", "plan.toml"),
    "scenario": ("slow.toml", "calm.toml"),
    "background": ("bg.csv",),
    "optimizer": ("sgd", "adamw"),
    "name": tuple(SCHEDULERS),
    "by": ("10%", "0.1", "100%", "0"),
    "model": ("gpt(2, 64, 2)", "llama(1, 64, 2, inner=128)", "vgg-11"),
    "devices": ("h100", "v100-16", "t4", "a100-80"),
    "precision": ("fp16", "fp32", "bf16", "tf32"),
    "efficiency": ("device", "curve", "curve(product=0.7)", "0.5", "1"),
    "form": (*IMPORTERS, "pipedream(samples=2)", "chakra"),
    "file_format": ("chrome", "csv", "parquet"),
    "query": ("microbatches > 1", "select count(*) from rows", "error is not null"),
    "only": ("microbatches > 1",),
    "kind": ("line", "bars", "scaling", "box", "cdf", "heat_map", "slopes"),
    "x": ("microbatches",),
    "y": ("iteration_time_s", "iteration_time_s * 2"),
    "value": ("iteration_time_s",),
    "statistic": ("mean", "median", "min"),
    "band": ("ci95", "minmax", "p5-p95"),
    "width": ("single", "double"),
    "formats": ("png", "svg"),
    "layers": ("stages", "ranges", "modules"),
    "actions": (r"(?P<kind>[FB])(?P<microbatch>\d+)", "F"),
    "iteration_name": ("step",),
    "log": ("x", "y"),
    "file": ("sweep.toml", "sweep.toml", "rows.csv"),
    "rows_file": ("rows.csv",),
    "store": ("other.sqlite",),
    "names": ("time",),
}
_FILES = {
    "run": (("run.0.et", "run.1.et"), ("run.1.et", "run.0.et"), ("run.0.et",)),
    "replay": (("recorded",), ("recorded/rank0.json", "recorded/rank1.json"), ("recorded/rank0.json",)),
    "import": (("profile.txt",), ("trace",), ("layers.csv",), ("times.npy",), ("recorded/rank0.json",), ("run.0.et",)),
}
_BAD = ("", "x", "nosuch", "-1", "f(", "1_0", "\u0664", "a" * 300, "balanced(x=1)", "\udcff", "a\nb", "{", "../..", ":")
_WHOLE = (("1", "2", "3", "4"), ("0", "-1", "x", "", "1.5", "9" * 20, "1_0", "nan"))
_NUMBERS = (("0", "0.5", "1", "0.001"), ("-1", "nan", "inf", "1e308", "x", "", "1e-320", "2.5"))
_PICTURES = (".png", ".svg", ".pdf")
_TABLES = (".json", ".csv", ".parquet")
_SUFFIXES = {
    "csv_file": (".csv",),
    "parquet_file": (".parquet",),
    "save_schedule": (".csv", ".json"),
    "save_plan": (".json", ".toml"),
    "save_cluster": (".json", ".toml"),
}
_OF_OUTPUT = {
    **dict.fromkeys(("simulate", "export", "run"), _TABLES),
    **dict.fromkeys(("plot", "gallery"), _PICTURES),
    "plan": (".json", ".toml"),
    "schedule": (".csv",),
    "show": (".toml", ".json", ".png"),
}
# Without these, most of their commands are refused; a chart has a name, or is said by options.
_NEEDED = frozenset({"output", "devices", "what", "model", "file"})
_CHARTS = (frozenset({"names"}), frozenset({"kind", "x", "y"}))
_OUTPUTS = ("out.xyz", "out", "", "trace/layers.csv", "c.toml", "/dev/null", "sub/deep/out.png", "a" * 300, "trace")
_INPUTS = ("nosuch.toml", "trace", "", "/dev/zero", "binary", "c.toml", "plan.json", "layers.csv", "empty.csv")


def attempt(seed: int) -> str:
    """Run the command line of this seed; its name and exit code."""
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder, _within(folder):
        _write_inputs()
        if rng.random() < 0.8:
            Path("sweep.sqlite").write_bytes(_results())
        before = _contents()
        words = _drawn(rng)
        encoding = rng.choice(("utf-8", "utf-8", "latin-1", "ascii"))
        code, out, err = _run(words, encoding)
        _judge(words, code, out, err)
        _judge_files(words, code, before)
    return f"{words[0]}: exit {code}"


# --- drawing ---------------------------------------------------------------------------------------------------------


class _Manner(NamedTuple):
    """How a line is drawn: most lines with many options or bad values are refused for the first of them."""

    density: float
    badness: float
    needed: frozenset[str]


def _drawn(rng: random.Random) -> list[str]:
    name = rng.choice(NAMES)
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    manner = _Manner(rng.choice((0.03, 0.08, 0.2)), rng.choice((0.0, 0.0, 0.1, 0.5)), _NEEDED | rng.choice(_CHARTS))
    words = [word for parameter in command.params for word in _given(name, parameter, rng, manner)]
    for names, given in ((("gallery", "compare"), ("--scheduler", "gpipe")), (("compare",), ("--planner", "uniform"))):
        if name in names and not {given[0], given[0][1:3]} & set(words):  # all there are take ten seconds
            words += given
    if name == "sweep" and not {"--status", "--dry-run"} & set(words):
        words += ["--workers", "1"]
    return [name, *words]


def _given(name: str, parameter: click.Parameter, rng: random.Random, manner: _Manner) -> Iterator[str]:
    """The words for one parameter."""
    if parameter.name in {"dask", "workers", "help"} or rng.random() > _chance(parameter, manner):
        return
    command = rng.choice(_FILES.get(name, ((),)))
    if parameter.name == "files" and rng.random() > manner.badness:
        yield from command
        return
    count = rng.randint(1, 2) if parameter.multiple or parameter.nargs == -1 else 1
    for _ in range(count):
        if isinstance(parameter, click.Option):
            yield rng.choice(parameter.opts)
            if parameter.is_flag:
                return
        yield _bad(parameter, rng) if rng.random() < manner.badness else _good(name, parameter, rng)


def _chance(parameter: click.Parameter, manner: _Manner) -> float:
    return 0.97 if parameter.required or parameter.name in manner.needed else manner.density


def _bad(parameter: click.Parameter, rng: random.Random) -> str:
    kind = parameter.type
    if isinstance(kind, click.types.IntParamType):
        return rng.choice(_WHOLE[1])
    if isinstance(kind, click.types.FloatParamType):
        return rng.choice(_NUMBERS[1])
    if _is_output(parameter):
        return rng.choice(_OUTPUTS)
    if isinstance(kind, click.Path):
        return rng.choice(_INPUTS)
    return rng.choice(_BAD_CLUSTERS if parameter.name in {"cluster", "what"} else _BAD)


def _good(command: str, parameter: click.Parameter, rng: random.Random) -> str:
    kind, name = parameter.type, str(parameter.name)
    if isinstance(kind, click.Choice):
        return rng.choice(list(kind.choices))
    if isinstance(kind, click.types.IntParamType):
        return rng.choice(_WHOLE[0])
    if isinstance(kind, click.types.FloatParamType):
        return rng.choice(_NUMBERS[0])
    if _is_output(parameter):
        suffixes = _OF_OUTPUT.get(command, ("",)) if name == "output" else _SUFFIXES.get(name, _PICTURES)
        return f"{name}{rng.choice(suffixes)}"
    pool = [each for each in _GOOD.get(name, ("label",)) if each not in _SLOW or rng.random() < 0.1]
    return rng.choice(pool or ["balanced" if name.startswith("planner") else "gpipe"])


def _is_output(parameter: click.Parameter) -> bool:
    return parameter.name in parameters.OUTPUTS or parameter.name == "folder"


# --- running ---------------------------------------------------------------------------------------------------------


class _TooSlow(BaseException):
    """No handler of errors takes it for one."""


@contextmanager
def _within(folder: str) -> Iterator[None]:
    before, path = Path.cwd(), list(sys.path)
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)
        sys.path[:] = path


@contextmanager
def _limited(words: list[str]) -> Iterator[None]:
    def ring(*_: object) -> None:
        raise _TooSlow(f"{words} takes longer than {SECONDS} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def _run(words: list[str], encoding: str) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of a command, in this process."""
    streams = [io.TextIOWrapper(io.BytesIO(), encoding) for _ in range(2)]
    kept, code = (sys.stdout, sys.stderr), 0
    sys.stdout, sys.stderr = streams
    try:
        with warnings.catch_warnings(), _limited(words):
            warnings.simplefilter("error")
            main(words)
    except SystemExit as stop:
        code = int(stop.code or 0)
    finally:
        sys.stdout, sys.stderr = kept
    for stream in streams:
        stream.flush()
    out, err = (stream.buffer.getvalue().decode(encoding) for stream in streams)  # type: ignore[attr-defined]
    return code, out, err


def _judge(words: list[str], code: int, out: str, err: str) -> None:
    said = f"{words}: exit {code}\n{err[-3000:]}"
    assert code in {0, 2, 3}, said
    assert "Traceback" not in err + out, said
    assert "Warning" not in err, said
    if code:
        assert any(line.startswith("error: ") and len(line) > len("error: ") for line in err.split("\n")), said
        assert len(err) < 20_000, said


def _judge_files(words: list[str], code: int, before: dict[Path, bytes]) -> None:
    after = _contents()
    stores = {named for word, named in itertools.pairwise(words) if word == "--store"}
    only_written = {word for word in words if words.count(word) == 1 and str(Path(word).parent) not in words}
    replaced = stores | only_written if code in {0, 3} else stores
    for path, data in before.items():
        if str(path) in replaced:  # an output that is no input of this command; an empty file as a store
            continue
        if "--force" in words and str(path.parent) in replaced:  # a folder with a trace, as an output
            continue
        assert path in after, f"{words}: {path} is gone"
        assert after[path] == data, f"{words}: {path} was changed"
    for path in set(after) - set(before):
        assert not path.name.startswith("."), f"{words}: {path} was left behind"
        assert after[path], f"{words}: {path} is empty"


def _contents() -> dict[Path, bytes]:
    """All files but results, which a sweep adds to."""
    return {path: path.read_bytes() for path in Path().rglob("*") if path.is_file() and ".sqlite" not in path.name}


# --- inputs ----------------------------------------------------------------------------------------------------------

_PROFILE = """\
node1 -- Linear(in=4, out=8) -- forward_compute_time=1.5, backward_compute_time=3, activation_size=64, parameter_size=9
node2 -- ReLU -- forward_compute_time=0.5, backward_compute_time=0.25, activation_size=64, parameter_size=0

\tnode1 -- node2
"""
_SWEEP = f"""\
format = "pipesim.sweep"
version = 1
[simulate]
trace = "trace"
cluster = '{_CLUSTER}'
[grid]
microbatches = [1, 2]
planner = ["uniform", "balanced"]
[plot]
time = {{ kind = "line", x = "microbatches", y = "iteration_time_s", series = "planner" }}
"""
_GPIPE = "0F0,0F1,0B0,0B1\n1F0,1F1,1B0,1B1"
_TOPOLOGY = "      GPU0  GPU1\nGPU0   X    NV2\nGPU1  NV2    X\n"


def _trace() -> Trace:
    layers = np.arange(4)
    return Trace(
        "small",
        "drawn",
        4,
        {
            "layer": layers,
            "name": np.array([f"layer{n}" for n in layers], object),
            "forward_s": 1e-3 * (1 + layers),
            "backward_s": 2e-3 * (1 + layers),
            "output_bytes": 10**5 * (1 + layers),
            "parameter_bytes": 10**6 * (1 + layers),
            "stash_bytes": 10**5 * (1 + layers),
        },
    )


@functools.cache
def _results() -> bytes:
    """What `pipesim sweep` keeps of the sweep among the inputs."""
    with tempfile.TemporaryDirectory() as folder, _within(folder):
        _write_inputs()
        code, _, err = _run(["sweep", "sweep.toml", "--workers", "1"], "utf-8")
        assert code == 0, err
        return Path("sweep.sqlite").read_bytes()


def _write_inputs() -> None:
    """One small file of each kind."""
    folder, trace = Path(), _trace()
    trace.save(folder / "trace")
    cluster = loading.load_cluster(_CLUSTER)
    case = results.make_setup(trace, cluster, "uniform", microbatches=4)
    slow = Scenario((Slow("gpu0", 2.0, 0.0, 1e-3),), (Degraded("gpu1", "switch", 0.5),))
    for name, value in {"c": cluster, "plan": case.plan, "slow": slow, "calm": CALM}.items():
        for suffix in (".toml", ".json"):
            serialisation.save(value, folder / f"{name}{suffix}")
    case.schedule.save(folder / "order.csv")
    texts = {
        "profile.txt": _PROFILE,
        "sweep.toml": _SWEEP,
        "topo.txt": _TOPOLOGY,
        "bg.csv": "link,time,share\ngpu0->switch,0s,0.5\n",
        "layers.csv": "name,forward_ms,backward_ms\na,1,2\nb,2,3\n",
        "rows.csv": "microbatches,iteration_time_s\n1,0.5\n2,0.25\n",
        "rank0.json": '{"schemaVersion": 1, "traceEvents": []}',
        "empty.csv": "",
    }
    for name, text in texts.items():
        Path(name).write_text(text, encoding="utf-8")
    Path("recorded").mkdir()
    for rank, one in enumerate(profiles.pipelined(_GPIPE)[0]):
        one.write(Path(f"recorded/rank{rank}.json"))
    et.write(Path("run.0.et"), [et.compute(1, "a_FWD", 5), et.send(2, 0, 1, 64, needs=[1])])
    et.write(Path("run.1.et"), [et.receive(1, 0, 1, 64), et.compute(2, "b_FWD", 5, needs=[1])])
    Path("binary").write_bytes(bytes(range(256)))
    np.save("times.npy", np.array([[0.5, 0.25]]))
