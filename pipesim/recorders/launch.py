"""The processes whose links are timed: started here and connected over the loopback, or started by torchrun."""

import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from pipesim.base.checks import check_one_of
from pipesim.base.errors import InputError, RefusedError
from pipesim.recorders import pinning
from pipesim.recorders.link_files import RecordedLinks
from pipesim.recorders.links import LinkSettings, record_links

if TYPE_CHECKING:
    import torch

MOST_PROCESSES = 64
# Set by torchrun and similar launchers for each process.
STARTED = ("RANK", "WORLD_SIZE", "MASTER_ADDR")


def is_started() -> bool:
    """Whether a launcher such as torchrun started this process."""
    return all(name in os.environ for name in STARTED)


def backend_of(name: str, processes: int) -> str:
    """The backend: NCCL where each process can have a GPU of its own, else gloo."""
    import torch
    import torch.distributed as dist

    if name == "auto":
        enough = torch.cuda.is_available() and torch.cuda.device_count() >= processes and dist.is_nccl_available()
        return "nccl" if enough else "gloo"
    known = {"nccl": dist.is_nccl_available(), "gloo": dist.is_gloo_available()}
    check_one_of("backend", name, ("auto", *known))
    if not known[name]:
        raise RefusedError(f"this PyTorch was built without {name}")
    return name


def in_started_group(settings: LinkSettings, backend: str) -> RecordedLinks | None:
    """Record among the processes that torchrun started; None but on rank 0."""
    import torch.distributed as dist

    local = int(os.environ.get("LOCAL_RANK", "0"))
    count = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    chosen = backend_of(backend, count)
    device = _device(chosen, local)
    with pinning.pinned(local, count):
        dist.init_process_group(chosen)
        try:
            return record_links(settings, device)
        finally:
            dist.destroy_process_group()


def in_new_processes(processes: int, settings: LinkSettings, backend: str) -> RecordedLinks:
    """Start processes on this machine, record among them, and end them."""
    import torch.multiprocessing as mp

    if not 2 <= processes <= MOST_PROCESSES:
        raise InputError(f"processes {processes} found; 2 to {MOST_PROCESSES} were expected")
    chosen = backend_of(backend, processes)
    with tempfile.TemporaryDirectory(prefix="pipesim-links-") as folder:
        try:
            mp.spawn(_work, (processes, folder, chosen, settings), nprocs=processes, daemon=True)
        except mp.ProcessRaisedException as error:
            raise RefusedError(f"a process failed: {_last_line(str(error))}") from error
        except mp.ProcessExitedException as error:
            raise RefusedError(f"a process ended too early: {_last_line(str(error))}") from error
        return RecordedLinks.load(Path(folder))


def _last_line(text: str) -> str:
    return text.strip().rpartition("\n")[2][:500]


def _work(
    rank: int,
    processes: int,
    folder: str,
    backend: str,
    settings: LinkSettings,
) -> None:
    """The main function of each started process."""
    import torch
    import torch.distributed as dist

    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo0" if sys.platform == "darwin" else "lo")
    torch.set_num_threads(1)
    device = _device(backend, rank)
    store = Path(folder) / "store"
    with pinning.pinned(rank, processes):
        dist.init_process_group(backend, init_method=store.as_uri(), rank=rank, world_size=processes)
        try:
            links = record_links(settings, device)
        finally:
            dist.destroy_process_group()
    if links:
        links.save(Path(folder))


def _device(backend: str, local: int) -> "torch.device":
    """The device of a process: the GPU with its number on its node, or the CPU."""
    import torch

    if backend != "nccl":
        return torch.device("cpu")
    if local >= torch.cuda.device_count():
        raise RefusedError(f"process {local} of this machine has no GPU: there are {torch.cuda.device_count()}")
    torch.cuda.set_device(local)
    return torch.device("cuda", local)
