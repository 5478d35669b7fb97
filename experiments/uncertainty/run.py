"""Plans for what may happen, beside plans for calm: python experiments/uncertainty/run.py."""

import csv
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pipesim as ps
from pipesim.core.scenario import Degraded, Scenario
from pipesim.studies.goodput import Failures, longest_wait
from pipesim.studies.results import SimulationResult
from pipesim.studies.tuning import TuningRow

if TYPE_CHECKING:
    from matplotlib.figure import Figure

HERE = Path(__file__).parent
CLUSTER = 'servers(4, 2, intra="25GB/s", inter="25Gb/s", nics=2)'
SHARED = {"trace": "bert-large", "cluster": CLUSTER, "global_batch": 128, "budget": 24}
COLUMNS = ("case", "x", "choice", "value", "layout")
JITTERS = (0.05, 0.1, 0.2)
FACTORS = (1.1, 1.25, 1.5, 2.0, 3.0)
FRACTIONS = (0.5, 0.25, 0.1, 0.05)
RESTART_S = 600.0
HOURS = (0.1, 0.25, 0.5, 1.0, 2.0, 4.0)
GPUS = (256, 1024, 4096, 16384)
MTBF_H = (25_000, 100_000)
PRICES = (0.0, 0.001, 0.003, 0.01)  # of a GB that leaves a node
GPU_HOUR = 2.5
BAD_LINK = ("node1.nic0", "core")


Found = list[tuple[str, float, str, float, str]]  # as COLUMNS


def named(row: TuningRow) -> str:
    """A layout in short."""
    one = row.candidate
    cuts = "" if row.blocks is None else " " + "-".join(map(str, row.blocks))
    chunks = f" VPP {one.interleave}" if one.interleave > 1 else ""
    return f"PP {one.pipeline}{chunks} DP {one.data} x {one.microbatch_size} {one.scheduler}{cuts}"


def again(row: TuningRow, **changes: object) -> SimulationResult:
    """A layout of a search simulated with something else than was searched."""
    return ps.simulate(replace(row.simulation, **changes))


def varied(calm: TuningRow) -> Found:
    """Times that vary: the 95th percentile of the layout for calm, and of the one that is best by that percentile."""
    found = []
    for jitter in JITTERS:
        drawn = {"jitter": jitter, "iterations": 40, "seed": 1}
        kept = again(calm, **drawn).replay["p95_s"]
        planned = ps.tune(**SHARED, objective="p95", **drawn).best
        found += [("p95", jitter, "planned for calm", kept, named(calm))]
        found += [("p95", jitter, "planned for p95", planned.value, named(planned))]
    return found


def slow_gpu(calm: TuningRow) -> Found:
    """One GPU slower: the same layout, the best one for it, and the best one without it."""
    found: Found = []
    left = ps.tune(**SHARED, lost="node1.gpu0").best
    for factor in FACTORS:
        slow = f"node1.gpu0={factor}"
        planned = ps.tune(**SHARED, slow=slow).best
        found += [("slow GPU", factor, "as it is", again(calm, slow=slow).iteration_time, named(calm))]
        found += [("slow GPU", factor, "planned with it", planned.iteration_time, named(planned))]
        found += [("slow GPU", factor, "planned without it", left.iteration_time, named(left))]
    return found


def degraded_link(calm: TuningRow) -> Found:
    """One NIC slower: the same layout over it, over the other NIC of the node, and the best ones for both."""
    found = []
    lost = ps.tune(**SHARED, lost="--".join(BAD_LINK))
    rerouted = ps.simulate(replace(calm.simulation, cluster=lost.best.simulation.cluster))
    for fraction in FRACTIONS:
        worse = Scenario(degraded=(Degraded(*BAD_LINK, fraction),))
        planned = ps.tune(**SHARED, scenario=worse).best
        best = min((planned.iteration_time, named(planned)), (lost.best.iteration_time, named(lost.best)))
        found += [
            ("degraded link", fraction, "as it is", again(calm, scenario=worse).iteration_time, named(calm)),
            ("degraded link", fraction, "over the other NIC", rerouted.iteration_time, named(calm)),
            ("degraded link", fraction, "planned again", *best),
        ]
    return found


def lost_node(calm: TuningRow) -> Found:
    """A node is gone for so many hours: iterations lost by waiting for it, and by going on without it."""
    rest = ps.tune(**SHARED, lost="node3").best
    whole, fewer = calm.iteration_time, rest.iteration_time
    found: Found = []
    for hours in HOURS:
        down = hours * 3600
        found += [("lost node", hours, "wait", down / whole, named(calm))]
        going = (down + RESTART_S) / whole - max(down - RESTART_S, 0.0) / fewer
        found += [("lost node", hours, "go on without it", going, named(rest))]
    wait = longest_wait(whole, fewer, RESTART_S)
    return [*found, ("lost node", wait / 3600, "as good", wait / whole, "")]


def goodput(_: TuningRow) -> Found:
    """The part of the time that failures leave."""
    return [
        ("goodput", gpus, f"MTBF {hours:,} h", Failures(hours * 3600.0, 600.0, 60.0).goodput(gpus), "")
        for hours in MTBF_H
        for gpus in GPUS
    ]


def money(calm: TuningRow) -> Found:
    """Money for a million tokens, of the fastest layout and of the cheapest one of all GPUs."""
    tokens = 128 * 512 / 1e6
    out = again(calm).setup
    sent = ps.metrics.bytes_out_of_nodes(ps.run(ps.lower(out)), out.cluster) / 1e9
    hours = calm.iteration_time * calm.candidate.gpus * GPU_HOUR / 3600
    found = []
    for price in PRICES:
        best = ps.tune(**SHARED, objective="cost", price=GPU_HOUR, price_out=price, within="gpus == 8").best
        cheapest = best.metrics["cost_per_million_tokens"]
        found += [("money", price, "fastest layout", (hours + price * sent) / tokens, named(calm))]
        found += [("money", price, "cheapest layout", cheapest, named(best))]
    return found


CASES: tuple[Callable[[TuningRow], Found], ...] = (
    varied, slow_gpu, degraded_link, lost_node, goodput, money,
)  # fmt: skip


def rows() -> list[dict[str, str]]:
    """All cases."""
    calm = ps.tune(**SHARED).best
    return as_rows([row for case in CASES for row in case(calm)])


def as_rows(found: Found) -> list[dict[str, str]]:
    """Rows as they are kept."""
    return [
        dict(zip(COLUMNS, (f"{one:.6g}" if isinstance(one, float) else str(one) for one in row), strict=True))
        for row in found
    ]


PANELS = {
    "p95": ("jitter of tasks", "95th percentile (s)", False),
    "slow GPU": ("factor of one GPU's times", "iteration (s)", False),
    "degraded link": ("part of one NIC's bandwidth", "iteration (s)", True),
    "lost node": ("hours until it is back", "iterations lost", True),
    "goodput": ("GPUs", "part of the time", True),
    "money": ("price of a GB out of a node", "per million tokens", False),
}


# Of choices that are equally good, the later is drawn thinner, so that both can be seen.
_LOOKS = (
    {"color": "#0072B2", "marker": "o", "lw": 3.0, "ms": 6.5},
    {"color": "#E69F00", "marker": "s", "lw": 1.8, "ms": 4.0},
    {"color": "#222222", "marker": ".", "lw": 0.7, "ms": 3.0},
)


def draw(found: list[dict[str, str]], path: Path) -> None:
    """A panel for each case, a line for each choice."""
    from pipesim.display.figures import paper  # noqa: PLC0415 - slow to import

    paper.drawn(path, lambda: _panels(found))


def _panels(found: list[dict[str, str]]) -> "Figure":
    from pipesim.display.figures import paper  # noqa: PLC0415 - as above

    figure = paper.sheet(paper.WIDTH, 4.4)
    for axes, (case, (x, y, logarithmic)) in zip(figure.subplots(2, 3).flat, PANELS.items(), strict=True):
        for number, choice in enumerate(dict.fromkeys(row["choice"] for row in found if row["case"] == case)):
            chosen = [row for row in found if row["case"] == case and row["choice"] == choice]
            values = [(float(row["x"]), float(row["value"])) for row in chosen]
            alone = {"ls": "none", "marker": "*", "ms": 6} if choice == "as good" else {}
            axes.plot(*zip(*values, strict=True), **_LOOKS[number] | alone, label=choice)
        if logarithmic:
            axes.set_xscale("log")
            places = sorted({float(row["x"]) for row in found if row["case"] == case and row["choice"] != "as good"})
            axes.set_xticks(places, [f"{place:g}" for place in places])
        axes.set_title(case, loc="left")
        axes.set_xlabel(x)
        axes.set_ylabel(y)
        axes.tick_params(which="minor", labelbottom=False, labelleft=False)
        axes.grid()
        paper.plain(axes)
        axes.legend(fontsize=7)
    return figure


def main() -> None:
    """Rows and figure again."""
    found = rows()
    with (HERE / "expected.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(found)
    draw(found, HERE / "uncertainty.png")


if __name__ == "__main__":
    main()
