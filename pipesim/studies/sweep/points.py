"""One point of a sweep: what `pipesim simulate` takes, and the key of everything that determines the result.

[simulate]                                     what all points have in common; text may hold formulas of axes
architecture = "gpt({layers}, {hidden}, {heads}, sequence=2048)"      or trace = "bert-large"
cluster = 'servers({gpus // 8}, 8, intra="300GB/s", inter="{rate} Gb/s", device="a100-80gb")'
planner = "spp"
microbatches = "{4 * gpus}"
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from pipesim.base import formulas
from pipesim.base.errors import PipesimError, within
from pipesim.base.formulas import Template
from pipesim.base.settings import settings_of
from pipesim.core.devices import device_kind
from pipesim.studies.simulation import KEY_FIELDS, Simulation, checked, defaults, idle_fields, with_defaults

# Raised whenever the same point would come to other numbers: rows of an older number are computed again.
SEMANTICS = 13
DEFAULTS_0_1 = {"efficiency": 0.5}  # of pipesim 0.1, where they may differ from the present ones


FIELDS = KEY_FIELDS
_DEFAULTS = defaults()
_WITH_DEFAULTS = {
    name: getattr(with_defaults(Simulation()), name) for name in FIELDS
}  # what fields are that are not given
_TEXTS = frozenset(name for name, about in settings_of(Simulation).items() if about.kind is str and not about.choices)
_MOST_KNOWN = 10_000


def check_value(name: str, value: Any) -> None:  # noqa: ANN401 - what a file holds is anything
    """Refuse a value that a field cannot have; text with formulas is checked when they are computed."""
    if isinstance(value, str) and template(value).names:
        return
    found = checked(name, value, name)
    if name == "device" and found is not None:
        with within("device"):
            device_kind(found)


def template(text: str) -> Template:
    """Text with formulas in braces."""
    return formulas.template(text)


class Maker:
    """Makes points of what is bound and of the values of axes."""

    def __init__(self, bound: Mapping[str, Any], axes: Mapping[str, tuple[Any, ...]]) -> None:
        self._bound, self._axes = dict(bound), dict(axes)
        self._templates: dict[str, Template] = {}
        self._known: dict[tuple[str, type, Any], Any] = {}
        texts = [v for v in bound.values() if isinstance(v, str)]
        texts += [v for name in axes if name in FIELDS for v in axes[name] if isinstance(v, str)]
        for text in texts:
            made = template(text)
            if made.names or made.pieces != (text,):
                self._templates[text] = made

    @property
    def used(self) -> frozenset[str]:
        """The names that formulas use."""
        return frozenset().union(*(made.names for made in self._templates.values()))

    def has(self, name: str) -> bool:
        """Whether a field is given; a seed may be used in a formula alone, where nothing is drawn."""
        if name == "seed" and self._bound.get("iterations") is None and "iterations" not in self._axes:
            return False
        return name in self._bound or name in self._axes

    def names(self, name: str) -> frozenset[str]:
        """The axes, and what else is bound, that a field depends on."""
        texts = [self._bound.get(name), *self._axes.get(name, ())]
        made = [self._templates[text] for text in texts if isinstance(text, str) and text in self._templates]
        return frozenset({name}).union(*(one.names for one in made))

    def field(self, name: str, values: Mapping[str, Any]) -> Any:  # noqa: ANN401 - as its field has it
        """What a field is where the axes have these values."""
        value = values[name] if name in values else self._bound.get(name, _DEFAULTS[name])
        if isinstance(value, str) and (made := self._templates.get(value)) is not None:
            try:
                value = made.value({**self._bound, **values})
            except PipesimError as error:  # no `within`, which takes longer than all else here
                error.within(name)
                raise
        return self._checked(name, value)

    def point(self, values: Mapping[str, Any]) -> Simulation:
        """The point where the axes have these values."""
        return Simulation(**{name: self.field(name, values) for name in FIELDS if self.has(name)})

    def _checked(self, name: str, value: Any) -> Any:  # noqa: ANN401 - whatever a formula came to
        """A value as its field has it; each is looked at once, for many points have it. Any text is a text."""
        if name in _TEXTS and isinstance(value, str):
            return value
        place = name, type(value), value
        if place not in self._known:
            if len(self._known) > _MOST_KNOWN:
                self._known.clear()
            self._known[place] = checked(name, value, name)
        return self._known[place]


def key(
    point: Simulation, contents: Mapping[str, str], functions: Sequence[str] = (), *, as_0_1: bool = False
) -> bytes:
    """A hash of everything that determines the result.

    `contents` has the digests of files and of functions by name, `functions` the user's own metrics that are
    taken. What has no effect does not count, nor what is left at its default: an option that is new changes no key.
    `as_0_1`: the key that pipesim 0.1 gave the point, which held the package's version.
    """
    point, idle = with_defaults(point), idle_fields(point)
    counted = {
        name: contents.get(f"{name} {value}", value)
        for name in FIELDS
        if name not in idle and not is_default(name, value := getattr(point, name), as_0_1=as_0_1)
    }
    return hashed(json.dumps([*scheme(as_0_1=as_0_1), counted, *functions], sort_keys=True, separators=(",", ":")))


def scheme(*, as_0_1: bool = False) -> tuple[int | str, ...]:
    """What the text of every key begins with."""
    return (SEMANTICS, "0.1.0") if as_0_1 else (SEMANTICS,)


def hashed(text: str) -> bytes:
    """The hash that a key is, of the text of what determines a result."""
    return hashlib.sha256(text.encode()).digest()[:16]


def is_default(name: str, value: Any, *, as_0_1: bool = False) -> bool:  # noqa: ANN401 - as `check_value`
    """Whether a field is left at its default, or at that of pipesim 0.1."""
    defaults = _WITH_DEFAULTS | DEFAULTS_0_1 if as_0_1 else _WITH_DEFAULTS
    return bool(value == defaults[name])
