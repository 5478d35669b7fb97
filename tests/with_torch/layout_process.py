"""A process of a real pipeline that is built from what `--to torch` writes, and PyTorch's schedule of that name.

    python layout_process.py RANK RANKS FOLDER

FOLDER has cases.json, a list of names; of each, NAME.json is the layout, and what it names as schedule_csv is beside
it. A rank builds its stages of the modules of `model()` that the layout lists, steps once, and saves NAME.RANK.pt: the
gradients of its parameters by their names in the model, and the losses where it holds the last stage.
"""

import json
import sys
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from torch.distributed.pipelining import PipelineStage
from torch.distributed.pipelining.schedules import (
    PipelineScheduleSingle,
    _PipelineScheduleRuntime,
    get_schedule_class,
)

WIDTH, ROWS, LAYERS = 8, 2, 11
PATIENCE = timedelta(seconds=20)


def model():
    """The model in one piece, the same in every process."""
    torch.manual_seed(7)
    layers = [torch.nn.Linear(WIDTH, WIDTH) if n % 2 == 0 else torch.nn.Tanh() for n in range(LAYERS)]
    return torch.nn.Sequential(*layers).double()


def batch(microbatches):
    """Inputs and targets."""
    torch.manual_seed(1000)
    return torch.randn(2, ROWS * microbatches, WIDTH, dtype=torch.float64)


def step(name, folder, rank):
    """Gradients by parameter and the losses of all microbatches, after one step of this rank."""
    layout = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
    whole, count = dict(model().named_children()), len(layout["stages"])
    held = {one["stage"]: one["modules"] for one in layout["stages"] if one["rank"] == rank}
    parts = {n: torch.nn.Sequential(*(whole[module] for module in held[n])) for n in sorted(held)}
    stages = [PipelineStage(part, n, count, torch.device("cpu")) for n, part in parts.items()]
    schedule = made(layout, stages, folder)
    inputs, targets = batch(layout["microbatches"])
    losses = []
    given, wanted = [inputs] if 0 in held else [], targets if count - 1 in held else None
    schedule.step(*given, target=wanted, losses=losses)
    gradients = {
        f"{module}.{key}": value.grad
        for modules in held.values()
        for module in modules
        for key, value in whole[module].named_parameters()
    }
    return {"gradients": gradients, "losses": [loss.detach() for loss in losses]}


def made(layout, stages, folder):
    """The schedule that a layout names."""
    loss = torch.nn.functional.mse_loss
    if "schedule_csv" in layout:
        runtime = _PipelineScheduleRuntime(stages, layout["microbatches"], loss_fn=loss)
        runtime._load_csv(str(folder / layout["schedule_csv"]))
        return runtime
    kind = get_schedule_class(layout["schedule"])
    own = stages[0] if issubclass(kind, PipelineScheduleSingle) else stages
    return kind(own, layout["microbatches"], loss_fn=loss)


def main(rank, ranks, folder):
    """All cases, one after the other."""
    dist.init_process_group("gloo", f"file://{folder}/meeting", timeout=PATIENCE, rank=rank, world_size=ranks)
    for name in json.loads((folder / "cases.json").read_text(encoding="utf-8")):
        torch.save(step(name, folder, rank), folder / f"{name}.{rank}.pt")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))
