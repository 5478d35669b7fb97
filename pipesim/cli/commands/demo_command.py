"""pipesim demo."""

import contextlib
import io
import json
import shlex
from pathlib import Path
from typing import Any

import click

from pipesim.cli import options

TRACE = "bert-large"
PAIRS = ["-p", "gpipe", "-p", "pipedream", "-p", "dapple", "-p", "spp", "-s", "one_f_one_b", "-s", "pe"]
LAYERS = ["--granularity", "layer"]  # as the figures of experiments/first-look were made
CLUSTER = 'servers(2, 4, intra="25GB/s", inter="10Gb/s")'


@click.command()
@click.option(
    "--output", "-o", type=click.Path(), default="pipesim-demo", show_default=True, help="Folder to write to."
)
@options.as_json
def demo(output: str, as_json: bool) -> None:
    """Plan, simulate and draw BERT-large on two servers of four V100 each; at last SPP beside its rivals, and a page.

    \b
    Example:
      pipesim demo --output demo
    """
    steps = _steps(Path(output))
    if as_json:
        options.echo_json({step[0]: _answer(step) for step in steps})
        return
    for step in steps:
        click.secho(f"\n$ pipesim {shlex.join(step)}", bold=True)
        _call(step)


def _steps(folder: Path) -> list[list[str]]:
    """The commands of the demo."""
    plan, names = str(folder / "plan.json"), ("gantt.png", "memory.png", "perfetto.json")
    gantt, memory, perfetto = (str(folder / name) for name in names)
    bars, gantts, picture = (str(folder / name) for name in ("comparison.png", "gantts.png", "cluster.png"))
    page = str(folder / "comparison.html")
    return [
        ["show", CLUSTER, "--plot", picture],
        ["plan", TRACE, CLUSTER, *LAYERS, "--output", plan],
        ["simulate", TRACE, CLUSTER, "--plan", plan, "--gantt", gantt, "--memory-plot", memory, "--output", perfetto],
        ["compare", TRACE, CLUSTER, *PAIRS, *LAYERS, "--plot", bars, "--gantt", gantts, "--html", page],
    ]


def _call(step: list[str]) -> None:
    from pipesim.cli import cli

    cli.main(args=step, prog_name="pipesim", standalone_mode=False)


def _answer(step: list[str]) -> Any:
    """What a command prints with --json."""
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        _call([*step, "--json"])
    return json.loads(printed.getvalue())
