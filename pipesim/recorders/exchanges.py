"""The communication that is timed, a few samples of one message size at a time.

p2p           rank 0 sends to rank k, which sends the same back: half of the time there and back is a transfer
both_ways     rank 0 and rank k send to each other at once; over when both have sent and received
all_reduce    ranks 0 .. k-1 together, one after the other without a pause; timed on rank 0
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

Row = tuple[str, str, int, float, str, int, int, int]


@dataclass(frozen=True, slots=True)
class Take:
    """The measurements of one size: warm-ups, the number of the first sample, samples, and the round."""

    warmup: int
    first: int
    samples: int
    round: int


def ping_pong(rank: int, other: int, device: "torch.device", size: int, take: Take) -> list[float]:
    """Seconds of a message between rank 0 and another, alone."""
    import torch
    import torch.distributed as dist

    message = torch.zeros(size, dtype=torch.uint8, device=device)

    def there_and_back() -> None:
        if rank == 0:
            dist.send(message, other)
            dist.recv(message, other)
        else:
            dist.recv(message, 0)
            dist.send(message, 0)

    return [seconds / 2 for seconds in _timed(there_and_back, device, take)]


def both_ways(rank: int, other: int, device: "torch.device", size: int, take: Take) -> list[float]:
    """Seconds until messages that rank 0 and another send each other at once have arrived."""
    import torch
    import torch.distributed as dist

    leaving, arriving = (torch.zeros(size, dtype=torch.uint8, device=device) for _ in range(2))
    peer = 0 if rank else other

    def at_once() -> None:
        # Receives first: gloo announces a receive over the same connection, where it would wait for a message that is
        # already being sent, so that the two would be sequential on any link.
        operations = [dist.P2POp(dist.irecv, arriving, peer), dist.P2POp(dist.isend, leaving, peer)]
        for request in dist.batch_isend_irecv(operations):
            request.wait()

    return _timed(at_once, device, take)


def all_reduce(group: Any, device: "torch.device", size: int, take: Take) -> list[float]:  # noqa: ANN401 - a group
    """Seconds of an all-reduce of at least `size` bytes."""
    import torch
    import torch.distributed as dist

    message = torch.zeros(values(size), dtype=torch.float32, device=device)
    return _timed(partial(dist.all_reduce, message, group=group), device, take)


def values(size: int) -> int:
    """The number of four-byte values with at least `size` bytes."""
    return -(-size // 4)


def _timed(run: Callable[[], object], device: "torch.device", take: Take) -> list[float]:
    taken = []
    for _ in range(take.warmup + take.samples):
        _settle(device)
        begin = time.perf_counter_ns()
        run()
        _settle(device)
        taken.append((time.perf_counter_ns() - begin) / 1e9)
    return taken[take.warmup :]


def _settle(device: "torch.device") -> None:
    import torch

    if device.type == "cuda":
        torch.cuda.synchronize(device)


def rows(message: tuple[str, str, int], kind: str, participants: int, take: Take, taken: list[float]) -> list[Row]:
    """Rows of the table, one per sample; `message`: both ends and the bytes."""
    return [
        (*message, seconds, kind, participants, take.first + sample, take.round) for sample, seconds in enumerate(taken)
    ]
