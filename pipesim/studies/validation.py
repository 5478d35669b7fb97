"""How far simulations are from measurements: scores of measured runs by tier, and of a user's own runs.

a    a recorded step, simulated with the durations that its operations had
b    steps that were not recorded, drawn from the first half of a run
c    another schedule, from times that were recorded once
d    another configuration, from data sheets or a profile of layers
e    real processes on one machine, from the times that were recorded there
"""

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pipesim.analysis import scores
from pipesim.base import settings, units
from pipesim.base.errors import InputError, within
from pipesim.core.recorded_run import RecordedRun
from pipesim.display import notebook, text
from pipesim.importers.run_opening import open_run
from pipesim.studies import accuracy, run_replay
from pipesim.studies.measured_runs import TIERS, ShippedRun, Tier, shipped
from pipesim.studies.measured_table import measured_lines, table_text
from pipesim.studies.results import SimulationResult, simulate
from pipesim.studies.run_prediction import RunModel, predicted
from pipesim.studies.simulation import FIELDS, Simulation

if TYPE_CHECKING:
    import pandas as pd

WHAT: dict[Tier, str] = {
    "a": "recorded steps, each simulated with the durations of its own operations, with their launch gaps and without",
    "b": "mean, p50 and p95 of the second half of a run's steps, drawn from its first half",
    "c": "other schedules, simulated from times that were recorded once",
    "d": "other configurations, simulated from data sheets or from a profile of layers",
    "e": "live: real processes on one machine, simulated from the times recorded there",
}
# Errors that others published: of the same rows, but where it is stated otherwise.
PUBLISHED = {
    ("a", "SE, without launch gaps"): "0.5 % (its authors' replay)",
    ("a", "ST, without launch gaps"): "1.9 % (its authors' replay)",
    ("d", "vtrain"): "14.7 % (vTrain, of more rows than these)",
}
_OTHERS = {"simumax": "SimuMax"}  # whose own prediction each row has
FEWEST = 8  # rows of a table that has a rank correlation
HALVES = 8  # steps from which on half of them say something of the other half
DRAWN = 1000
_SAME = 1e-9
_FILES = ("trace", "cluster", "plan", "scheduler", "scenario", "background", "lengths")  # fields that may name files


@dataclass(frozen=True, slots=True)
class Score:
    """How far the rows of a data set are from their simulations; None where it is not defined."""

    tier: Tier
    data_set: str
    rows: int
    mean: float
    median: float
    p90: float
    worst: float
    bias: float
    spearman: tuple[float, ...]
    """Of each table of at least 8 rows."""
    regret: float | None
    """The mean, over choices between configurations, of what the one simulated as the fastest loses."""
    worst_regret: float | None
    choices: int
    published: str = ""


def score(tier: Tier, name: str, runs: Sequence[ShippedRun]) -> Score:
    """The scores of rows that belong together."""
    found = scores.errors(run.error for run in runs)
    if found is None:
        raise InputError(f"{name}: no measured runs found; at least one was expected")
    lost = _regrets(runs)
    correlations = [
        value
        for members in _tables(runs)
        if len(members) >= FEWEST and (value := _correlation(members)) is not None and tier not in "ab"
    ]
    mean, worst = (float(np.mean(lost)), max(lost)) if lost else (None, None)
    return Score(tier, name, **asdict(found), spearman=tuple(correlations), regret=mean, worst_regret=worst,
                 choices=len(lost), published=_published(tier, name, runs))  # fmt: skip


def _regrets(runs: Sequence[ShippedRun]) -> list[float]:
    """Of choices between configurations; a simulated time that differs by rounding alone is no difference."""
    chosen = [run for run in runs if run.choice]
    choices: list[Hashable] = [(run.source, run.choice) for run in chosen]
    simulated = [float(f"{run.simulated_s:.9g}") for run in chosen]
    return scores.regrets(choices, [run.measured_s for run in chosen], simulated)


def _tables(runs: Sequence[ShippedRun]) -> list[list[ShippedRun]]:
    found: dict[str, list[ShippedRun]] = {}
    for run in runs:
        found.setdefault(run.table, []).append(run)
    return list(found.values())


def _correlation(runs: Sequence[ShippedRun]) -> float | None:
    columns = ([getattr(run, name) for run in runs] for name in ("measured_s", "simulated_s", "tolerance"))
    return scores.spearman(*columns)


def _published(tier: Tier, name: str, runs: Sequence[ShippedRun]) -> str:
    """What others have for the same rows."""
    theirs = scores.errors(run.other_s / run.measured_s - 1 for run in runs if run.other_s is not None)
    if theirs is not None:
        return f"{100 * theirs.mean:.1f} % ({_OTHERS.get(runs[0].source, 'its authors')})"
    return PUBLISHED.get((tier, name), "")


@dataclass(frozen=True, slots=True)
class TrustReport:
    """The scores of all data sets, and how many rows of each source are in intervals by the other sources."""

    scores: tuple[Score, ...]
    coverage: tuple[accuracy.Coverage, ...]

    def __repr__(self) -> str:
        rows = sum(one.rows for one in self.scores)
        return f"Report on {rows:,} measured runs in {len(self.scores)} data sets, beside their simulations"

    def _repr_html_(self) -> str:
        return notebook.below(repr(self), notebook.records_table(text.trust_columns(), text.trust_rows(self.as_data())))

    def frame(self) -> "pd.DataFrame":
        """A row for each data set."""
        import pandas as pd  # noqa: PLC0415 - slow to import

        return pd.DataFrame(text.trust_rows(self.as_data()))

    def as_data(self) -> dict[str, Any]:
        """Plain numbers."""
        tiers = [
            {"tier": tier, "what": WHAT[tier], "data": [_plain(one) for one in self.scores if one.tier == tier]}
            for tier in TIERS
        ]
        inside, rows = (sum(getattr(one, name) for one in self.coverage) for name in ("inside", "rows"))
        whole = {"rows": rows, "inside": inside, "nominal": accuracy.MIDDLE}
        return {"tiers": tiers, "intervals": whole | {"sources": [asdict(one) for one in self.coverage]}}


def _plain(one: Score) -> dict[str, Any]:
    return {name: value for name, value in asdict(one).items() if name != "tier"} | {"spearman": list(one.spearman)}


def trust_report(runs: Iterable[ShippedRun] | None = None) -> TrustReport:
    """The report on measured runs; by default on those that come with pipesim.

    >>> report = ps.trust_report()
    >>> [one.data_set for one in report.scores if one.tier == "a"][:3]
    ['SE', 'SE, without launch gaps', 'ST']
    """
    found = tuple(shipped() if runs is None else runs)
    sets: dict[tuple[Tier, str], list[ShippedRun]] = {}
    for run in found:
        sets.setdefault((run.tier, run.data_set), []).append(run)
    sources = list(dict.fromkeys(run.source for run in found))
    order = sorted(sets, key=lambda key: (key[0], sources.index(sets[key][0].source), bool(sets[key][0].group)))
    made = [score(*key, sets[key]) for key in order]
    return TrustReport(tuple(made), tuple(accuracy.coverage(found)))


# --- a user's own runs -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class OwnReport:
    """The scores of a user's runs, row by row, and which of them are in the intervals that results state."""

    source: str
    rows: tuple[ShippedRun, ...]
    scores: tuple[Score, ...]
    inside: int | None = None
    """Of the simulated configurations, how many measured times are in their interval; None where there are none."""
    simulated: int = 0

    def __repr__(self) -> str:
        return f"{len(self.rows):,} measured runs of {self.source} beside their simulations"

    def _repr_html_(self) -> str:
        rows = self.as_data()["rows"]
        table = notebook.records_table(text.own_columns(), rows[: text.FEW])
        return notebook.below(repr(self), table, len(rows) - text.FEW)

    def frame(self) -> "pd.DataFrame":
        """A row for each measured run."""
        import pandas as pd  # noqa: PLC0415 - slow to import

        return pd.DataFrame(self.as_data()["rows"])

    def as_data(self) -> dict[str, Any]:
        """Plain numbers."""
        rows = [
            {"tier": run.tier, "id": run.id, "measured_s": run.measured_s, "simulated_s": run.simulated_s,
             "error": run.error}
            for run in self.rows
        ]  # fmt: skip
        tiers = [
            {"tier": tier, "what": WHAT[tier], "data": [_plain(one) for one in self.scores if one.tier == tier]}
            for tier in TIERS
            if any(one.tier == tier for one in self.scores)
        ]
        counts = None if self.inside is None else {"rows": self.simulated, "inside": self.inside}
        return {"source": self.source, "tiers": tiers, "intervals": counts, "rows": rows}


def validate(runs: Path | str, **fields: Any) -> OwnReport:  # noqa: ANN401 - fields of Simulation
    r"""Your own measured runs beside their simulations.

    `runs` is a recorded run, whose steps are replayed, or a CSV file with a line for each measured iteration: fields of
    a simulation, and `iteration_s`. Keywords are fields of a simulation: the one that is compared with the steps of a
    recorded run, or what lines of the file do not state.

    >>> line = "gpt-small-cpu,8,1.9"
    >>> with open("runs.csv", "w") as file:
    ...     _ = file.write(f"trace,microbatches,iteration_s\n{line}\n")
    >>> report = ps.validate("runs.csv", cluster='flat(2, bandwidth="1GB/s", device="cpu", memory="8GiB")')
    >>> [row.measured_s for row in report.rows]
    [1.9]
    """
    settings.check_names(fields, list(FIELDS), "keyword")
    return validated([Path(runs)], replace(Simulation(), **fields) if fields else None)


def validated(paths: Sequence[Path], base: Simulation | None) -> OwnReport:
    """As `validate`, for files and a simulation that need not be complete."""
    if len(paths) == 1 and (text := table_text(paths[0])) is not None:
        return validate_table(str(paths[0]), text, base or Simulation())
    if base is not None:
        base.check()
    return validate_run(open_run(paths), base)


def validate_run(run: RecordedRun, simulation: Simulation | None = None, engine: str = "auto") -> OwnReport:
    """A recorded run: its steps replayed, the second half from the first, and what `simulation` makes of its steps."""
    rows = [*_replayed(run, engine), *_held_out(run)]
    inside, count = None, 0
    if simulation is not None:
        result = simulate(simulation)
        measured = float(run.step_ns.mean()) / units.NS_PER_S
        rows.append(_simulated("d", run.source, "mean of the steps", measured, result))
        inside, count = int(_is_inside(result, measured)), 1
    return OwnReport(run.source, tuple(rows), _scores(rows), inside, count)


def _replayed(run: RecordedRun, engine: str) -> list[ShippedRun]:
    steps = run_replay.replayed(run, engine).steps
    return [
        _row("a", group, str(step.number), units.to_s(step.recorded), units.to_s(getattr(step, column)))
        for group, column in (("own operations", "simulated"), ("own operations without launch gaps", "without_gaps"))
        for step in steps
    ]


def _held_out(run: RecordedRun) -> list[ShippedRun]:
    """Mean and percentiles of the second half of the steps; none of a run that is too short."""
    first = len(run.steps) // 2
    if len(run.steps) < HALVES:
        return []
    drawn = predicted(RunModel.of(run.of_steps(np.arange(first))), DRAWN, slowest_of=0).seconds
    later = run.step_ns[first:] / units.NS_PER_S
    pairs = [("mean", later.mean(), drawn.mean())]
    pairs += [(f"p{n}", np.percentile(later, n), np.percentile(drawn, n)) for n in (50, 95)]
    return [_row("b", "second half", name, float(one), float(other)) for name, one, other in pairs]


def _row(tier: Tier, group: str, name: str, measured: float, simulated: float) -> ShippedRun:
    return ShippedRun(tier, group, "", name, "", "", "", "", "recorded", 1, 1, 0.0, measured, simulated)


def validate_table(source: str, text: str, base: Simulation, tier: Tier = "d") -> OwnReport:
    """Measured iterations in a table, each simulated; fields that a line does not state are those of `base`.

    Names of files are those of files beside the table, where there are such.
    """
    rows, inside, folder = list[ShippedRun](), 0, Path(source).parent
    with within(source):
        for line in measured_lines(text):
            with within(f"line {line.number}"):
                simulation = replace(base, **{name: _beside(folder, name, line.fields[name]) for name in line.fields})
                simulation.check()
                result = simulate(simulation)
            rows.append(_simulated(tier, "", line.label, line.measured_s, result))
            inside += _is_inside(result, line.measured_s)
        if not rows:
            raise InputError("no measured iterations found; a line for each was expected below the header")
    return OwnReport(source, tuple(rows), _scores(rows), inside, len(rows))


def _beside(folder: Path, name: str, value: Any) -> Any:  # noqa: ANN401 - of the field
    """A value; of the name of a file in this folder its path."""
    is_there = name in _FILES and isinstance(value, str) and (folder / value).exists()
    return str(folder / value) if is_there else value


def _is_inside(result: SimulationResult, measured: float) -> bool:
    found, ratio = result.interval, measured / result.iteration_time
    return found.low * (1 - _SAME) <= ratio <= found.high * (1 + _SAME)


def _simulated(tier: Tier, source: str, name: str, measured: float, result: SimulationResult) -> ShippedRun:
    performance, kind = result.performance, result.interval.kind
    return ShippedRun(
        tier, source or "your runs", "", name, "", f"{performance.gpus} {performance.global_batch}", kind.device,
        kind.framework, result.setup.costs.basis, performance.gpus, result.setup.costs.widths.tensor, 0.0, measured,
        result.iteration_time,
    )  # fmt: skip


def _scores(rows: Sequence[ShippedRun]) -> tuple[Score, ...]:
    sets: dict[tuple[Tier, str], list[ShippedRun]] = {}
    for run in rows:
        sets.setdefault((run.tier, run.data_set), []).append(run)
    return tuple(score(*key, members) for key, members in sets.items())
