"""Values that show themselves: a paragraph in a terminal, a table or a chart in a notebook."""

import importlib
from typing import Any


class Displayed:
    """A core type. What it shows is written in `display`, which is above it and imported when the first is shown."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(_notebook().paragraph(self))

    def _repr_html_(self) -> str:
        return str(_notebook().html(self))


def _notebook() -> Any:  # noqa: ANN401 - a module
    return importlib.import_module("pipesim.display.notebook")
