"""Run a small GPT as a real pipeline and record it: python experiments/replay/record.py --output recorded.

One process per stage, joined by gloo over the loopback, trains for a few iterations under PyTorch's profiler, in the
order of 1F1B. Each writes rank0.json.gz, rank1.json.gz, ...: ranges name the action that ran (PP:1F2 is stage 1,
forward, microbatch 2, as torch.distributed.pipelining names them), and inside of forwards which layer. Needs the extra
`torch`: pip install pipesim[torch].
"""

import argparse
import gzip
import json
import os
import sys
import tempfile
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import Tensor
from torch.profiler import profile, record_function, schedule

from pipesim.base import lookup
from pipesim.base.errors import InputError
from pipesim.core.plan import Plan, Stage
from pipesim.core.program import LETTERS
from pipesim.recorders.subjects import Subject, load_factory, make_subject
from pipesim.recorders.values import start_of_backward
from pipesim.schedulers import SCHEDULERS

HERE = Path(__file__).parent
MODELS = HERE.parents[1] / "traces" / "recorded-cpu"
LOOPBACK = "lo0" if sys.platform == "darwin" else "lo"

Action = tuple[str, int]  # F or B, and the microbatch


def actions(plan: Plan, scheduler: str, stage: int) -> list[Action]:
    """What a stage does, in the order of a scheduler of pipesim: F0 F1 B0 F2 B1 ..."""
    schedule = lookup.function_named(scheduler, SCHEDULERS, "scheduler")(plan, None, None)
    rows = range(schedule.starts[stage], schedule.starts[stage + 1])
    found = [(LETTERS[schedule.kind[row]], int(schedule.microbatch[row])) for row in rows]
    if not {kind for kind, _ in found} <= {"F", "B"}:
        raise InputError(f"scheduler {scheduler!r}: splits backwards; whole ones were expected here")
    return found


def plan_of(bounds: list[int], microbatches: int) -> Plan:
    """The stages as a plan, one process each."""
    stages = tuple(Stage(start, stop, (f"rank{n}",)) for n, (start, stop) in enumerate(pairwise(bounds)))
    return Plan("recorded", bounds[-1], microbatches, stages)


@dataclass
class Worker:
    """A stage: its layers, the shapes at both of its ends, and what it keeps from forward to backward."""

    stage: int
    stages: int
    names: list[str]
    layers: list[torch.nn.Module]
    example: Tensor
    entering: Tensor
    leaving: Tensor
    kept: dict[int, tuple[Tensor, Tensor]] = field(default_factory=dict)
    sent: list[tuple[dist.Work, Tensor]] = field(default_factory=list)

    def run(self, kind: str, microbatch: int) -> None:
        """An action, with what it receives and sends."""
        with record_function(f"PP:{self.stage}{kind}{microbatch}"):
            if kind == "F":
                self._forward(microbatch)
            else:
                self._backward(microbatch)

    def _forward(self, microbatch: int) -> None:
        entering = self.example
        if self.stage > 0:
            entering = torch.empty_like(self.entering)
            dist.recv(entering, self.stage - 1)
            entering.requires_grad_()
        value = entering
        for name, layer in zip(self.names, self.layers, strict=True):
            with record_function(name):
                value = layer(value)
        self.kept[microbatch] = entering, value
        if self.stage < self.stages - 1:
            self._send(value.detach(), self.stage + 1)

    def _backward(self, microbatch: int) -> None:
        entering, value = self.kept.pop(microbatch)
        outputs, gradients = start_of_backward(value)
        if self.stage < self.stages - 1:
            gradient = torch.empty_like(self.leaving)
            dist.recv(gradient, self.stage + 1)
            gradients = [gradient]
        torch.autograd.backward(outputs, gradients)
        if self.stage > 0:
            self._send(entering.grad, self.stage - 1)

    def _send(self, tensor: Tensor, target: int) -> None:
        """Send without waiting; the tensor is kept until it has arrived."""
        self.sent.append((dist.isend(tensor, target), tensor))

    def iteration(self, order: list[Action]) -> None:
        """Forwards and backwards of all microbatches, from no gradients on."""
        for layer in self.layers:
            layer.zero_grad(set_to_none=True)
        dist.barrier()
        for kind, microbatch in order:
            self.run(kind, microbatch)
        for work, _ in self.sent:
            work.wait()
        self.sent.clear()


def cuts(count: int, stages: int, given: list[int] | None) -> list[int]:
    """Where stages begin and end: as given, or with as many layers each."""
    inner = [count * n // stages for n in range(1, stages)] if given is None else given
    bounds = [0, *inner, count]
    if len(bounds) != stages + 1 or sorted(set(bounds)) != bounds:
        raise InputError(f"cuts {given} found; {stages - 1} rising numbers between 0 and {count} were expected")
    return bounds


def worker_of(rank: int, subject: Subject, bounds: list[int]) -> Worker:
    """The worker of a stage; a forward of the whole model shows the shapes."""
    value, ends = subject.example, [subject.example]
    with torch.no_grad():
        for layer in subject.layers:
            value = layer(value)
            ends.append(value)
    first, last = bounds[rank], bounds[rank + 1]
    names, layers = list(subject.names[first:last]), list(subject.layers[first:last])
    return Worker(rank, len(bounds) - 1, names, layers, subject.example, ends[first], ends[last])


def work(rank: int, store: str, options: argparse.Namespace) -> None:
    """What each process does."""
    os.environ.setdefault("GLOO_SOCKET_IFNAME", LOOPBACK)
    torch.set_num_threads(1)
    sys.path[:0] = [str(Path.cwd()), str(MODELS)]
    dist.init_process_group("gloo", init_method=Path(store).as_uri(), rank=rank, world_size=options.stages)
    subject = make_subject(load_factory(options.factory), options.microbatch_size, torch.device("cpu"))
    bounds = cuts(len(subject.layers), options.stages, options.cut)
    worker = worker_of(rank, subject, bounds)
    order = actions(plan_of(bounds, options.microbatches), options.scheduler, rank)
    steps = schedule(wait=0, warmup=options.warmup, active=options.iterations, repeat=1)
    with profile(
        schedule=steps, record_shapes=True, profile_memory=True, on_trace_ready=_writer(rank, options)
    ) as taken:
        for _ in range(options.warmup + options.iterations):
            worker.iteration(order)
            taken.step()
    dist.destroy_process_group()


def _writer(rank: int, options: argparse.Namespace) -> Any:  # noqa: ANN401 - what the profiler calls
    path = options.output / f"rank{rank}.json.gz"

    def write(taken: Any) -> None:  # noqa: ANN401 - the profiler
        taken.export_chrome_trace(str(path))
        if options.brief:
            shorten(path)

    return write


def shorten(path: Path) -> None:
    """Leave only ranges and messages, which a replay needs: a hundredth of it. Layers' times need the operations."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        whole = json.load(file)
    messages = ("gloo", "c10d")
    events = [
        e
        for e in whole["traceEvents"]
        if e.get("cat") == "user_annotation" or any(word in e.get("name", "") for word in messages)
    ]
    kept = {"distributedInfo": whole["distributedInfo"], "traceEvents": events}
    with path.open("wb") as raw, gzip.GzipFile("", "wb", fileobj=raw, mtime=0) as file:
        file.write(json.dumps(kept).encode())


def main() -> None:
    """Parse the options and start a process per stage."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--output", type=Path, required=True, help="folder for rank0.json.gz, ...")
    parser.add_argument(
        "--factory", default="models:gpt(depth=6, vocabulary=2048)", help="as for pipesim record; a chain of layers"
    )
    parser.add_argument("--stages", type=int, default=2, help="processes, one per stage")
    parser.add_argument("--cut", type=int, nargs="+", help="first layers of the stages after the first")
    parser.add_argument("--scheduler", default="one_f_one_b", help="one_f_one_b, gpipe, ...: one that pipesim has")
    parser.add_argument("--microbatches", type=int, default=8)
    parser.add_argument("--microbatch-size", type=int, default=2)
    parser.add_argument("--brief", action="store_true", help="keep only what a replay needs, not layers' times")
    parser.add_argument("--iterations", type=int, default=3, help="recorded ones")
    parser.add_argument("--warmup", type=int, default=2, help="iterations before them")
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(work, (f"{folder}/store", options), nprocs=options.stages, daemon=True)


if __name__ == "__main__":
    main()
