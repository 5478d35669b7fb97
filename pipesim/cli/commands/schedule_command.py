"""pipesim schedule."""

from pathlib import Path

import click

from pipesim.cli import options, setting_options
from pipesim.cli.commands.pipeline_options import PipelineOptions

WRITES = (
    "Write the table to this .csv file, as PyTorch reads it, which cannot hold two copies of a stage: those of "
    "chimera, dualpipe and, at times, auto are for pipesim alone."
)


@click.command(cls=setting_options.GroupedCommand)
@click.argument("name", shell_complete=setting_options.complete("schedulers"))
@setting_options.options(PipelineOptions, "pipeline")
@click.option("--chunks", type=int, help="Stages on each device, for schedulers that let one choose.")
@click.option("--messages", is_flag=True, help="With sends and receives in the table, as PyTorch's compute_comms form.")
@click.option("--gantt", type=click.Path(), help="Draw a Gantt chart to this .png, .svg or .pdf.")
@options.html
@click.option("--output", "-o", type=click.Path(), help=WRITES)
@options.as_json
def schedule(
    name: str,
    *,
    pipeline: PipelineOptions,
    chunks: int | None,
    messages: bool,
    gantt: str | None,
    html: str | None,
    output: str | None,
    as_json: bool,
) -> None:
    """Explore a schedule without a trace: equal stages, stated seconds. NAME may be a file with a table (.csv, .json).

    \b
    Examples:
      pipesim schedule one_f_one_b --stages 4 --microbatches 8
      pipesim schedule interleaved --chunks 2 -o interleaved.csv
      pipesim schedule interleaved.csv --gantt interleaved.png
      pipesim schedule zb_h1 --html edit.html
      pipesim schedule zb_2p --stages 8 -m 24 --forward 18.522 --input-grad 18.086 --weight-grad 9.337 --json
    """
    from pipesim.base import files
    from pipesim.display import text
    from pipesim.engines import by_name
    from pipesim.lowering import lower
    from pipesim.studies import equal_stages

    options.check_outputs(pictures=[gantt], pages=[html])
    with options.busy("ordering", quiet=as_json):
        setup = equal_stages.setup(
            name,
            *pipeline.size(name),
            pipeline.times(),
            chunks,
            pipeline.options(),
            pipeline.host_memory,
        )
        timeline = by_name.run(lower(setup))
    table = equal_stages.with_messages(setup) if messages else str(setup.schedule)
    data = equal_stages.exploration(setup, timeline) | {"scheduler": name, "table": table.split("\n")}
    if output:
        files.write_text(Path(output), f"{table}\n")
        options.wrote(output, "schedule", quiet=as_json)
        if max(setup.plan.replication) > 1:
            click.echo("two devices hold copies of a stage: PyTorch refuses this file; pipesim reads it", err=True)
    if gantt:
        from pipesim.display import figures

        figures.gantt(timeline, gantt)
        options.wrote(gantt, "Gantt chart", quiet=as_json)
    if html:
        from pipesim.display import pages

        options.write_page(html, lambda: pages.schedule_page(data, timeline), quiet=as_json)
    if as_json:
        options.echo_json(data)
    else:
        chart = text.gantt(timeline, exactly=True)
        click.echo(f"{text.exploration(data)}\n\n{chart}\n\n{text.schedule_rows(data['table'])}")
