"""The pictures of docs/guides/interactive-pages.md: PYTHONPATH=tests python -m helpers.page_pictures."""

import tempfile
from pathlib import Path

from helpers.browser import BrowserPage
from helpers.places import ROOT
from pipesim.cli import main

CLUSTER = 'servers(2, 4, intra="25GB/s", inter="10Gb/s")'
SIMULATE = ["simulate", "bert-large", CLUSTER, "-p", "balanced", "-m", "16", "--ledger"]
COMPARE = ["compare", "bert-large", CLUSTER, "-p", "balanced", "-s", "gpipe", "-s", "one_f_one_b", "-m", "8"]
# Name of the picture -> the command of the page, the system's colours, and what is done in the page.
PICTURES = {
    "page-critical-path": (SIMULATE, False, "document.getElementById('critical').click(); pipesim.zoom(2)"),
    "page-two-timelines": (COMPARE, True, "document.getElementById('links').click(); pipesim.compareWith(1)"),
    "page-edited-schedule": (
        ["schedule", "one_f_one_b", "--hop", "0.2"],
        False,
        "document.getElementById('editing').click(); pipesim.move(0, 4, 6)",
    ),
}


def draw(folder: Path) -> None:
    """Write the pictures."""
    page = Path(tempfile.mkdtemp()) / "page.html"
    browser = BrowserPage(1180, 720)
    try:
        for name, (command, dark, script) in PICTURES.items():
            main([*command, "--html", str(page)])
            browser.dark(dark)
            browser.open(page)
            browser.run(script)
            browser.frame()
            browser.frame()
            browser.picture(folder / f"{name}.png")
    finally:
        browser.close()


if __name__ == "__main__":
    draw(ROOT / "docs" / "guides")
