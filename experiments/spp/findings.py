"""One sentence for each figure, with its numbers taken from the rows beside it, written into ../README.md."""

import csv
from collections.abc import Callable
from pathlib import Path

import planning as times  # scripts beside this one
from reading import (
    SLOW,
    TIME,
    disturbed,
    ends,
    mean,
    models_table,
    over,
    planning_rows,
    planning_table,
    robustness_table,
    rows_of,
    spoken,
)

from pipesim.base import files
from pipesim.display.figures.chart_kinds import power_law

HERE = Path(__file__).parent
PAGE = HERE.parent / "README.md"
MARKS = ("<!-- findings: begin -->", "<!-- findings: end -->")
OURS = ("SPP", "SPP+")
LITERAL = "SPP (nominal)"  # as SPP is read literally
OWN_NIC = "4 x 4, a NIC per GPU"


def speed_ups(name: str, *axes: str, ours: str = "SPP") -> str:
    """The largest speed-up of ours over any rival and where, and how often ours is the slower of the two."""
    found = {
        method: places for method, places in over(name, *axes, ours=ours).items() if method not in {*OURS, LITERAL}
    }
    most, method, place = max((value, m, p) for m, places in found.items() for p, value in places.items())
    every = [value for places in found.values() for value in places.values()]
    worse = sum(value < 1 for value in every)
    return (
        f"{ours} is at most {100 * (most - 1):.0f} % faster than a rival ({method} at {place}), "
        f"{100 * (mean(every) - 1):.0f} % in the geometric mean, and slower in {worse} of {len(every)} comparisons."
    )


def models() -> str:
    """Every planner on every model."""
    gaps = {row["model"]: float(row["gap_to_bound"]) for row in rows_of("models") if row["method"] == "SPP+"}
    least, most = min(gaps, key=gaps.__getitem__), max(gaps, key=gaps.__getitem__)
    return (
        f"{speed_ups('models', 'model')} Read literally, {speed_ups('models', 'model', ours=LITERAL)} "
        f"{speed_ups('models', 'model', ours='SPP+')} SPP+, which simulates its plans, "
        f"is {100 * gaps[least]:.0f} % ({least}) to {100 * gaps[most]:.0f} % ({most}) above the bound."
    )


def links() -> str:
    """SPP, which shares links, against SPP as it is read literally, and DAPPLE against both."""
    gains, rival = [], {LITERAL: [], "SPP": []}
    for place in sorted({(row["rate"], row["model"]) for row in rows_of("links")}):
        here = [row for row in rows_of("links") if (row["rate"], row["model"]) == place]
        if any(row["fits_memory"] == "0" for row in here):
            continue
        seconds = {row["method"]: float(row[TIME]) for row in here}
        gains.append((seconds[LITERAL] / seconds["SPP"], f"{place[1]} at {place[0]} Gb/s"))
        for method, found in rival.items():
            found.append(seconds["DAPPLE"] / seconds[method])
    (least, worst), (most, best) = min(gains), max(gains)
    literal, shared = (100 * (mean(found) - 1) for found in rival.values())
    return (
        'SPP as it is by default (`bandwidth="shared"`, our extension): RDO, PRM and PE give each pair what it has '
        f"while all pairs of two stages send, and it is {shared:+.0f} % against DAPPLE in the geometric mean. SPP as it"
        ' is read literally (`bandwidth="nominal"`, our reconstruction): each pair has its nominal bandwidth, and it '
        f"is {literal:+.0f} % against DAPPLE. The default is {most:.1f} times as fast as the literal reading at most "
        f"({best}), {mean(gain for gain, _ in gains):.2f} times in the geometric mean, {least:.2f} times at least "
        f"({worst})."
    )


def bandwidth() -> str:
    """Above the bound, at the ends."""
    low, high = ends("bandwidth", "rate", lambda row: float(row[TIME]) / float(row["bound_s"]))
    speed_up = speed_ups("bandwidth", "model", "rate")
    return f"{speed_up} SPP is {low:.2f} times the bound over 1 Gb/s and {high:.2f} times over 400 Gb/s."


def microbatches() -> str:
    """Above the bound, at the ends."""
    low, high = ends("microbatches", "microbatches", lambda row: float(row[TIME]) / float(row["bound_s"]))
    return (
        f"{speed_ups('microbatches', 'model', 'microbatches')} SPP is {low:.2f} times the bound with 1 microbatch and "
        f"{high:.2f} times with 64."
    )


def gpus() -> str:
    """What 16 times the GPUs bring."""
    low, high = ends("gpus", "gpus", lambda row: float(row[TIME]))
    least, most = ends("gpus", "gpus", lambda row: float(row["bound_s"]))
    speed_up = speed_ups("gpus", "model", "gpus")
    return (
        f"{speed_up} From 4 to 64 GPUs SPP becomes {low / high:.1f} times as fast; the bound allows "
        f"{least / most:.1f} times, and perfect scaling would be 16. SPP is {low / least:.2f} times the bound on 4 "
        f"GPUs and {high / most:.2f} times on 64."
    )


def size() -> str:
    """Depth and width."""
    return speed_ups("size", "layers", "hidden")


def heterogeneity() -> str:
    """What uneven bandwidth costs each."""
    spread = {}
    for method in ("SPP", "DAPPLE", "PipeDream", "GPipe"):
        low, high = ends("heterogeneity", "spread", lambda row: float(row[TIME]), chosen=method)
        spread[method] = high / low
    parts = ", ".join(f"{method} {value:.2f}" for method, value in spread.items())
    speed_up = speed_ups("heterogeneity", "spread", "graph")
    even, uneven = ends("heterogeneity", "spread", lambda row: float(row[TIME]) / float(row["bound_s"]))
    return (
        f"{speed_up} A spread of 16 times multiplies the time of an iteration by: {parts}. "
        f"SPP is {even:.2f} times the bound where all links are alike, and {uneven:.2f} times at a spread of 16."
    )


def orders() -> str:
    """What the order of devices matters."""
    rows = rows_of("orders")
    places = {(r["model"], r["spread"], r["graph"]): float(r[TIME]) for r in rows if r["order"] == "RDO"}
    parts = []
    for order in ("hierarchical", "as given", "random"):
        mine = [r for r in rows if r["order"] == order and r["spread"] == "16"]
        ratio = mean(float(r[TIME]) / places[r["model"], r["spread"], r["graph"]] for r in mine)
        parts.append(f"{order} {100 * (ratio - 1):+.0f} %")
    return f"At a spread of 16 times, other orders than RDO's change the time of an iteration by: {', '.join(parts)}."


def partitions() -> str:
    """The same schedule for all."""
    return f"All under 1F1B: {speed_ups('partitions', 'model')}"


def schedules() -> str:
    """PE against the rest."""
    rows = rows_of("schedules")
    base = {row["model"]: float(row[TIME]) for row in rows if row["order"] == "PE"}
    parts = []
    for order in dict.fromkeys(row["order"] for row in rows if row["order"] != "PE"):
        ratio = mean(float(row[TIME]) / base[row["model"]] for row in rows if row["order"] == order)
        parts.append(f"{order} {100 * (ratio - 1):+.0f} %")
    return f"On SPP's own plans, against PE (geometric mean of eight models): {', '.join(parts)}."


def channel() -> str:
    """How wrong the abstract network is."""
    rows = rows_of("channel")
    wrong = {(r["network"], r["model"], r["rate"]): float(r[TIME]) / float(r["channel_time_s"]) for r in rows}
    worst = max(wrong, key=wrong.__getitem__)
    fast = max(v for (_, _, rate), v in wrong.items() if float(rate) >= 100)
    some = max(v for (n, _, rate), v in wrong.items() if n == OWN_NIC and float(rate) == 25)
    shared = max(v for (n, _, rate), v in wrong.items() if n != OWN_NIC and float(rate) == 25)
    parts = [
        f"{mean(v for (n, _, _), v in wrong.items() if n == network):.2f} ({network})"
        for network in dict.fromkeys(r["network"] for r in rows)
    ]
    return (
        f"In the geometric mean the contended network takes {', '.join(parts)} times as long as the abstract one, "
        f"and at most {wrong[worst]:.1f} times ({worst[1]} over {worst[2]} Gb/s, {worst[0]}). So it holds on fast "
        f"networks (from 100 Gb/s on within {100 * (fast - 1):.0f} %), and at 25 Gb/s where each GPU of a server has a "
        f"NIC of its own (within {100 * (some - 1):.0f} %; elsewhere it is up to {100 * (shared - 1):.0f} % off). It "
        "is wrong where networks are slow, most where GPUs share a NIC: it lets all pairs of replicas send at once."
    )


def gap() -> str:
    """Above the certified bound."""
    parts = []
    rows = rows_of("gap")
    for network in dict.fromkeys(row["network"] for row in rows):
        both = [
            mean(
                float(r[TIME]) / float(r["bound_s"]) for r in rows if r["network"] == network and r["method"] == method
            )
            for method in OURS
        ]
        parts.append(f"{both[0]:.2f} and {both[1]:.2f} ({network})")
    return f"SPP and SPP+ are, in the geometric mean of eight models, {', '.join(parts)} times the certified bound."


def theorem() -> str:
    """What is promised, and what happens."""
    rows = rows_of("theorem")
    promised, found = (mean(float(row[name]) for row in rows) for name in ("theorem_over_work", "pe_over_work"))
    worst = max(float(row["pe_over_work"]) for row in rows)
    used = [float(row["pe_over_work"]) / float(row["theorem_over_work"]) for row in rows]
    return (
        f"The theorem allows PE {promised:.2f} times the busiest stage's work in the geometric mean; PE takes "
        f"{found:.2f} times, and never more than {worst:.2f}. That is {100 * min(used):.0f} to "
        f"{100 * max(used):.0f} % of what the theorem allows; the more microbatches there are, the closer the two."
    )


def optimum() -> str:
    """Against all plans on all orders."""
    ratios = [float(row["plan_objective_s"]) / float(row["optimum_s"]) for row in rows_of("optimum")]
    exact = sum(ratio < 1 + 1e-9 for ratio in ratios)
    return (
        f"On four devices SPP finds the optimum of its own abstract pipeline in {exact} of {len(ratios)} cases, and is "
        f"at most {100 * (max(ratios) - 1):.0f} % above it."
    )


def gantts() -> str:
    """One plan, four schedules."""
    with (HERE / "gantts" / "expected.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    parts = ", ".join(
        f"{r['schedule']} {1000 * float(r[TIME]):.0f} ms and {int(r['peak_memory_bytes']) / 2**30:.1f} GiB"
        for r in rows
    )
    return f"One plan of BERT-large, two servers of two GPUs, 8 microbatches: {parts}."


def robustness() -> str:
    """What disturbances cost SPP, and what replanning wins back."""
    parts = []
    for what in SLOW:
        cost, again = disturbed("SPP", what)
        parts.append(
            f"a {what} makes SPP's p95 {cost:.2f} times as long, and replanning wins back {100 * (1 - again):.0f} % "
            "of an iteration"
        )
    rows = rows_of("robustness")
    most = max(rows, key=lambda r: 1 - float(r["replanned_s"]) / float(r[TIME]))
    share = 100 * (1 - float(most["replanned_s"]) / float(most[TIME]))
    return (
        f"With times that vary by 10 %, {'; '.join(parts)}. The most that replanning wins back is {share:.0f} % "
        f"({most['method']} at {most['model']}, {most['disturbance']})."
    )


def planning() -> str:
    """What planning costs."""
    found = planning_rows()
    powers = {by: {m: power_law(*zip(*of[by], strict=True))[0] for m, of in found.items()} for by in times.PANELS}
    parts = []
    for by, slopes in powers.items():
        most = max(slopes, key=slopes.__getitem__)
        ours = ", ".join(f"{slopes[m]:z.1f} ({m})" for m in OURS)
        parts.append(
            f"the number of {by} to the power of {ours}, of all the steepest being {slopes[most]:z.1f} ({most})"
        )
    lasts = "; ".join(
        f"{m} takes {spoken(found[m]['layers'][-1])} layers on 16 GPUs and {spoken(found[m]['GPUs'][-1])} GPUs"
        for m in OURS
    )
    row = times.times()[0]
    return (
        f"Planning time grows with {', and with '.join(parts)}. {lasts}. This is processor time, measured with Python "
        f"{row['python']} on {row['cores']} cores, of which planners use one: unlike all else here, it differs from "
        "run to run. Sizes for which a planner takes more than 10 s are left out, and so is brute force."
    )


# Figures -> what they show, and the function that describes what is found.
FIGURES: dict[str, tuple[str, Callable[[], str]]] = {
    "models/models": ("a. Every planner on eight models, four servers of four V100", models),
    "links/links": ("a. SPP on shared links, and as it is read literally", links),
    "gpus/gpus": ("b. Number of GPUs", gpus),
    "microbatches/microbatches": ("b. Number of microbatches", microbatches),
    "bandwidth/bandwidth": ("b. Bandwidth between servers", bandwidth),
    "heterogeneity/heterogeneity": ("b. Heterogeneous bandwidth, 20 random clusters, 95 % confidence", heterogeneity),
    "size/depth size/width": ("b. Depth and width of a BERT", size),
    "orders/orders": ("c. RDO against other orders of the devices", orders),
    "partitions/partitions": ("c. Partitions under one schedule", partitions),
    "schedules/schedules": ("c. Schedules on one partition", schedules),
    "channel/channel": ("c. The abstract channel against the contended network", channel),
    "gap/gap": ("d. Gap to the certified bound", gap),
    "theorem/theorem": ("d. The theorem against what happens", theorem),
    "optimum/optimum": ("d. The exact optimum on four devices", optimum),
    "planning/planning": ("e. Planning time against layers and GPUs", planning),
    "gantts/gantts": ("f. One plan under four schedules", gantts),
    "robustness/robustness robustness/replanning": ("g. Disturbances, and replanning", robustness),
}


# Experiments -> the table below their sentence.
TABLES: dict[str, Callable[[], str]] = {
    "models": models_table,
    "planning": planning_table,
    "robustness": robustness_table,
}


def page() -> str:
    """Every figure with its sentence."""
    parts = []
    for names, (title, sentence) in FIGURES.items():
        pictures = "\n".join(f"![{name.rpartition('/')[2]}](spp/{name}.png)" for name in names.split())
        folder = names.partition("/")[0]
        rows = f"[rows](spp/{folder}/expected.csv)"
        if folder == "planning":
            rows += ", [times](spp/planning/times.csv)"
        parts.append(f"### {title}\n\n{pictures}\n\n{sentence()} ({rows})")
        if folder in TABLES:
            parts.append(TABLES[folder]())
    return "\n\n".join(parts)


def write() -> None:
    """Put it between the marks of the page."""
    text = PAGE.read_text(encoding="utf-8")
    before, rest = text.split(MARKS[0])
    files.write_text(PAGE, f"{before}{MARKS[0]}\n\n{page()}\n\n{MARKS[1]}{rest.split(MARKS[1])[1]}")
