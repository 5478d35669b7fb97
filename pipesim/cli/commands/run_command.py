"""pipesim run."""

import functools
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pipesim.base.errors import InputError
from pipesim.base.settings import setting
from pipesim.cli import options, setting_options
from pipesim.cli.commands.timeline_outputs import TimelineOutputs
from pipesim.cli.table_outputs import ShownItem, TableOutputs
from pipesim.core.sharing import SHARING_RULES
from pipesim.studies.simulation import TRANSFERS, Simulation

if TYPE_CHECKING:
    from pipesim.core.cluster import Cluster
    from pipesim.core.program import Program


@dataclass(frozen=True, slots=True)
class ImportedProgram:
    """How files are read as a program, and how its transfers behave."""

    form: str = setting(
        "chakra", str, "The files' format: chakra, or chakra(option=value), or module:function.", flag="--format"
    )
    sharing: str = setting(
        "fair",
        str,
        "How transfers share links.",
        choices=tuple(name for name, rule in SHARING_RULES.items() if rule.has_links),
    )
    transfers: str = setting(
        "eager",
        str,
        "When transfers start.",
        choices=TRANSFERS[:2],  # those that hold no device,
    )


@click.command(cls=setting_options.GroupedCommand)
@click.argument("files", nargs=-1, required=True, metavar="FILE...", type=click.Path())
@click.argument("cluster", shell_complete=setting_options.complete("topologies"))
@setting_options.options(ImportedProgram, "how", group="reading")
@setting_options.options(Simulation, "simulation", fields=("engine",))
@setting_options.options(TimelineOutputs, "outputs", without=("critical", "memory_plot"))
@setting_options.options(TableOutputs, "tables")
@click.option("--verify", is_flag=True, help="Check the timeline from scratch against the rules of the simulation.")
@options.as_json
def run(
    files: tuple[str, ...],
    cluster: str,
    *,
    how: ImportedProgram,
    simulation: Simulation,
    outputs: TimelineOutputs,
    tables: TableOutputs,
    verify: bool,
    as_json: bool,
) -> None:
    """Simulate the run that execution traces describe, on a cluster: rank n on device n.

    Computation takes as long as was recorded; sends, receives and collectives take what the cluster's links take.

    \b
    Examples:
      pipesim run run.0.et run.1.et 'flat(2, bandwidth="10Gb/s")'
      pipesim run run.*.et 'servers(2, 4, intra="25GB/s", inter="10Gb/s")' --gantt run.png
      pipesim run run.*.et dgx1_v100 --format 'chakra(device="v100-16gb", groups="groups.json")' --json
    """
    from pipesim.analysis import metrics
    from pipesim.display import text
    from pipesim.studies import loading

    tables.check(as_json=as_json)
    outputs.check()
    quiet = as_json or tables.is_alone
    with options.busy("reading", quiet=quiet):
        program = _program([Path(file) for file in files], loading.load_cluster(cluster), how)
    timeline = options.run(program, simulation.engine, quiet=quiet)
    if verify:
        timeline.verify()
    summary = metrics.summary(timeline)
    for device in summary["devices"].values():  # a node does not name its microbatch
        device["peak_in_flight"] = None
    checked = ["verified: the timeline obeys every rule of the simulation"] if verify else []
    shown = ShownItem(
        lambda: "\n\n".join([text.imported_run(summary), *checked]), lambda: summary,
        lambda: text.imported_devices(summary),
    )  # fmt: skip
    tables.show(shown, as_json=as_json)
    outputs.write(timeline, quiet=quiet)


def _program(paths: list[Path], cluster: "Cluster", how: ImportedProgram) -> "Program":
    """The program in the files, as --format reads it."""
    from pipesim.base import lookup
    from pipesim.core.program import Program
    from pipesim.importers import PROGRAMS

    function = lookup.resolve(how.form, PROGRAMS, "format")
    for name in ("sharing", "transfers"):
        if isinstance(function, functools.partial) and name in function.keywords:
            raise InputError(f"{name} is given with --{name}, not in the brackets of the format")
    if how.form.partition("(")[0].strip() in PROGRAMS:
        return function(paths, cluster, sharing=how.sharing, transfers=how.transfers)  # type: ignore[no-any-return]
    with lookup.calling(how.form, "format"):
        lookup.check_takes(function, "paths, cluster, sharing=, transfers=")
        made = function(paths, cluster, sharing=how.sharing, transfers=how.transfers)
        if not isinstance(made, Program):
            raise InputError(f"returned a {type(made).__name__}; a Program was expected")
    return made
