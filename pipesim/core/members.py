"""What the members of the families declare about themselves, each in its own file.

    @PlannerInfo(tables=table_bytes)                        a decorator of the member's function; what is not
    def my_planner(model, cluster, costs, microbatches):    stated has its default, and a function without a
                                                            declaration has all defaults

A family's registry (`PLANNERS`, `SCHEDULERS`, ...) holds names and "module:function" only, so that it costs nothing to
import; a declaration is read from the function, when the member is used.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar, get_args

from pipesim.base import lookup
from pipesim.base.checks import check_whole
from pipesim.base.errors import InputError
from pipesim.core.plan import Replicas

Function = TypeVar("Function", bound=Callable[..., Any])
Layout = Literal["straight", "loop", "wave", "both"]
Refit = Literal["option", "cuts", "replicas"]


@dataclass(frozen=True, slots=True)
class ProblemSize:
    """What the size of a planner's tables depends on."""

    layers: int
    devices: int
    nodes: int = 1
    kinds: int = 1
    most_stages: int | None = None  # that the planner may make; None: as many as there are devices

    @property
    def stages(self) -> int:
        """The most stages that a plan can have."""
        return min(self.devices, self.layers, self.most_stages or self.devices)

    @property
    def devices_per_node(self) -> int:
        """The devices of a node, rounded up."""
        return -(-self.devices // self.nodes)


class _Info:
    """Decorates a function: the function is returned as it is, with the declaration as an attribute."""

    __slots__ = ()

    def __call__(self, function: Function) -> Function:
        setattr(function, lookup.DECLARED, self)
        return function


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannerInfo(_Info):
    """A planner: the bytes of its largest tables, and how it is drawn.

    `look` is its place in the palette of planners (`display/figures/looks.py`); None: the first that no other planner
    has declared. `aliases` are its other names, `option_aliases` those of its options, {"vpp": "interleave"}; case and
    what is between letters and digits do not matter.

    Where a plan does not fit in memory, `refits` states what of it may be changed, in this order: an option, of which
    other values are tried (`option`: one of `values`; if there are none, a number that divides the devices), its
    `cuts`, and its `replicas`.
    """

    tables: Callable[[ProblemSize], float] = lambda _: 0.0
    look: int | None = None
    aliases: tuple[str, ...] = ()
    option_aliases: Mapping[str, str] = field(default_factory=dict)
    refits: tuple[Refit, ...] = ("cuts", "replicas")
    option: str = ""
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerInfo(_Info):
    """A scheduler: which plans it orders, what its schedules are like, and how it is drawn.

    layout            how stages are laid out on devices, as `schedulers/layouts.py` draws it; None: as the plan has
                      them
    every_layout      whether it is given the plan in every layout, and the best is kept
    chunks            stages on each device; with `chunks_option`, for each unit of that option of the function
    replicas          what replicas of a stage may do: split each microbatch, or take whole ones; (): no replicas. Equal
                      pipelines side by side are ordered one by one, whatever is declared
    splits_backward   whether gradients of input and weights are actions of their own
    completes         whether a replay ends also where transfers block their devices, whatever the times
    fewest            microbatches per device that it needs
    is_search         whether it is slow: tests draw fewer examples
    requires          modules of optional extras; `auto` and `pipesim gallery` leave such schedulers out
    look, aliases, option_aliases     as those of PlannerInfo, in the palette of schedules
    """

    layout: Layout | None = None
    every_layout: bool = False
    chunks: int = 1
    chunks_option: str = ""
    replicas: tuple[Replicas, ...] = ("split", "whole")
    splits_backward: bool = False
    completes: bool = False
    fewest: int = 1
    is_search: bool = False
    requires: tuple[str, ...] = ()
    look: int | None = None
    aliases: tuple[str, ...] = ()
    option_aliases: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_whole("chunks", self.chunks)
        layouts = () if self.layout is None else (self.layout,)
        for name, values, known in (
            ("layout", layouts, get_args(Layout)),
            ("replicas", self.replicas, get_args(Replicas)),
        ):
            for wrong in (value for value in values if value not in known):
                raise InputError(f"{name} = {wrong!r} found; {lookup.suggest(str(wrong), list(known))}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ImporterInfo(_Info):
    """An importer: how a file of its format is recognised, and what one looks like.

    recognises        gets the bytes of a file's beginning and their text; without it, and without the next two, the
                      format must be named (`--format`)
    recognises_path   gets the path alone, of a file or a folder, before any file is read
    suffixes          those of files whose beginning no importer recognises
    otherwise         completes the sentence "it ..." for a file that is not recognised
    example           file names and contents, read together: tests read them, and damage them
    """

    recognises: Callable[[bytes, str], bool] | None = None
    recognises_path: Callable[[Path], bool] | None = None
    suffixes: tuple[str, ...] = ()
    otherwise: str = ""
    example: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologyInfo(_Info):
    """A topology: `examples` are expressions for small clusters that tests build; the first has at least 4 devices."""

    examples: tuple[str, ...] = ()


class Drawn(Protocol):
    """A declaration of what has a look in figures."""

    @property
    def look(self) -> int | None:
        """The place in the palette of its family."""

    @property
    def aliases(self) -> tuple[str, ...]:
        """Other spellings."""


Info = TypeVar("Info", PlannerInfo, SchedulerInfo, ImporterInfo, TopologyInfo)


def info_of(member: object, kind: type[Info]) -> Info:
    """What a function declares, also where arguments are bound to it; the defaults if it declares nothing."""
    found = getattr(getattr(member, "func", member), lookup.DECLARED, None)
    return found if isinstance(found, kind) else kind()


def infos(family: Mapping[str, str], noun: str, kind: type[Info]) -> dict[str, Info]:
    """What each member of a family declares; this imports all of them."""
    return {name: info_of(lookup.function_named(name, family, noun), kind) for name in family}
