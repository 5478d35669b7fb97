"""The durations of computing nodes: recorded, or estimated from operations and bytes on a named device."""

from collections.abc import Sequence

from pipesim.base import lookup
from pipesim.base.errors import FormatError, UnknownNameError
from pipesim.core import devices
from pipesim.importers.chakra.graph import Graph


def durations(graph: Graph, chosen: Sequence[int], device: str | None, precision: str) -> dict[int, float]:
    """Seconds of each of these nodes.

    A node without a duration takes, on a named device, as long as its operations at the device's peak or its bytes at
    the bandwidth of its memory, whichever is longer.
    """
    found = {number: graph.nodes[number].duration_us * 1e-6 for number in chosen}
    if device is not None:
        kind = devices.device_kind(device)
        if precision not in kind.peak:
            raise UnknownNameError(f"{device} has no peak for {precision!r}; {lookup.suggest(precision, kind.peak)}")
        for number in (number for number in chosen if not found[number]):
            node = graph.nodes[number]
            operations, size = node.number("num_ops"), node.number("tensor_size")
            found[number] = max(operations / kind.peak[precision], size / kind.memory_bandwidth)
    elif not any(found.values()) and any(graph.nodes[number].number("num_ops") for number in chosen):
        raise FormatError(
            "no node has a duration, only operations; name a device, device='a100-80gb', to estimate durations"
        )
    return found
