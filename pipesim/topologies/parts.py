"""Parts of all topologies: checked arguments, and devices of a kind.

Each check gets the name of the argument, so that the error can name it.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pipesim.base import units
from pipesim.base.checks import check_whole
from pipesim.base.errors import InputError, UnknownNameError, shown, within
from pipesim.core.cluster import Device
from pipesim.core.devices import device_kind

# A cluster keeps every link, and every route once it is used; larger ones would not fit into memory.
MOST_DEVICES = 2**17
MOST_LINKS = 2**20
MOST_MEMORY = 2.0**60
LONGEST_PATH = 1024
DEVICE = "v100-16gb"
"""The kind of devices of a topology that is no machine, where none is named."""
# The precision of a device's peak.
PRECISION = "fp16"


def devices(places: Iterable[tuple[str, str]], device: str, memory: float | str | None) -> tuple[Device, ...]:
    """A device of this kind for each (name, node). `memory` (bytes or "16 GiB"; 0: not known) replaces the kind's."""
    kind, known, peak = _kind(device, memory is not None)
    own = known if memory is None else memory_of(memory)
    return tuple(Device(name, kind, node, own, peak) for name, node in places)


def _kind(name: str, has_memory: bool) -> tuple[str, int, float | None]:  # noqa: FBT001 - private, called once
    """Full name, memory and peak of a kind of device; an unknown kind has no peak, and needs a memory."""
    if not isinstance(name, str) or not name:
        raise InputError(f"device: {shown(name)} found; the name of a kind of device was expected")
    try:
        kind = device_kind(name)
    except UnknownNameError as error:
        if has_memory:
            return name, 0, None
        raise UnknownNameError(f"device: {error.message}; another kind needs its memory: memory='16 GiB'") from None
    return kind.name, kind.memory, kind.peak.get(PRECISION)


def memory_of(value: float | str) -> int:
    """Bytes of a device's memory."""
    found = _quantity("memory", value, units.size)
    if found > MOST_MEMORY:
        raise InputError(f"memory: {shown(value)} found; at most 1024 PiB was expected")
    return int(found)


def path(name: str, value: str | Path) -> Path:
    """The path of a file."""
    if not isinstance(value, str | Path) or not 0 < len(str(value)) <= LONGEST_PATH:
        raise InputError(f"{name}: {shown(value)} found; the path of a file was expected")
    return Path(value)


def count(name: str, value: int, least: int = 1, most: int = MOST_DEVICES) -> int:
    """A whole number within limits."""
    return check_whole(name, value, least, most)


def number(name: str, value: float, least: float, most: float) -> float:
    """A number within limits."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
        raise InputError(f"{name}: {shown(value)} found; a number from {least:g} to {most:g} was expected")
    return float(value)


def bandwidth(name: str, value: float | str) -> float:
    """Bytes per second, more than 0."""
    found = _quantity(name, value, units.bandwidth)
    if found == 0:
        raise InputError(f"{name}: {shown(value)} found; more than 0 bytes/s was expected")
    return found


def latency(name: str, value: float | str) -> float:
    """Seconds, 0 included."""
    return _quantity(name, value, units.duration)


def size(formula: str, *, devices: int, links: int = 0) -> None:
    """Refuse a cluster that is too large before it is built; `formula` is its size for the error."""
    if devices > MOST_DEVICES:
        raise InputError(f"{formula}: {devices} devices found; at most {MOST_DEVICES} were expected")
    if links > MOST_LINKS:
        raise InputError(f"{formula}: {links} links found; at most {MOST_LINKS} were expected")


def _quantity(name: str, value: Any, read: Any) -> float:  # noqa: ANN401 - what was passed is anything
    with within(name):
        try:
            return read(value)  # type: ignore[no-any-return]  # one of the functions of `units`
        except OverflowError:
            raise InputError(f"{shown(value)} found; a finite number was expected") from None
