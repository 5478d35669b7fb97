"""pipesim schedule."""

from dataclasses import dataclass
from pathlib import Path

import click

from pipesim.base.settings import setting, settings_of
from pipesim.cli import options, setting_options
from pipesim.cli.commands.pipeline_options import PipelineOptions
from pipesim.cli.table_outputs import ShownItem, TableOutputs

WRITES = (
    "Write the table to this .csv file, as PyTorch reads it, which cannot hold two copies of a stage: those of "
    "chimera, dualpipe and, at times, auto are for pipesim alone."
)


@dataclass(frozen=True, slots=True)
class ScheduleOutputs:
    """What is shown, drawn and written of a schedule."""

    against: str | None = setting(
        None, str, "Another schedule, a name or a file: what differs on each rank, both in chart and page.",
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
@setting_options.options(TableOutputs, "tables")
@options.html
@options.as_json
def schedule(
    name: str,
    *,
    pipeline: PipelineOptions,
    chunks: int | None,
    outputs: ScheduleOutputs,
    tables: TableOutputs,
    html: str | None,
    as_json: bool,
) -> None:
    """Explore a schedule without a trace: equal stages, stated seconds. NAME may be a file with a table (.csv, .json).

    --sort, --top and the files of a table are about the ranks that differ from --against.

    \b
    Examples:
      pipesim schedule one_f_one_b --stages 4 --microbatches 8
      pipesim schedule interleaved --chunks 2 -o interleaved.csv
      pipesim schedule interleaved.csv --gantt interleaved.png
      pipesim schedule interleaved.csv --against interleaved --gantt both.png
      pipesim schedule zb_2p --against zb_h1 --sort '-actions elsewhere'
      pipesim schedule zb_h1 --html edit.html
      pipesim schedule zb_2p --stages 8 -m 24 --forward 18.522 --input-grad 18.086 --weight-grad 9.337 --json
    """
    from pipesim.base import files
    from pipesim.display import text
    from pipesim.engines import by_name
    from pipesim.lowering import lower
    from pipesim.studies import equal_stages

    tables.check(as_json=as_json)
    options.check_given(
        "without --against", is_there=outputs.against is not None, without=tuple(settings_of(TableOutputs))
    )
    options.check_outputs(pictures=[outputs.gantt], pages=[html])
    quiet = as_json or tables.is_alone
    size = pipeline.size(*filter(None, (name, outputs.against)))
    times, how = pipeline.times(), pipeline.options()
    with options.busy("ordering", quiet=quiet):
        setup = equal_stages.setup(name, *size, times, chunks, how, pipeline.host_memory)
        timelines = {name: by_name.run(lower(setup))}
        timeline, other, against, factor = timelines[name], None, None, 1.0
        if outputs.against is not None:
            factor = equal_stages.stage_factor(name, outputs.against, chunks)
            alike = times.scaled(factor)
            other = equal_stages.setup(outputs.against, *size, alike, chunks, how, pipeline.host_memory)
            against = by_name.run(lower(other))
            timelines[outputs.against if outputs.against != name else f"{name} (again)"] = against
    table = equal_stages.with_messages(setup) if outputs.messages else str(setup.schedule)
    data = equal_stages.exploration(setup, timeline) | {"scheduler": name, "table": table.split("\n")}
    if other is not None and against is not None:
        data |= {"against": equal_stages.beside(setup, other, outputs.against or "", against, factor)}

    def shown() -> str:
        on = options.terminal()
        chart = text.gantt(timeline, columns=on.width, exactly=True)
        beside = [] if other is None else [text.schedule_difference(data, on)]
        parts = [text.exploration(data, on), *beside, chart, text.schedule_rows(data["table"], on.width or text.WIDTH)]
        return "\n\n".join(parts)

    tables.show(ShownItem(shown, lambda: data, lambda: text.changed_ranks(data)), as_json=as_json)
    if outputs.output:
        files.write_text(Path(outputs.output), f"{table}\n")
        options.wrote(outputs.output, "schedule", quiet=quiet)
        if max(setup.plan.replication) > 1:
            click.echo("two devices hold copies of a stage: PyTorch refuses this file; pipesim reads it", err=True)
    if outputs.gantt:
        from pipesim.display import figures

        def gantt(path: str) -> None:
            figures.gantt(timeline, path) if other is None else figures.gantt_grid(timelines, path)

        options.write_file(outputs.gantt, "Gantt chart", gantt, quiet=quiet)
    if html:
        from pipesim.display import pages

        options.write_page(html, lambda: pages.schedule_page(data, timeline, against), quiet=quiet)
