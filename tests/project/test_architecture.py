"""The layers are kept: who imports whom, and where foreign libraries may be; functions stay small, names are unique.

Read from the source, imports inside of functions too.
"""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from helpers import source
from helpers.places import ROOT

PACKAGE = ROOT / "pipesim"

# Packages from top to bottom. A package imports those above it, but no starred one of its own row. The modules of a
# package that are named here import only those before them; a package without names is one idea.
MAP = """
base: errors cores forked shown_values checks units files arrays serialisation spelling lookup settings json_schema
      formulas tables intervals kernel_cache kernel_compiler kernels widest_paths interchangeable chains moved minimise
      worker_server
core: sharing calibrations devices cluster_parts route_table cluster teams trace_tables trace work model widths costs
      plan plan_layout granularity members limits schedule scenario background progress completion legality recording
      recorded_run sequence_lengths program rates timeline
lowering
analysis: curves critical_path metrics bottleneck channels spread trace_diff schedule_diff run_summary
      removed_causes ledger joint_samples run_variance straggler_metrics run_trace run_layers scores bounds
importers* recorders* architectures* topologies* planners* schedulers* engines*
frameworks
display: text* figures* timeline_files* execution_traces* json_data* pages notebook
studies: bundled_traces simulation loading scaled_widths varied_lengths sources origins early_compilation
      remembered_prices pricing ordering memory_fit traced_models trained_parameters setups remedies certified replay
      performance measured_runs accuracy results layout_fields layout_rounding framework_layouts job_options jobs
      measured_table calibration comparison whatif equal_stages rebuilding run_replay run_prediction run_cuts run_whatif
      validation live_validation store sweep_options sweep file_schemas tuning_options goodput tuning
cli
"""


def _places() -> tuple[dict[str, tuple[int, int]], set[str]]:
    """(row, column) of every package and of every module that is named, as `core` and `core.plan`; what is starred."""
    places, starred = {}, set()
    for y, row in enumerate(re.sub(r"\n +", " ", MAP.strip()).split("\n")):
        package, colon, modules = row.partition(":")
        if colon:
            places[package] = (y, -1)
        for x, name in enumerate((modules if colon else row).split()):
            place = f"{package}.{name}" if colon else name
            places[place.removesuffix("*")] = (y, x)
            starred |= {place.removesuffix("*")} if place.endswith("*") else set()
    return places, starred


PLACES, STARRED = _places()
MOST = 16  # packages at the top

# Foreign library -> the places that may import it.
GUESTS = {
    "simpy": {"engines"},
    "numba": {"base.kernels", "base.kernel_cache", "base.kernel_compiler"},
    "matplotlib": {"display.figures"},
    "torch": {"recorders"},
    "click": {"cli"},
    "networkx": {"core.cluster", "topologies", "analysis.bounds", "display.figures"},
    "dask": {"studies.sweep"},
    "distributed": {"studies.sweep"},
    "sqlite3": {"studies.store", "importers"},
}
# Libraries that take long to import: only functions that use them import them.
LAZY = {"dask", "distributed", "numba", "pandas", "pyarrow", "torch"}
# Our modules that import such libraries at the top, so that they are imported as these are.
LAZY_MODULES = {"base.kernel_compiler"}


class Import(NamedTuple):
    line: int
    name: str  # dotted
    at_top: bool


def imports_of(source: str, module: str) -> list[Import]:
    """All that a module imports. `from pipesim import a, b` is pipesim.a and pipesim.b."""
    found = []
    for node, top in _statements(ast.parse(source), at_top=True):
        if isinstance(node, ast.Import):
            found += [Import(node.lineno, alias.name, top) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                base = ".".join([*module.split(".")[: -node.level], *base.split(".")]).rstrip(".")
            if base == "pipesim" or base in {f"pipesim.{name}" for name in PLACES}:
                found += [Import(node.lineno, f"{base}.{alias.name}", top) for alias in node.names]
            else:
                found.append(Import(node.lineno, base, top))
    return found


def _statements(node: ast.AST, *, at_top: bool) -> Iterator[tuple[ast.stmt, bool]]:
    """The statements inside of this node, and whether each is run on import."""
    for inner in ast.iter_child_nodes(node):
        if isinstance(inner, ast.stmt):
            yield inner, at_top
        if not isinstance(inner, ast.expr):
            yield from _statements(inner, at_top=at_top and not _is_later(inner))


def _is_later(node: ast.AST) -> bool:
    """Whether what is inside is not run on import: functions, and what only type checkers read."""
    if isinstance(node, ast.If):
        return isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)


def complaint(place: str, found: Import) -> str | None:
    """What is wrong with an import at a place of the map, and what to do."""
    library, _, inner = found.name.partition(".")
    if library == "pipesim":
        return _about_slow_module(found, inner) or _about_place(place, inner)
    if place not in GUESTS.get(library, {place}):
        return f"{library} belongs in {' or '.join(sorted(GUESTS[library]))}; move what needs it there"
    if library in LAZY and found.at_top and place not in LAZY_MODULES:
        return f"{library} is slow to import; import it inside the function that needs it"
    return None


def _about_slow_module(found: Import, inner: str) -> str | None:
    """What is wrong with importing one of our modules at the top of another, if that takes long."""
    slow = place_of(inner)
    return f"{slow} is slow to import; import it inside a function" if found.at_top and slow in LAZY_MODULES else None


def place_of(dotted_name: str) -> str | None:
    """The place on the map of a module `package.module...`, without `pipesim.`; None if it has none."""
    package, _, rest = dotted_name.partition(".")
    named = f"{package}.{rest.partition('.')[0]}"
    if named in PLACES:
        return named
    whole = package in PLACES and not any(name.startswith(f"{package}.") for name in PLACES)
    return package if whole or (package in PLACES and not rest) else None


def _about_place(place: str, inner: str) -> str | None:
    target = place_of(inner)
    if inner == "__version__" or target == place:
        return None
    if target is None:
        return f"{inner!r} is not on the map; import it from the module where it is, or give it a place in MAP"
    if {target, place} <= STARRED and PLACES[target][0] == PLACES[place][0]:
        return f"{place} and {target} never import each other; let their caller pass one to the other"
    if PLACES[target] >= PLACES[place]:
        return f"{target} is not above {place} in the map; move what both need up, or pass it as an argument"
    return None


def modules() -> list[tuple[str, Path]]:
    """(place, file) of everything in the package but its public API, which may import from anywhere."""
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        if len(parts) > 1:
            found.append((place_of(".".join(part for part in parts if part != "__init__")) or ".".join(parts), path))
    return found


def dotted(path: Path) -> str:
    """The name of a module; that of a package ends in __init__, from where relative imports are counted."""
    return ".".join(["pipesim", *path.relative_to(PACKAGE).with_suffix("").parts])


def test_modules_import_only_from_above_their_own_places():
    found = modules()
    homeless = [path.name for place, path in found if place not in PLACES]
    assert not homeless, "give these a place in MAP, above all that will import them"
    wrong = [
        f"{path.relative_to(PACKAGE.parent)}:{one.line}: {sentence}"
        for place, path in found
        for one in imports_of(path.read_text(encoding="utf-8"), dotted(path))
        if (sentence := complaint(place, one))
    ]
    assert not wrong, "\n" + "\n".join(wrong)
    assert len(found) > 100


@pytest.mark.parametrize(
    ("place", "line", "message"),
    [
        ("base.units", "from pipesim.core.plan import Plan", "core.plan is not above base.units"),
        ("core.plan", "from pipesim.core import schedule, trace", "core.schedule is not above core.plan"),
        ("base.units", "import pipesim.base.files", "base.files is not above base.units"),
        ("lowering", "def f():\n    from pipesim import analysis", "analysis is not above lowering"),
        ("planners", "from pipesim.engines.event import run", "planners and engines never import each other"),
        ("engines", "from pipesim import planners", "engines and planners never import each other"),
        (
            "display.text",
            "from pipesim.display.figures import gantt",
            "text and display.figures never import each other",
        ),
        ("engines", "from pipesim import cli", "cli is not above engines"),
        ("cli", "from pipesim import Trace", "'Trace' is not on the map"),
        ("cli", "from pipesim.utils import helper", "'utils' is not on the map"),
        ("cli", "from pipesim.core.helper import f", "'core.helper' is not on the map"),
        ("planners", "from ..engines import event", "planners and engines never import each other"),
        ("planners", "from .. import engines", "planners and engines never import each other"),
        ("analysis.metrics", "import simpy", "simpy belongs in engines"),
        ("schedulers", "import numba", "numba belongs in base.kernel_cache or base.kernel_compiler or base.kernels"),
        ("display.text", "import matplotlib.pyplot as plt", "matplotlib belongs in display.figures"),
        ("core.trace", "def f():\n    import torch", "torch belongs in recorders"),
        ("studies.results", "from click import echo", "click belongs in cli"),
        ("analysis.metrics", "import networkx as nx", "networkx belongs in analysis.bounds or core.cluster or"),
        ("display.export", "import pandas as pd", "pandas is slow to import; import it inside"),
        ("base.kernels", "from pipesim.base.kernel_compiler import KernelCompiler", "base.kernel_compiler is slow to"),
    ],
)
def test_what_is_wrong_is_said(place, line, message):
    found = imports_of(line, f"pipesim.{place}.module")
    assert any(message in (complaint(place, one) or "") for one in found)


@pytest.mark.parametrize(
    ("place", "line"),
    [
        ("core.timeline", "from pipesim.base import files, units\nfrom pipesim.core import plan"),
        ("base.units", "import math\nfrom pipesim.base.errors import InputError"),
        (
            "planners",
            "from pipesim.planners.parts import helper\nfrom . import parts\nfrom pipesim.base.kernels import compiled",
        ),
        ("studies.setups", "from pipesim.planners import PLANNERS\nfrom pipesim.engines import ENGINES"),
        ("display.figures", "import matplotlib.pyplot\nimport networkx"),
        ("display.export", "def f():\n    import pandas"),
        ("core.timeline", "if TYPE_CHECKING:\n    import pandas as pd"),
        ("cli", "import click\nfrom pipesim import __version__"),
    ],
)
def test_what_is_right_passes(place, line):
    found = imports_of(line, f"pipesim.{place}.module")
    assert found
    assert [complaint(place, one) for one in found] == [None] * len(found)


def test_the_top_holds_a_few_packages_and_no_loose_modules():
    packages = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    assert packages == {place.partition(".")[0] for place in PLACES}
    assert len(packages) <= MOST
    assert {path.name for path in PACKAGE.glob("*.py")} == {"__init__.py", "__main__.py"}


def test_the_map_names_nothing_twice():
    names = re.sub(r"[:*]", " ", MAP).split()
    assert len(names) == len(set(names)) == len(PLACES)


def test_there_is_no_module_for_whatever_is_left_over():
    assert not {"utils", "util", "helpers", "common", "misc"} & {path.stem for _, path in modules()}


def test_importing_the_command_line_imports_nothing_heavy():
    """`pipesim --help` answers at once: whatever takes time to import is imported by the command that needs it."""
    command = "import sys, pipesim.cli; print(' '.join(sorted({name.partition('.')[0] for name in sys.modules})))"
    loaded = subprocess.run(
        [sys.executable, "-c", command], capture_output=True, text=True, check=True, cwd=PACKAGE.parent
    )
    heavy = sorted(source.HEAVY & set(loaded.stdout.split()))
    assert not heavy, f"importing pipesim.cli imports {', '.join(heavy)}; move those imports into the commands"


# --- sizes, names and test files --------------------------------------------------------------------------------------

MOST_LINES, MOST_PARAMETERS, MOST_COMPLEX = 80, 8, 20
# Functions that may be larger, each with its reason; at most five.
EXCEPTIONS: dict[str, str] = {
    "planners.megatron:megatron": "its options are named in expressions, one by one",
    "planners.spp_plus:spp_plus": "its options are named in expressions, one by one",
}
NAMED_IN_EXPRESSIONS = {"architectures", "topologies", "importers"}  # users name the parameters of their members


def test_functions_are_short_and_take_few_parameters():
    named = {
        (family, member.partition(":")[2])
        for family, registered in source.members().items()
        if family in NAMED_IN_EXPRESSIONS
        for member in registered
    }
    functions = source.definitions().functions
    assert len(functions) > 1000
    large = {
        f.name: f"{f.lines} lines, {f.parameters} parameters"
        for f in functions
        if f.lines > MOST_LINES
        or (f.parameters > MOST_PARAMETERS and (f.name.partition(".")[0], f.name.partition(":")[2]) not in named)
    }
    wrong = {name: large[name] for name in sorted(large.keys() - EXCEPTIONS.keys())}
    assert not wrong, f"at most {MOST_LINES} lines and {MOST_PARAMETERS} parameters: split it, or pass a record"
    assert len(EXCEPTIONS) <= 5


def test_no_function_is_very_complex():
    """Ruff refuses more than 10 unless a comment allows it; no comment allows more than this."""
    found = source.complex_functions(MOST_COMPLEX)
    assert not set(found) - EXCEPTIONS.keys(), f"complexity of at most {MOST_COMPLEX} was expected"
    assert source.complex_functions(2), "ruff answers in another form than expected"


def test_the_docstring_of_the_package_names_every_place():
    described = set(re.findall(r"\w+", (PACKAGE / "__init__.py").read_text(encoding="utf-8").partition("\nWords:")[0]))
    assert not [place for place in PLACES if not set(place.split(".")) <= described]


def test_no_two_classes_and_no_two_files_have_the_same_name():
    """Members of families that are named after the same publication may, as planners.gpipe and schedulers.gpipe."""
    members = [{member.partition(":")[0] for member in family} for family in source.members().values()]
    twice = {name: places for name, places in source.stems().items() if len(places) > 1}
    files = {name for name, places in twice.items() if not all(any(p in family for family in members) for p in places)}
    classes = {name for name, places in source.definitions().classes.items() if len(places) > 1}
    assert not files, "rename one of the files of each name"
    assert not classes, "rename one of the classes of each name"


def test_every_module_has_its_test_file():
    wanted = "tests/<package>/test_<module>.py, or test_<subpackage>.py, or <subpackage>/test_<module>.py"
    assert not source.untested(), f"{wanted} was expected for each"
