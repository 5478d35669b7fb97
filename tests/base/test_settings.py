"""Settings: fields declared once for all interfaces."""

from dataclasses import dataclass

import pytest

from pipesim.base import settings
from pipesim.base.errors import InputError
from pipesim.base.settings import setting


@dataclass(frozen=True)
class Drill:
    """A tool."""

    speed: int = setting(3, int, "Turns per second.", short="s")
    bit: str = setting("wood", str, "What it drills.", choices=("wood", "stone"))
    depth: float | None = setting(None, float, "Millimetres.")
    count = 5


def test_settings_are_the_fields_declared_so_in_order():
    assert list(settings.settings_of(Drill)) == ["speed", "bit", "depth"]
    assert settings.defaults_of(Drill) == {"speed": 3, "bit": "wood", "depth": None}
    assert settings.settings_of(Drill)["speed"].short == "s"


def test_an_unknown_name_is_refused_with_a_suggestion():
    settings.check_names(["speed"], settings.settings_of(Drill), "keyword")
    with pytest.raises(InputError, match="keyword 'sped' is unknown; did you mean 'speed'"):
        settings.check_names(["sped"], settings.settings_of(Drill), "keyword")


def test_a_value_that_is_no_choice_is_refused():
    settings.check_choices(Drill(bit="stone"))
    with pytest.raises(InputError, match="bit 'steel' found; one of wood, stone was expected"):
        settings.check_choices(Drill(bit="steel"))


def test_a_description_has_a_line_for_each_setting():
    lines = settings.described(Drill).splitlines()
    assert lines[0].split(maxsplit=1) == ["speed", "Turns per second. Default: 3."]
    assert lines[1].endswith("One of wood, stone. Default: 'wood'.")
    assert lines[2].endswith("Millimetres.")
