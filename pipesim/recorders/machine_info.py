"""The description of the machine in a trace: processor, cores, GPU, versions."""

import os
import platform
import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


def machine(device: "torch.device", threads: int) -> str:
    """The hardware and software of the recording, without anything that identifies this machine."""
    import torch

    cores = os.cpu_count()
    parts = [f"{_processor()}, {cores} cores"]
    if device.type == "cuda":
        parts.insert(0, f"{torch.cuda.get_device_name(device)}, CUDA {torch.version.cuda}")
    else:
        parts[-1] += f", {threads} thread{'s' if threads > 1 else ''} used"
    parts.append(f"torch {torch.__version__}, Python {platform.python_version()}, {platform.system()}")
    return "; ".join(parts)


def device_kind(device: "torch.device") -> str:
    """The kind of device, for clusters: cpu, or the GPU's name, such as nvidia-a100-sxm4-80gb."""
    import torch

    if device.type != "cuda":
        return str(device.type)
    name: str = torch.cuda.get_device_name(device)
    return re.sub(r"[^a-z0-9.]+", "-", name.lower()).strip("-")


def memory(device: "torch.device") -> int:
    """Bytes of a GPU's memory; 0 (unknown) for memory that processes share."""
    import torch

    return int(torch.cuda.get_device_properties(device).total_memory) if device.type == "cuda" else 0


def _processor() -> str:
    """The name of the processor, from the operating system."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        text = ""
    named = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    return named[1].strip() if named else platform.processor() or platform.machine()
