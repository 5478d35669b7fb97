"""What MkDocs does beyond its defaults: it adds the generated pages, and handles links to files of the repository."""

import posixpath
import sys
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

sys.path.insert(0, str(Path(__file__).parent))
import links
import reference

import notebooks

GENERATED = {"reference/api.md": reference.api_page, "reference/commands.md": reference.commands_page}


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """The address of the repository has one place, pyproject.toml."""
    config.repo_url = links.repository() or None
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are made from the code."""
    made = {path: make() for path, make in GENERATED.items()} | notebooks.pages()
    for path, text in made.items():
        files.append(File.generated(config, path, content=text))
    for name, picture in notebooks.pictures().items():
        files.append(File.generated(config, name, abs_src_path=str(picture)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Links that leave docs/ lead to the repository, or are plain text."""
    del config

    def is_page(path: str) -> bool:
        return path.startswith("docs/") and files.get_file_from_path(path.removeprefix("docs/")) is not None

    folder = posixpath.dirname(f"docs/{page.file.src_uri}")
    if page.file.src_uri == "gallery.md":  # its pictures are pages of the site, its links those of its folder
        pictures = {f"experiments/schedules/{name}" for name in notebooks.pictures()}
        return links.absolute(markdown, "experiments/schedules", links.repository(), keep=pictures.__contains__)
    return links.absolute(markdown, folder, links.repository(), keep=is_page)
