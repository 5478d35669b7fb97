"""What has a name, family by family, and what each member is."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import click

from pipesim.architectures import ARCHITECTURES
from pipesim.base.errors import UnknownNameError
from pipesim.cli import options, setting_options
from pipesim.cli.table_outputs import ShownItem
from pipesim.core.devices import DEVICE_KINDS, device_kind
from pipesim.engines import ENGINES
from pipesim.importers import IMPORTERS
from pipesim.planners import PLANNERS
from pipesim.schedulers import SCHEDULERS
from pipesim.topologies import TOPOLOGIES

if TYPE_CHECKING:
    from pipesim.display.text.columns import TextTable

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


def family(noun: str) -> ShownItem:
    """What each member of a family is."""
    from pipesim.display import text

    data: Callable[[str], Any] = _DATA.get(noun, _members)
    found, on = data(noun), options.terminal()
    tables: dict[str, Callable[[Any], TextTable]]
    tables = {"traces": text.traces, "models": text.models, "devices": text.device_kinds}

    def table() -> "TextTable":
        made: TextTable = tables[noun](found) if noun in tables else text.members_table(found)
        return made

    def shown() -> str:
        if noun == "devices":
            return devices_text(found)
        return table().text(on) if noun in tables else text.members(found, on)

    return ShownItem(shown, lambda: {noun: found}, table)


def devices_text(found: Mapping[str, Mapping[str, Any]]) -> str:
    """A table of kinds of devices, and what its numbers are."""
    from pipesim.display import text

    on = options.terminal()
    return f"{text.device_kinds(found).text(on)}\n\n{text.wrapped(text.PEAKS_ARE, on)}"


def families_of(name: str) -> list[str]:
    """The families that have a member of this name, other than traces."""
    families: dict[str, Mapping[str, Any]] = {"models": ARCHITECTURES, "devices": DEVICE_KINDS}
    families |= {noun: family for noun, (family, _) in _FAMILIES.items()}
    return [noun for noun, family in families.items() if name in family]


def full(name: str) -> str:
    """The name itself, or that of the kind of device for which it is short; refused if it is short for several."""
    try:
        return device_kind(name).name
    except UnknownNameError:
        if any(kind.startswith(f"{name}-") for kind in DEVICE_KINDS):
            raise
    return name


def makes_a_cluster(name: str) -> bool:
    """Whether this cluster needs no sizes."""
    return not _member("clusters", name)[name]["needs"]


def show_member(name: str, *, as_json: bool) -> None:
    """Print what a name is in each family that has it; of a model with sizes to state, and others, what it takes."""
    found = {noun: _member(noun, name) for noun in families_of(name)}
    if as_json:
        options.echo_json(found)
        return
    from pipesim.display import text

    for noun, member in found.items():
        click.echo(f"{noun.removesuffix('s')}")
        on = options.terminal()
        click.echo(devices_text(member) if noun == "devices" else text.members(member, on))
        if noun == "devices":
            click.echo(f"from: {member[name]['sheet']}")


def _member(noun: str, name: str) -> dict[str, Any]:
    """One member, as in the data of its family."""
    from pipesim.base import lookup

    if noun == "devices":
        return {name: devices()[name]}
    if noun == "models":
        (one,) = (one for one in models() if name in one["names"])
        found = lookup.described({name: ARCHITECTURES[name]}, "architecture")
        return {name: found[name] | {"needs": one["needs"], "about": one["about"]}}
    family, called = _FAMILIES[noun]
    return lookup.described({name: family[name]}, called, by_module=noun == "formats")


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
