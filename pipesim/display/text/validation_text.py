"""How far to trust simulated times, as text and as Markdown; and the interval beside a simulated time."""

from collections.abc import Mapping, Sequence
from typing import Any

from pipesim.display.text.columns import TextColumn, shown
from pipesim.display.text.formatting import facts, percent, seconds, table, wrapped
from pipesim.display.text.terminal import PLAIN, Terminal

Row = Mapping[str, Any]
MOST_LINES = 5  # of a headline
_HEAD = ("data", "rows", "mean", "median", "p90", "worst", "bias", "Spearman", "regret")
_SOURCES = ("source", "rows", "inside", "width, median")
_ABOUT = """
# How far to trust it

This page is what `pipesim validate --markdown` prints: measured runs beside their simulations. None of the rows was
used to choose an option for itself; what was fitted on these sources is stated in
[experiments/validation](../experiments/validation/README.md) and
[experiments/efficiency](../experiments/efficiency/README.md), with the rules of each source, every look at an error,
and what is left of it. Rows of (a) and (b) are from
[experiments/recorded_runs](../experiments/recorded_runs/README.md).

Errors are simulated / measured - 1: mean, median, 90th percentile and worst without sign, bias with it. Spearman's
correlation is that of each table of at least 8 rows. Regret is what is lost by running the configuration that is
simulated as the fastest, among measured configurations that do the same work on the same devices: mean, worst, and of
how many choices. The last column is what the authors of another simulator published for these rows.

For your own runs: `pipesim validate RUN` replays a recorded run and predicts its second half; with TRACE and CLUSTER
it simulates the configuration beside its steps; and `pipesim validate runs.csv` scores a table of measured iterations
(`iteration_s`, and fields of a [simulation](simulation.md)). `pipesim validate --live FOLDER` measures tier (e) on your
machine, while it is quiet.
"""
_INTERVALS = """
## Intervals beside simulated times

`simulate`, of several jobs too, and `compare` state between which times measured runs of the same kind would be,
`plan` between which factors of a simulated time; `--json` has it as `measured_interval`, Python as `result.interval`,
and rows of a sweep as the metrics `measured_low_s` and `measured_high_s`. The interval is the simulated time
multiplied by the middle 90 % of measured / simulated, over the rows of (c), (d) and (e) that are of the same kind.
The kind is: how times were found (recorded; computed with the constants of the device; at a stated speed, such as
that of the bundled traces from data sheets), the device, the framework, teams or single GPUs, and the number of GPUs
within a factor of 4. Of these, the last are dropped one by one until there are 20 rows. Where that drops the device,
or all rows are of one source, the interval is widened by half (of its logarithms), and this is stated.

A user's runs are of no source here, so each source was left out in turn: {shares} of their rows are in the intervals
that all other sources give. The factor of the widening and the part of 90 % were chosen with these shares known;
other values of both gave 83 to 96 %. Sources differ: where many rows of a source are outside, the others of its kind
were too much alike.
"""
_BASIS = {"recorded": "recorded times", "computed": "computed times", "stated": "times at a stated speed"}


def measured_interval(data: Mapping[str, Any]) -> str:
    """The interval of a simulated time in one line; `data` is that of `MeasuredInterval.as_data`."""
    ends = f"{seconds(data['low_s'])} to {seconds(data['high_s'])}" if "low_s" in data else _factors(data)
    return f"{ends} by {measured_runs(data)}"


def measured_runs(data: Mapping[str, Any]) -> str:
    """The measured runs that an interval rests on."""
    kind, shared = data["kind"], data["shared"]
    if "device" not in shared:
        sort = _BASIS[kind["basis"]] if "basis" in shared else "any kind"
        return f"{data['rows']} measured runs of {sort}, widened: fewer than 20 on {kind['device']}"
    of = [kind["device"], _BASIS[kind["basis"]]]
    if "framework" in shared:
        of.insert(1, kind["framework"] or "no framework")
    source = ", widened: all of one source" if data["widened"] else ""
    return f"{data['rows']} measured runs of this kind ({', '.join(of)}){source}"


def _factors(data: Mapping[str, Any]) -> str:
    return f"{data['low']:.2f} to {data['high']:.2f} of the simulated time"


def trust_report(data: Mapping[str, Any], on: Terminal = PLAIN, rows: Sequence[Row] | None = None) -> str:
    """The report on measured runs: a line for each tier, then all; `data` is that of `TrustReport.as_data`.

    `rows` are those of `trust_rows` where a choice of them is shown, as one table.
    """
    head, tiers = facts(_headline(data["tiers"], data["intervals"]), on), data["tiers"]
    if rows is not None:
        return f"{head}\n\n{shown(trust_columns(), rows, on)}"
    return "\n\n".join([head, *_tiers(tiers, on), _coverage(data["intervals"], on)])


def _headline(tiers: Sequence[Row], intervals: Row | None) -> list[tuple[str, str]]:
    """What was measured of each tier, and how many are inside the intervals, in at most five lines."""
    lines = [(f"({one['tier']})", f"{_summary(one['data'])}: {one['what']}") for one in tiers if one["data"]]
    if intervals is not None:
        part = f"{percent(intervals['inside'] / intervals['rows'])} of {intervals['rows']} measured runs are inside"
        lines.append(("intervals", part))
    return lines[:MOST_LINES]


def _summary(sets: Sequence[Row]) -> str:
    """Between which mean errors the data sets of a tier are, and how many rows they have."""
    least, most = (_precise(pick(one["mean"] for one in sets)) for pick in (min, max))
    mean = least if least == most else f"{least} to {most}"
    return f"mean error {mean} in {sum(one['rows'] for one in sets)} rows"


def trust_columns() -> list[TextColumn]:
    """The columns of data sets of measured runs."""
    return [
        TextColumn("tier", "tier", on_left=True),
        TextColumn("data", "data_set", on_left=True),
        TextColumn("rows", "rows"),
        TextColumn("mean", "mean", _precise),
        TextColumn("median", "median", _precise, drop=4),
        TextColumn("p90", "p90", _precise, drop=3),
        TextColumn("worst", "worst", _precise),
        TextColumn("bias", "bias", _signed),
        TextColumn("Spearman", "spearman", _spearman, drop=2),
        TextColumn("regret", "regret", percent, drop=1),
    ]


def trust_rows(data: Mapping[str, Any]) -> list[Row]:
    """The data sets of all tiers, each with the letter of its tier."""
    return [{"tier": tier["tier"], **one} for tier in data["tiers"] for one in tier["data"]]


def own_columns() -> list[TextColumn]:
    """The columns of a user's measured runs."""
    return [
        TextColumn("tier", "tier", on_left=True),
        TextColumn("id", "id", on_left=True),
        TextColumn("measured", "measured_s", seconds),
        TextColumn("simulated", "simulated_s", seconds),
        TextColumn("error", "error", _signed),
    ]


def own_report(data: Mapping[str, Any], most: int = 24, on: Terminal = PLAIN, rows: Sequence[Row] | None = None) -> str:
    """A user's own runs, row by row; `data` is that of `OwnReport.as_data`, `rows` those that are shown."""
    found = data["rows"] if rows is None else rows
    left_out = [f"... and {len(found) - most} more rows (--json has all)"] if len(found) > most else []
    listed = "\n".join([shown(own_columns(), found[:most], on), *left_out])
    head = facts([("measured", data["source"]), *_headline(data["tiers"], data["intervals"])], on)
    parts = [head, *_tiers(data["tiers"], on), listed]
    if data["intervals"] is not None:
        parts.append(
            f"in the interval that results state: {data['intervals']['inside']} of {data['intervals']['rows']}"
        )
    return "\n\n".join(parts)


def _tiers(tiers: Sequence[Mapping[str, Any]], on: Terminal) -> list[str]:
    columns = trust_columns()[1:]
    return [
        "\n".join(
            [
                wrapped(f"({one['tier']}) {one['what']}", on),
                shown(columns, one["data"], on) if one["data"] else "not measured",
                *(f"published for {row['data_set']}: {row['published']}" for row in one["data"] if row["published"]),
            ]
        )
        for one in tiers
    ]


def _rows(sets: Sequence[Mapping[str, Any]], *, published: bool = False) -> list[list[str]]:
    return [
        [
            one["data_set"],
            str(one["rows"]),
            *(_precise(one[name]) for name in ("mean", "median", "p90", "worst")),
            _signed(one["bias"]),
            _spearman(one["spearman"]),
            "-" if one["regret"] is None else f"{_regret(one)} of {one['choices']}",
            *([one["published"] or "-"] if published else []),
        ]
        for one in sets
    ]


def _spearman(found: Sequence[float]) -> str:
    return ", ".join(f"{value:.2f}" for value in found) or "-"


def _regret(one: Mapping[str, Any]) -> str:
    return f"{percent(one['regret'])}, {percent(one['worst_regret'])}"


def _precise(value: float) -> str:
    """A relative error; below 0.1 % with the digits that it has."""
    return f"{100 * value:.4f} %" if 0 < value < 5e-4 else percent(value)


def _signed(value: float) -> str:
    sign = "-" if value < 0 else "+"
    return f"{sign}{_precise(abs(value))}"


def _coverage(data: Mapping[str, Any], on: Terminal) -> str:
    whole = percent(data["inside"] / data["rows"])
    of = f"intervals: of {data['rows']} measured runs of (c), (d) and (e), {whole}"
    head = wrapped(f"{of} are in the interval that all other sources give", on)
    head += f"\n(an interval is the middle {data['nominal']:.0%} of runs of the same kind)"
    return f"{head}\n{table(_SOURCES, _of_sources(data), on=on)}"


def _of_sources(data: Mapping[str, Any]) -> list[list[str]]:
    return [
        [one["source"], str(one["rows"]), percent(one["inside"] / one["rows"]), percent(one["median_width"])]
        for one in data["sources"]
    ]


# --- Markdown --------------------------------------------------------------------------------------------------------


def trust_page(data: Mapping[str, Any]) -> str:
    """The page in docs/; `data` is that of `TrustReport.as_data`."""
    parts = [_ABOUT.strip()]
    for one in data["tiers"]:
        rows = _markdown((*_HEAD, "published"), _rows(one["data"], published=True)) if one["data"] else "Not measured."
        parts += [f"## ({one['tier']}) {one['what'][0].upper()}{one['what'][1:]}", rows]
    intervals = data["intervals"]
    shares = f"{intervals['inside']} of {intervals['rows']} ({percent(intervals['inside'] / intervals['rows'])})"
    parts += [_INTERVALS.format(shares=shares).strip(), _markdown(_SOURCES, _of_sources(intervals))]
    return "\n\n".join(parts) + "\n"


def _markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    ruler = ["---", *["---:"] * (len(head) - 1)]
    return "\n".join(f"| {' | '.join(row)} |" for row in [head, ruler, *rows])
