"""The answer of a simulation in a few lines: time, speed, bubble, memory, and what limits it."""

from collections.abc import Mapping, Sequence
from typing import Any

from pipesim.display.text.formatting import facts, percent, seconds, size, wrapped
from pipesim.display.text.terminal import PLAIN, Terminal
from pipesim.display.text.validation_text import measured_interval

MOST_LINES = 5


def answer(data: Mapping[str, Any], on: Terminal = PLAIN, of: str = "") -> str:
    """What one wants to know first; `data` is that of `SimulationResult.as_data`, `of` names the result.

    A result that has no name has the interval of measured runs beside its time.
    """
    lines = [
        ("iteration time", f"{_time(data, on)}, {of or measured_interval(data['measured_interval'])}"),
        ("throughput", _speed(data)),
        ("bubble", bubble(data["bubble"])),
        ("memory", memory(data, on)),
        ("bottleneck", bottleneck(data["bottleneck"], data)),
    ]
    return facts(lines, on)


def _time(data: Mapping[str, Any], on: Terminal) -> str:
    return on.bold(seconds(data["iteration_time_s"]))


def _speed(data: Mapping[str, Any]) -> str:
    """Tokens/s of a GPU where samples have tokens, samples/s, and how well the GPUs are used."""
    samples = f"{data['throughput_samples_per_s']:.1f} samples/s"
    each = data["tokens_per_s_per_gpu"]
    found = [samples] if each is None else [f"{each:,.0f} tokens/s/GPU ({samples})"]
    if data["mfu"] is not None:
        found.append(f"MFU {percent(data['mfu'])}")
    return ", ".join(found)


def bubble(data: Mapping[str, float]) -> str:
    """The bubble under its main definition; JSON has the others, which `analysis.metrics` defines."""
    return f"{percent(data['idle_share'])} of the devices' time is idle"


def memory(data: Mapping[str, Any], on: Terminal = PLAIN) -> str:
    """Whether it fits, on which device it is tightest, and with which options it would."""
    if data["fits_memory"] is None:
        return "unknown: bytes of parameters or activations are not in the trace"
    reserve = (data.get("simulation") or {}).get("reserve")
    reserved = f", with a reserve of {size(reserve)}" if reserve else ""
    if data["fits_memory"]:
        return f"fits{_fullest(data)}{reserved}"
    options = data["would_fit_with"]
    with_others = f"; would fit with {', or '.join(options)}" if options else ""
    return f"{on.red('DOES NOT FIT')}{_fullest(data)}{reserved}{with_others}"


def _fullest(data: Mapping[str, Any]) -> str:
    """What the device with the least headroom holds, and has."""
    known = {name: one for name, one in data["devices"].items() if one["memory_headroom_bytes"] is not None}
    if not known:
        return ""
    name = min(known, key=lambda each: known[each]["memory_headroom_bytes"])
    holds, left = known[name]["peak_memory_bytes"], known[name]["memory_headroom_bytes"]
    return f": {size(holds)} of {size(holds + left)} on {name}"


def bottleneck(found: Mapping[str, Any], data: Mapping[str, Any]) -> str:
    """What limits the iteration, in a sentence."""
    share, what = percent(found["shares"][found["what"]]), found["what"]
    if what == "computing":
        return f"computation: the devices work {share} of the time"
    if what == "transfers":
        link = f"; {found['link']} is busy for {percent(found['link_busy_share'])}" if found["link"] else ""
        return f"transfers: the devices wait {share} of the time for them{link}"
    if what == "all_reduce":
        return f"exchange of gradients and parameters: the devices wait {share} of the time for it"
    if what == "imbalance":
        return f"unequal stages: the devices wait {share} of the time for {found['device']}, which works the longest"
    microbatches, stages = data["microbatches"], (data["layout"]["pipeline"] or 0) * (data["layout"]["interleave"] or 1)
    return f"filling and draining the pipeline, {share} of the time ({microbatches} microbatches, {stages} stages)"


def origin(text: str, notes: Sequence[str] = (), on: Terminal = PLAIN) -> str:
    """Where the times of a result are from, and below it what must be known of them."""
    return "\n".join([wrapped(text, on), *(wrapped(f"note: {note}", on, len("note: ")) for note in notes)])
