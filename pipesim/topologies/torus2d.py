"""Devices joined in a grid that wraps around."""

from pipesim.core.cluster import Cluster, Link
from pipesim.core.members import TopologyInfo
from pipesim.topologies import parts


@TopologyInfo(
    examples=(
        "torus2d(3, 4, '10 GB/s')",
        "torus2d(2, 2, 1e9)",
        "torus2d(1, 3, 1e9)",
        "torus2d(1, 1, 1e9)",
    )
)
def torus2d(
    rows: int,
    columns: int,
    bandwidth: float | str,
    *,
    latency: float | str = "2us",
    device: str = parts.DEVICE,
    memory: float | str | None = None,
) -> Cluster:
    """Device `r * columns + c` has links to its neighbours in row r and in column c, around the edges.

        ╔═ gpu0 ══ gpu1 ══ gpu2 ═╗        (and gpu0 with gpu3, gpu1 with gpu4, gpu2 with gpu5)
        ╚═════════════════════════╝       a side of length 2 has one link, not two
        ╔═ gpu3 ══ gpu4 ══ gpu5 ═╗
        ╚═════════════════════════╝

    `latency` is that of each link on the way: 2 us, as between GPUs of one machine.
    """
    rows, columns = parts.count("rows", rows), parts.count("columns", columns)
    parts.size(f"rows x columns = {rows} x {columns}", devices=rows * columns)
    wide, delay = parts.bandwidth("bandwidth", bandwidth), parts.latency("latency", latency)
    devices = parts.devices(((f"gpu{i}", "node0") for i in range(rows * columns)), device, memory)
    pairs = [
        (row * columns + column, near)
        for row in range(rows)
        for column in range(columns)
        for near in _next(row, column, rows, columns)
    ]
    links = tuple(Link(f"gpu{a}", f"gpu{b}", wide, delay) for a, b in pairs)
    return Cluster(f"torus2d-{rows}x{columns}", devices, links)


def _next(row: int, column: int, rows: int, columns: int) -> list[int]:
    """The next device in the row and in the column, if there is a link to it."""
    near = []
    if column + 1 < columns or columns > 2:
        near.append(row * columns + (column + 1) % columns)
    if row + 1 < rows or rows > 2:
        near.append((row + 1) % rows * columns + column)
    return near
