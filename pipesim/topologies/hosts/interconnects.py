"""Bandwidths of links inside a machine, in bytes/s per direction, by their names.

All are raw rates, as in the other topologies; transfers attain less. Replace them by measured values.
"""

import re
from dataclasses import dataclass

from pipesim.topologies import parts

# PCI-SIG: GT/s of each lane by generation; 128b/130b code from the third on.
PCIE_TRANSFERS = {3: 8e9, 4: 16e9, 5: 32e9, 6: 64e9}
LANES = 16
# Intel's Xeon E5 v4: QPI at 9.6 GT/s, 2 bytes each. One link; machines of two sockets have two.
QPI = 9.6e9 * 2
# Intel's Xeon Scalable: UPI at 10.4 GT/s, 2 bytes each. One link; machines of two sockets have two or three.
UPI = 10.4e9 * 2
# AMD's EPYC 7002: xGMI of 16 lanes at 16 GT/s. One link; machines of two sockets have three or four.
XGMI = 16e9 * 16 / 8
# Bytes/s of one NVLink per direction, from NVIDIA's data sheets, which add both directions: V100 300 GB/s over 6 links,
# A100 600 GB/s over 12, H100 900 GB/s over 18, B200 1,800 GB/s over 18, P100 160 GB/s over 4; and for the bridge of
# RTX 2080 Ti 100 GB/s over 2, of RTX 3090, A6000 and A40 112.5 GB/s over 4.
NVLINK_1, NVLINK_2, NVLINK_5, NVLINK_BRIDGE = 20e9, 25e9, 50e9, 112.5e9 / 8


@dataclass(frozen=True, slots=True)
class Ports:
    """The ports of a kind of GPU: the number of NVLinks, the bandwidth of each, and the generation of PCIe."""

    nvlinks: int
    nvlink: float
    pcie: int


KINDS = {
    "p100": Ports(4, NVLINK_1, 3),
    "v100": Ports(6, NVLINK_2, 3),
    "a100": Ports(12, NVLINK_2, 4),
    "a800": Ports(8, NVLINK_2, 4),
    "h100": Ports(18, NVLINK_2, 5),
    "h800": Ports(8, NVLINK_2, 5),
    "h20": Ports(18, NVLINK_2, 5),
    "h200": Ports(18, NVLINK_2, 5),
    "gh200": Ports(18, NVLINK_2, 5),
    "b200": Ports(18, NVLINK_5, 5),
    "gb200": Ports(18, NVLINK_5, 5),
    "b300": Ports(18, NVLINK_5, 6),
    "a40": Ports(4, NVLINK_BRIDGE, 4),
    "a6000": Ports(4, NVLINK_BRIDGE, 4),
    "2080ti": Ports(2, NVLINK_2, 3),
    "3090": Ports(4, NVLINK_BRIDGE, 4),
    "4090": Ports(0, NVLINK_2, 4),
    "5090": Ports(0, NVLINK_2, 5),
    "a10": Ports(0, NVLINK_2, 4),
    "l4": Ports(0, NVLINK_2, 4),
    "l40": Ports(0, NVLINK_2, 4),
    "l40s": Ports(0, NVLINK_2, 4),
    "t4": Ports(0, NVLINK_2, 3),
}
# A kind that is not in the table: the most NVLinks of any kind, with the bandwidth of those of V100, A100 and H100.
OTHER = Ports(18, NVLINK_2, 4)


def ports_of(kind: str) -> Ports:
    """The ports of a kind of GPU: of "v100" for "v100-16gb", of "4090" for "rtx4090-24gb"."""
    words = re.split(r"[^a-z0-9]+", kind.lower())
    return next((KINDS[word] for word in (w.removeprefix("rtx") for w in words) if word in KINDS), OTHER)


def pcie(generation: int, lanes: int = LANES) -> float:
    """Bytes/s of a PCIe cable, per direction."""
    return pcie_of(PCIE_TRANSFERS[generation], lanes)


def pcie_of(transfers: float, lanes: int, code: tuple[int, int] = (128, 130)) -> float:
    """Bytes/s from transfers per second on each lane; in a code (8, 10), 8 of 10 bits are data."""
    return transfers * lanes * code[0] / code[1] / 8


@dataclass(frozen=True, slots=True)
class LinkRates:
    """Bytes/s of each class of link in one machine. `between_bridges` is None where it is never the bottleneck."""

    nvlinks: int
    nvlink: float
    pcie: float
    between_bridges: float | None
    between_cpus: float


def rates_of(
    kind: str,
    *,
    nvlink: float | str | None,
    pcie_: float | str | None,
    between_bridges: float | str | None,
    between_cpus: float | str | None,
    cpus: float = UPI,
) -> LinkRates:
    """The rates of a kind of GPU, with those that the user states in their place."""
    ports = ports_of(kind)
    return LinkRates(
        ports.nvlinks,
        ports.nvlink if nvlink is None else parts.bandwidth("nvlink", nvlink),
        pcie(ports.pcie) if pcie_ is None else parts.bandwidth("pcie", pcie_),
        None if between_bridges is None else parts.bandwidth("between_bridges", between_bridges),
        cpus if between_cpus is None else parts.bandwidth("between_cpus", between_cpus),
    )
