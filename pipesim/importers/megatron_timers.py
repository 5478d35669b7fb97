"""Logs of Megatron-LM with timers of all ranks: seconds of forwards and backwards of each stage.

    times across ranks (ms):                        --timing-log-option all --timing-log-level 2
      forward-compute:
         rank  0: 512.40
         rank  1: 498.11
      backward-compute:
         ...
    time (ms) | forward-compute: 512.40 | backward-compute: 1033.10 | ...          a run on one GPU, or an old version

Each log line is of one iteration (or the mean of several): a sample. Timers are sums over the microbatches of a rank.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from pipesim.base import files, units
from pipesim.base.checks import check_whole
from pipesim.base.errors import FormatError, InputError, shown, within
from pipesim.core.members import ImporterInfo
from pipesim.core.trace import ANY_KIND, Trace

FORWARD, BACKWARD = "forward-compute", "backward-compute"
_BLOCK = re.compile(r"times across ranks \(ms\):\s*$")
_TIMER = re.compile(r"(?P<name>[a-z][\w/-]*):\s*$")
_RANK = re.compile(r"rank\s+(?P<rank>[0-9]{1,7}):\s*(?P<ms>[0-9]{1,12}(?:\.[0-9]{1,9})?)\s*$")
_LINE = re.compile(r"(?:^|\s)time \(ms\) \|")
_ENTRY = re.compile(r"(?P<name>[a-z][\w-]*): (?P<ms>[0-9]{1,12}(?:\.[0-9]{1,9})?)(?=\s|$)")
_EXTREMES = "time across ranks (ms)"
_START = re.compile(r"times across ranks \(ms\):|time \(ms\) \|.*forward-compute: ")


@dataclass(slots=True)
class _Sample:
    """One logged iteration: timer -> rank -> ms."""

    times: dict[str, dict[int, float]] = field(default_factory=dict)

    @property
    def is_whole(self) -> bool:
        """Whether both timers were logged, for the same ranks."""
        return FORWARD in self.times and set(self.times[FORWARD]) == set(self.times.get(BACKWARD, ()))


def is_log(_: bytes, text: str) -> bool:
    """Whether the beginning of a file has timers of forwards of each rank."""
    return _START.search(text) is not None and FORWARD in text


_EXAMPLE = """ iteration       {0}/ 10 | consumed samples: 8 | elapsed time per iteration (ms): 1600.0 |
times across ranks (ms):
  forward-compute:
     rank  0: 51{0}.40
     rank  1: 498.11
  backward-compute:
     rank  0: 1020.00
     rank  1: 99{0}.50
"""


@ImporterInfo(
    recognises=is_log,
    otherwise="has no timers of forwards of each rank",
    example={"train.log": _EXAMPLE.format(1) + _EXAMPLE.format(2)},
)
def megatron_timers(
    path: Path,
    *,
    microbatches: int = 1,
    pipeline: int | None = None,
    samples: int = 1,
    skip: int = 1,
    output_bytes: int | str = 0,
    device: str = ANY_KIND,
) -> Trace:
    """The trace in a log: a layer for each stage, with a sample from each logged iteration but the first `skip`.

    `microbatches` is how many a rank ran in an iteration, and `samples` the size of one. `pipeline` is the number of
    stages; by default every rank is one, else ranks in equal parts, in Megatron's order, of which the mean counts.
    `output_bytes` are those of a stage for one sample. The time of a stage includes that of its tensor-parallel
    communication; times that a rank waited for others are other timers, which are left out.
    """
    check_whole("microbatches", microbatches)
    check_whole("samples", samples)
    check_whole("skip", skip, 0)
    with within("output_bytes"):
        each = round(min(units.size(output_bytes), 2.0**40))
    text = files.read_text(path, files.RECORDING)
    with within(str(path)):
        found = [one for one in _samples(text) if one.times]
        if found and not found[-1].is_whole:
            found.pop()  # a run that was stopped while it logged
        if not found:
            raise FormatError(_nothing(text))
        for number, one in enumerate(found):
            if not one.is_whole:
                raise FormatError(
                    f"logged iteration {number}: {FORWARD} and {BACKWARD} of the same ranks were expected"
                )
        kept = found[skip:] or found
        ranks = sorted(kept[0].times[FORWARD])
        if any(sorted(one.times[FORWARD]) != ranks for one in kept):
            raise FormatError("logs different ranks in different iterations; timers of one run were expected")
        stages = len(ranks) if pipeline is None else check_whole("pipeline", pipeline, 1, len(ranks))
        if len(ranks) % stages:
            raise InputError(f"pipeline = {stages} found; a divisor of the {len(ranks)} logged ranks was expected")
        times = {
            name: np.array([[one.times[name][rank] for rank in ranks] for one in kept]).reshape(len(kept), stages, -1)
            for name in (FORWARD, BACKWARD)
        }
        seconds = {name: of_ranks.mean(axis=2) / 1e3 / microbatches for name, of_ranks in times.items()}
        count = len(kept) * stages
        table = {
            "layer": np.tile(np.arange(stages), len(kept)),
            "name": np.array([f"stage {stage}" for stage in range(stages)] * len(kept), object),
            "device_kind": np.array([device] * count, object),
            "sample": np.repeat(np.arange(len(kept)), stages),
            "forward_s": seconds[FORWARD].ravel(),
            "backward_s": seconds[BACKWARD].ravel(),
            "output_bytes": np.full(count, each * samples),
        }
        note = f"stages, not layers, from timers of {len(kept)} iterations: sums divided by {microbatches} microbatches"
        return Trace(path.stem, "megatron_timers", samples, table, notes=(note,))


def _nothing(text: str) -> str:
    """Why there is no sample in a log."""
    if _EXTREMES in text:
        return (
            "logs the least and the most of all ranks, which are not times of a stage; those of each rank were "
            "expected: --timing-log-option all --timing-log-level 2"
        )
    return f"has no timers; {FORWARD} and {BACKWARD} of the same ranks were expected: --timing-log-level 2 logs them"


def _samples(text: str) -> Iterator[_Sample]:
    """The logged iterations, in order."""
    block: _Sample | None = None
    timer = ""
    for number, line in enumerate(text.split("\n"), 1):
        inside = None if block is None else _inside(block, timer, line, number)
        if inside is not None:
            timer = inside
            continue
        if block is not None:
            yield block
        block, timer = (_Sample() if _BLOCK.search(line) else None), ""
        if _LINE.search(line):
            entries = {entry["name"]: float(entry["ms"]) for entry in _ENTRY.finditer(line)}
            yield _Sample({name: {0: entries[name]} for name in (FORWARD, BACKWARD) if name in entries})
    if block is not None:
        yield block


def _inside(block: _Sample, timer: str, line: str, number: int) -> str | None:
    """The timer that the next line of a block is about, after adding this one; None if this is not of the block."""
    if named := _RANK.search(line):
        if timer in {FORWARD, BACKWARD}:
            _add(block.times.setdefault(timer, {}), int(named["rank"]), float(named["ms"]), number)
        return timer
    if line.lstrip().startswith("rank"):
        raise FormatError(f"line {number}: {shown(line.strip())} found; a rank with its ms was expected")
    heading = None if _BLOCK.search(line) else _TIMER.search(line)
    return heading["name"] if heading else None


def _add(times: dict[int, float], rank: int, ms: float, line: int) -> None:
    if rank in times:
        raise FormatError(f"line {line}: rank {rank} has the timer twice; each rank once was expected")
    times[rank] = ms
