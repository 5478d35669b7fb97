"""pipesim export."""

from typing import Any

import click

from pipesim.cli import options


@click.command()
@options.case
@click.option("--output", "-o", required=True, type=click.Path(), help="File to write.")
@click.option("--format", "file_format", help="chrome, csv or parquet; default: by the suffix.")
@options.as_json
def export(output: str, file_format: str | None, as_json: bool, **given: Any) -> None:
    """Replay one iteration and write its timeline for other tools.

    \b
    Examples:
      pipesim export bert-large dgx1_v100 -o trace.json         (open in ui.perfetto.dev or chrome://tracing)
      pipesim export bert-large dgx1_v100 -o timeline.parquet
    """
    from pipesim.analysis import metrics
    from pipesim.display import timeline_files as exports
    from pipesim.lowering import lower

    options.check_outputs(pictures=[], exports=output, file_format=file_format)
    timeline = options.run(lower(options.make_case(given | {"as_json": as_json})), given["engine"], quiet=as_json)
    exports.export(timeline, output, file_format)
    if as_json:
        iteration_time = metrics.iteration_time(timeline)
        options.echo_json({"output": output, "tasks": len(timeline.program), "iteration_time_s": iteration_time})
    else:
        options.wrote(output, "timeline")
