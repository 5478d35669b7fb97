"""pipesim whatif."""

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import click

from pipesim.base.errors import InputError
from pipesim.base.settings import setting, settings_of
from pipesim.cli import failures, options, setting_options
from pipesim.cli.table_outputs import TableOutputs
from pipesim.studies.simulation import Simulation

if TYPE_CHECKING:
    from pipesim.core.recorded_run import RecordedRun
    from pipesim.display.pages import Page
    from pipesim.lowering import Setup
    from pipesim.studies.run_cuts import Cuts

WHATS = ("device", "link", "layer")  # as in `pipesim.studies.whatif`, which is slow to import


def _of_run(file: str, simulation: Simulation, *, by: str, tables: TableOutputs, as_json: bool, **more: Any) -> bool:
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
    options.check_given(
        "without --layers", is_there=more["layers"] is not None, without=("cuts", "planner", "layer_times")
    )
    part, asked = units.fraction(by), setting_options.given_names() & {"scheduler", "interleave"}
    if simulation.interleave is not None and "scheduler" not in asked:
        simulation = replace(simulation, scheduler="interleaved")
    schedules = [(str(simulation.scheduler), simulation.interleave)] if asked else []
    tables.check(as_json=as_json)
    with options.busy("trying", quiet=as_json or tables.is_alone):
        run = open_run([Path(file)])
        planners = [str(simulation.planner)] if "planner" in setting_options.given_names() else []
        found = run_whatif.changes(run, part, schedules, _cuts(run, planners, **more))
    gains = [asdict(one) for one in found]
    data = {"iteration_time_s": units.to_s(float(run.step_ns.mean())), "gains": gains}
    rows = tables.records(text.run_columns(), gains)
    if as_json:
        options.echo_json(data | {"gains": rows})
    elif not tables.is_alone:
        ranked = [gains[n] for n in replace(tables, top=None).chosen(text.run_columns(), gains)]
        click.echo(text.run_changes(data, tables.top or _MOST, options.terminal(), ranked))
    tables.write(text.run_columns(), rows, quiet=as_json)
    return True


def _cuts(
    run: "RecordedRun",
    planners: list[str],
    *,
    layers: str | None,
    layer_times: str | None,
    cuts: tuple[str, ...],
    **_: Any,
) -> "Cuts | None":
    """The layers of a run as options describe them, and how else to cut them; None without layers."""
    from pipesim.analysis.run_layers import equal_layers, layers_of_trace
    from pipesim.analysis.run_variance import ComputingTimes
    from pipesim.studies.loading import load_trace
    from pipesim.studies.run_cuts import Cuts

    if layers is None:
        return None
    times, counts = ComputingTimes.of(run), _counts("--layers", layers)
    trace = None if layer_times is None else load_trace(layer_times)
    found = equal_layers(times, counts) if trace is None else layers_of_trace(times, counts, trace)
    return Cuts(found, [_counts("--cut", cut) for cut in cuts], planners)


def _counts(option: str, text: str) -> tuple[int, ...]:
    """Layers per stage, as 8,8,8,6."""
    words = text.split(",")
    if not all(word.strip().isdecimal() for word in words):
        raise InputError(f"{option} {text!r} found; layers per stage were expected, as 8,8,8,6")
    return tuple(int(word) for word in words)


_RUNS_ALONE = ("layers", "cuts", "layer_times")
_OF_RUNS = ("scheduler", "interleave", "planner", "by", *settings_of(TableOutputs), "as_json", *_RUNS_ALONE)
_MOST = 15  # rows that are shown where --top is not given


@dataclass(frozen=True, slots=True)
class GainPictures:
    """What is drawn of gains."""

    plot_file: str | None = setting(
        None, str, "Draw the gains as bars to this .png, .svg or .pdf.", flag="--plot", is_file=True
    )
    html: str | None = setting(None, str, "Write an interactive page, one .html file for any browser.", is_file=True)


@click.command(cls=setting_options.GroupedCommand)
@setting_options.options(TableOutputs, "tables")
@options.simulation(without=options.DRAWS, alone=_of_run)
@click.option("--by", default="10%", show_default=True, help="How much faster each thing is made: 10% or 0.1.")
@click.option("--only", type=click.Choice(WHATS), multiple=True, help="May be given several times; default: all.")
@click.option("--layers", metavar="N,N,...", help="Of a recorded run: layers of each of its stages, as 8,8,8,6.")
@click.option(
    "--cut",
    "cuts",
    metavar="N,N,...",
    multiple=True,
    help="Of a recorded run: other layers per stage. May be given several times; --planner chooses them.",
)
@click.option("--layer-times", metavar="TRACE", help="Trace of the layers of a recorded run; default: they are alike.")
@setting_options.options(GainPictures, "pictures")
@options.require_fit
@options.as_json
def whatif(
    simulation: Simulation,
    *,
    by: str,
    only: tuple[str, ...],
    pictures: GainPictures,
    tables: TableOutputs,
    require_fit: bool,
    as_json: bool,
    **_: Any,
) -> None:
    """What would help most: each device, link and layer a little faster.

    With a recorded run in place of TRACE and CLUSTER: the mean of its steps with microbatches that are alike, stages of
    equal work, each rank at the mean of its stage, faster messages, no launch gaps, or another --scheduler; and with
    --layers another --cut, or that of a --planner.

    \b
    Examples:
      pipesim whatif operations.parquet --scheduler zb_h1
      pipesim whatif operations.parquet --layers 8,8,8,8 --cut 9,9,8,6 --planner balanced
      pipesim whatif bert-large 'servers(2, 4, intra="25GB/s", inter="10Gb/s")' --planner spp -s pe
      pipesim whatif vgg-19 dgx1_v100 --by 25% --only layer --plot gains.png
    """
    from pipesim.base import units
    from pipesim.display import text
    from pipesim.studies import results, whatif

    options.check_given("but for a recorded run", is_there=False, without=_RUNS_ALONE)
    tables.check(as_json=as_json)
    options.check_outputs(pictures=[pictures.plot_file], pages=[pictures.html])
    part, quiet = units.fraction(by), as_json or tables.is_alone
    setup = options.make_setup(simulation, quiet=quiet)
    with options.busy("trying", quiet=quiet):
        seconds, found = whatif.gains(setup, part, only or WHATS, simulation.host_memory)  # type: ignore[arg-type]  # checked by click
    data = {"iteration_time_s": seconds, "by": part, "gains": [asdict(gain) for gain in found]}
    listed = text.listed_gains(data)
    rows = tables.records(text.gains_columns(), listed)
    if as_json:
        options.echo_json(data if rows == listed else data | {"gains": rows})
    elif not tables.is_alone:
        click.echo(text.gains(data, tables.top or _MOST, options.terminal(), rows))
    tables.write(text.gains_columns(), rows, quiet=as_json)
    if pictures.plot_file:
        from pipesim.display import figures

        single = [gain for gain in found if not gain.group]  # of equal layers all together
        drawn = [(f"{gain.what} {gain.name}", gain.gain) for gain in single[: tables.top or _MOST]]
        options.write_file(pictures.plot_file, "gains", lambda path: figures.gains(drawn, part, path), quiet=quiet)
    if pictures.html:
        _write_page(pictures.html, data, setup, simulation.engine, quiet=quiet)
    if require_fit:
        failures.check_fit(results.simulated(setup, simulation))


def _write_page(path: str, data: dict[str, Any], setup: "Setup", engine: str, *, quiet: bool) -> None:
    """The gains, and the timeline that they are measured against."""
    from pipesim.display import pages, text
    from pipesim.engines import by_name
    from pipesim.lowering import lower

    def page() -> "Page":
        title = f"{setup.costs.model.name} on {setup.cluster.name}: what would help"
        return pages.gains_page(data, by_name.run(lower(setup), engine), title, text.first_thing(data))

    options.write_page(path, page, quiet=quiet)
