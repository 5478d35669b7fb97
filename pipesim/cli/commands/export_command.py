"""pipesim export."""

import click

from pipesim.cli import options, setting_options
from pipesim.studies.simulation import Simulation


@click.command(cls=setting_options.GroupedCommand)
@options.simulation(without=options.DRAWS)
@click.option("--output", "-o", required=True, type=click.Path(), help="File to write.")
@click.option("--format", "file_format", help="chrome, csv, parquet or chakra; default: by the suffix.")
@options.as_json
def export(simulation: Simulation, output: str, file_format: str | None, as_json: bool) -> None:
    """Simulate one iteration and write its timeline for other tools.

    \b
    Examples:
      pipesim export bert-large dgx1_v100 -o trace.json         (open in ui.perfetto.dev or chrome://tracing)
      pipesim export bert-large dgx1_v100 -o timeline.parquet
      pipesim export bert-large dgx1_v100 --scheduler interleaved -o run.et     (run.0.et, run.1.et, ...: Chakra)

    Chakra's execution traces have a file for each GPU, with what it computes, sends, receives and reduces, for network
    simulators such as ASTRA-sim, and for `pipesim run`.
    """
    from pipesim.display import execution_traces, timeline_files

    for_ranks = execution_traces.is_chosen(output, file_format)
    options.check_outputs(pictures=[], exports=None if for_ranks else output, file_format=file_format)
    setup = options.make_setup(simulation, quiet=as_json)
    result = options.simulate(setup, simulation, quiet=as_json)
    with options.busy("writing", quiet=as_json):
        if for_ranks:
            written = execution_traces.export_execution_traces(setup, result.timeline, output)
            shown = f"{written[0]} to {written[-1].name}"
        else:
            timeline_files.export(result.timeline, output, file_format)
            shown = output
    if as_json:
        tasks = len(result.timeline.program)
        options.echo_json({"output": output, "tasks": tasks, "iteration_time_s": result.iteration_time})
    else:
        options.wrote(shown, "execution traces" if for_ranks else "timeline")
