"""What `pipesim rebuild` and `pipesim show` do with a recorded run of many steps."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pipesim.base.errors import InputError
from pipesim.base.settings import setting
from pipesim.cli import options
from pipesim.cli.commands import run_questions
from pipesim.cli.table_outputs import ShownItem, TableOutputs

if TYPE_CHECKING:
    from pipesim.cli.commands.rebuild_command import Saved
    from pipesim.core.recorded_run import RecordedRun
    from pipesim.importers.kineto.pipelined import Profiled

FEW = 16  # ranks; above, a Gantt chart of all has rows too thin to read
TABLES = (".csv", ".parquet")


@dataclass(frozen=True, slots=True)
class RunReading:
    """How a recorded run is read from tables of operations or dumps of pipelines."""

    columns: str | None = setting(
        None, str, "What the columns of a table of operations hold: a .toml file, or a preset; default: as they look.",
        group="recorded runs", is_file=True,
    )  # fmt: skip
    run_name: str | None = setting(
        None, str, "Which run, where a table has several.", flag="--run", group="recorded runs"
    )
    dp: int | None = setting(
        None, int, "Data-parallel width, where the record has no places of ranks; default: 1.",
        flag="--data-parallel", flags=("--dp",), group="recorded runs",
    )  # fmt: skip
    tp: int | None = setting(
        None, int, "Tensor-parallel width, where all ranks were recorded without their places; default: 1.",
        flag="--tensor-parallel", flags=("--tp",), group="recorded runs",
    )  # fmt: skip
    step: int | None = setting(
        None, int, "The number of the step that is drawn; default: that of median length.", group="recorded runs"
    )

    def format_of(self, paths: Sequence[Path]) -> str | None:
        """The format of the recorded run in these files; None if they hold none."""
        from pipesim.importers.run_opening import run_format

        return "table" if self.columns is not None else run_format(paths[0])

    def replayed_format(self, paths: Sequence[Path]) -> str | None:
        """As `format_of`, also of execution traces, which are traces of layers elsewhere."""
        from pipesim.importers.run_opening import trace_format

        return self.format_of(paths) or trace_format(paths[0])

    def read(self, paths: Sequence[Path], clocks: str = "auto") -> "RecordedRun":
        """The run in these files."""
        from pipesim.importers.operations.operation_columns import RunFacts
        from pipesim.importers.run_opening import open_run

        facts = RunFacts(dp=self.dp, tp=self.tp, clocks=clocks)  # type: ignore[arg-type]  # checked by click
        return open_run(paths, columns=self.columns, run=self.run_name, facts=facts)


def position_of(run: "RecordedRun", step: int | None) -> int:
    """The position of the step of this number; of the one of median length if none is stated."""
    if step is None:
        order = sorted(range(len(run.steps)), key=lambda at: (int(run.step_ns[at]), at))
        return order[(len(order) - 1) // 2]
    if step not in run.steps:
        listed = ", ".join(map(str, run.steps[:8])) + (", ..." if len(run.steps) > 8 else "")
        raise InputError(f"step = {step} found; one of the recorded steps was expected: {listed}")
    return run.steps.index(step)


def check_table(path: str | None) -> None:
    """Refuse the name of a table that cannot be written."""
    if path and Path(path).suffix not in TABLES:
        raise InputError(f"{path}: cannot be written; a file name ending in {' or '.join(TABLES)} was expected")


def replay(
    run: "RecordedRun",
    engine: str,
    saved: "Saved",
    tables: TableOutputs,
    step: int | None,
    *,
    more: Mapping[str, Any],
    as_json: bool,
) -> None:
    """Simulate every step with its own operations, and print both; and `more` that was asked of the run."""
    from pipesim.display import text
    from pipesim.studies import run_replay

    position, quiet = position_of(run, step), as_json or tables.is_alone
    with options.busy("replaying", quiet=quiet):
        made = run_replay.replayed(run, engine)
    data = run_replay.comparison(made) | dict(more)
    shown = ShownItem(
        lambda: "\n\n".join(filter(None, [text.replayed_run(data, options.terminal()), run_questions.shown(more)])),
        lambda: data,
        lambda: text.replayed_steps(data),
    )
    tables.show(shown, as_json=as_json)
    if saved.save_schedule:
        made.order.save(saved.save_schedule)
        options.wrote(saved.save_schedule, "schedule", quiet=quiet)
    if saved.save_run:
        save(run, saved.save_run, quiet=quiet)
    if saved.gantt:
        from pipesim.display import figures

        charts = run_replay.timelines(run, position, engine)
        options.write_file(
            saved.gantt, f"Gantt charts of step {run.steps[position]}",
            lambda path: figures.gantt_grid(charts, path), quiet=quiet,
        )  # fmt: skip
    if saved.html:
        from pipesim.display import pages

        drawn = run_replay.timelines(run, position, engine)
        title = f"{Path(run.source).name}, step {run.steps[position]}"
        options.write_page(saved.html, lambda: pages.run_page(data, drawn, title, more), quiet=quiet)


def save_trace(run: "RecordedRun", folder: str, *, quiet: bool) -> None:
    """Save the times of stages as a trace."""
    from pipesim.analysis.run_trace import trace_of_run

    trace_of_run(run, Path(folder).name).save(folder)
    options.wrote(folder, "trace", quiet=quiet)


def run_of(profiles: "Profiled", clocks: str, *, needed: bool) -> "RecordedRun | InputError":
    """The iterations of profiles of a whole pipeline; of others why there are none, refused where they are needed."""
    from pipesim.importers.operations.operation_columns import RunFacts

    try:
        return profiles.run(RunFacts(clocks=clocks))  # type: ignore[arg-type]  # checked by click
    except InputError as error:
        if needed:
            raise
        return error


def steps_of(run: "RecordedRun | InputError") -> dict[str, Any]:
    """Every iteration simulated with its own operations, or why there are none."""
    from pipesim.studies import run_replay

    if isinstance(run, InputError):
        return {"steps": [], "no_steps": str(run)}
    made = run_replay.comparison(run_replay.replayed(run))
    return {name: made[name] for name in ("steps", "errors", "clock", "missing", "notes")}


def save(run: "RecordedRun", table: str, *, quiet: bool) -> None:
    """Write a run as a table of operations."""
    from pipesim.base import tables
    from pipesim.importers.operations.operation_table import table_of_run

    options.write_file(table, "run", lambda path: tables.write(Path(path), table_of_run(run)), quiet=quiet)


def show(
    run: "RecordedRun", plot: str | None, output: str | None, html: str | None, step: int | None, *, as_json: bool
) -> None:
    """Print what a run is; draw its map, and a step as recorded."""
    from pipesim.analysis import run_summary
    from pipesim.display import text
    from pipesim.studies import run_replay

    position = position_of(run, step)
    data = run_summary.summary(run)
    if as_json:
        options.echo_json(data)
    else:
        click.echo(text.recorded_run(data, options.terminal()))
    if plot or output:
        from pipesim.display import figures

        def gantt(path: str) -> None:
            figures.gantt(run_replay.recorded_timeline(run, position), path)

        options.write_file(plot, "map of ranks and steps", lambda path: figures.run_map(run, path), quiet=as_json)
        options.write_file(output, f"Gantt chart of step {run.steps[position]}", gantt, quiet=as_json)
    if html:
        from pipesim.display import pages

        drawn = {"recorded": run_replay.recorded_timeline(run, position)}
        title = f"{Path(run.source).name}, step {run.steps[position]}"
        options.write_page(html, lambda: pages.run_page(data, drawn, title), quiet=as_json)
