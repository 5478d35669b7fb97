"""The map of the house is kept: who imports whom, and where foreign libraries may be.

Read from the imports in the source, those inside of functions too.
"""

import ast
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

PACKAGE = Path(__file__).parents[1] / "pipesim"

# Rows from top to bottom. A room imports rooms above it and those to its left, but no starred one of its own row.
MAP = """
errors units files
serial lookup formulas ragged tables tracks kernels trees
devices trace model cluster
costs spread trace_diff widths
chains plan limits schedule scenario background stepping keeping legality recording
program lowering
rates timeline
metrics curves channels bounds
importers* recorders* architectures* topologies* planners* schedulers* engines*
report* plot* export* trace_report
pricing ordering experiment comparison documents whatif workbench rebuilding
store sweep
cli
"""
ROWS = [row.split() for row in MAP.strip().split("\n")]
PLACES = {room.strip("*"): (y, x) for y, row in enumerate(ROWS) for x, room in enumerate(row)}
STARRED = {room.strip("*") for row in ROWS for room in row if room.endswith("*")}

# Foreign library -> the rooms that may import it.
GUESTS = {
    "simpy": {"engines"},
    "numba": {"kernels"},
    "matplotlib": {"plot"},
    "torch": {"recorders"},
    "click": {"cli"},
    "networkx": {"cluster", "topologies", "bounds", "plot"},
    "dask": {"sweep"},
    "distributed": {"sweep"},
    "sqlite3": {"store"},
}
# Libraries that cost so much time to import that nobody pays for them before using them.
LAZY = {"dask", "distributed", "numba", "pandas", "pyarrow", "torch"}
# What the command line must not import only to say what it can do.
HEAVY = {"numpy", "pandas", "matplotlib", "networkx", "numba", "pyarrow", "simpy", "torch", "distributed", "sqlite3"}


class Import(NamedTuple):
    line: int
    name: str  # dotted
    at_top: bool


def imports_of(source: str, module: str) -> list[Import]:
    """All that a module imports. `from pipesim import a, b` is pipesim.a and pipesim.b."""
    tree = ast.parse(source)
    later = {id(inner) for node in ast.walk(tree) if _is_later(node) for inner in ast.walk(node)}
    found = []
    for node in ast.walk(tree):
        top = id(node) not in later
        if isinstance(node, ast.Import):
            found += [Import(node.lineno, alias.name, top) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                base = ".".join([*module.split(".")[: -node.level], *base.split(".")]).rstrip(".")
            if base == "pipesim":
                found += [Import(node.lineno, f"pipesim.{alias.name}", top) for alias in node.names]
            else:
                found.append(Import(node.lineno, base, top))
    return found


def _is_later(node: ast.AST) -> bool:
    """Whether what stands inside is not run on import: functions, and what only type checkers read."""
    if isinstance(node, ast.If):
        return isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)


def complaint(room: str, found: Import) -> str | None:
    """What is wrong with an import in a room of the house, in a sentence that says what to do."""
    library, _, inner = found.name.partition(".")
    if library == "pipesim":
        return _about_room(room, inner.partition(".")[0])
    if room not in GUESTS.get(library, {room}):
        return f"{library} belongs in {' or '.join(sorted(GUESTS[library]))}; move what needs it there"
    if library in LAZY and found.at_top:
        return f"{library} is slow to import; import it inside the function that needs it"
    return None


def _about_room(room: str, target: str) -> str | None:
    if target in {"__version__", room}:
        return None
    if target not in PLACES:
        return f"{target!r} is no room of pipesim; import it from the room where it lives, or give it a room in MAP"
    if {target, room} <= STARRED and PLACES[target][0] == PLACES[room][0]:
        return f"{room} and {target} never import each other; have whoever calls both pass one to the other"
    if PLACES[target] >= PLACES[room]:
        return f"{target} is not above {room} in the map; move what both need up, or pass it as an argument"
    return None


def modules() -> list[tuple[str, Path]]:
    """(room, file) of everything in the package but its shop window, which may import from anywhere."""
    files = [
        path
        for path in sorted(PACKAGE.rglob("*.py"))
        if path.parent != PACKAGE or path.stem not in {"__init__", "__main__"}
    ]
    return [(path.relative_to(PACKAGE).parts[0].removesuffix(".py"), path) for path in files]


def dotted(path: Path) -> str:
    """The name of a module; that of a package ends in __init__, from where relative imports are counted."""
    return ".".join(["pipesim", *path.relative_to(PACKAGE).with_suffix("").parts])


@pytest.mark.parametrize(("room", "path"), [pytest.param(*module, id=dotted(module[1])) for module in modules()])
def test_a_module_imports_only_from_rooms_above_its_own(room, path):
    assert room in PLACES, f"{path.name}: give it a room in MAP, above all that will import it"
    wrong = [
        f"{path.relative_to(PACKAGE.parent)}:{found.line}: {sentence}"
        for found in imports_of(path.read_text(encoding="utf-8"), dotted(path))
        if (sentence := complaint(room, found))
    ]
    assert not wrong, "\n" + "\n".join(wrong)


@pytest.mark.parametrize(
    ("room", "line", "message"),
    [
        ("units", "from pipesim.plan import Plan", "plan is not above units"),
        ("plan", "from pipesim import files, schedule", "schedule is not above plan"),
        ("units", "import pipesim.files", "files is not above units"),
        ("lowering", "def f():\n    from pipesim import timeline", "timeline is not above lowering"),
        ("planners", "from pipesim.engines.event import run", "planners and engines never import each other"),
        ("engines", "from pipesim import planners", "engines and planners never import each other"),
        ("report", "from pipesim.plot import gantt", "report and plot never import each other"),
        ("engines", "from pipesim import cli", "cli is not above engines"),
        ("cli", "from pipesim import Trace", "'Trace' is no room of pipesim"),
        ("cli", "from pipesim.utils import helper", "'utils' is no room of pipesim"),
        ("planners", "from ..engines import event", "planners and engines never import each other"),
        ("planners", "from .. import engines", "planners and engines never import each other"),
        ("metrics", "import simpy", "simpy belongs in engines"),
        ("schedulers", "import numba", "numba belongs in kernels"),
        ("report", "import matplotlib.pyplot as plt", "matplotlib belongs in plot"),
        ("trace", "def f():\n    import torch", "torch belongs in recorders"),
        ("experiment", "from click import echo", "click belongs in cli"),
        ("metrics", "import networkx as nx", "networkx belongs in bounds or cluster or plot or topologies"),
        ("export", "import pandas as pd", "pandas is slow to import; import it inside"),
    ],
)
def test_the_keeper_of_the_map_sees_what_is_wrong(room, line, message):
    found = imports_of(line, f"pipesim.{room}.module")
    assert any(message in (complaint(room, one) or "") for one in found)


@pytest.mark.parametrize(
    ("room", "line"),
    [
        ("timeline", "from pipesim import files, plan, units"),
        ("units", "import math\nfrom pipesim.errors import InputError"),
        (
            "planners",
            "from pipesim.planners.parts import helper\nfrom . import parts\nfrom pipesim.kernels import compiled",
        ),
        ("experiment", "from pipesim.planners import PLANNERS\nfrom pipesim.engines import ENGINES"),
        ("plot", "import matplotlib.pyplot\nimport networkx"),
        ("export", "def f():\n    import pandas"),
        ("timeline", "if TYPE_CHECKING:\n    import pandas as pd"),
        ("cli", "import click\nfrom pipesim import __version__"),
    ],
)
def test_the_keeper_of_the_map_lets_pass_what_is_right(room, line):
    assert [complaint(room, found) for found in imports_of(line, f"pipesim.{room}.module")] == [None] * len(
        imports_of(line, f"pipesim.{room}.module")
    )
    assert imports_of(line, "pipesim.x")


def test_no_room_stands_twice_on_the_map():
    assert len(PLACES) == sum(len(row) for row in ROWS)


def test_there_is_no_room_for_whatever_is_left_over():
    assert not {"utils", "util", "helpers", "common", "misc"} & {path.stem for _, path in modules()}


@pytest.mark.skipif("cli" not in {room for room, _ in modules()}, reason="there is no command line yet")
def test_importing_the_command_line_imports_nothing_heavy():
    """`pipesim --help` answers at once: whatever takes time to import is imported by the command that needs it."""
    command = "import sys, pipesim.cli; print(' '.join(sorted({name.partition('.')[0] for name in sys.modules})))"
    loaded = subprocess.run(
        [sys.executable, "-c", command], capture_output=True, text=True, check=True, cwd=PACKAGE.parent
    )
    heavy = sorted(HEAVY & set(loaded.stdout.split()))
    assert not heavy, f"importing pipesim.cli imports {', '.join(heavy)}; move those imports into the commands"
