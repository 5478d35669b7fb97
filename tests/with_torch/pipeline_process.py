"""A process of a real pipeline: PyTorch's runtime steps through schedules from files and saves what came of it.

    python pipeline_process.py RANK RANKS FOLDER

FOLDER has cases.json, a list of {name, form, stages, held, microbatches}: `form` is PyTorch's word for what is in
{name}.csv, `held` has the stages of each rank. Of each case a rank saves {name}.{rank}.pt: the gradients of its
parameters by name, and the losses of the microbatches where it holds the last stage. The model is stage(0), stage(1)
and so on; who wants to know what must come out runs them as one.
"""

import json
import sys
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from torch.distributed.pipelining import PipelineStage
from torch.distributed.pipelining.schedules import _PipelineScheduleRuntime

WIDTH = 8
ROWS = 2  # of a microbatch
PATIENCE = timedelta(seconds=20)


def stage(n):
    """One stage of the model, the same in every process."""
    torch.manual_seed(n)
    return torch.nn.Sequential(torch.nn.Linear(WIDTH, WIDTH), torch.nn.Tanh()).double()


def batch(microbatches):
    """Inputs and targets."""
    torch.manual_seed(1000)
    return torch.randn(2, ROWS * microbatches, WIDTH, dtype=torch.float64)


def step(case, folder, rank):
    """Gradients by parameter and the losses of all microbatches, after one step of this rank."""
    held = {n: stage(n) for n in sorted(case["held"][rank])}
    stages = [PipelineStage(module, n, case["stages"], torch.device("cpu")) for n, module in held.items()]
    runtime = _PipelineScheduleRuntime(stages, case["microbatches"], loss_fn=torch.nn.functional.mse_loss)
    runtime._load_csv(str(folder / f"{case['name']}.csv"), format=case["form"])
    inputs, targets = batch(case["microbatches"])
    losses = []
    given, wanted = [inputs] if 0 in held else [], targets if case["stages"] - 1 in held else None
    runtime.step(*given, target=wanted, losses=losses)
    gradients = {f"{n}.{name}": value.grad for n, one in held.items() for name, value in one.named_parameters()}
    return {"gradients": gradients, "losses": [loss.detach() for loss in losses]}


def main(rank, ranks, folder):
    """All cases, one after the other."""
    dist.init_process_group("gloo", f"file://{folder}/meeting", timeout=PATIENCE, rank=rank, world_size=ranks)
    for case in json.loads((folder / "cases.json").read_text(encoding="utf-8")):
        torch.save(step(case, folder, rank), folder / f"{case['name']}.{rank}.pt")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))
