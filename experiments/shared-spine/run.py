"""Two pipelines whose messages cross one spine: python experiments/shared-spine/run.py."""

import csv
from pathlib import Path

import pipesim as ps
from pipesim.display import figures
from pipesim.display.figures import TaskGroups
from pipesim.studies.jobs import JobsResult

HERE = Path(__file__).parent
MARKS = ("<!-- tables: begin -->", "<!-- tables: end -->")
UPLINKS = (5, 10, 20, 40)  # Gb/s
SCHEDULES = ("gpipe", "one_f_one_b", "interleaved", "zb_v")
OFFSETS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5)  # of an iteration alone
ITERATIONS = 12
# GPU 0 to 3 are on one leaf, 4 to 7 on the other: a pipeline of two stages on each leaf crosses the spine once.
SPREAD = (("gpu[0145]",), ("gpu[2367]",))
PACKED = (("gpu[0-3]",), ("gpu[4-7]",))
COLUMNS = (
    "devices",
    "uplink_gbps",
    "first",
    "second",
    "offset",
    "alone_s",
    "slowdown_first",
    "slowdown_second",
    "load",
)


def simulated(
    uplink: float, schedules: tuple[str, str], offset: float = 0.0, devices: tuple[tuple[str, ...], ...] = SPREAD
) -> JobsResult:
    """BERT-large twice, the second pipeline later by a part of an iteration."""
    cluster = f'leaf_spine(2, 1, 4, "100Gb/s", "{uplink}Gb/s")'
    simulations = [ps.Simulation("bert-large", scheduler=schedule, microbatches=8) for schedule in schedules]
    first = ps.simulate_jobs([ps.Job(simulations[0], devices[0])], cluster, iterations=1).jobs[0]
    jobs = [ps.Job(simulations[0], devices[0]), ps.Job(simulations[1], devices[1], start=offset * first.alone_s)]
    return ps.simulate_jobs(jobs, cluster, iterations=ITERATIONS)


def row(
    uplink: float, schedules: tuple[str, str], offset: float = 0.0, devices: tuple[tuple[str, ...], ...] = SPREAD
) -> dict[str, str]:
    """What both take, and the mean load of the spine's busier direction."""
    result = simulated(uplink, schedules, offset, devices)
    timeline = result.timeline
    spine = [medium for medium, name in enumerate(timeline.program.media) if "spine" in name]
    most = max(timeline.moved[medium] / timeline.program.capacity[medium] for medium in spine)
    values = (
        "spread" if devices == SPREAD else "packed",
        uplink,
        *schedules,
        offset,
        result.jobs[0].alone_s,
        result.jobs[0].slowdown,
        result.jobs[1].slowdown,
        most / timeline.makespan,
    )
    return dict(zip(COLUMNS, (value if isinstance(value, str) else f"{value:.9g}" for value in values), strict=True))


def cases() -> list[tuple[object, ...]]:
    """Every schedule beside itself for each uplink, packed once, 1F1B at offsets, and beside each other schedule."""
    found: list[tuple[object, ...]] = [(uplink, (name, name)) for name in SCHEDULES for uplink in UPLINKS]
    found += [(UPLINKS[0], (name, name), 0.0, PACKED) for name in SCHEDULES]
    found += [(UPLINKS[1], ("one_f_one_b", "one_f_one_b"), offset) for offset in OFFSETS[1:]]
    found += [(UPLINKS[1], ("one_f_one_b", name)) for name in SCHEDULES if name != "one_f_one_b"]
    return found


def markdown(headers: list[str], rows: list[list[str]]) -> str:
    """A table."""
    return "\n".join(f"| {' | '.join(line)} |" for line in [headers, ["---"] * len(headers), *rows])


def slower(value: str) -> str:
    """A slowdown as people write it."""
    return f"{100 * (float(value) - 1):.1f} %"


def tables(rows: list[dict[str, str]]) -> str:
    """The tables of README.md."""
    alike = {
        (found["first"], found["uplink_gbps"]): found
        for found in rows
        if found["first"] == found["second"] and found["offset"] == "0" and found["devices"] == "spread"
    }
    first = [[name, *(slower(alike[name, str(uplink)]["slowdown_first"]) for uplink in UPLINKS)] for name in SCHEDULES]
    load = [["load of the spine, 1F1B", *(f"{float(alike['one_f_one_b', str(u)]['load']):.0%}" for u in UPLINKS)]]
    chosen = [found for found in rows if found["uplink_gbps"] == str(UPLINKS[1]) and found["first"] == "one_f_one_b"]
    offsets = [
        [f"{float(found['offset']):.1f}", slower(found["slowdown_first"]), slower(found["slowdown_second"])]
        for found in chosen
        if found["second"] == "one_f_one_b"
    ]
    others = [
        [found["second"], slower(found["slowdown_first"]), slower(found["slowdown_second"])]
        for found in chosen
        if found["offset"] == "0"
    ]
    return "\n\n".join(
        [
            markdown(["both pipelines", *(f"{uplink} Gb/s" for uplink in UPLINKS)], first + load),
            markdown(["second starts later by, iterations", "first slower by", "second slower by"], offsets),
            markdown(["1F1B beside", "1F1B slower by", "the other slower by"], others),
        ]
    )


def main() -> None:
    """Compute everything again: rows, tables, figure."""
    rows = [row(*case) for case in cases()]  # type: ignore[arg-type]  # the arguments of `row`
    with (HERE / "expected.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    shown = simulated(UPLINKS[1], ("one_f_one_b", "one_f_one_b"))
    figures.link_load(shown.timeline, HERE / "load.png", groups=TaskGroups(shown.merged.job, ("first", "second")))
    page = HERE / "README.md"
    text = page.read_text(encoding="utf-8")
    before, rest = text.split(MARKS[0])
    after = rest.split(MARKS[1])[1]
    page.write_text(f"{before}{MARKS[0]}\n\n{tables(rows)}\n\n{MARKS[1]}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
