"""What has a name, family by family, and what each member is."""

from collections.abc import Callable, Mapping
from typing import Any

import click

from pipesim.architectures import ARCHITECTURES
from pipesim.cli import options, setting_options
from pipesim.core.devices import DEVICE_KINDS
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
FAMILIES = ("traces", "models", "devices", *_FAMILIES)
_ALIASES = {"architectures": "models", "topologies": "clusters", "importers": "formats", "gpus": "devices"}


def noun_of(word: str) -> str | None:
    """The family that a person means by a word, `planner`, `topologies` or `Devices`; None if it means no family."""
    plain = word.lower()
    found = next((noun for noun in (plain, f"{plain}s", f"{plain[:-1]}ies") if noun in {*FAMILIES, *_ALIASES}), None)
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
    data: Callable[[str], Any] = _DATA.get(noun, _members)
    found = data(noun)
    if as_json:
        options.echo_json({noun: found})
        return
    from pipesim.display import text

    formatters: dict[str, Callable[[Any], str]]
    formatters = {"traces": text.traces, "models": text.models, "devices": text.device_kinds}
    formatted: Callable[[Any], str] = formatters.get(noun, text.members)
    click.echo(formatted(found))


def about(noun: str) -> dict[str, str]:
    """The first line of the documentation of each member of a family of functions."""
    return {name: member["about"] for name, member in _members(noun).items()}


# --- functions -------------------------------------------------------------------------------------------------------


def _members(noun: str) -> dict[str, Any]:
    from pipesim.base import lookup

    family, called = _FAMILIES[noun]
    return lookup.described(family, called, by_module=noun == "formats")


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


# Families whose members are not functions, with their data.
_DATA: dict[str, Callable[[str], Any]] = {"traces": _traces, "models": models, "devices": devices}
