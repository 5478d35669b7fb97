"""pipesim gallery."""

import click

from pipesim.cli import options, setting_options
from pipesim.cli.commands.pipeline_options import PipelineOptions
from pipesim.cli.table_outputs import TableOutputs
from pipesim.schedulers import SCHEDULERS


@click.command(cls=setting_options.GroupedCommand)
@setting_options.options(PipelineOptions, "pipeline")
@click.option(
    "--scheduler",
    "-s",
    "schedulers",
    multiple=True,
    shell_complete=setting_options.complete("schedulers"),
    help="A name or a file; may be given several times; default: all but exact.",
)
@setting_options.options(TableOutputs, "tables")
@click.option("--output", "-o", type=click.Path(), default="gallery.png", show_default=True, help="The figure.")
@options.as_json
def gallery(
    pipeline: PipelineOptions, schedulers: tuple[str, ...], tables: TableOutputs, *, output: str, as_json: bool
) -> None:
    """Draw schedules side by side: the same work per device, one time axis, memory beside.

    \b
    Examples:
      pipesim gallery --stages 4 --microbatches 8
      pipesim gallery -s mine.csv -s one_f_one_b
      pipesim gallery -s one_f_one_b -s zb_h1 -s zb_v --hop 0.1 -o zero-bubble.pdf
    """
    from pipesim.core.members import SchedulerInfo, infos
    from pipesim.core.timeline import Timeline
    from pipesim.display import figures, text
    from pipesim.studies import equal_stages

    tables.check(as_json=as_json)
    options.check_outputs(pictures=[output])
    declared = infos(SCHEDULERS, "scheduler", SchedulerInfo)
    chosen = schedulers or tuple(name for name, info in declared.items() if not info.requires)
    size, host_memory = pipeline.size(*chosen), pipeline.host_memory
    with options.busy("ordering", quiet=as_json):
        found = equal_stages.gallery(*size, pipeline.times(), pipeline.options(), chosen, host_memory)
    rows = equal_stages.gallery_rows(found)
    rows = [rows[n] for n in tables.chosen(text.gallery_columns(), rows)]
    drawn = {row["scheduler"]: made for row in rows if isinstance(made := found[row["scheduler"]], Timeline)}
    if as_json:
        options.echo_json({"rows": rows})
    elif not tables.is_alone:
        click.echo(text.gallery(rows, options.terminal()))
    tables.write(text.gallery_columns(), [row for row in rows if "error" not in row], quiet=as_json)
    if drawn:
        options.write_file(
            output, "gallery", lambda path: figures.gantt_grid(drawn, path, memory="microbatches held"),
            quiet=as_json or tables.is_alone,
        )  # fmt: skip
