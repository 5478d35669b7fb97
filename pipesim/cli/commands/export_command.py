"""pipesim export."""

import click

from pipesim.cli import options, setting_options
from pipesim.studies.simulation import Simulation


@click.command(cls=setting_options.GroupedCommand)
@options.simulation(without=options.DRAWS)
@click.option("--output", "-o", required=True, type=click.Path(), help="File to write.")
@click.option("--format", "file_format", help="chrome, csv or parquet; default: by the suffix.")
@options.as_json
def export(simulation: Simulation, output: str, file_format: str | None, as_json: bool) -> None:
    """Simulate one iteration and write its timeline for other tools.

    \b
    Examples:
      pipesim export bert-large dgx1_v100 -o trace.json         (open in ui.perfetto.dev or chrome://tracing)
      pipesim export bert-large dgx1_v100 -o timeline.parquet
    """
    from pipesim.display import timeline_files

    options.check_outputs(pictures=[], exports=output, file_format=file_format)
    result = options.simulate(options.make_setup(simulation, quiet=as_json), simulation, quiet=as_json)
    timeline_files.export(result.timeline, output, file_format)
    if as_json:
        tasks = len(result.timeline.program)
        options.echo_json({"output": output, "tasks": tasks, "iteration_time_s": result.iteration_time})
    else:
        options.wrote(output, "timeline")
