"""Write constraints.txt, the versions that all environments of the Makefile have: make constraints.

The newest that pip finds for the lowest supported Python, for all extras and the build backend at once.
"""

import json
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
FILE = ROOT / "constraints.txt"
EXTRAS = "dev,docs,torch"
HEADER = "# Versions of everything that is installed for development; written by `make constraints`.\n"


def lowest() -> tuple[int, ...]:
    """The lowest version of Python that is supported."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return tuple(map(int, project["requires-python"].removeprefix(">=").split(".")))


def resolved() -> dict[str, str]:
    """Package -> version, as pip would install them now into an empty environment."""
    with tempfile.NamedTemporaryFile(suffix=".json") as report:
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed"]
        subprocess.run([*pip, "--report", report.name, f"{ROOT}[{EXTRAS}]", "hatchling"], check=True)
        found = json.loads(Path(report.name).read_text(encoding="utf-8"))["install"]
    packages = [one["metadata"] for one in found if "dir_info" not in one["download_info"]]
    return {one["name"].lower().replace("_", "-"): one["version"].partition("+")[0] for one in packages}


def main() -> None:
    """Write the file; on another Python than the lowest, versions could be found that it cannot have."""
    if sys.version_info[:2] != lowest():
        wanted = f"python{'.'.join(map(str, lowest()))}"
        sys.exit(f"{wanted} was expected: make clean, then make constraints PYTHON={wanted}")
    lines = [f"{name}=={version}\n" for name, version in sorted(resolved().items())]
    FILE.write_text(HEADER + "".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
