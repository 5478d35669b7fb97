"""From the elements of an NCCL topology dump to a machine.

<system version="1">
  <cpu numaid="0" arch="x86_64" vendor="GenuineIntel" modelid="143">         a NUMA node
    <pci busid="0000:16:00.0" link_speed="32.0 GT/s PCIe" link_width="16">   a PCIe switch, with its cable upwards
      <pci busid="0000:18:00.0" ...>
        <gpu dev="0" sm="90">
          <nvlink target="0000:07:00.0" count="4" tclass="0x068000"/>        to an NVSwitch; 0x0302.. to a GPU
      <pci busid="0000:19:00.0" ...><nic><net name="mlx5_0" speed="400000"/> Mb/s
"""

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from pipesim.base.errors import shown
from pipesim.topologies.hosts import interconnects
from pipesim.topologies.hosts.choices import Choices
from pipesim.topologies.hosts.elements import Element
from pipesim.topologies.hosts.interconnects import LANES, LinkRates
from pipesim.topologies.hosts.machine import Branch, Machine
from pipesim.topologies.parts import MOST_DEVICES

# Kinds by compute capability; of several, the first, with its smaller memory.
_KINDS = {70: "v100-16gb", 80: "a100-40gb", 90: "h100-80gb", 100: "b200-180gb"}
_BUS = re.compile(r"[0-9a-f]{1,8}(:[0-9a-f]{1,4}){1,2}(\.[0-9a-f]{1,2})?")
_TRANSFERS = re.compile(r"([0-9]{1,3}(?:\.[0-9]{1,3})?) GT/s(?: PCIe)?")
# PCI classes of the target of an NVLink: bridges are NVSwitches, except the one that represents a CPU.
_TO_GPU, _TO_CPU = ("0x0302", "0x0300", "0x0380"), "0x068001"
_MOST_NVLINKS = 64
_MEGABIT = 1e6 / 8
# The first two generations of PCIe send 8 bits of data as 10, later ones 128 as 130.
_OLD, _OLD_CODE, _CODE = {2.5, 5.0}, (8, 10), (128, 130)
# Intel's models before this one have QPI, it and later ones UPI.
_SKYLAKE = 85
NVSWITCH = "nvswitch"


@dataclass(frozen=True, slots=True)
class _Found:
    """What a walk through the tree has found: GPUs by bus with their element and CPU, NICs with their speed.

    `at`: the first CPU of each NIC, by name and number.
    """

    pcie: float
    gpus: dict[str, tuple[str, Element, str]] = field(default_factory=dict)
    nics: dict[str, float | None] = field(default_factory=dict)
    buses: set[str] = field(default_factory=set)
    at: dict[tuple[str, str], str] = field(default_factory=dict)


def machine_of(system: Element, choices: Choices) -> Machine:
    """The machine in a dump. NVLinks to GPUs that the dump lacks are left out, as are elements of other kinds."""
    if system.tag != "system":
        raise system.error("the outermost element; <system> was expected")
    cpus = system.all("cpu")
    if not cpus:
        raise system.error("no <cpu> inside; at least one was expected")
    hosts = {cpu.attributes.get("host_hash") for cpu in cpus}
    if len(hosts) > 1:
        raise system.error(f"CPUs of {len(hosts)} machines (host_hash) inside; a dump of one machine was expected")
    kind = choices.kind(_guessed(system))
    rates = choices.rates(kind, _between(cpus[0]))
    found = _Found(rates.pcie)
    trees = tuple(_cpu(cpu, rates, found) for cpu in cpus)
    if not found.gpus:
        raise system.error("no <gpu> inside; at least one was expected, as NCCL_TOPO_DUMP_FILE writes them")
    gpus = sorted((name for name, _, _ in found.gpus.values()), key=lambda name: int(name.removeprefix("gpu")))
    return Machine(kind, tuple(gpus), found.nics, trees, rates.between_cpus, tuple(_nvlinks(found, kind, rates)))


def _all_gpus(element: Element) -> Iterator[Element]:
    for inner in element.inside:
        if inner.tag == "gpu":
            yield inner
        yield from _all_gpus(inner)


def _guessed(system: Element) -> str | None:
    """The kind of GPU with the compute capability of all GPUs, if they have the same."""
    capabilities = {gpu.attributes.get("sm", "") for gpu in _all_gpus(system)}
    (only,) = capabilities if len(capabilities) == 1 else ("",)
    return _KINDS.get(int(only)) if only in map(str, _KINDS) else None


def _between(cpu: Element) -> float:
    """The bandwidth between CPUs of this vendor: Intel's QPI or UPI, AMD's xGMI; by default UPI."""
    if cpu.attributes.get("vendor") == "AuthenticAMD":
        return interconnects.XGMI
    model = cpu.attributes.get("modelid", "")
    old = cpu.attributes.get("vendor") == "GenuineIntel" and model.isascii() and model.isdigit()
    return interconnects.QPI if old and len(model) < 9 and int(model) < _SKYLAKE else interconnects.UPI


# --- the tree --------------------------------------------------------------------------------------------------------


def _cpu(cpu: Element, rates: LinkRates, found: _Found) -> Branch:
    name = f"numa{cpu.whole('numaid', MOST_DEVICES)}"
    below = _inside(cpu, rates.pcie, name, found)
    limit = rates.between_bridges or math.inf
    return Branch(name, rates.between_cpus, tuple(Branch(b.name, min(b.width, limit), b.below) for b in below))


def _inside(element: Element, width: float, cpu: str, found: _Found) -> list[Branch]:
    """The children of a CPU or a PCIe device; a GPU or a NIC has the cable of its device."""
    below: list[Branch] = []
    for inner in element.inside:
        if inner.tag == "pci":
            below += _device(inner, cpu, found)
        elif inner.tag == "gpu":
            below.append(Branch(_gpu(inner, element, cpu, found), width))
        elif inner.tag == "nic":
            nets = [net for net in inner.all("net") if not (element.tag == "cpu" and _is_elsewhere(net, cpu, found))]
            below += [Branch(_nic(net, found), width) for net in nets]
    return below


def _device(pci: Element, cpu: str, found: _Found) -> list[Branch]:
    bus = _bus(pci, "busid")
    if bus in found.buses:
        raise pci.error(f"duplicate {bus}", "busid")
    found.buses.add(bus)
    width = _width(pci, found.pcie)
    below = _inside(pci, width, cpu, found)
    return [Branch(f"pcie-{bus}", width, tuple(below))] if below else []


def _bus(element: Element, attribute: str) -> str:
    text = element.text(attribute).lower()
    if not _BUS.fullmatch(text):
        raise element.error(
            f"{shown(text)} found; the address of a device, such as 0000:16:00.0, was expected", attribute
        )
    return text


def _width(pci: Element, default: float) -> float:
    """Bytes/s of the cable of a PCIe device; the default if it is not stated, as in virtual machines."""
    speed, lanes = (pci.attributes.get(name, "") for name in ("link_speed", "link_width"))
    if speed in {"", "Unknown"} or lanes in {"", "0", "255"}:
        return default
    match = _TRANSFERS.fullmatch(speed)
    if not match or not float(match[1]):
        raise pci.error(
            f"{shown(speed)} found; transfers per second, such as '16.0 GT/s PCIe', were expected", "link_speed"
        )
    if not pci.whole("link_width", 2 * LANES):
        raise pci.error(f"{shown(lanes)} found; 1 to {2 * LANES} lanes were expected", "link_width")
    transfers = float(match[1])
    return interconnects.pcie_of(transfers * 1e9, int(lanes), _OLD_CODE if transfers in _OLD else _CODE)


def _gpu(gpu: Element, pci: Element, cpu: str, found: _Found) -> str:
    name = f"gpu{gpu.whole('dev', MOST_DEVICES)}"
    if name in {known for known, _, _ in found.gpus.values()}:
        raise gpu.error(f"duplicate {name.removeprefix('gpu')}", "dev")
    bus = _bus(pci, "busid") if pci.tag == "pci" else name
    if bus in found.gpus:
        raise gpu.error(f"duplicate GPU on bus {bus}; one was expected")
    found.gpus[bus] = (name, gpu, cpu)
    return name


def _is_elsewhere(net: Element, cpu: str, found: _Found) -> bool:
    """Whether a NIC without PCIe device, which virtual machines list at every CPU, was at an earlier one."""
    return found.at.setdefault((net.text("name"), net.attributes.get("dev", "")), cpu) != cpu


def _nic(net: Element, found: _Found) -> str:
    """A NIC by its name, with its number if several ports have the same name."""
    name = net.text("name")
    if name in found.nics:
        name = f"{name}-{net.text('dev')}"
    if name in found.nics or not name.isprintable():
        raise net.error(f"duplicate or unprintable name {shown(name)}", "name")
    megabits = net.whole("speed", 10**9) if net.attributes.get("speed", "-1") != "-1" else 0
    found.nics[name] = megabits * _MEGABIT or None
    return name


# --- NVLinks ---------------------------------------------------------------------------------------------------------


def _nvlinks(found: _Found, kind: str, rates: LinkRates) -> Iterator[tuple[str, str, float]]:
    """Links to other GPUs, to the NVSwitches as one, or to the GPU's CPU; both ends of a pair must agree."""
    counts: dict[tuple[str, str], int] = {}
    places: dict[tuple[str, str], Element] = {}
    for name, gpu, cpu in found.gpus.values():
        for link in _checked(gpu, kind, rates):
            other = _end(link, found.gpus, cpu)
            if other == name:
                raise link.error("leads back to the same GPU", "target")
            if other is not None and (count := link.whole("count", _MOST_NVLINKS)):
                counts[name, other] = counts.get((name, other), 0) + count
                places[name, other] = link
    for (one, other), count in counts.items():
        back = counts.get((other, one), count)
        if back != count:
            raise places[other, one].error(
                f"{back} from {other} to {one}; {count} was expected, as from there", "count"
            )
        if (other, one) not in counts or one < other:
            yield one, other, count * rates.nvlink


def _checked(gpu: Element, kind: str, rates: LinkRates) -> list[Element]:
    """The NVLinks of a GPU, no more than its kind has."""
    links = gpu.all("nvlink")
    total = sum(link.whole("count", _MOST_NVLINKS) for link in links)
    if total > rates.nvlinks:
        raise gpu.error(f"{total} NVLinks found; a GPU of kind {kind} has {rates.nvlinks or 'none'}; name another kind")
    return links


def _end(link: Element, gpus: Mapping[str, tuple[str, Element, str]], cpu: str) -> str | None:
    """The target of an NVLink; None for a GPU that is not in the dump."""
    target, class_ = _bus(link, "target"), link.attributes.get("tclass", "")
    if target in gpus:
        return gpus[target][0]
    if class_.startswith(_TO_GPU):
        return None
    return cpu if class_.startswith(_TO_CPU) else NVSWITCH
