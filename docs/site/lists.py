"""Lists of the members of families in the README and in docs/, from the registries: `make lists` updates them.

    <!-- list: planners -->      all names in a paragraph
    <!-- table: planners -->     each name with the first line of its documentation
    <!-- table: simulation -->   the fields of a simulation
    <!-- end -->                 ends either; what is between is replaced

The output of `pipesim show` in a `console` block is updated too, and the JSON Schemas in docs/schemas.
"""

import contextlib
import io
import re
import sys
import textwrap
from pathlib import Path

from pipesim.base import lookup
from pipesim.base.settings import defaults_of, settings_of
from pipesim.cli import main, names
from pipesim.studies import file_schemas
from pipesim.studies.simulation import Simulation

ROOT = Path(__file__).parents[2]
WIDTH = 120
MARKED = re.compile(
    r"(?P<begin>^<!-- (?P<form>list|table): (?P<family>[\w-]+) -->\n).*?(?P<end>^<!-- end -->$)",
    re.MULTILINE | re.DOTALL,
)
SHOWN = re.compile(r"(?P<begin>^```console\n\$ pipesim show\n).*?(?P<end>^```$)", re.MULTILINE | re.DOTALL)


def pages() -> list[Path]:
    """The files that may have lists."""
    return [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def updated(text: str) -> str:
    """A page with the lists of today."""
    text = MARKED.sub(lambda found: found["begin"] + listed(found["form"], found["family"]) + found["end"], text)
    return SHOWN.sub(lambda found: found["begin"] + _shown() + found["end"], text)


def listed(form: str, family: str) -> str:
    """The members of a family, in one of the forms."""
    if family == "simulation":
        return _fields()
    known = names.every()
    if family not in known:
        sys.exit(f"<!-- {form}: {family} --> found; {lookup.suggest(family, known)}")
    if form == "list":
        text = ", ".join(f"`{name}`" for name in known[family])
        return textwrap.fill(text, WIDTH, break_on_hyphens=False, break_long_words=False) + "\n"
    rows = "".join(f"| `{name}` | {about} |\n" for name, about in names.about(family).items())
    return f"| name | what it does |\n|---|---|\n{rows}"


def _fields() -> str:
    """The fields of a simulation, with default and help."""
    defaults, rows = defaults_of(Simulation), []
    for name, about in settings_of(Simulation).items():
        default = "" if defaults[name] is None else f"`{defaults[name]}`"
        choices = f" One of {', '.join(f'`{choice}`' for choice in about.choices)}." if about.choices else ""
        rows.append(f"| `{name}` | {default} | {about.help}{choices} |\n")
    return f"| field | default | what it is |\n|---|---|---|\n{''.join(rows)}"


def _shown() -> str:
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        main(["show"])
    return printed.getvalue()


def schemas() -> dict[Path, str]:
    """The files of docs/schemas, and what they should hold."""
    return {
        ROOT / "docs" / "schemas" / file_schemas.file_name(name): file_schemas.text_of(name)
        for name in file_schemas.SCHEMAS
    }


if __name__ == "__main__":
    made = {page: updated(page.read_text(encoding="utf-8")) for page in pages()} | schemas()
    for page, now in made.items():
        if not page.is_file() or page.read_text(encoding="utf-8") != now:
            page.parent.mkdir(exist_ok=True)
            page.write_text(now, encoding="utf-8")
            sys.stdout.write(f"updated {page.relative_to(ROOT)}\n")
