"""Options of commands come from the settings of a dataclass."""

from dataclasses import dataclass

import click
import pytest

from pipesim.base.settings import setting
from pipesim.cli import setting_options


@dataclass(frozen=True)
class Tool:
    """A tool."""

    speed: int = setting(3, int, "Turns per second.", short="s")
    bit: str = setting("wood", str, "What it drills.", choices=("wood", "stone"))
    holes: tuple[int, ...] = setting((), int, "Millimetres.", flag="--hole", multiple=True)
    reverse: bool = setting(False, bool, "Turn the other way.")


def call(words, **how):
    """What a command with these options is handed."""

    @click.command()
    @setting_options.options(Tool, "tool", **how)
    def drill(tool):
        return tool

    return drill.main(words, standalone_mode=False)


def test_a_command_is_handed_one_value_of_all_options():
    assert call([]) == Tool()
    assert call(["-s", "5", "--bit", "stone", "--hole", "1", "--hole", "2", "--reverse"]) == Tool(
        5, "stone", (1, 2), True
    )


def test_what_is_left_out_is_no_option_and_keeps_its_default():
    assert call(["--speed", "4"], fields=("speed",)) == Tool(4)
    with pytest.raises(click.NoSuchOption):
        call(["--bit", "stone"], without=("bit",))


def test_a_value_that_is_no_choice_is_refused():
    with pytest.raises(click.BadParameter, match="steel"):
        call(["--bit", "steel"])


@pytest.mark.parametrize("family", ["traces", "architectures", "devices", "planners", "schedulers", "topologies"])
def test_names_of_a_family_are_completed(family):
    name = next(iter(setting_options.names_of(family)))
    found = setting_options.complete(family)(None, None, name[:-1])
    assert name in [item.value for item in found]


@dataclass(frozen=True)
class Grouped:
    """A tool whose settings have headings."""

    speed: int = setting(3, int, "Turns per second.", group="motor")
    reverse: bool | None = setting(None, bool, "Turn the other way.", group="motor")
    bit: str = setting("wood", str, "What it drills.", group="drill")


def test_help_has_options_under_the_headings_of_their_settings_and_the_others_last(capsys):
    @click.command(cls=setting_options.GroupedCommand)
    @click.argument("place")
    @click.option("--json", is_flag=True, help="Print JSON.")
    @setting_options.options(Grouped, "tool")
    def drill(**_):
        pass

    drill.main(["--help"], standalone_mode=False)
    parts = capsys.readouterr().out.split("\n\n")
    headings = {part.splitlines()[0]: part for part in parts if "options:" in part.splitlines()[0]}
    assert list(headings) == ["Motor options:", "Drill options:", "Output options:"]
    assert "--speed" in headings["Motor options:"]
    assert "--no-reverse" in headings["Motor options:"]
    assert "--bit" in headings["Drill options:"]
    assert "--json" in headings["Output options:"]
    assert "--help" in headings["Output options:"]
