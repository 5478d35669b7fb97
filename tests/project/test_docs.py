"""The pages in docs/ and the READMEs name what is there, and what pages of docs/ show is what happens.

After a deliberate change: `make pages` updates what they show; read the diff.
"""

import importlib.util
import re
import tomllib

import click
import pytest

import pipesim
from helpers import pages
from helpers.places import ROOT
from pipesim.cli import cli

DOCS = sorted((ROOT / "docs").rglob("*.md"))
SKIPPED = {".git", ".venv", ".venv-torch", "node_modules", "demo", "site", "fuzz", "build", "dist"}
EVERY = sorted(
    path for path in ROOT.rglob("*.md") if not SKIPPED.intersection(path.relative_to(ROOT).parts) and path.is_file()
)


def part_of_site(name):
    """A module of docs/site, which builds the site and is in no package."""
    spec = importlib.util.spec_from_file_location(f"site_{name}", ROOT / "docs" / "site" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# Pages that run for more than a second: `make docs` runs them.
LONG = {
    "guides/find-the-best-layout.md",
    "guides/figures-for-a-paper.md",
    "guides/into-your-framework.md",
    "guides/sweep-on-a-cluster.md",
    "guides/three-sessions.md",
    "guides/train-a-large-model.md",
    "guides/your-own-trace.md",
}
each_page = pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.docs if name in LONG else ())
        for name in (str(page.relative_to(ROOT / "docs")) for page in DOCS)
    ],
)
each_file = pytest.mark.parametrize("page", EVERY, ids=lambda page: str(page.relative_to(ROOT)))


@each_page
def test_what_a_page_shows_is_what_happens(name, tmp_path):
    available = ["dask"] if importlib.util.find_spec("distributed") else []
    pages.run((ROOT / "docs" / name).read_text(encoding="utf-8"), tmp_path, *available)


def test_pages_that_run_long_are_there():
    assert {str(page.relative_to(ROOT / "docs")) for page in DOCS} >= LONG


def test_the_large_model_of_the_readme_is_that_of_its_guide():
    """Whose commands are run."""
    readme, guide = (
        (ROOT / name).read_text(encoding="utf-8") for name in ("README.md", "docs/guides/train-a-large-model.md")
    )
    shown = [block.text for block in pages.blocks(readme) if "llama3-70b" in block.text]
    assert len(shown) == 1
    known = guide.replace(" -v\n", "\n").splitlines()
    assert [line for line in shown[0].splitlines() if line != "..." and line not in known] == []


def test_the_semantics_are_shown_by_examples():
    text = (ROOT / "docs" / "semantics.md").read_text(encoding="utf-8")
    rules = [part for part in re.split(r"^## ", text, flags=re.MULTILINE)[2:] if "not modelled" not in part]
    assert len(rules) >= 12
    assert [part.partition("\n")[0] for part in rules if ">>> " not in part] == []


def test_the_lists_of_names_are_those_of_the_registries():
    lists = part_of_site("lists")
    for page in lists.pages():
        text = page.read_text(encoding="utf-8")
        assert lists.updated(text) == text, f"{page.name} lists other names than there are: run `make lists`"


def test_a_marked_list_is_replaced_by_the_members_of_its_family():
    lists = part_of_site("lists")
    page = "a\n<!-- list: engines -->\nold\n<!-- end -->\nb\n<!-- table: engines -->\n<!-- end -->\n"
    assert lists.updated(page).startswith("a\n<!-- list: engines -->\n`auto`, `event`, `compiled`\n<!-- end -->\nb\n")
    assert "| `event` | " in lists.updated(page)
    with pytest.raises(SystemExit, match="planer --> found; did you mean 'planners'"):
        lists.updated("<!-- list: planer -->\n<!-- end -->")


def slugs(text):
    """The anchors of a page: of its headings, as MkDocs and as code hosts make them, which must be the same."""
    found = set()
    for heading in re.findall(
        r"^#+ (.*)$", re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL), re.MULTILINE
    ):
        plain = re.sub(r"[`*]|\]\([^)]*\)|\[", "", heading).strip().lower()
        kept = re.sub(r"[^\w\s-]", "", plain)
        assert re.sub(r"[-\s]+", "-", kept) == kept.replace(" ", "-"), f"anchors of {heading!r} differ between hosts"
        found.add(kept.replace(" ", "-"))
    return found


def links(page):
    """The links of a page within the repository, as (path, anchor)."""
    text = re.sub(r"^```.*?^```$|`[^`\n]*`", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    targets = re.findall(r"\]\(([^)\s]+)\)", text)
    for target in targets:
        if not re.match(r"[a-z]+:", target):
            path, _, anchor = target.partition("#")
            yield target, (page.parent / path).resolve() if path else page, anchor


@each_file
def test_every_link_leads_somewhere(page):
    missing = []
    for target, path, anchor in links(page):
        if not path.exists() or (anchor and anchor not in slugs(path.read_text(encoding="utf-8"))):
            missing.append(target)
    assert not missing


@each_file
def test_every_make_target_is_one(page):
    known = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    assert set(re.findall(r"`make ([a-z-]+)", page.read_text(encoding="utf-8"))) <= known


def test_the_index_links_to_every_page():
    index = ROOT / "docs" / "README.md"
    reached = {path for _, path, _ in links(index)}
    assert [str(page) for page in DOCS if page != index and page not in reached] == []


def test_every_dependency_has_its_line_in_the_table():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    needed = [
        *project["dependencies"],
        *(name for extra in project["optional-dependencies"].values() for name in extra),
    ]
    names = {re.split(r"[><=\[ ]", name)[0] for name in needed} - {"pipesim"}
    listed = re.findall(
        r"^\| ([^|]+) \|", (ROOT / "docs" / "dependencies.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert names <= set(re.split(r"[, ]+", " ".join(listed)))


# --- the site and the package index ----------------------------------------------------------------------------------


def test_the_navigation_of_the_site_has_every_page():
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    listed = set(re.findall(r"[\w/-]+\.md", text.partition("\nnav:")[2]))
    generated = {"reference/api.md", "reference/commands.md", *part_of_site("notebooks").pages()}
    assert listed - generated == {str(page.relative_to(ROOT / "docs")) for page in DOCS}


def test_the_command_reference_has_every_option_of_every_command():
    page = part_of_site("reference").commands_page()
    context = click.Context(cli, info_name="pipesim")
    for name in cli.list_commands(context):
        section = page.partition(f"## pipesim {name}\n")[2].partition("\n## ")[0]
        shown = set(re.findall(r"(?<![\w-])--?[a-z][\w-]*", section))
        options = (one for one in cli.get_command(context, name).params if isinstance(one, click.Option))
        assert not {spelling for one in options if not one.hidden for spelling in one.opts} - shown
        assert section.startswith("\n```sh\npipesim ")


def test_the_api_reference_has_every_public_name():
    page = part_of_site("reference").api_page()
    assert [name for name in pipesim.__all__ if name != "__version__" and f"heading: ps.{name}," not in page] == []


def test_on_a_package_index_no_link_of_the_readme_needs_the_repository():
    links_of = part_of_site("links")
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert re.findall(r"\]\(([^)]+)\)", links_of.absolute(readme, "", "")) == []
    targets = re.findall(r"\]\(([^)]+)\)", links_of.absolute(readme, "", "https://host.example/owner/pipesim"))
    assert len(targets) == len(re.findall(r"\]\(([^)]+)\)", readme))
    for target in targets:
        kind, _, path = target.removeprefix("https://host.example/owner/pipesim/").partition("/main/")
        assert kind == ("raw" if path.endswith(".png") else "blob")
        assert (ROOT / path.partition("#")[0]).exists()


def test_links_are_made_absolute_from_where_a_page_is_but_not_in_code():
    links_of = part_of_site("links")
    page = "[a](../x.py#L3) ![b](p.png) [c](d.md) [d](#here) [`e`](https://e)\n```text\n[f](g)\n```\n"
    kept = links_of.absolute(page, "docs/guides", "https://h", keep=lambda path: path.endswith(".md"))
    assert kept == page.replace("../x.py", "https://h/blob/main/docs/x.py").replace(
        "p.png", "https://h/raw/main/docs/guides/p.png"
    )


# --- the runner of pages ---------------------------------------------------------------------------------------------


def test_a_wrong_output_fails(tmp_path):
    with pytest.raises(AssertionError, match="Got"):
        pages.run("```pycon\n>>> 1 + 1\n3\n```\n", tmp_path)
    with pytest.raises(AssertionError, match="pipesim"):
        pages.run("```console\n$ pipesim --version\npipesim, version 0\n```\n", tmp_path)
    with pytest.raises(AssertionError, match="exit code 2"):
        pages.run("```console\n$ pipesim no-such-command\n```\n", tmp_path)


def test_sessions_of_a_page_share_names_and_files(tmp_path):
    page = """
```text title="a/b.txt"
x
```
```pycon
>>> from pathlib import Path
```
```pycon
>>> Path("a/b.txt").read_text()
'x\\n'
```
"""
    assert pages.run(page, tmp_path) == 2


def test_outputs_are_updated_but_where_lines_are_left_out(tmp_path):
    page = "```pycon\n>>> 1 + 1\n3\n```\n```console\n$ pipesim --version\nold\n$ pipesim --help\nUsage...\n...\n```\n"
    now = pages.rewritten(page, tmp_path)
    assert ">>> 1 + 1\n2\n" in now
    assert "old" not in now
    assert "$ pipesim --help\nUsage...\n...\n" in now
