"""The traces that come with pipesim, found without reading them: Tab asks for their names."""

from pathlib import Path

# Where the traces that come with pipesim are: inside the installed package, or beside it in a checkout.
_PACKAGE = Path(__file__).parents[1]
_BUNDLES = (_PACKAGE / "_traces", _PACKAGE.parent / "traces")


def bundled_traces() -> dict[str, Path]:
    """The traces that come with pipesim, by name."""
    folders = (header.parent for root in _BUNDLES for header in sorted(root.glob("*/*/trace.toml")))
    found: dict[str, Path] = {}
    for folder in folders:
        found.setdefault(folder.name, folder)
    return found
