"""Options of commands from the settings of a dataclass: a command is handed one value of the dataclass for them.

@setting_options.options(Simulation, "simulation", without=("planner",))
def compare(simulation: Simulation, ...) -> None: ...
"""

import functools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, TypeVar, cast

import click
from click.shell_completion import CompletionItem

from pipesim.base.settings import Setting, defaults_of, settings_of

Command = Callable[..., Any]
OTHERS = "output"  # the heading of options that are of no group
T = TypeVar("T")


class GroupedOption(click.Option):
    """An option with the heading under which --help has it."""

    def __init__(self, *words: Any, group: str = "", **about: Any) -> None:
        super().__init__(*words, **about)
        self.group = group


class GroupedCommand(click.Command):
    """A command whose --help has its options under headings: those of its settings, then the others."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """As click does, a section for each group."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for one in self.get_params(ctx):
            record = one.get_help_record(ctx) if isinstance(one, click.Option) else None
            if record is not None:
                sections.setdefault(getattr(one, "group", "") or OTHERS, []).append(record)
        for heading in sorted(sections, key=lambda heading: heading == OTHERS):
            with formatter.section(f"{heading.capitalize()} options"):
                formatter.write_dl(sections[heading])


def options(
    record: type[T],
    name: str,
    *,
    fields: Iterable[str] = (),
    without: Iterable[str] = (),
    make: Callable[[Mapping[str, Any]], T] | None = None,
    group: str = "",
) -> Callable[[Command], Command]:
    """Give a command an option for each setting of a dataclass, and one value of it as the argument `name`.

    `fields` are those that become options (default: all), but for `without`; the others keep their defaults. `make`
    makes the value of what was given, where it is not just the dataclass. `group` is the heading of settings that are
    of none.
    """
    known = settings_of(record)
    chosen = [one for one in fields or known if one not in without]

    def decorate(command: Command) -> Command:
        @functools.wraps(command)
        def call(**given: Any) -> Any:
            values = {one: given.pop(one) for one in chosen}
            return command(**given, **{name: (make or _plainly(record))(values)})

        defaults, decorated = defaults_of(record), cast("Command", call)
        for one in reversed(chosen):
            about = replace(known[one], group=known[one].group or group)
            decorated = option(one, about, defaults[one])(decorated)
        return decorated

    return decorate


def _plainly(record: type[T]) -> Callable[[Mapping[str, Any]], T]:
    return lambda values: record(**values)


def option(name: str, about: Setting, default: Any) -> Callable[[Command], Command]:
    """The option of one setting."""
    flag = about.flag or f"--{name.replace('_', '-')}"
    words = [flag, *about.flags, *([f"-{about.short}"] if about.short else []), name]
    if about.kind is bool and default is None:
        words[0] = f"{flag}/--no-{flag[2:]}"
        return click.option(*words, default=None, help=about.help, cls=GroupedOption, group=about.group)
    if about.kind is bool:
        return click.option(*words, is_flag=True, help=about.help, cls=GroupedOption, group=about.group)
    more: dict[str, Any] = {"metavar": about.metavar} if about.metavar else {}
    if about.multiple:
        more |= {"multiple": True}
    elif default is not None and default != "" and (not isinstance(default, float) or default):
        more |= {"default": default, "show_default": True}
    else:
        more |= {"default": default}
    return click.option(
        *words,
        cls=GroupedOption,
        group=about.group,
        type=_type_of(about),
        help=about.help,
        required=about.required,
        shell_complete=complete(about.family) if about.family else None,
        **more,
    )


def _type_of(about: Setting) -> Any:
    if about.choices:
        return click.Choice(about.choices)
    if about.is_file:
        return click.Path()
    return str if about.parse is not None else about.kind


def complete(family: str) -> Callable[..., list[CompletionItem]]:
    """Tab completion from the names of a family, and from files where no name fits."""

    def completed(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
        found = [CompletionItem(name) for name in names_of(family) if name.startswith(incomplete)]
        return found or [CompletionItem(incomplete, type="file")]

    return completed


def names_of(family: str) -> Iterable[str]:
    """The names of a family."""
    from pipesim.architectures import ARCHITECTURES
    from pipesim.core.devices import DEVICE_KINDS
    from pipesim.importers import IMPORTERS
    from pipesim.planners import PLANNERS
    from pipesim.schedulers import SCHEDULERS
    from pipesim.topologies import TOPOLOGIES

    if family == "traces":
        from pipesim.studies.bundled_traces import bundled_traces

        return bundled_traces()
    families: dict[str, Mapping[str, Any]] = {
        "architectures": ARCHITECTURES,
        "devices": DEVICE_KINDS,
        "importers": IMPORTERS,
        "planners": PLANNERS,
        "schedulers": SCHEDULERS,
        "topologies": TOPOLOGIES,
    }
    if family == "what":
        from pipesim.cli import names

        return dict.fromkeys([*names.FAMILIES, *(name for members in names.every().values() for name in members)])
    return families[family]


def given_names() -> frozenset[str]:
    """The parameters that the command line gives, and not their defaults."""
    context = click.get_current_context()
    source = click.core.ParameterSource.COMMANDLINE
    return frozenset(name for name in context.params if context.get_parameter_source(name) is source)
