"""Pages of the site that are made from files elsewhere in the repository: notebooks, and the gallery of schedules."""

import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
GALLERY = ROOT / "experiments" / "schedules" / "README.md"


def page_of(path: Path) -> str:
    """A notebook as Markdown: its text, its code, and what the code printed and drew when it was last executed."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return "\n\n".join(part for cell in cells for part in _parts(cell)) + "\n"


def _parts(cell: dict[str, Any]) -> list[str]:
    source = "".join(cell["source"])
    if cell["cell_type"] != "code":
        return [source]
    return [f"```python\n{source}\n```", *(text for output in cell["outputs"] if (text := _shown(output)))]


def _shown(output: dict[str, Any]) -> str:
    data = output.get("data", {})
    if "image/png" in data:
        image = "".join(data["image/png"]).replace("\n", "")
        return f'<img alt="picture drawn by the code above" src="data:image/png;base64,{image}">'
    if "text/html" in data:
        return f"<div>{''.join(data['text/html'])}</div>"
    text = "".join(output.get("text", data.get("text/plain", "")))
    return f"```text\n{text.rstrip()}\n```" if text.strip() else ""


def gallery_page() -> str:
    """The schedules side by side, with the question that the experiment answers."""
    return GALLERY.read_text(encoding="utf-8")


def pages() -> dict[str, str]:
    """The address of each page, and its text."""
    return {f"notebooks/{path.stem}.md": page_of(path) for path in NOTEBOOKS} | {"gallery.md": gallery_page()}


def pictures() -> dict[str, Path]:
    """The pictures that the gallery shows, by their address."""
    return {path.name: path for path in sorted(GALLERY.parent.glob("*.png"))}
