"""Files as PyTorch's profiler writes them, made event by event: times in microseconds, answers known beforehand.

with_ = Profile()
with_.range("layer0", 0, 10); with_.op("aten::mm", 1, 5, sequence=7); with_.kernel(3, 20, 30)
with_.node("MmBackward0", 50, 60, sequence=7)
"""

import gzip
import json
from pathlib import Path

MAIN, AUTOGRAD = 1, 2  # threads


class Profile:
    """The events of one rank."""

    def __init__(self, rank=0, world=1, base_ns=0, **head):
        self.events = []
        self.head = {
            "schemaVersion": 1,
            "distributedInfo": {"backend": "nccl", "rank": rank, "world_size": world},
            "baseTimeNanoseconds": base_ns,
            **head,
        }
        self.correlation = 0

    def add(self, category, name, start, end, thread=MAIN, **args):
        event = {"ph": "X", "cat": category, "name": name, "pid": 7, "tid": thread, "ts": start, "dur": end - start}
        self.events.append(event | {"args": args})
        return event

    def range(self, name, start, end, thread=MAIN, **args):
        return self.add("user_annotation", name, start, end, thread, **args)

    def module(self, name, start, end):
        return self.add("python_function", f"nn.Module: {name}", start, end)

    def op(self, name, start, end, sequence=None, thread=MAIN, *, shape=None, **args):
        if sequence is not None:
            args["Sequence number"] = sequence
        if shape is not None:
            args |= {"Input Dims": [shape], "Input type": ["float"]}
        return self.add("cpu_op", name, start, end, thread, **args)

    def kernel(self, launched, start, end, thread=MAIN, *, stream=7, name="gemm", **args):
        """A launch at this time, and the kernel that it causes."""
        self.correlation += 1
        self.add("cuda_runtime", "cudaLaunchKernel", launched, launched + 0.5, thread, correlation=self.correlation)
        self.add("kernel", name, start, end, f"stream {stream}", correlation=self.correlation, stream=stream, **args)

    def node(self, name, start, end, sequence=None, thread=AUTOGRAD, *, shape=None):
        """A node of autograd: the engine's operator, and inside of it the function's own."""
        self.op(f"autograd::engine::evaluate_function: {name}", start, end, sequence, thread)
        self.op(name, start + 0.1, end - 0.1, sequence, thread, shape=shape)

    def step(self, number, start, end):
        return self.range(f"ProfilerStep#{number}", start, end)

    def memory(self, time, size, address, device=1, thread=MAIN):
        args = {"Bytes": size, "Addr": address, "Device Type": device}
        self.events.append({"ph": "i", "name": "[memory]", "pid": 7, "tid": thread, "ts": time, "args": args})

    def text(self):
        return json.dumps(self.head | {"traceEvents": self.events})

    def write(self, path: Path) -> Path:
        if path.suffix == ".gz":
            path.write_bytes(gzip.compress(self.text().encode(), mtime=0))
        else:
            path.write_text(self.text())
        return path


def training(rank=0, layers=3, steps=2, **head):
    """Iterations of a chain of layers on a GPU: layer l takes 10 + l us forward and 20 + 2 l us backward.

    Kernels run 1000 us after their launch. The optimizer's take 7 us, and 5 us of each iteration belong to nobody.
    """
    made = Profile(rank, **head)
    for step in range(steps):
        t0 = 1000 * step
        made.step(step, t0, t0 + 999)
        for layer in range(layers):
            at, number = t0 + 20 * layer, 100 * step + layer
            made.range(f"layer{layer}", at, at + 15)
            made.op("aten::linear", at + 1, at + 14, number, shape=[4, 8])
            made.kernel(at + 2, at + 1000, at + 1010 + layer)
        for place, layer in enumerate(reversed(range(layers))):
            at = t0 + 300 + 50 * place
            made.node("AddmmBackward0", at, at + 20, 100 * step + layer)
            made.kernel(at + 3, at + 1000, at + 1000 + 20 + 2 * layer, AUTOGRAD)
            made.node("torch::autograd::AccumulateGrad", at + 25, at + 30, shape=[8, 8])
        made.kernel(t0 + 700, t0 + 1700, t0 + 1705)
        made.range("Optimizer.step#SGD.step", t0 + 800, t0 + 820)
        made.kernel(t0 + 805, t0 + 1805, t0 + 1812)
    return made


def pipelined(schedule, *, forward=100, backward=200, parts=(100, 100), transfer=10, name=None, offsets=None, steps=1):
    """One file per rank of a run that obeys a schedule (rows of cells such as 0F0), everything as early as it can.

    Times are in us; `transfer` passes between an action's end and the earliest start of one that reads its output.
    `offsets` are by how much the clock of each rank goes ahead.
    """
    name = name or (lambda stage, kind, microbatch: f"PP:{stage}{kind}{microbatch}")
    lasting = {"F": forward, "B": backward, "I": parts[0], "W": parts[1]}
    rows = [[(int(cell[0]), cell[1], int(cell[2:])) for cell in row.split(",")] for row in schedule.split("\n")]
    spans = _played(rows, lasting, transfer)
    span = max(end for row in spans for _, _, end in row)
    offsets = offsets or [0] * len(rows)
    files = []
    for rank, row in enumerate(spans):
        made = Profile(rank, len(rows), base_ns=10**18 + 1000 * offsets[rank])
        for step in range(steps):
            t0 = step * (span + 500) + 50
            made.step(step, t0 - 20, t0 + span + 400)
            for (stage, kind, microbatch), start, end in row:
                made.range(name(stage, kind, microbatch), t0 + start - 5, t0 + start + 3)
                made.kernel(t0 + start - 4, t0 + start, t0 + end)
        files.append(made)
    return files, span


def _played(rows, lasting, transfer):
    """When each action starts and ends: a table filled in again and again until nothing is missing."""
    done = {}
    holder = {stage: rank for rank, row in enumerate(rows) for stage, _, _ in row}
    stages = max(holder) + 1
    place, free = [0] * len(rows), [0] * len(rows)
    spans = [[] for _ in rows]
    while any(at < len(row) for at, row in zip(place, rows, strict=True)):
        for rank, row in enumerate(rows):
            if place[rank] == len(row):
                continue
            stage, kind, microbatch = row[place[rank]]
            needs = _needs(stage, kind, microbatch, stages)
            if not needs <= done.keys():
                continue
            ready = [done[n] + transfer * (holder[n[0]] != rank) for n in needs]
            start = max([free[rank], *ready])
            free[rank] = done[stage, "B" if kind in "BI" else kind, microbatch] = start + lasting[kind]
            spans[rank].append(((stage, kind, microbatch), start, free[rank]))
            place[rank] += 1
    return spans


def _needs(stage, kind, microbatch, stages):
    if kind == "F":
        return {(stage - 1, "F", microbatch)} if stage else set()
    if kind == "W":
        return {(stage, "B", microbatch)}
    return {(stage, "F", microbatch)} | ({(stage + 1, "B", microbatch)} if stage < stages - 1 else set())


def metis_profile(times=(3.0, 30.0, 6.0), parameters=(100, 200, 50), **more):
    model = {"model_name": "toy", "num_layers": len(times), "parameters": {"parameters_per_layer_bytes": [*parameters]}}
    model["parameters"] |= {key: more.pop(key) for key in list(more) if key.startswith("activation")}
    return {
        "model": model,
        "execution_time": {"total_time_ms": 99.0, "optimizer_time_ms": 5.0, "layer_compute_total_ms": [*times]},
        "execution_memory": {"layer_memory_total_mb": [1, 2]},
    } | more
