"""The pages that commands write: results as data, with their timelines."""

from collections.abc import Mapping, Sequence
from typing import Any

from pipesim.analysis import metrics
from pipesim.core.timeline import Simulated, Timeline, timeline_of
from pipesim.display.pages import page_tables as tables
from pipesim.display.pages.page_file import Page, PageTable
from pipesim.display.text.formatting import seconds


def simulation_page(data: Mapping[str, Any], timeline: Timeline) -> Page:
    """One simulation; `data` is that of `SimulationResult.as_data`, with its ledger and bounds where it has them."""
    ledger = [tables.ledger_table(data["ledger"])] if "ledger" in data else []
    return Page(
        title=f"{data['model']} on {data['cluster']}",
        subtitle=f"{data['origin']}; planner {data['planner']}",
        facts=tables.facts(data),
        charts={"simulated": timeline},
        tables=[*ledger, *tables.timeline_tables(data)],
        notes=list(data["notes"]),
        editable=True,
    )


def page_of(simulated: Timeline | Simulated, title: str = "timeline") -> Page:
    """The page of a result of `simulate`, or of a timeline.

    >>> result = ps.simulate("bert-large", 'flat(2, bandwidth="1GB/s")', microbatches=4)
    >>> ps.pages.write(ps.pages.page_of(result), "page.html")
    """
    as_data = getattr(simulated, "as_data", None)
    timeline = timeline_of(simulated)
    if as_data is None or not (data := as_data()).keys() >= {"model", "cluster", "planner", "origin"}:
        return timeline_page(timeline, title)
    return simulation_page(data, timeline)


def timeline_page(timeline: Timeline, title: str = "timeline") -> Page:
    """A timeline alone, as of several jobs or of a program that was not planned here."""
    data = metrics.summary(timeline)
    return Page(title, "", tables.facts(data), {title: timeline}, tables.timeline_tables(data))


def comparison_page(
    rows: Sequence[Mapping[str, Any]], timelines: Mapping[str, Timeline], title: str, origin: str = ""
) -> Page:
    """Several timelines on one time axis, the first of them first; `rows` are those of `ComparisonRow.as_data`.

    Rows need planner, scheduler, iteration_time_s, bubble, peak_memory_bytes and fits_memory, or an error.
    """
    first = next(iter(timelines), "")
    facts = [("shown first", first)] if first else []
    if first:
        facts.append(("iteration", seconds(metrics.iteration_time(timelines[first]))))
    return Page(title, origin, facts, timelines, [tables.comparison_table(rows)])


def jobs_page(data: Mapping[str, Any], timeline: Timeline) -> Page:
    """Several jobs on one cluster; `data` is that of their simulation."""
    summary = metrics.summary(timeline)
    title = f"{', '.join(job['name'] for job in data['jobs'])} on {data['cluster']}"
    found = [tables.jobs_table(data), *tables.timeline_tables(summary)]
    of_all = [fact for fact in tables.facts(summary) if fact[0] in {"tasks", "sharing of links"}]
    facts = [("all jobs end after", seconds(data["end_s"])), *of_all]
    return Page(title, "several jobs, which share links", facts, {"simulated": timeline}, found)


def schedule_page(data: Mapping[str, Any], timeline: Timeline, against: Timeline | None = None) -> Page:
    """A schedule of equal stages, to be edited; `data` is that of `pipesim schedule --json`.

    `against` is the timeline of the other schedule, where `data` has one.
    """
    rows = [[str(rank), line] for rank, line in enumerate(data["table"])]
    facts = [
        ("makespan", seconds(data["makespan"])),
        ("bubble", f"{100 * data['bubble']['idle_share']:.1f} %"),
        ("stages", str(data["stages"])),
        ("microbatches", str(data["microbatches"])),
    ]
    table = PageTable("The schedule", ["rank", "actions"], rows, left=2)
    found = [table, *tables.timeline_tables(metrics.summary(timeline))[:2]]
    charts = {"simulated": timeline}
    if against is not None:
        name, other = data["scheduler"], data["against"]["scheduler"]
        charts = {name: timeline, other if other != name else f"{other} (again)": against}
        facts.append((f"makespan of {other}", seconds(data["against"]["makespan"])))
        found = [tables.differing_table(data), *found]
    return Page(
        title=f"schedule {data['scheduler']}",
        subtitle="equal stages",
        facts=facts,
        charts=charts,
        tables=found,
        editable=True,
        beside=against is not None,
    )


def gains_page(data: Mapping[str, Any], timeline: Timeline, title: str, sentence: str = "") -> Page:
    """What would help most, and the timeline as it is; `data` is that of `pipesim whatif --json`."""
    summary = metrics.summary(timeline)
    return Page(
        title=title,
        subtitle=sentence,
        facts=tables.facts(summary),
        charts={"as it is": timeline},
        tables=[tables.gains_table(data), *tables.timeline_tables(summary)],
    )


def tuning_page(data: Mapping[str, Any], timelines: Mapping[str, Timeline], title: str) -> Page:
    """Layouts by rank, and the timelines of some; `data` is that of `pipesim tune --json`."""
    facts = [("layouts simulated", str(len(data["rows"])))]
    if timelines:
        facts.append(("best", seconds(metrics.iteration_time(next(iter(timelines.values()))))))
    return Page(title, str(data.get("origin", "")), facts, timelines, [tables.tuning_table(data["rows"])],
                list(data.get("notes", ())))  # fmt: skip


def run_page(
    data: Mapping[str, Any], timelines: Mapping[str, Timeline], title: str, more: Mapping[str, Any] | None = None
) -> Page:
    """A recorded run: a step as recorded and, where it was replayed, as simulated; `data` has errors and steps."""
    more = more or {}
    found = [tables.ledger_table(more["ledger"])] if "ledger" in more else []
    found += [tables.gains_table(more["gains"])] if "gains" in more else []
    if data.get("steps") and isinstance(data["steps"], list) and isinstance(data["steps"][0], Mapping):
        rows = [[str(step["step"]), seconds(step["recorded_s"]), seconds(step["simulated_s"]), _signed(step["error"])]
                for step in data["steps"]]  # fmt: skip
        found.append(PageTable("Steps", ["step", "recorded", "simulated", "error"], rows))
    facts = [(name, seconds(metrics.iteration_time(timeline))) for name, timeline in timelines.items()]
    first = next(iter(timelines.values()))
    return Page(title, "", facts, timelines, [*found, *tables.timeline_tables(metrics.summary(first))])


def _signed(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:+.2f} %"
