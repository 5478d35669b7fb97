"""Efficiencies as users write them: "device", "curve", or either with constants of their own.

"device"                        the constants of each kind of device, by operation
"device(product=0.65)"          the same with another part of the peak in products
"curve"                         one curve for all kinds, by the size of a layer
"curve(memory=0.5)"             the same with another part of the bandwidth
"""

from dataclasses import replace
from typing import NamedTuple

from pipesim.architectures import device_curves
from pipesim.architectures.device_curves import DeviceCurve
from pipesim.architectures.efficiency import Curve, curve_for
from pipesim.base import lookup
from pipesim.base.errors import InputError, quoted

CONSTANTS = {
    "device": ("product", "attention", "memory", "launch_s", "unaligned"),
    "curve": ("product", "convolution", "memory", "start_s"),
}


class NamedEfficiency(NamedTuple):
    """A curve by name, and the constants that replace its own."""

    name: str
    constants: dict[str, float]

    def on(self, kind: str, precision: str) -> DeviceCurve | Curve:
        """The curve of a kind of device in a precision; without one of its own, in fp32, that of all kinds."""
        own = device_curves.curve_of(kind, precision) if self.name == "device" else None
        if own is not None:
            return replace(own, **self.constants)  # type: ignore[arg-type]  # its constants are numbers
        shared = {name: value for name, value in self.constants.items() if name in CONSTANTS["curve"]}
        return replace(curve_for(precision), **shared)


def named(text: str) -> NamedEfficiency:
    """The efficiency that a text names, or an error that lists the names and constants."""
    name, positional, constants = lookup.parse_call(text, "efficiency")
    if name not in CONSTANTS:
        raise InputError(f"efficiency = {quoted(text)} found; {', '.join(CONSTANTS)} or a number was expected")
    known = CONSTANTS[name]
    for given, value in constants.items():
        if given not in known:
            raise InputError(
                f"efficiency {quoted(text)}: no constant {quoted(given)}; {lookup.suggest(given, [*known])}"
            )
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise InputError(f"efficiency {quoted(text)}: {given} = {value!r} found; a number was expected")
    if positional:
        raise InputError(f"efficiency {quoted(text)}: constants are named, such as {name}({known[0]}=0.72)")
    return NamedEfficiency(name, {given: float(value) for given, value in constants.items()})
