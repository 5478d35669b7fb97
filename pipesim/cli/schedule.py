"""pipesim schedule."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pipesim.cli import options
from pipesim.schedulers import SCHEDULERS

if TYPE_CHECKING:
    from pipesim.studies.equal_stages import Times


WRITES = (
    "Write the table to this .csv file, as PyTorch reads it, which cannot hold two copies of a stage: those of "
    "chimera, dualpipe and, at times, auto are for pipesim alone."
)


def times(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options that say how long things take where there is no trace."""
    for option in (
        click.option("--hop", type=float, default=0.0, show_default=True, help="Seconds of a message."),
        click.option("--weight-grad", type=float, help="Seconds of the weights' gradient; default: what is left."),
        click.option("--input-grad", type=float, help="Seconds of the input's gradient; default: half of a backward."),
        click.option("--backward", type=float, help="Seconds of a whole backward; default: two forwards."),
        click.option("--forward", type=float, default=1.0, show_default=True, help="Seconds of a forward."),
        click.option("--microbatches", "-m", type=int, default=8, show_default=True, help="Microbatches."),
        click.option("--stages", "-p", type=int, default=4, show_default=True, help="Devices of the pipeline."),
        click.option("--pair-factor", type=float, help="A forward and a backward as one take this part of their sum."),
        options.host_memory,
    ):
        command = option(command)
    return command


def times_of(given: dict[str, Any]) -> "Times":
    """What those options say."""
    from pipesim.studies.equal_stages import Times

    return Times.of(*(given[name] for name in ("forward", "backward", "input_grad", "weight_grad", "hop")))


@click.command()
@click.argument("name", shell_complete=options.complete(lambda: SCHEDULERS))
@times
@click.option("--chunks", type=int, help="Stages on each device, for schedulers that let one choose.")
@click.option("--messages", is_flag=True, help="With sends and receives in the table, as PyTorch's compute_comms form.")
@click.option("--gantt", type=click.Path(), help="Draw a Gantt chart to this .png, .svg or .pdf.")
@click.option("--output", "-o", type=click.Path(), help=WRITES)
@options.as_json
def schedule(name: str, chunks: int | None, messages: bool, as_json: bool, **given: Any) -> None:
    """Explore a schedule without a trace: equal stages, stated seconds.

    \b
    Examples:
      pipesim schedule one_f_one_b --stages 4 --microbatches 8
      pipesim schedule interleaved --chunks 2 -o interleaved.csv
      pipesim schedule zb_2p -p 8 -m 24 --forward 18.522 --input-grad 18.086 --weight-grad 9.337 --hop 0.601 --json
    """
    from pipesim.base import files
    from pipesim.display import text
    from pipesim.lowering import Options, lower
    from pipesim.studies import equal_stages, experiment

    options.check_outputs(pictures=[given["gantt"]])
    with options.busy("ordering", quiet=as_json):
        lowering = Options(pair_factor=given["pair_factor"])
        size = given["stages"], given["microbatches"]
        made = equal_stages.case(name, *size, times_of(given), chunks, lowering, given["host_memory"])
        timeline = experiment.run(lower(made))
    rows = equal_stages.with_messages(made) if messages else str(made.schedule)
    data = equal_stages.exploration(made, timeline) | {"scheduler": name, "table": rows.split("\n")}
    if given["output"]:
        files.write_text(Path(given["output"]), f"{rows}\n")
        options.wrote(given["output"], "schedule", quiet=as_json)
        if max(made.plan.replication) > 1:
            click.echo("two devices hold copies of a stage: PyTorch refuses this file; pipesim reads it", err=True)
    if given["gantt"]:
        from pipesim.display import figures

        figures.gantt(timeline, given["gantt"])
        options.wrote(given["gantt"], "Gantt chart", quiet=as_json)
    if as_json:
        options.echo_json(data)
    else:
        click.echo(
            f"{text.exploration(data)}\n\n{text.gantt(timeline, exactly=True)}\n\n{text.schedule_rows(data['table'])}"
        )
