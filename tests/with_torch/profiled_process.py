"""A process of a real pipeline that PyTorch's profiler watches: two iterations of one of its schedules.

    python profiled_process.py RANK RANKS FOLDER SCHEDULE

writes FOLDER/rankN.json, as users do.
"""

import sys
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from torch.distributed.pipelining import PipelineStage, schedules
from torch.profiler import ProfilerActivity, profile, schedule

WIDTH, ROWS, MICROBATCHES, ITERATIONS = 64, 16, 4, 2


def main(rank, ranks, folder, name):
    """Two iterations that warm up, and two that are profiled."""
    dist.init_process_group(
        "gloo", f"file://{folder}/meeting", timeout=timedelta(seconds=30), rank=rank, world_size=ranks
    )
    torch.manual_seed(rank)
    parts = [torch.nn.Sequential(torch.nn.Linear(WIDTH, WIDTH), torch.nn.Tanh()) for _ in range(2)]
    model = torch.nn.Sequential(*parts)
    stage = PipelineStage(model, rank, ranks, torch.device("cpu"))
    steps = getattr(schedules, name)(stage, MICROBATCHES, loss_fn=torch.nn.functional.mse_loss)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    batch = torch.randn(2, MICROBATCHES * ROWS, WIDTH)

    def step():
        optimizer.zero_grad()
        given = [batch[0]] if rank == 0 else []
        steps.step(*given, target=batch[1] if rank == ranks - 1 else None)
        optimizer.step()

    step()
    with profile(
        activities=[ProfilerActivity.CPU],
        schedule=schedule(wait=0, warmup=1, active=ITERATIONS),
        on_trace_ready=lambda done: done.export_chrome_trace(str(folder / f"rank{rank}.json")),
    ) as watch:
        for _ in range(1 + ITERATIONS):
            step()
            watch.step()
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]), sys.argv[4])
