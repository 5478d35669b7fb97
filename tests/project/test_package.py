"""What is published: metadata, the citation, and pages of the site that are made from notebooks."""

import json
import re
import tomllib

from helpers.places import ROOT
from pipesim import __version__

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def test_the_citation_has_the_version_and_licence_of_the_package():
    text = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {__version__}\n" in text
    assert f"\nlicense: {PROJECT['project']['license']}\n" in text


def test_every_python_that_is_supported_is_stated_and_tested_by_the_hosted_ci():
    stated = set(re.findall(r"Python :: (3\.\d+)", "\n".join(PROJECT["project"]["classifiers"])))
    workflow = (ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")
    assert stated == set(re.findall(r'"(3\.\d+)"', workflow))
    assert PROJECT["project"]["requires-python"] == f">={min(stated, key=lambda v: int(v[2:]))}"


def test_the_sdist_has_no_figures_and_what_the_build_needs():
    built = PROJECT["tool"]["hatch"]["build"]["targets"]["sdist"]
    assert {"*.png", "*.ipynb"} <= set(built["exclude"])
    hook = PROJECT["tool"]["hatch"]["metadata"]["hooks"]["custom"]["path"]
    for needed in (hook, "README.md", "pipesim/__init__.py", "traces/README.md"):
        assert any(f"/{needed}".startswith(part) for part in built["include"]), needed


def test_the_image_is_built_from_no_environment_and_from_all_that_the_build_needs():
    """`COPY .` took .git, .venv and .venv-torch along: gigabytes."""
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    folders = [line for line in (ROOT / ".gitignore").read_text(encoding="utf-8").splitlines() if line.endswith("/")]
    missing = {".git/", *(folder.lstrip("/") for folder in folders)} - {line.removeprefix("**/") for line in ignored}
    assert not missing
    needed = {
        "pipesim",
        "traces",
        "docs",
        PROJECT["tool"]["hatch"]["metadata"]["hooks"]["custom"]["path"].split("/")[0],
    }
    assert not needed & {line.rstrip("/") for line in ignored}


def test_a_notebook_is_a_page_with_its_code_its_output_and_its_pictures(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(ROOT / "docs" / "site")
    import notebooks

    cells = [
        {"cell_type": "markdown", "source": ["# Title\n", "Text."]},
        {
            "cell_type": "code",
            "source": ["draw()"],
            "outputs": [{"text": ["done\n"]}, {"data": {"image/png": "AAAA\n", "text/plain": ["<Figure>"]}}],
        },
    ]
    path = tmp_path / "a.ipynb"
    path.write_text(json.dumps({"cells": cells}))
    page = notebooks.page_of(path)
    assert page.startswith("# Title\nText.\n\n```python\ndraw()\n```\n\n```text\ndone\n```\n\n<img ")
    assert 'base64,AAAA"' in page
    assert "<Figure>" not in page
    listed = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    assert all(f"- {address}" in listed or f": {address}" in listed for address in notebooks.pages())
