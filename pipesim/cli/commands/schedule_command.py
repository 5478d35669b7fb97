"""pipesim schedule."""

from dataclasses import dataclass
from pathlib import Path

import click

from pipesim.base.settings import setting
from pipesim.cli import options, setting_options
from pipesim.cli.commands.pipeline_options import PipelineOptions

WRITES = (
    "Write the table to this .csv file, as PyTorch reads it, which cannot hold two copies of a stage: those of "
    "chimera, dualpipe and, at times, auto are for pipesim alone."
)


@dataclass(frozen=True, slots=True)
class ScheduleOutputs:
    """What is shown, drawn and written of a schedule."""

    against: str | None = setting(
        None, str, "Another schedule, a name or a file: what differs on each rank, both in the Gantt chart.",
        metavar="NAME", family="schedulers",
    )  # fmt: skip
    messages: bool = setting(False, bool, "With sends and receives in the table, as PyTorch's compute_comms form.")
    gantt: str | None = setting(None, str, "Draw a Gantt chart to this .png, .svg or .pdf.", is_file=True)
    output: str | None = setting(None, str, WRITES, short="o", is_file=True)


@click.command(cls=setting_options.GroupedCommand)
@click.argument("name", shell_complete=setting_options.complete("schedulers"))
@setting_options.options(PipelineOptions, "pipeline")
@click.option("--chunks", type=int, help="Stages on each device, for schedulers that let one choose.")
@setting_options.options(ScheduleOutputs, "outputs")
@options.html
@options.as_json
def schedule(
    name: str,
    *,
    pipeline: PipelineOptions,
    chunks: int | None,
    outputs: ScheduleOutputs,
    html: str | None,
    as_json: bool,
) -> None:
    """Explore a schedule without a trace: equal stages, stated seconds. NAME may be a file with a table (.csv, .json).

    \b
    Examples:
      pipesim schedule one_f_one_b --stages 4 --microbatches 8
      pipesim schedule interleaved --chunks 2 -o interleaved.csv
      pipesim schedule interleaved.csv --gantt interleaved.png
      pipesim schedule interleaved.csv --against interleaved --gantt both.png
      pipesim schedule zb_h1 --html edit.html
      pipesim schedule zb_2p --stages 8 -m 24 --forward 18.522 --input-grad 18.086 --weight-grad 9.337 --json
    """
    from pipesim.base import files
    from pipesim.display import text
    from pipesim.engines import by_name
    from pipesim.lowering import lower
    from pipesim.studies import equal_stages

    options.check_outputs(pictures=[outputs.gantt], pages=[html])
    size = pipeline.size(*filter(None, (name, outputs.against)))
    times, how = pipeline.times(), pipeline.options()
    with options.busy("ordering", quiet=as_json):
        setup = equal_stages.setup(name, *size, times, chunks, how, pipeline.host_memory)
        timelines = {name: by_name.run(lower(setup))}
        timeline, other, factor = timelines[name], None, 1.0
        if outputs.against is not None:
            factor = equal_stages.stage_factor(name, outputs.against, chunks)
            alike = times.scaled(factor)
            other = equal_stages.setup(outputs.against, *size, alike, chunks, how, pipeline.host_memory)
            second = outputs.against if outputs.against != name else f"{name} (again)"
            timelines[second] = by_name.run(lower(other))
    table = equal_stages.with_messages(setup) if outputs.messages else str(setup.schedule)
    data = equal_stages.exploration(setup, timeline) | {"scheduler": name, "table": table.split("\n")}
    if other is not None:
        against = list(timelines.values())[-1]
        data |= {"against": equal_stages.beside(setup, other, outputs.against or "", against, factor)}
    if as_json:
        options.echo_json(data)
    else:
        on = options.terminal()
        chart = text.gantt(timeline, columns=on.width, exactly=True)
        beside = [] if other is None else [text.schedule_difference(data, on)]
        parts = [text.exploration(data, on), *beside, chart, text.schedule_rows(data["table"], on.width or text.WIDTH)]
        click.echo("\n\n".join(parts))
    if outputs.output:
        files.write_text(Path(outputs.output), f"{table}\n")
        options.wrote(outputs.output, "schedule", quiet=as_json)
        if max(setup.plan.replication) > 1:
            click.echo("two devices hold copies of a stage: PyTorch refuses this file; pipesim reads it", err=True)
    if outputs.gantt:
        from pipesim.display import figures

        def gantt(path: str) -> None:
            figures.gantt(timeline, path) if other is None else figures.gantt_grid(timelines, path)

        options.write_file(outputs.gantt, "Gantt chart", gantt, quiet=as_json)
    if html:
        from pipesim.display import pages

        options.write_page(html, lambda: pages.schedule_page(data, timeline), quiet=as_json)
