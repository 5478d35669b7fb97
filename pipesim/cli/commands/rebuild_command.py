"""pipesim rebuild."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pipesim.base.errors import InputError
from pipesim.base.settings import setting
from pipesim.cli import options, setting_options
from pipesim.cli.commands import recorded_runs
from pipesim.cli.commands.recorded_runs import RunReading
from pipesim.cli.commands.run_questions import RunQuestions
from pipesim.cli.table_outputs import ShownItem, TableOutputs
from pipesim.studies.simulation import Simulation, with_defaults

if TYPE_CHECKING:
    from pipesim.core.recording import Clocks, Recording
    from pipesim.importers.kineto.pipelined import Profiled
    from pipesim.studies.rebuilding import Rebuilt

# Options that have an effect for one sort of files only.
_OF_PROFILES = (
    "actions", "number", "iteration_name", "layers", "depth", "microbatch_size", "cluster", "sharing", "transfers",
    "save_plan", "save_cluster",
)  # fmt: skip
_OF_RUNS = ("columns", "run_name", "dp", "tp", "step", "ledger", "stragglers", "iterations", "draw", "seed")
FEW = 16  # ranks; above, Gantt charts in text say little


@dataclass(frozen=True, slots=True)
class Reading:
    """How the recording is read from files, and the cluster that it is simulated on."""

    actions: str | None = setting(
        None, str, "Regular expression for ranges that are actions: groups stage, kind, microbatch."
    )
    number: int | None = setting(
        None, int, "Which iteration, from 0; default: that of median length.", flag="--iteration"
    )
    iteration_name: str | None = setting(
        None, str, "Regular expression for ranges that are iterations; default: ProfilerStep#1."
    )
    clocks: str = setting(
        "auto",
        str,
        "Whether to set the clocks of ranks by which waited for which: if they are impossible, never, always.",
        choices=("auto", "recorded", "aligned"),
    )
    layers: str = setting("stages", str, "Layers of TRACE: stages, ranges, modules, ...")
    depth: int | None = setting(None, int, "Open so many levels of nested ranges or modules.")
    microbatch_size: int = setting(1, int, "Samples in a microbatch.")
    cluster: str | None = setting(
        None, str, "Simulate on this cluster; default: links inferred from the recording.", group="network"
    )

    def read(self, paths: Sequence[Path]) -> "Profiled":
        """What the profiles of all ranks hold."""
        from pipesim.importers.kineto.layer_ranges import ITERATION
        from pipesim.importers.kineto.pipelined import profiled

        return profiled(
            paths[0] if len(paths) == 1 else paths,
            actions=self.actions,
            layers=self.layers,
            depth=self.depth,
            iteration=self.iteration_name or ITERATION,
        )

    def recording(self, found: "Profiled") -> "Recording":
        """The iteration that is rebuilt."""
        from pipesim.importers.kineto.stages import TimedFor

        clocks: Clocks = self.clocks  # type: ignore[assignment]  # checked by click
        return found.recording(self.number, clocks, TimedFor(self.microbatch_size))


@dataclass(frozen=True, slots=True)
class Saved:
    """What is drawn and saved of a rebuilt run."""

    gantt: str | None = setting(None, str, "Draw recorded above simulated to this .png, .svg or .pdf.", is_file=True)
    html: str | None = setting(None, str, "Write an interactive page, one .html file for any browser.", is_file=True)
    output: str | None = setting(
        None, str, "Save the times of the layers as a trace, to plan with.", short="o", is_file=True
    )
    save_plan: str | None = setting(None, str, "Save the plan that was run (.json, .toml).", is_file=True)
    save_schedule: str | None = setting(None, str, "Save the schedule that was run (.csv, .json, .toml).", is_file=True)
    save_cluster: str | None = setting(
        None, str, "Save the ranks and the links between them (.toml, .json).", is_file=True
    )
    save_run: str | None = setting(
        None, str, "Save a recorded run as a table of operations (.csv, .parquet).", is_file=True
    )
    force: bool = setting(False, bool, "Replace the folder of --output if it exists; files are always replaced.")

    def check(self) -> None:
        """Refuse names that nothing can be written to, before anything is read."""
        recorded_runs.check_table(self.save_run)
        options.check_outputs(pictures=[self.gantt], pages=[self.html])
        for path, known in (
            (self.save_plan, (".json", ".toml")),
            (self.save_schedule, (".csv", ".json", ".toml")),
            (self.save_cluster, (".toml", ".json")),
        ):
            if path and Path(path).suffix not in known:
                raise InputError(f"{path}: cannot be written; a file name ending in {', '.join(known)} was expected")
        if self.output:
            options.check_free(self.output, force=self.force)

    def write(self, made: "Rebuilt", *, quiet: bool) -> None:
        """The files that were asked for."""
        from pipesim.base import serialisation

        if self.output:
            made.recording.trace.save(self.output)
            options.wrote(self.output, "trace", quiet=quiet)
        for path, value, what in (
            (self.save_plan, made.plan, "plan"),
            (self.save_cluster, made.cluster, "cluster"),
        ):
            if path:
                serialisation.save(value, Path(path))
                options.wrote(path, what, quiet=quiet)
        if self.save_schedule:
            made.schedule.save(self.save_schedule)
            options.wrote(self.save_schedule, "schedule", quiet=quiet)
        if self.gantt:
            from pipesim.display import figures

            charts = {"recorded": made.recorded, "simulated": made.simulated}
            options.write_file(self.gantt, "Gantt charts", lambda path: figures.gantt_grid(charts, path), quiet=quiet)


@click.command(cls=setting_options.GroupedCommand)
@click.argument("files", nargs=-1, required=True, type=click.Path(), metavar="FILES...")
@setting_options.options(Reading, "reading", group="reading")
@setting_options.options(RunReading, "recorded")
@setting_options.options(RunQuestions, "questions")
@setting_options.options(Simulation, "simulation", fields=("sharing", "transfers", "engine"))
@setting_options.options(Saved, "saved")
@setting_options.options(TableOutputs, "tables")
@options.as_json
def rebuild(
    files: tuple[str, ...],
    *,
    reading: Reading,
    recorded: RunReading,
    questions: RunQuestions,
    simulation: Simulation,
    saved: Saved,
    tables: TableOutputs,
    as_json: bool,
) -> None:
    """Rebuild a recorded run of a pipeline, simulate it, and compare both.

    FILES are a recorded run of many steps: tables of operations (.parquet, .csv; --columns), a folder of dumps of a
    pipeline (pp_rank_0.json, ...), or execution traces of Chakra (run.0.et, ...). Each step is simulated with its own
    durations and dependencies. The trace of --output has a layer for each stage and a sample for each microbatch, to
    simulate other schedules.

    Or they are what PyTorch's profiler wrote on every rank of one pipeline (.json, .json.gz), or a folder of them: one
    iteration is rebuilt as plan, schedule, costs and links. Ranges name what each rank ran: PP:0F3
    (torch.distributed.pipelining), "Forward 3", 0F3, "forward stage 0 microbatch 3", or what --actions matches. Where
    none does, as under PyTorch's Schedule1F1B, actions of one stage per rank are found from operators and messages.

    --sort, --top and the files of a table are about the steps of a recorded run, or the ranks of one iteration.

    \b
    Examples:
      pipesim rebuild operations.parquet --gantt gantt.png
      pipesim rebuild operations.parquet --sort -error --top 5 --csv steps.csv
      pipesim rebuild operations.parquet --ledger --stragglers --iterations 1000
      pipesim rebuild operations.csv --columns columns.toml --json
      pipesim rebuild rank0.json rank1.json --gantt gantt.png
      pipesim rebuild run/ --actions 'st(?P<stage>\\d+) (?P<kind>fwd|bwd) (?P<microbatch>\\d+)'
      pipesim rebuild run/ --layers modules -o recorded-trace
      pipesim plan recorded-trace 'flat(4, bandwidth="25 Gb/s")'
    """
    from pipesim.display import text
    from pipesim.lowering import Options
    from pipesim.studies import loading, rebuilding

    paths = [Path(file) for file in files]
    tables.check(as_json=as_json)
    saved.check()
    quiet = as_json or tables.is_alone
    if recorded.replayed_format(paths):
        options.check_given("for recorded runs of many steps", is_there=False, without=_OF_PROFILES)
        with options.busy("reading", quiet=quiet):
            run = recorded.read(paths, reading.clocks)
        found = questions.answers(run, quiet=quiet)
        recorded_runs.replay(run, simulation.engine, saved, tables, recorded.step, more=found, as_json=as_json)
        if saved.output:
            recorded_runs.save_trace(run, saved.output, quiet=quiet)
        return
    options.check_given("for profiles", is_there=False, without=_OF_RUNS)
    saves_layers = bool(saved.output or saved.save_plan)
    options.check_given("without --output", is_there=saves_layers, without=("layers", "depth", "microbatch_size"))
    options.check_given("with --layers stages", is_there=reading.layers != "stages", without=("depth",))
    on = loading.load_cluster(reading.cluster) if reading.cluster else None
    with options.busy("reading", quiet=quiet):
        profiles = reading.read(paths)
        recording = reading.recording(profiles)
    chosen = with_defaults(simulation)
    lowering = Options(chosen.sharing, chosen.transfers)  # type: ignore[arg-type]  # checked by click
    with options.busy("rebuilding", quiet=quiet):
        made = rebuilding.rebuilt(recording, on, lowering, simulation.engine)
        steps = recorded_runs.run_of(profiles, reading.clocks, needed=bool(saved.save_run))
        data = rebuilding.comparison(made) | recorded_runs.steps_of(steps)
    shown = ShownItem(lambda: _text(data, made), lambda: data, lambda: text.rebuilt_ranks(data))
    tables.show(shown, as_json=as_json)
    saved.write(made, quiet=quiet)
    if saved.save_run and not isinstance(steps, InputError):
        recorded_runs.save(steps, saved.save_run, quiet=quiet)
    if saved.html:
        from pipesim.display import pages

        drawn = {"recorded": made.recorded, "simulated": made.simulated}
        options.write_page(saved.html, lambda: pages.run_page(data, drawn, paths[0].name), quiet=quiet)


def _text(data: "dict[str, Any]", made: "Rebuilt") -> str:
    """The iteration beside its simulation, and both as charts where they are small."""
    from pipesim.display import text

    on = options.terminal()
    charts = {"recorded": made.recorded, "simulated": made.simulated} if len(made.plan.devices) <= FEW else {}
    drawn = [f"{name}\n{text.gantt(timeline, columns=on.width)}" for name, timeline in charts.items()]
    return "\n\n".join([text.rebuilt(data, on), *drawn])
