"""pipesim whatif."""

from dataclasses import asdict

import click

from pipesim.cli import options, setting_options
from pipesim.studies.simulation import Simulation

WHATS = ("device", "link", "layer")  # as in `pipesim.studies.whatif`, which is slow to import


@click.command(cls=setting_options.GroupedCommand)
@options.simulation(without=options.DRAWS)
@click.option("--by", default="10%", show_default=True, help="How much faster each thing is made: 10% or 0.1.")
@click.option("--only", type=click.Choice(WHATS), multiple=True, help="May be given several times; default: all.")
@click.option("--most", type=int, default=15, show_default=True, help="Show so many, those that help most.")
@click.option("--plot", "plot_file", type=click.Path(), help="Draw the gains as bars to this .png, .svg or .pdf.")
@options.as_json
def whatif(
    simulation: Simulation, *, by: str, only: tuple[str, ...], most: int, plot_file: str | None, as_json: bool
) -> None:
    """What would help most: each device, link and layer a little faster.

    \b
    Examples:
      pipesim whatif bert-large 'servers(2, 4, intra="25GB/s", inter="10Gb/s")' --planner spp -s pe
      pipesim whatif vgg-19 dgx1_v100 --by 25% --only layer --plot gains.png
    """
    from pipesim.base import units
    from pipesim.display import text
    from pipesim.studies import whatif

    options.check_outputs(pictures=[plot_file])
    part = units.fraction(by)
    setup = options.make_setup(simulation, quiet=as_json)
    with options.busy("trying", quiet=as_json):
        seconds, found = whatif.gains(setup, part, only or WHATS, simulation.host_memory)  # type: ignore[arg-type]  # checked by click
    if plot_file:
        from pipesim.display import figures

        figures.gains([(f"{gain.what} {gain.name}", gain.gain) for gain in found[:most]], part, plot_file)
        options.wrote(plot_file, "gains", quiet=as_json)
    data = {"iteration_time_s": seconds, "by": part, "gains": [asdict(gain) for gain in found]}
    if as_json:
        options.echo_json(data)
    else:
        click.echo(text.gains(data, most))
