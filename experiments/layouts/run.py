"""Layouts that people wrote by hand, simulated, beside the best that is found for the same widths.

python experiments/layouts/run.py                    writes rows.csv, prints what differs from expected.csv
python experiments/layouts/run.py --write-expected   makes them the expected ones, and writes the tables of README.md
"""

import csv
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

import pipesim as ps
from pipesim.analysis.bounds.over_layouts import OpenLayout, layout_bound
from pipesim.base.chains import chains_on_chains
from pipesim.frameworks.layout_text import stages_of, text_of
from pipesim.frameworks.training_layout import TrainingLayout
from pipesim.studies.framework_layouts import gpus_of, simulation_fields, units_of

HERE = Path(__file__).parent
CHUNKS = (1, 2, 4, 5, 8, 10)
COLUMNS = (
    "name", "kind", "tensor", "pipeline", "data", "chunks", "microbatches", "layout", "seconds", "fullest", "bound_s",
    "gap",
)  # fmt: skip


def recipes() -> dict[str, list[dict[str, Any]]]:
    """The file with what the recipes state."""
    return tomllib.loads((HERE / "recipes.toml").read_text(encoding="utf-8"))


def layout_of(recipe: dict[str, Any]) -> TrainingLayout:
    """What a recipe states."""
    return ps.layout.read(recipe["settings"], model=recipe["model"], gpus=gpus_of(recipe["cluster"]))


def simulated(recipe: dict[str, Any], layout: TrainingLayout) -> ps.SimulationResult:
    """An iteration of a recipe under a layout, as Megatron-LM would run it."""
    plan = ps.layout.plan(layout, recipe["model"], recipe["cluster"])
    fields = simulation_fields(layout, recipe["model"], "megatron")
    return ps.simulate(recipe["model"], recipe["cluster"], plan=plan, **fields)


def others(recipe: dict[str, Any], layout: TrainingLayout, result: ps.SimulationResult) -> Iterator[TrainingLayout]:
    """Layouts of the same widths: of each number of chunks the even one, and the one whose slowest stage is fastest.

    And, where one stage has more blocks than all others, those with one of its blocks in another stage.
    """
    units = units_of(recipe["model"])
    costs = result.setup.costs
    kind = result.setup.cluster.devices[0].kind
    seconds = costs.forward(kind) + costs.backward(kind)
    work = [float(seconds[a:b].sum()) for a, b in pairwise(units.bounds)]
    joined = [sum(work[n] for n, letter in enumerate(units.letters) if letter == end) for end in "EL"]
    blocks = [work[n] for n, letter in enumerate(units.letters) if letter == "t"]
    letters = f"E{'t' * len(blocks)}L"
    ends = [joined[0], *blocks, joined[1]]
    for chunks in sorted({layout.interleave, *CHUNKS}):
        count = chunks * layout.pipeline
        if count > len(letters) or (chunks > 1 and layout.pipeline == 1):
            continue
        scheduler = "one_f_one_b" if chunks == 1 else "interleaved"
        bounds, _ = chains_on_chains([np.asarray(ends)] * count)
        even = [0, *(1 + n * len(blocks) // count for n in range(1, count)), len(letters)]
        for found in (bounds, even):
            stages = tuple(letters[a:b] for a, b in pairwise(found))
            if all(stages):
                yield replace(layout, stages=stages, scheduler=scheduler)
    yield from moved(layout)


def moved(layout: TrainingLayout) -> Iterator[TrainingLayout]:
    """With a block of the one stage that has the most in each of the others."""
    most = max(layout.blocks)
    if layout.blocks.count(most) > 1:
        return
    heavy = layout.blocks.index(most)
    for n in range(len(layout.stages)):
        if n != heavy:
            stages = list(layout.stages)
            stages[heavy] = stages[heavy].replace("t", "", 1)
            stages[n] = f"{stages[n][:-1]}tL" if stages[n].endswith("L") else f"{stages[n]}t"
            yield replace(layout, stages=tuple(stages))


def row(recipe: dict[str, Any], kind: str, layout: TrainingLayout, result: ps.SimulationResult) -> dict[str, str]:
    """A row of the table."""
    bound = certificate(layout, result)
    return {
        "name": recipe["name"],
        "kind": kind,
        "tensor": str(layout.tensor),
        "pipeline": str(layout.pipeline),
        "data": str(layout.data),
        "chunks": str(layout.interleave),
        "microbatches": str(layout.microbatches),
        "layout": text_of(layout.stages),
        "seconds": repr(result.iteration_time),
        "fullest": f"{fullest(result):.4f}",
        "bound_s": repr(bound),
        "gap": f"{result.iteration_time / bound - 1:.6f}",
    }


def certificate(layout: TrainingLayout, result: ps.SimulationResult) -> float:
    """Seconds that no cut, number of chunks and order of whole backwards is below at these widths, fitting or not."""
    setup = result.setup
    devices = tuple(replace(device, memory=0) for device in setup.cluster.devices)
    cluster = replace(setup.cluster, devices=devices)
    asked = OpenLayout(layout.pipeline, layout.data or 1, setup.plan.microbatches, splits=False, mirrored=False)
    return layout_bound(setup.costs, cluster, asked, setup.options).seconds


def fullest(result: ps.SimulationResult) -> float:
    """The memory of the fullest device, as a part of what it has."""
    played = result.played
    return float((ps.metrics.peak_memory(played) / played.program.memory).max())


def rows_of(recipe: dict[str, Any]) -> list[dict[str, str]]:
    """The recipe, the fastest layout of its widths, and the fastest that needs no more memory than the recipe."""
    layout = layout_of(recipe)
    own = simulated(recipe, layout)
    found = [(one, simulated(recipe, one)) for one in others(recipe, layout, own)]
    limit = max(1.0, fullest(own))
    best = min(
        [(layout, own), *((a, b) for a, b in found if fullest(b) <= limit)], key=lambda one: one[1].iteration_time
    )
    return [row(recipe, "recipe", layout, own), row(recipe, "best", *best)]


def table(rows: list[dict[str, str]]) -> str:
    """The dense recipes as Markdown."""
    lines = [
        (
            "| recipe | TP, PP, DP | chunks | written by hand | s | above the bound | memory "
            "| best found for these widths | s | above | saves |"
        ),
        "|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for own, best in zip(rows[::2], rows[1::2], strict=True):
        saves = 1 - float(best["seconds"]) / float(own["seconds"])
        sizes = f"{own['tensor']}, {own['pipeline']}, {own['data']}"
        found = f"{best['chunks']} chunks: {cells(best)} | {saves:.1%}"
        lines.append(f"| {own['name']} | {sizes} | {own['chunks']} | {cells(own)} | {found} |")
    return "\n".join(lines)


def cells(found: dict[str, str]) -> str:
    """Layout, seconds, gap and memory, as cells of a table, in which a bar would end one."""
    layout = found["layout"].replace("|", "\\|")
    seconds, gap, memory = (float(found[name]) for name in ("seconds", "gap", "fullest"))
    return f"`{layout}` | {seconds:.4g} | {gap:.1%} | {memory:.0%}"


def listed() -> str:
    """What was read and not judged, as Markdown."""
    lines = ["| model | PP, chunks | layout | blocks of stages | read at |", "|---|---|---|---|---|"]
    for one in recipes()["listed"]:
        layout = TrainingLayout(stages_of(one["layout"]), pipeline=one["pipeline"], scheduler="interleaved")
        counts = sorted(set(layout.blocks))
        shown = one["layout"].replace("|", "\\|")
        lines.append(
            f"| {one['name']} | {layout.pipeline}, {layout.interleave} | `{shown}` | {counts[0]} to {counts[-1]}, "
            f"{sum(layout.blocks)} in all | {one['repository']} `{one['path']}` |"
        )
    return "\n".join(lines)


def write_page(rows: list[dict[str, str]]) -> None:
    """The tables of the page."""
    path = HERE / "README.md"
    text = path.read_text(encoding="utf-8")
    for name, made in (("dense", table(rows)), ("listed", listed())):
        head, begin, rest = text.partition(f"<!-- {name}: begin -->\n")
        text = head + begin + f"\n{made}\n\n" + rest[rest.index(f"<!-- {name}: end -->") :]
    path.write_text(text, encoding="utf-8")


def main(arguments: list[str]) -> None:
    """All recipes."""
    rows = [found for recipe in recipes()["dense"] for found in rows_of(recipe)]
    name = "expected.csv" if "--write-expected" in arguments else "rows.csv"
    with (HERE / name).open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    if "--write-expected" in arguments:
        write_page(rows)
        return
    with (HERE / "expected.csv").open(newline="", encoding="utf-8") as file:
        wanted = list(csv.DictReader(file))
    changed = [one["name"] for one, other in zip(rows, wanted, strict=True) if one != other]
    found = f"{len(changed)} of {len(rows)} rows differ"
    print(found, *changed, sep="\n  ")  # noqa: T201 - a script


if __name__ == "__main__":
    main(sys.argv[1:])
