"""Where the times of a result are from, in a sentence: which trace or model, recorded or computed, with what constants.

bundled trace gpt-small-cpu (cpu), recorded
llama3-70b computed from data sheets for h100-80gb at tensor width 8 (constants of a100)
"""

import re
from pathlib import Path

from pipesim.architectures import device_curves, roofline
from pipesim.core.cluster import Cluster
from pipesim.core.costs import Basis, Costs, Origin
from pipesim.core.trace import Trace
from pipesim.studies.bundled_traces import bundled_traces
from pipesim.studies.scaled_widths import is_scaled
from pipesim.studies.simulation import MODEL, Simulation, defaults

_PART_OF_PEAK = re.compile(r"none: calculated from data sheets( at [0-9.e-]+ of the peak)")
_CONSTANTS = {"fitted": "fitted constants", "calibrated": "calibrated constants"}


def headline(costs: Costs, cluster: Cluster) -> str:
    """The origin of the times that a cluster uses."""
    used = dict.fromkeys(device.kind for device in cluster.devices)
    kinds = [kind for kind in costs.kinds if kind in used] or list(costs.kinds)
    origin, widths = costs.origin, sorted((costs.widths, *costs.others), key=lambda each: each.gpus)
    wide = " and ".join(str(each) for each in widths if origin.computed and each.gpus > 1)
    scaled = " and ".join(str(each) for each in widths if origin.timed_at not in {None, each})
    at, to = (f" at {wide}" if wide else "", f", scaled to {scaled}" if scaled else "")
    return f"{origin.before}{', '.join(kinds)}{at}{origin.after}{to}"


def origin_of(simulation: Simulation, trace: Trace) -> Origin:
    """What a headline states of where the times of a trace are from."""
    named = simulation.trace
    if simulation.architecture is not None or trace.command.startswith(MODEL):
        constants = f" ({_constants(simulation, trace)})"
        return Origin(f"{trace.model} computed from data sheets for ", constants, computed=True)
    timed_at = trace.widths[0] if is_scaled(trace) else None
    how = "recorded"
    if trace.source == roofline.SOURCE:
        part = _PART_OF_PEAK.match(trace.machine)
        how = f"computed from data sheets{part[1] if part else ''}"
    if isinstance(named, str) and named in bundled_traces():
        return Origin(f"bundled trace {named} (", f"), {how}", timed_at=timed_at)
    name = named if isinstance(named, str | Path) else trace.model
    return Origin(f"trace {name} (", f"), {how}", timed_at=timed_at)


def basis_of(simulation: Simulation, trace: Trace) -> Basis:
    """How the times of a trace were found, as far as measured runs of the same sort can speak for them."""
    if simulation.architecture is not None or trace.command.startswith(MODEL):
        return "computed" if simulation.efficiency == defaults()["efficiency"] else "stated"
    return "stated" if trace.source == roofline.SOURCE or is_scaled(trace) else "recorded"


def _constants(simulation: Simulation, trace: Trace) -> str:
    """The constants that turn data sheets into seconds."""
    chosen = simulation.efficiency
    if not isinstance(chosen, str):
        return f"at {chosen:g} of the peak"
    if chosen != defaults()["efficiency"]:
        return f"efficiency {chosen}"
    curves = [device_curves.curve_of(kind, trace.precision) for kind in trace.device_kinds]
    named_constants = [
        "one curve for all devices"
        if curve is None
        else _CONSTANTS.get(curve.origin) or f"constants of {curve.source.partition(':')[0]}"
        for curve in curves
    ]
    return ", ".join(dict.fromkeys(named_constants))
