"""Metadata of the package that follows from the repository: the README with links that work on a package index."""

import sys
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

sys.path.insert(0, str(Path(__file__).parent))
from links import ROOT, absolute, repository

FILES = {"Documentation": "docs/README.md", "Changelog": "CHANGELOG.md"}


class RepositoryMetadataHook(MetadataHookInterface):
    """Fills in `readme` and `urls`."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Add both to the metadata of pyproject.toml."""
        address = repository()
        text = (ROOT / "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": absolute(text, "", address)}
        named = {name: f"{address}/blob/main/{path}" for name, path in FILES.items()}
        metadata["urls"] = {"Repository": address, "Issues": f"{address}/issues"} | named if address else {}
