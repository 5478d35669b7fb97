"""Fingerprints of results, held still while the code is moved: 720 timelines, and --json of what the README shows.

    python tests/fingerprints/check.py            compares with recorded.json
    python tests/fingerprints/check.py --record   writes it

Every command runs through `pipesim.cli.main`. Of a timeline the SHA-256 of its rows is kept, of JSON all values; fields
that are new do not count. To be deleted when the redesign is over.
"""

import contextlib
import hashlib
import io
import json
import multiprocessing
import os
import random
import sys
import tempfile
from pathlib import Path
from typing import Any

from pipesim import load_cluster
from pipesim.cli import main

RECORDED = Path(__file__).with_name("recorded.json")
LITERAL = "spp(bandwidth='nominal')"  # recorded when this was the default
CLOCKS = {"planning_s"}  # fields that are measured and not computed

TRACES = ["bert-large", "gpt2-xl", "gpt3-6.7b", "resnet-152", "vgg-19"]
CPU_TRACES = ["gpt-small-cpu", "vgg-small-cpu"]
CLUSTERS = [
    'flat(4, bandwidth="1GB/s")',
    'flat(2, bandwidth="300MB/s", latency="50us")',
    'servers(2, 2, intra="25GB/s", inter="1GB/s")',
    'servers(2, 4, intra="25GB/s", inter="10Gb/s")',
    "dgx1_v100",
    'ring(4, bandwidth="5GB/s")',
    'torus2d(2, 2, bandwidth="5GB/s")',
    "random(6, bandwidths=[1e9, 4e9, 2e10], seed=3)",
    "leaf_spine(2, 2, 2, '100 Gb/s', '25 Gb/s')",
    "fat_tree(4)",
    'servers(2, 2, intra="5GB/s", inter="1GB/s", latency="20us")',
]
CPU_CLUSTERS = [
    'flat(2, bandwidth="1GB/s", device="cpu", memory="16GiB")',
    'flat(3, bandwidth="200MB/s", latency="1ms", device="cpu", memory="16GiB")',
]
PLANNERS = [
    "uniform",
    "balanced",
    "data_parallel",
    "gpipe",
    "pipedream",
    "dapple",
    "megatron",
    "hetpipe",
    "alpa",
    "annealing",
    "spp",
    "spp_plus",
]
PLANNER_WEIGHTS = [4, 6, 1, 2, 2, 2, 2, 1, 1, 1, 3, 1]
SCHEDULERS = [
    "gpipe",
    "one_f_one_b",
    "eager_1f1b",
    "pe",
    "interleaved",
    "looped_bfs",
    "hanayo",
    "zb_h1",
    "zb_1p",
    "zb_2p",
    "interleaved_zb",
    "zb_v",
    "v_half",
    "v_min",
    "chimera",
    "dualpipe",
    "dualpipe_v",
    "list_schedule",
]
SHARINGS = ["none", "fifo", "fair", "channel"]
TRANSFERS = ["eager", "rendezvous", "blocking"]


def commands(count: int) -> list[list[str]]:
    """Drawn command lines over all sharings, transfers, schedules and most planners."""
    rng = random.Random(2026)
    found = []
    while len(found) < count:
        cpu = rng.random() < 0.15
        trace = rng.choice(CPU_TRACES if cpu else TRACES)
        cluster = rng.choice(CPU_CLUSTERS if cpu else CLUSTERS)
        planner = rng.choices(PLANNERS, PLANNER_WEIGHTS)[0]
        line = [
            "export",
            trace,
            cluster,
            "-p",
            planner,
            "-m",
            str(rng.choice([1, 2, 3, 4, 6, 8, 12])),
            "-s",
            SCHEDULERS[len(found) % len(SCHEDULERS)] if rng.random() < 0.6 else rng.choice(SCHEDULERS[:4]),
            "--sharing",
            SHARINGS[len(found) % 4],
            "--transfers",
            rng.choices(TRANSFERS, [3, 2, 1])[0],
        ]
        if rng.random() < 0.3:
            line += ["--engine", rng.choice(["event", "compiled"])]
        if rng.random() < 0.2:
            line += ["--recompute", rng.choice(["full", "selective"])]
        if rng.random() < 0.2:
            line += ["--optimizer-s-per-byte", "1e-11"]
        if rng.random() < 0.1:
            line += ["--scaling", "linear"]
        if rng.random() < 0.1:
            line += ["--pair-overlap", "0.4"]
        if rng.random() < 0.25:
            line += ["--scenario", "slow.toml"]
        if rng.random() < 0.15 and cluster.startswith("flat"):
            line += ["--background", "background.csv"]
        found.append(line)
    return found


JSON = [
    ["simulate", "bert-large", "dgx1_v100", "--json"],
    ["plan", "bert-large", 'flat(4, bandwidth="1GB/s")', "--planner", "balanced", "--json"],
    ["compare", "gpt2-xl", 'servers(2, 4, intra="25GB/s", inter="10Gb/s")', "--json"],
    [
        "compare",
        "vgg-19",
        'servers(4, 4, intra="25GB/s", inter="25Gb/s")',
        "-p",
        "balanced",
        "-p",
        "dapple",
        "-p",
        "spp",
        "-p",
        "spp_plus",
        "-s",
        "pe",
        "-s",
        "one_f_one_b",
        "--json",
    ],
    ["whatif", "bert-large", 'flat(2, bandwidth="300MB/s")', "--background", "background.csv", "--json"],
    ["schedule", "zb_h1", "--stages", "3", "--microbatches", "5", "--json"],
    ["schedule", "zb_v", "--stages", "4", "--microbatches", "8", "--json"],
    ["show", "bert-large", "--json"],
    ["show", "dgx1_v100", "--json"],
    ["show", "--json"],
    ["diff", "bert-large", "vgg-19", "--json"],
    ["schedules", "--json"],
    [
        "simulate",
        "gpt-small-cpu",
        'flat(2, bandwidth="1GB/s", device="cpu", memory="16GiB")',
        "--iterations",
        "20",
        "--json",
    ],
    [
        "simulate",
        "gpt2-xl",
        'servers(2, 2, intra="25GB/s", inter="1GB/s")',
        "-p",
        "spp",
        "-s",
        "pe",
        "--scenario",
        "slow.toml",
        "--json",
    ],
]


def inputs(folder: Path) -> None:
    """The scenario and the background traffic that commands name."""
    (folder / "slow.toml").write_text(
        'format = "pipesim.scenario"\nversion = 1\n[[slow]]\ndevice = "DEVICE"\nfactor = 1.5\n'
        '[[slow]]\ndevice = "DEVICE"\n'
        'factor = 2.0\nstart = "10ms"\nend = "60ms"\n'
    )
    lines = ["link,time,share"]
    rng = random.Random(7)
    lines += [f"gpu0->switch,{2 * i}ms,{rng.choice([0.1, 0.3, 0.6])}" for i in range(300)]
    (folder / "background.csv").write_text("\n".join(lines) + "\n")


def one(line: list[str]) -> list[Any]:
    """[exit code, digest of the timeline's rows or None], or the values of --json."""
    with tempfile.TemporaryDirectory() as folder:
        here = Path(folder)
        inputs(here)
        call = [part if part not in {"slow.toml", "background.csv"} else str(here / part) for part in line]
        if "slow.toml" in line:
            device = load_cluster(line[2]).devices[1].name
            path = here / "slow.toml"
            path.write_text(path.read_text().replace("DEVICE", device))
        out = here / "timeline.csv"
        if line[0] in {"export", "simulate", "plan", "compare", "whatif"}:
            call += ["--granularity", "layer"]  # recorded when there was no other
        if line[0] in {"export", "simulate", "compare"}:
            call.append("--no-fit")  # recorded when every plan was as its planner made it
        if line[0] == "export":
            call += ["-o", str(out)]
        call = [LITERAL if part == "spp" else part for part in call]
        if line[0] == "simulate":
            call.append("--bound")  # without it, bounds and the time without contention are no longer computed
        text, code = io.StringIO(), 0
        with contextlib.redirect_stdout(text), contextlib.redirect_stderr(io.StringIO()):
            try:
                main(call)
            except SystemExit as stop:
                code = int(stop.code or 0)
        if line[0] != "export":
            return [code, json.loads(text.getvalue().replace(LITERAL, "spp")) if code == 0 else None]
        rows = [row for row in out.read_text().splitlines() if not row.startswith("#")] if out.exists() else None
        return [code, hashlib.sha256("\n".join(rows).encode()).hexdigest() if rows else None]


def record() -> dict[str, list[Any]]:
    """What each command comes to, by how it is written."""
    lines = [*commands(720), *JSON]
    os.environ.pop("PIPESIM_VERIFY", None)
    with multiprocessing.get_context("fork").Pool(2) as pool:
        results = pool.map(one, lines, chunksize=4)
    written = (" ".join(f"'{part}'" if " " in part else part for part in line) for line in lines)
    return dict(zip(written, results, strict=True))


def differences(old: Any, new: Any, where: str = "") -> list[str]:
    """Fields of the recorded values that are gone or have other values."""
    if isinstance(old, dict) and isinstance(new, dict):
        return [
            sentence
            for key in old.keys() - CLOCKS
            for sentence in (
                differences(old[key], new[key], f"{where}.{key}") if key in new else [f"{where}.{key}: gone"]
            )
        ]
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        pairs = enumerate(zip(old, new, strict=True))
        return [sentence for n, (a, b) in pairs for sentence in differences(a, b, f"{where}[{n}]")]
    return [] if old == new else [f"{where}: {str(old)[:80]} became {str(new)[:80]}"]


def without_texts(line: str, result: Any) -> Any:
    """The descriptions of schedulers are documentation: only the names count."""
    if line != "schedules --json" or not result:
        return result
    return sorted(result[1].keys() - {"format", "version"})


def run() -> int:
    """Compare or record; 1 if anything differs."""
    found = record()
    print(f"{len(found)} commands, {sum(result[1] is not None for result in found.values())} with a result")
    if "--record" in sys.argv:
        RECORDED.write_text(json.dumps(found, indent=0, sort_keys=True) + "\n", encoding="utf-8")
        return 0
    wrong = 0
    for line, result in json.loads(RECORDED.read_text(encoding="utf-8")).items():
        for sentence in differences(without_texts(line, result), without_texts(line, found.get(line))):
            wrong += 1
            print(f"{line}\n    {sentence}")
    print(f"{wrong} differences")
    return int(wrong > 0)


if __name__ == "__main__":
    raise SystemExit(run())
