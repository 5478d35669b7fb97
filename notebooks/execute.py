"""Run notebooks from top to bottom and keep what their cells show, so that the same code gives the same file.

    python notebooks/execute.py                     all of them
    python notebooks/execute.py 03-*.ipynb          only these
    python notebooks/execute.py --check             write nothing; exit 1 and show the difference where there is one

A cell shows what it prints, and its last line's value: a figure as PNG, tables and charts as HTML, everything else as
text. Only Python is run: no Jupyter is needed, and of its magics only `%matplotlib inline` is known, which changes
nothing here. Of pictures `--check` asks only that they are there: their bytes depend on the version of matplotlib.
"""

import argparse
import ast
import base64
import contextlib
import difflib
import io
import json
import linecache
import sys
from pathlib import Path
from typing import Any

from PIL import Image  # which matplotlib brings

HERE = Path(__file__).parent
INLINE = "%matplotlib inline"
WIDEST = 900  # pixels of a picture that is kept
COLORS = 128  # of it
LARGEST = 60_000  # characters of HTML that is kept; of a larger page its text is
METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}

Json = dict[str, Any]


def executed(notebook: Json, name: str = "notebook") -> Json:
    """The notebook with fresh outputs, ids where there were none, and counts from 1 on."""
    namespace: Json = {"__name__": "__main__"}
    cells, count = [], 0
    for number, cell in enumerate(notebook["cells"], 1):
        fresh = {"cell_type": cell["cell_type"], "id": cell.get("id", f"cell-{number:02}"), "metadata": {}}
        source = "".join(cell["source"])
        if cell["cell_type"] == "code":
            count += 1
            outputs = _outputs(source, namespace, f"<{name}, cell {count}>", count)
            fresh |= {"execution_count": count, "outputs": outputs}
        cells.append(fresh | {"source": source.splitlines(keepends=True)})
    return {"cells": cells, "metadata": METADATA, "nbformat": 4, "nbformat_minor": 5}


def _outputs(source: str, namespace: Json, name: str, count: int) -> list[Json]:
    """What a cell prints, then what its last line is worth."""
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)  # a traceback shows the line
    tree = ast.parse(source.replace(INLINE, "", 1), name)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    printed, value = io.StringIO(), None
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, name, "exec"), namespace)  # noqa: S102 - cells of this project
        if last is not None:
            value = eval(compile(ast.Expression(last.value), name, "eval"), namespace)  # noqa: S307 - as above
    outputs: list[Json] = []
    if printed.getvalue():
        lines = printed.getvalue().splitlines(keepends=True)
        outputs.append({"name": "stdout", "output_type": "stream", "text": lines})
    if value is not None:
        data = _shown(value)
        outputs.append({"data": data, "execution_count": count, "metadata": {}, "output_type": "execute_result"})
    return outputs


def _shown(value: object) -> Json:
    if not hasattr(value, "savefig"):
        html = value._repr_html_() if hasattr(value, "_repr_html_") else ""
        shown = {"text/html": html.splitlines(keepends=True)} if 0 < len(html) < LARGEST else {}
        return shown | {"text/plain": repr(value).splitlines(keepends=True)}
    picture = io.BytesIO()
    value.savefig(picture, format="png")
    return {"image/png": base64.b64encode(_small(picture)).decode("ascii"), "text/plain": ["<Figure>"]}


def _small(picture: io.BytesIO) -> bytes:
    """The picture with fewer pixels and colours: drawn small at once, text would not fit its place."""
    image = Image.open(picture).convert("RGB")
    if image.width > WIDEST:
        image = image.resize((WIDEST, round(image.height * WIDEST / image.width)), Image.Resampling.LANCZOS)
    written = io.BytesIO()
    image.quantize(COLORS, dither=Image.Dither.NONE).save(written, format="png", optimize=True)
    return written.getvalue()


def text_of(notebook: Json) -> str:
    """The file: as Jupyter writes it, so that saving it there changes nothing else."""
    return json.dumps(notebook, indent=1, ensure_ascii=False, sort_keys=True) + "\n"


def shown_text(notebook: Json) -> list[str]:
    """All that cells show, as lines; of a picture, that there is one."""
    lines = []
    for cell in notebook["cells"]:
        for output in cell.get("outputs", []):
            lines.append(f"[cell {cell['execution_count']}: {output['output_type']}]")
            data = output.get("data", {})
            text = output.get("text") or data.get("text/plain") or []
            lines += ["[picture]"] if "image/png" in data else "".join(text).splitlines()
    return lines


def difference(kept: Json, fresh: Json) -> str:
    """What is kept beside what is shown now; empty where they are the same."""
    return "\n".join(difflib.unified_diff(shown_text(kept), shown_text(fresh), "kept", "fresh", lineterm=""))


def main(arguments: list[str]) -> int:
    """Execute the notebooks named, or all."""
    parser = argparse.ArgumentParser(description="Execute notebooks and keep what they show.")
    parser.add_argument("notebooks", nargs="*", type=Path, help="default: all in this folder")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 where text outputs differ")
    chosen = parser.parse_args(arguments)
    wrong = 0
    for path in chosen.notebooks or sorted(HERE.glob("*.ipynb")):
        kept = json.loads(path.read_text(encoding="utf-8"))
        fresh = executed(kept, path.name)
        if chosen.check:
            found = difference(kept, fresh)
            wrong += bool(found)
            print(f"{path.name}: {'differs' if found else 'as kept'}", found, sep="\n" if found else "")
        else:
            path.write_text(text_of(fresh), encoding="utf-8")
            print(f"{path.name}: {len(text_of(fresh)) / 1000:.0f} kB")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
