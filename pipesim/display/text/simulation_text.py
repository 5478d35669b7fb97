"""Results of simulations as text: the iteration, its devices, its busiest links."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from pipesim.core.devices import TFLOPS
from pipesim.core.plan_layout import PlanLayout
from pipesim.display.text.columns import TextColumn, TextTable, shown
from pipesim.display.text.formatting import facts, no_layout_faster, percent, seconds, shortened, size, table
from pipesim.display.text.scaling_text import under_other_scaling
from pipesim.display.text.terminal import PLAIN, Terminal

# The path of the last microbatch follows the last need of each task; the time of other tasks on its device is waiting.
_CATEGORIES = {
    "waiting_for_lane": "waiting while the device does other tasks",
    "waiting_for_link": "waiting while links carry other transfers",
}


def asked(data: Mapping[str, Any], on: Terminal = PLAIN) -> str:
    """What was asked for beside the iteration, and what was assumed: tokens, bounds, scaling, split backwards."""
    found = [*_training(data), *_bounds(data), *under_other_scaling(data), *_assumed_split(data)]
    return facts(found, on) if found else ""


def simulation(data: Mapping[str, Any], most: int = 16, on: Terminal = PLAIN) -> str:
    """An iteration in detail, its devices and its busiest links; `data` is that of `SimulationResult.as_data`."""
    how = f"sharing {data['sharing']}, {data['transfers']} transfers, {data['engine']} engine"
    head = [
        ("global batch", _batch(data)),
        ("all GPUs", _throughput(data)),
        *_compute(data),
        ("simulated", f"{data['tasks']:,} tasks, {how}"),
    ]
    return "\n\n".join([facts(head, on), *_paths(data, on), _devices(data, most, on), *_links(data["links"], on=on)])


def _paths(data: Mapping[str, Any], on: Terminal) -> list[str]:
    """What the iteration is spent on: along the critical path, and along the needs of what ends last."""
    total = data["iteration_time_s"] or 1.0
    path, needs = data["critical_path"], data["last_microbatch_path_s"]
    rows = [
        [name.replace("_", " "), seconds(s), percent(s / total), _most(path["held_by"], name, s)]
        for name, s in path["spent_s"].items()
        if s
    ]
    spent = [(_CATEGORIES.get(name, name.replace("_", " ")), s) for name, s in needs.items() if s]
    return [
        table(["critical path", "seconds", "share", "most of it on"], rows, on=on),
        table(
            ["path of the last microbatch", "seconds", "share"],
            [[n, seconds(s), percent(s / total)] for n, s in spent],
            on=on,
        ),
    ]


def _most(held: Sequence[Mapping[str, Any]], cause: str, total: float) -> str:
    """The device or link that a cause holds most, and its part of the cause."""
    first = next(row for row in held if row["cause"] == cause)
    return f"{shortened(first['where'])}, {percent(first['seconds'] / total)}"


def _batch(data: Mapping[str, Any]) -> str:
    """Samples of an iteration, and tokens where they are known."""
    samples, tokens_per_s = data["global_batch"], data["tokens_per_s"]
    tokens = "" if tokens_per_s is None else f", {tokens_per_s * data['iteration_time_s']:,.0f} tokens"
    return f"{samples:,} samples{tokens}"


def _throughput(data: Mapping[str, Any]) -> str:
    tokens = [] if data["tokens_per_s"] is None else [f"{data['tokens_per_s']:,.0f} tokens/s"]
    return ", ".join([f"{data['gpus']} in {_layout(data['layout'])}", *tokens])


def _layout(sizes: Mapping[str, int | None]) -> str:
    return str(PlanLayout(**sizes))  # type: ignore[arg-type]  # it has been made from one


def _compute(data: Mapping[str, Any]) -> list[tuple[str, str]]:
    """FLOP/s of each GPU, and HFU where recomputation makes a difference; what is not known is left out."""
    found = []
    if data["flops_per_s_per_gpu"] is not None:
        found.append(f"{data['flops_per_s_per_gpu'] / TFLOPS:.1f} TFLOP/s/GPU")
    if data["hfu"] is not None and data["hfu"] != data["mfu"]:
        found.append(f"HFU {percent(data['hfu'])}")
    return [("compute", ", ".join(found))] if found else []


def _training(data: Mapping[str, Any]) -> list[tuple[str, str]]:
    """How long the tokens of --tokens take."""
    whole = data["training"]
    if whole is None or whole["days"] is None:
        return []
    return [("training", f"{_tokens(whole['tokens'])}: {whole['days']:,.1f} days, {whole['gpu_hours']:,.0f} GPU-hours")]


def _tokens(count: float) -> str:
    """Tokens as people write them: 300B, 15T."""
    units = ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "K"))
    scale, letter = next(((scale, letter) for scale, letter in units if count >= scale), (1.0, ""))
    return f"{count / scale:g}{letter} tokens"


def _bounds(data: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The certified bounds and the time without contention, where they were computed (--bound)."""
    if "bound_s" not in data:
        return []
    return [
        ("lower bound", f"{seconds(data['bound_s'])} for any plan of this kind{_schedule_bound(data)}"),
        *([("any layout", no_layout_faster(data["layout_bound_s"]))] if data.get("layout_bound_s") else []),
        ("without contention", f"{seconds(data['channel_time_s'])} (sharing channel)"),
    ]


def _assumed_split(data: Mapping[str, Any]) -> list[tuple[str, str]]:
    share = data["weight_share"]
    if share is None:
        return []
    return [("split backwards", f"assumed: {percent(share)} of each is the weights' gradient (--weight-share)")]


def _schedule_bound(data: Mapping[str, Any]) -> str:
    bound = data["schedule_bound_s"]
    return "" if bound is None else f", {seconds(bound)} for any schedule of this plan"


def _devices(data: Mapping[str, Any], most: int, on: Terminal) -> str:
    """A line for each rank; where it is a team, memory is that of each of its GPUs."""
    columns, records = device_rows(data)
    short = [n for n, one in enumerate(records[:most]) if (one["memory_headroom_bytes"] or 0) < 0]
    return shown(columns, records[:most], on, red=short) + _left_out(data["devices"], most)


def device_rows(data: Mapping[str, Any]) -> TextTable:
    """The ranks of a simulation, as a table."""
    memory = "peak per GPU" if data["gpus"] > len(data["devices"]) else "peak memory"
    columns = (
        TextColumn("device", "device", on_left=True),
        TextColumn("busy", "busy_share", percent),
        TextColumn("exposed comm.", "exposed_communication_s", seconds),
        TextColumn("exposed all-reduce", "exposed_all_reduce_s", seconds),
        TextColumn("in flight", "peak_in_flight", drop=2),
        TextColumn(memory, "peak_memory_bytes", size, drop=1),
        TextColumn("headroom", "memory_headroom_bytes", size),
    )
    return TextTable(columns, _named(data["devices"]))


def _named(devices: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [{"device": name, **device} for name, device in devices.items()]


def slack(data: Mapping[str, Any], most: int = 16) -> str:
    """By how much tasks may end later, by device; `data` is that of `critical_path.slack_data`."""
    rows = [
        [name, seconds(x["least_s"]), seconds(x["median_s"]), f"{x['without']} of {x['tasks']}"]
        for name, x in list(data["devices"].items())[:most]
    ]
    return table(["slack of tasks on", "least", "median", "without any"], rows) + _left_out(data["devices"], most)


def _links(links: Mapping[str, Mapping[str, float]], most: int = 5, on: Terminal = PLAIN) -> list[str]:
    busiest = sorted(links.items(), key=lambda item: (-item[1]["busy_share"], item[0]))[:most]
    rows = [[name, size(x["bytes"]), percent(x["busy_share"]), percent(x["load_share"])] for name, x in busiest]
    return [table(["busiest links", "carried", "busy", "of capacity"], rows, on=on)] if rows else []


def statistics(data: Mapping[str, Any]) -> str:
    """Many iterations with varying times; `data` is the replay of `SimulationResult.as_data`."""
    return facts(
        [
            ("iterations", f"{data['iterations']:.0f}{_drawn(data)}"),
            ("mean", f"{seconds(data['mean_s'])} ({seconds(data['ci95_low_s'])} to {seconds(data['ci95_high_s'])})"),
            *((name, _percentile(data, name)) for name in ("p50", "p95", "p99")),
            ("least, most", f"{seconds(data['min_s'])}, {seconds(data['max_s'])}"),
        ]
    )


def _percentile(data: Mapping[str, Any], name: str) -> str:
    """A percentile and its 95 % interval; an end that needs more iterations is open."""
    low, high = data[f"{name}_low_s"], data[f"{name}_high_s"]
    ends = f"{'...' if low is None else seconds(low)} to {'...' if high is None else seconds(high)}"
    return f"{seconds(data[f'{name}_s'])} ({ends})"


def _drawn(data: Mapping[str, Any]) -> str:
    """What tasks share of a draw, and what was found of the samples."""
    if "joint_samples" not in data:
        return ""
    how = "each task apart" if data["draw"] == "independent" else f"one for each {data['draw']}"
    found = data["joint_samples"]
    if found is None:
        return f", draws: {how}"
    shares = f"layers share {percent(found['shared_by_layers'])} of their variance (p = {found['p_of_layers']:.3f})"
    return f", draws: {how}; in the samples {shares}"


def imported_run(summary: Mapping[str, Any], most: int = 16) -> str:
    """A simulated program that was not planned here: no stages, no microbatches, no bounds."""
    head = [
        ("run time", seconds(summary["iteration_time_s"])),
        ("idle", f"{percent(summary['bubble']['idle_share'])} of the devices' time"),
        ("replayed", f"{summary['tasks']:,} tasks, sharing {summary['sharing']}, {summary['transfers']} transfers"),
    ]
    devices = imported_devices(summary).text(most=most) + _left_out(summary["devices"], most)
    return "\n\n".join([facts(head), devices, *_links(summary["links"])])


def imported_devices(summary: Mapping[str, Any]) -> TextTable:
    """The devices of such a program, as a table."""
    columns = (
        TextColumn("device", "device", on_left=True),
        TextColumn("busy", "busy_share", percent),
        TextColumn("exposed transfers", "exposed_communication_s", seconds),
        TextColumn("exposed collectives", "exposed_all_reduce_s", seconds),
    )
    return TextTable(columns, _named(summary["devices"]))


def _left_out(devices: Collection[str], most: int) -> str:
    return f"\n... and {len(devices) - most} more devices" if len(devices) > most else ""
