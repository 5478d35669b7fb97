"""pipesim whatif."""

from dataclasses import asdict, replace
from typing import Any

import click

from pipesim.cli import options, setting_options
from pipesim.studies.simulation import Simulation

WHATS = ("device", "link", "layer")  # as in `pipesim.studies.whatif`, which is slow to import


def _of_run(file: str, simulation: Simulation, *, by: str, most: int, as_json: bool, **_: Any) -> bool:
    """What would change the steps of a recorded run; False if the file holds none."""
    from pathlib import Path

    from pipesim.importers.run_opening import open_run, run_format

    if simulation.architecture is not None or run_format(Path(file)) is None:
        return False
    from pipesim.base import units
    from pipesim.display import text
    from pipesim.studies import run_whatif

    others = setting_options.given_names() - {"trace", *_OF_RUNS}
    options.check_given("for a recorded run", is_there=False, without=tuple(sorted(others)))
    part, asked = units.fraction(by), setting_options.given_names() & {"scheduler", "interleave"}
    if simulation.interleave is not None and "scheduler" not in asked:
        simulation = replace(simulation, scheduler="interleaved")
    schedules = [(str(simulation.scheduler), simulation.interleave)] if asked else []
    with options.busy("trying", quiet=as_json):
        run = open_run([Path(file)])
        found = run_whatif.changes(run, part, schedules)
    data = {"iteration_time_s": units.to_s(float(run.step_ns.mean())), "gains": [asdict(one) for one in found]}
    if as_json:
        options.echo_json(data)
    else:
        click.echo(text.run_changes(data, most))
    return True


_OF_RUNS = ("scheduler", "interleave", "by", "most", "as_json")


@click.command(cls=setting_options.GroupedCommand)
@options.simulation(without=options.DRAWS, alone=_of_run)
@click.option("--by", default="10%", show_default=True, help="How much faster each thing is made: 10% or 0.1.")
@click.option("--only", type=click.Choice(WHATS), multiple=True, help="May be given several times; default: all.")
@click.option("--most", type=int, default=15, show_default=True, help="Show so many, those that help most.")
@click.option("--plot", "plot_file", type=click.Path(), help="Draw the gains as bars to this .png, .svg or .pdf.")
@options.html
@options.as_json
def whatif(
    simulation: Simulation,
    *,
    by: str,
    only: tuple[str, ...],
    most: int,
    plot_file: str | None,
    html: str | None,
    as_json: bool,
) -> None:
    """What would help most: each device, link and layer a little faster.

    With a recorded run in place of TRACE and CLUSTER: the mean of its steps with microbatches that are alike, stages of
    equal work, each rank at the mean of its stage, faster messages, no launch gaps, or another --scheduler.

    \b
    Examples:
      pipesim whatif operations.parquet --scheduler zb_h1
      pipesim whatif bert-large 'servers(2, 4, intra="25GB/s", inter="10Gb/s")' --planner spp -s pe
      pipesim whatif vgg-19 dgx1_v100 --by 25% --only layer --plot gains.png
    """
    from pipesim.base import units
    from pipesim.display import text
    from pipesim.studies import whatif

    options.check_outputs(pictures=[plot_file], pages=[html])
    part = units.fraction(by)
    setup = options.make_setup(simulation, quiet=as_json)
    with options.busy("trying", quiet=as_json):
        seconds, found = whatif.gains(setup, part, only or WHATS, simulation.host_memory)  # type: ignore[arg-type]  # checked by click
    if plot_file:
        from pipesim.display import figures

        single = [gain for gain in found if not gain.group]  # of equal layers all together
        figures.gains([(f"{gain.what} {gain.name}", gain.gain) for gain in single[:most]], part, plot_file)
        options.wrote(plot_file, "gains", quiet=as_json)
    data = {"iteration_time_s": seconds, "by": part, "gains": [asdict(gain) for gain in found]}
    if html:
        from pipesim.display import pages
        from pipesim.engines import by_name
        from pipesim.lowering import lower

        timeline = by_name.run(lower(setup), simulation.engine)
        title = f"{setup.costs.model.name} on {setup.cluster.name}: what would help"
        options.write_page(html, lambda: pages.gains_page(data, timeline, title, text.first_thing(data)), quiet=as_json)
    if as_json:
        options.echo_json(data)
    else:
        click.echo(text.gains(data, most))
