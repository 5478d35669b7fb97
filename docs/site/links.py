"""Links from pages to files of the repository, for places where those files are not: a package index, the built site.

`repository` is the setting of that name in pyproject.toml: the address of the repository on a host with GitHub's paths.
If it is empty, a link to a file becomes its text, and a picture is left out: better than a dead link.
"""

import posixpath
import re
import tomllib
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parents[2]
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")
BLOCK = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)


def repository() -> str:
    """The address of the repository, without a slash at the end; empty if it is not known."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    return str(settings["tool"]["pipesim"]["repository"]).rstrip("/")


def absolute(text: str, folder: str, address: str, keep: Callable[[str], bool] = lambda _: False) -> str:
    """The page with its links to files as addresses.

    `folder` is where the page is in the repository; `keep` decides for which paths from the root a link stays as it is.
    """

    def replaced(link: re.Match[str]) -> str:
        mark, label, target = link.groups()
        path, hash_, anchor = target.partition("#")
        if not path or re.match(r"[a-z]+:", target):
            return link.group()
        path = posixpath.normpath(posixpath.join(folder, path))
        if keep(path):
            return link.group()
        if not address:
            return "" if mark else label
        return f"{mark}[{label}]({address}/{'raw' if mark else 'blob'}/main/{path}{hash_}{anchor})"

    return "".join(part if odd % 2 else LINK.sub(replaced, part) for odd, part in enumerate(BLOCK.split(text)))
