"""What has a name, family by family, and what each member is."""

from collections.abc import Callable, Mapping
from typing import Any

import click

from pipesim.architectures import ARCHITECTURES
from pipesim.cli import options, setting_options
from pipesim.core.devices import DEVICE_KINDS, TFLOPS
from pipesim.engines import ENGINES
from pipesim.importers import IMPORTERS
from pipesim.planners import PLANNERS
from pipesim.schedulers import SCHEDULERS
from pipesim.topologies import TOPOLOGIES

# Family -> the functions in it, what one of them is called, and what may be written in its place.
_FAMILIES: dict[str, tuple[Mapping[str, str], str]] = {
    "clusters": (TOPOLOGIES, "cluster"),
    "planners": (PLANNERS, "planner"),
    "schedulers": (SCHEDULERS, "scheduler"),
    "formats": (IMPORTERS, "format"),
    "engines": (ENGINES, "engine"),
}
NOUNS = ("traces", "models", "devices", *_FAMILIES)
_ALIASES = {"architectures": "models", "topologies": "clusters", "importers": "formats", "gpus": "devices"}
_PEAKS = ("fp32", "tf32", "bf16", "fp16", "fp8")


def noun_of(word: str) -> str | None:
    """The family that a person means by a word, `planner`, `topologies` or `Devices`; None if it means no family."""
    plain = word.lower()
    found = next((noun for noun in (plain, f"{plain}s", f"{plain[:-1]}ies") if noun in {*NOUNS, *_ALIASES}), None)
    return None if found is None else _ALIASES.get(found, found)


def every() -> dict[str, list[str]]:
    """All names; of models that have several, the first."""
    first: dict[str, str] = {}
    for name, target in ARCHITECTURES.items():
        first.setdefault(target, name)
    return {
        "traces": list(setting_options.names_of("traces")),
        "models": list(first.values()),
        "devices": list(DEVICE_KINDS),
        **{noun: list(family) for noun, (family, _) in _FAMILIES.items()},
    }


def show(noun: str, *, as_json: bool) -> None:
    """Print what each member of a family is."""
    data, text = _SHOWN.get(noun, (_members, _members_text))
    found = data(noun)
    if as_json:
        options.echo_json({noun: found})
    else:
        click.echo(text(found))


def about(noun: str) -> dict[str, str]:
    """The first line of the documentation of each member of a family of functions."""
    return {name: member["about"] for name, member in _members(noun).items()}


# --- functions -------------------------------------------------------------------------------------------------------


def _members(noun: str) -> dict[str, Any]:
    from pipesim.base import lookup

    family, called = _FAMILIES[noun]
    return lookup.described(family, called, by_module=noun == "formats")


def _members_text(found: dict[str, Any]) -> str:
    """Each with what it needs, a sentence, and its options."""
    parts = []
    for name, member in found.items():
        lines = [f"{name}({', '.join(member['needs'])})" if member["needs"] else name, member["about"]]
        if member["options"]:
            lines.append("options: " + ", ".join(f"{key}={_brief(value)}" for key, value in member["options"].items()))
        parts.append("\n    ".join(lines))
    return "\n".join(parts)


def _brief(value: str, most: int = 24) -> str:
    return value if len(value) <= most else "..."


# --- traces, models, devices -----------------------------------------------------------------------------------------


def _traces(_: str) -> dict[str, Any]:
    from pipesim.studies import loading

    traces = {name: loading.load_trace(name) for name in setting_options.names_of("traces")}
    return {
        name: {
            "model": trace.model,
            "layers": trace.layer_count,
            "device_kinds": list(trace.device_kinds),
            "microbatch_size": trace.microbatch_size,
            "source": trace.source,
        }
        for name, trace in traces.items()
    }


def _traces_text(found: dict[str, Any]) -> str:
    from pipesim.display import text

    rows = [
        [name, f"{one['layers']}", f"{one['microbatch_size']}", ", ".join(one["device_kinds"]), one["source"]]
        for name, one in found.items()
    ]
    return text.table(["trace", "layers", "microbatch", "device kinds", "source"], rows)


def models(_: str = "models") -> list[dict[str, Any]]:
    """All architectures and published models: what each is called, the sizes that it needs, and a sentence."""
    from pipesim.architectures import described

    return [
        {
            "names": list(names),
            "needs": [each.removesuffix("=...") for each in needed.split(", ")] if needed else [],
            "call": f"{names[0]}({needed})" if needed else names[0],
            "about": about,
        }
        for names, needed, about in described.listed()
    ]


def models_text(found: list[dict[str, Any]]) -> str:
    """A table of them."""
    from pipesim.display import text

    rows = [[one["call"] if one["needs"] else ", ".join(one["names"]), one["about"]] for one in found]
    return text.table(["architecture", "what it is"], rows, left=2)


def devices(_: str = "devices") -> dict[str, Any]:
    """All kinds of devices, with the numbers of their data sheets."""
    return {
        kind.name: {
            "memory_bytes": kind.memory,
            "memory_bandwidth": kind.memory_bandwidth,
            "peak": dict(kind.peak),
            "interconnect": kind.interconnect,
            "sheet": kind.sheet,
        }
        for kind in DEVICE_KINDS.values()
    }


def devices_text(found: dict[str, Any]) -> str:
    """A table of them, peaks in TFLOP/s."""
    from pipesim.display import text

    rows = [
        [name, text.size(one["memory_bytes"]), text.rate(one["memory_bandwidth"]), text.rate(one["interconnect"])]
        + [f"{one['peak'][peak] / TFLOPS:g}" if peak in one["peak"] else "-" for peak in _PEAKS]
        for name, one in found.items()
    ]
    shown = text.table(["device", "memory", "its bandwidth", "to others", *_PEAKS], rows)
    return f"{shown}\n\nPeaks are dense, in TFLOP/s; all numbers are from the vendors' data sheets."


# Family -> what there is to say of its members, and the text of that, where they are no functions.
_SHOWN: dict[str, tuple[Callable[[str], Any], Callable[[Any], str]]] = {
    "traces": (_traces, _traces_text),
    "models": (models, models_text),
    "devices": (devices, devices_text),
}
