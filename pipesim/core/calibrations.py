"""A user's own kinds of devices, calibrated on measurements: constants in a file, named FILE.toml:NAME.

    format = "pipesim.devices"          the kind "my-devices.toml:a100-80gb" has the data sheet of its base, and in the
    version = 1                         precision that is stated these constants in place of fitted ones
    [[devices]]
    name = "a100-80gb"
    base = "a100-80gb"
    precision = "bf16"
    product = 0.7
    ...

`pipesim calibrate` writes such files; a file may have several kinds, and a kind several precisions.
"""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from pipesim.base import lookup, serialisation
from pipesim.base.errors import InputError, UnknownNameError, within

_SEPARATOR = ".toml:"


@dataclass(frozen=True, slots=True)
class Calibration:
    """The constants of a kind of device in one precision; `source` states how many were fitted, and on what."""

    name: str
    base: str
    precision: str
    product: float
    attention: float
    memory: float
    launch_s: float
    unaligned: float
    source: str = ""


@dataclass(frozen=True, slots=True)
class Calibrations:
    """The kinds of devices in a file."""

    FORMAT: ClassVar[str] = "pipesim.devices"
    VERSION: ClassVar[int] = 1

    devices: tuple[Calibration, ...]

    def __post_init__(self) -> None:
        if not self.devices:
            raise InputError("devices: at least one was expected")
        for (name, precision), count in Counter((one.name, one.precision) for one in self.devices).items():
            if count > 1:
                raise InputError(f"devices: {name!r} has {precision} more than once")


def is_calibrated(kind: str) -> bool:
    """Whether a kind of device is named as FILE.toml:NAME."""
    return _SEPARATOR in kind


def calibrations_of(kind: str) -> tuple[Calibration, ...]:
    """The constants of a kind FILE.toml:NAME, one for each precision."""
    stem, _, name = kind.rpartition(_SEPARATOR)
    path = Path(f"{stem}{_SEPARATOR.removesuffix(':')}")
    with within(str(path)):
        known = serialisation.load(Calibrations, path).devices
        found = tuple(one for one in known if one.name == name)
        if not found:
            raise UnknownNameError(f"no device {name!r}; {lookup.suggest(name, [one.name for one in known])}")
        if len({one.base for one in found}) > 1:
            raise InputError(f"device {name!r}: several bases found; one was expected")
    return found
