"""Real pipelines of two processes on this machine: how long iterations of PyTorch's own schedules take.

    rank 0    |barrier|  step of the schedule  |        one iteration: from the first start to the last end of both,
    rank 1    |barrier|    step of the schedule    |    on the machine's one clock

Each process has a core and a thread of its own. An iteration counts only if nothing else used more than 0.08 of a core
meanwhile, and if the host of a virtual machine took less than 2 %. CPU time is counted to 25 ms, so iterations of less
than 0.3 s never count. A configuration of which fewer than three iterations count is not measured.
"""

import json
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from pipesim.base.errors import RefusedError
from pipesim.recorders import pinning
from pipesim.recorders.allocator import SETTINGS
from pipesim.recorders.quiet import wait_until_quiet
from pipesim.recorders.torch_extra import require_torch

if TYPE_CHECKING:
    import torch

RANKS = 2
MOST_FOREIGN, MOST_STOLEN = 0.08, 0.02  # cores
COUNTED_S = 0.025  # CPU time that the system may count in the wrong iteration
FEWEST = 3
_STAT = Path("/proc/stat")


@dataclass(frozen=True, slots=True)
class LiveCase:
    """A configuration: a schedule class of PyTorch, the first layer of each stage but the first, microbatches."""

    schedule: str
    cuts: tuple[int, ...]
    microbatches: int

    @property
    def name(self) -> str:
        """What it is called in tables and files."""
        return f"{self.schedule}-{'-'.join(map(str, self.cuts))}-m{self.microbatches}"

    @property
    def ranks_of_stages(self) -> list[int]:
        """The rank of each stage: in turn, and in a V for ZBV."""
        stages = len(self.cuts) + 1
        return [min(n, stages - 1 - n) if self.schedule == "ZBVZeroBubble" else n % RANKS for n in range(stages)]


@dataclass(frozen=True, slots=True)
class LiveIteration:
    """An iteration of a rank: when it ran, its CPU seconds, and those of the machine, busy and stolen, if known."""

    case: str
    rank: int
    number: int
    start: float
    end: float
    cpu: float
    busy: float | None = None
    stolen: float | None = None


def run_live(
    cases: Sequence[LiveCase], factory: str, microbatch: int, *, iterations: int = 7, patience_s: float = 60.0,
    gated: bool = True,
) -> list[LiveIteration]:  # fmt: skip
    """All iterations of all configurations, in two processes that are started here; two more of each warm up."""
    require_torch("running live pipelines")
    import torch.multiprocessing as mp

    if gated and len(pinning.allowed_cores()) < RANKS:
        raise RefusedError(f"this process may use {len(pinning.allowed_cores())} cores; {RANKS} were expected")
    if gated:
        wait_until_quiet(patience_s)
    text = json.dumps([asdict(case) for case in cases])
    with tempfile.TemporaryDirectory(prefix="pipesim-live-") as folder:
        for name, (_, value) in SETTINGS.items():  # as while layers were recorded
            os.environ.setdefault(name, str(value))
        try:
            mp.spawn(_work, (folder, (factory, microbatch), text, iterations), nprocs=RANKS, daemon=True)
        except (mp.ProcessRaisedException, mp.ProcessExitedException) as error:
            raise RefusedError(f"a process failed: {str(error).strip().rpartition(chr(10))[2][:500]}") from error
        return [one for rank in range(RANKS) for one in load(Path(folder) / f"{rank}.json")]


def load(path: Path) -> list[LiveIteration]:
    """The iterations that a rank wrote."""
    names = {field.name for field in fields(LiveIteration)}
    rows = json.loads(path.read_text(encoding="utf-8"))
    return [LiveIteration(**{name: row[name] for name in names}) for row in rows]


def measured(found: Sequence[LiveIteration], *, gated: bool = True) -> dict[str, list[float]]:
    """Case -> seconds of its iterations that count; none of a case of which too few do."""
    ranks: dict[tuple[str, int], list[LiveIteration]] = {}
    for one in found:
        ranks.setdefault((one.case, one.number), []).append(one)
    kept: dict[str, list[float]] = {}
    for (case, _), both in ranks.items():
        seconds = max(one.end for one in both) - min(one.start for one in both)
        if len(both) == RANKS and (not gated or _is_undisturbed(both, seconds)):
            kept.setdefault(case, []).append(seconds)
    return {case: times for case, times in kept.items() if len(times) >= FEWEST}


def _is_undisturbed(both: Sequence[LiveIteration], seconds: float) -> bool:
    """Whether nothing else used the cores meanwhile; what is unknown, or too short to be counted, is disturbed."""
    counted = [(one.busy, one.stolen) for one in both if one.busy is not None and one.stolen is not None]
    if not counted or MOST_FOREIGN * seconds < COUNTED_S:
        return False
    busy, stolen = counted[0]
    foreign = busy - sum(one.cpu for one in both)
    return foreign <= MOST_FOREIGN * seconds and stolen <= max(MOST_STOLEN * seconds, COUNTED_S)


def machine_seconds() -> tuple[float, float] | None:
    """Seconds that the cores of this machine were busy, and that its host took, since it started."""
    if not _STAT.exists():
        return None
    user, nice, system, _, _, irq, softirq, steal = map(int, _STAT.read_text(encoding="ascii").split()[1:9])
    tick = os.sysconf("SC_CLK_TCK")
    return (user + nice + system + irq + softirq) / tick, steal / tick


def medians(times: dict[str, list[float]]) -> dict[str, float]:
    """The median of each case."""
    return {case: float(np.median(seconds)) for case, seconds in times.items()}


def gpt(
    *, microbatch: int, blocks: int = 10, width: int = 512, sequence: int = 128, vocabulary: int = 4096
) -> "tuple[list[torch.nn.Module], torch.Tensor]":
    """An embedding, blocks, and a head with the loss; and tokens. As `pipesim record` takes a factory."""
    import torch
    from torch import nn

    class Head(nn.Linear):  # type: ignore[misc]  # of a package that need not be there
        """Logits, and the loss against the next class in the list."""

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            """[sample, token, width] -> [1]."""
            logits = super().forward(x).flatten(0, 1)
            targets = torch.arange(len(logits), device=x.device) % vocabulary
            return nn.functional.cross_entropy(logits, targets).reshape(1)

    torch.manual_seed(0)
    made = [
        nn.TransformerEncoderLayer(width, width // 64, 4 * width, 0.0, batch_first=True, norm_first=True)
        for _ in range(blocks)
    ]
    tokens = torch.arange(microbatch * sequence).reshape(microbatch, sequence) % vocabulary
    return [nn.Embedding(vocabulary, width), *made, Head(width, vocabulary)], tokens


# --- in each process -------------------------------------------------------------------------------------------------


def _work(rank: int, folder: str, model: tuple[str, int], cases: str, iterations: int) -> None:
    """The main function of each started process."""
    import gc

    import torch
    import torch.distributed as dist

    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo0" if sys.platform == "darwin" else "lo")
    sys.path.insert(0, str(Path.cwd()))
    torch.set_num_threads(1)
    gc.disable()
    rows: list[LiveIteration] = []
    with pinning.pinned(rank, RANKS):
        dist.init_process_group("gloo", init_method=(Path(folder) / "store").as_uri(), rank=rank, world_size=RANKS)
        try:
            for one in json.loads(cases):
                case = LiveCase(one["schedule"], tuple(one["cuts"]), one["microbatches"])
                rows += _iterations(case, rank, model, iterations)
                gc.collect()
        finally:
            dist.destroy_process_group()
    (Path(folder) / f"{rank}.json").write_text(json.dumps([asdict(row) for row in rows]), encoding="utf-8")


def _iterations(case: LiveCase, rank: int, model: tuple[str, int], count: int) -> list[LiveIteration]:
    """The iterations of a configuration on this rank, without two that warm up."""
    import torch
    import torch.distributed as dist
    from torch.distributed.pipelining import PipelineStage, schedules

    from pipesim.recorders.subjects import load_factory

    layers, example = load_factory(model[0])(microbatch=model[1])
    bounds = [0, *case.cuts, len(layers)]
    held = [n for n, owner in enumerate(case.ranks_of_stages) if owner == rank]
    parts = {n: torch.nn.Sequential(*layers[bounds[n] : bounds[n + 1]]) for n in held}
    stages = [PipelineStage(part, n, len(bounds) - 1, torch.device("cpu")) for n, part in parts.items()]
    made = getattr(schedules, f"Schedule{case.schedule}")
    several = issubclass(made, schedules.PipelineScheduleMulti)
    schedule = made(stages if several else stages[0], case.microbatches, loss_fn=_loss)
    inputs = [torch.cat([example] * case.microbatches)] if 0 in held else []
    target = torch.zeros(case.microbatches) if len(bounds) - 2 in held else None
    rows = []
    for number in range(-2, count):
        for part in parts.values():
            part.zero_grad(set_to_none=True)
        dist.barrier()
        before, cpu, start = machine_seconds(), time.process_time(), time.monotonic()
        schedule.step(*inputs, target=target)
        end, used = time.monotonic(), time.process_time() - cpu
        dist.barrier()
        after = machine_seconds()
        busy, stolen = (after[0] - before[0], after[1] - before[1]) if before and after and rank == 0 else (None, None)
        rows.append(LiveIteration(case.name, rank, number, start, end, used, busy, stolen))
    return rows[2:]


def _loss(output: "torch.Tensor", _: "torch.Tensor") -> "torch.Tensor":
    """The last layer is the loss."""
    return output.sum()
