"""pipesim gallery."""

from typing import Any

import click

from pipesim.cli import options
from pipesim.cli.schedule import times, times_of
from pipesim.schedulers import SCHEDULERS


@click.command()
@times
@click.option(
    "--scheduler",
    "-s",
    "schedulers",
    multiple=True,
    shell_complete=options.complete(lambda: SCHEDULERS),
    help="May be given several times; default: all but exact.",
)
@click.option("--output", "-o", type=click.Path(), default="gallery.png", show_default=True, help="The figure.")
@options.as_json
def gallery(schedulers: tuple[str, ...], output: str, as_json: bool, **given: Any) -> None:
    """Draw schedules side by side: the same work per device, one time axis, memory beside.

    \b
    Examples:
      pipesim gallery --stages 4 --microbatches 8
      pipesim gallery -s one_f_one_b -s zb_h1 -s zb_v --hop 0.1 -o zero-bubble.pdf
    """
    from pipesim.core.members import SchedulerInfo, infos
    from pipesim.core.timeline import Timeline
    from pipesim.display import figures, text
    from pipesim.lowering import Options
    from pipesim.studies import equal_stages

    options.check_outputs(pictures=[output])
    declared = infos(SCHEDULERS, "scheduler", SchedulerInfo)
    chosen = schedulers or tuple(name for name, info in declared.items() if not info.requires)
    lowering = Options(pair_factor=given["pair_factor"])
    with options.busy("ordering", quiet=as_json):
        size = given["stages"], given["microbatches"]
        found = equal_stages.gallery(*size, times_of(given), lowering, chosen, given["host_memory"])
    drawn = {name: made for name, made in found.items() if isinstance(made, Timeline)}
    rows = equal_stages.gallery_rows(found)
    if drawn:
        figures.gantt_grid(drawn, output, memory="microbatches held")
        options.wrote(output, "gallery", quiet=as_json)
    if as_json:
        options.echo_json({"rows": rows})
    else:
        click.echo(text.gallery(rows))
