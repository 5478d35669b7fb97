"""Small drawn problems: the layout that the search finds, beside the best of all layouts with all cuts, simulated.

python experiments/tuning/brute.py [FIRST] [LAST]      prints a summary and writes brute.csv (default: all 300 cases)

A case has 3 to 5 layers of drawn times and sizes, timed with one and two samples, 2 to 4 devices on a drawn network
with memory that may be short, and 4 to 8 samples. Every layout of the space is simulated with every choice of cuts.
In cases from number 100 on, layers are blocks that can be recomputed one by one, and some clusters have two kinds of
device: every number of recomputed blocks in each stage is simulated, too, and every order of kinds. In cases from
number 200 on, two nodes have devices of a kind each, and layers were timed on one GPU and on teams of two: every choice
of widths for the ranks of a pipeline is simulated, too, with nothing recomputed where they differ.
"""

import csv
import random
import sys
from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations, pairwise, product
from pathlib import Path
from typing import Any

import numpy as np

import pipesim as ps
from pipesim.base.errors import PipesimError
from pipesim.core.cluster import Cluster, Device, Link
from pipesim.core.trace import Trace
from pipesim.studies.simulation import Simulation
from pipesim.studies.sweep.worker import Worker
from pipesim.studies.tuning.layout_prices import Pricing
from pipesim.studies.tuning.search import METRICS, given_fields, prepared
from pipesim.studies.tuning.space import BY_STAGE, EVEN, WAVES, LayoutChoice, Room, Space

HERE = Path(__file__).parent
IN_BLOCKS = 100  # the first case with blocks and kinds
IN_TEAMS = 200  # the first case with teams
SLOWER = 1.7  # the second kind of device


def drawn(seed: int) -> Simulation:
    """A problem: layers, devices, network, samples."""
    rng = random.Random(seed)  # noqa: S311 - draws problems
    if seed >= IN_TEAMS:
        return with_teams(rng, seed)
    devices, rate = rng.randint(2, 4), rng.choice(["0.2 GB/s", "1 GB/s", "10 GB/s"])
    memory = rng.choice(["16 GB", "80 MB"])
    shape = rng.choice(["flat({n}, bandwidth='{r}', memory='{m}')", "ring({n}, '{r}', memory='{m}')"])
    cluster = ps.load_cluster(shape.format(n=devices, r=rate, m=memory))
    if seed < IN_BLOCKS:
        trace = trace_of(rng, seed)
        return Simulation(trace=trace, cluster=cluster, global_batch=rng.choice([4, 6, 8]), granularity="layer")
    trace, batch = trace_of(rng, seed), rng.choice([4, 6, 8])
    return Simulation(trace=in_blocks(trace), cluster=of_two_kinds(cluster, rng), global_batch=batch)


def with_teams(rng: random.Random, seed: int) -> Simulation:
    """Two nodes of two or four devices, of one kind each; layers that teams of two speed up differently."""
    sizes, memory = (rng.choice([2, 4]), rng.choice([2, 4])), rng.choice([16 * 10**9, 8 * 10**7])
    names = [[f"node{node}.gpu{n}" for n in range(size)] for node, size in enumerate(sizes)]
    devices = tuple(
        Device(name, kind, f"node{node}", memory)
        for node, (kind, members) in enumerate(zip(("fast", "slow"), names, strict=True)) for name in members
    )  # fmt: skip
    inside, across = rng.choice([2e9, 1e10]), rng.choice([2e8, 1e9])
    links = [Link(name, f"node{node}", inside) for node, members in enumerate(names) for name in members]
    cluster = Cluster("two-nodes", devices, (*links, Link("node0", "node1", across)))
    trace = trace_of(rng, seed)
    alone = dict(trace.layers) | {"tensor": np.ones(len(trace.layers["layer"]), np.int64)}
    part = np.repeat([rng.uniform(0.5, 1.0) for _ in range(len(alone["layer"]) // 2)], 2)
    wide = alone | {name: alone[name] * part for name in ("forward_s", "backward_s")} | {"tensor": alone["tensor"] * 2}
    wide |= {name: alone[name] // 2 for name in ("stash_bytes", "parameter_bytes")}
    rows = {name: np.concatenate([alone[name], wide[name]]) for name in alone}
    slow = rows | {name: rows[name] * SLOWER for name in ("forward_s", "backward_s")}
    kinds = {"device_kind": np.repeat(np.array(["fast", "slow"], object), len(rows["layer"]))}
    columns = {name: np.concatenate([rows[name], slow[name]]) for name in rows} | kinds
    return Simulation(
        trace=replace(trace, layers=columns), cluster=cluster, global_batch=rng.choice([4, 6, 8]), granularity="layer",
        recompute="none", sharding="none",
    )  # fmt: skip


def in_blocks(trace: Trace) -> Trace:
    """The same layers as blocks, of which each keeps little when it is done again, on two kinds of device."""
    names = np.array([f"block{n}.all" for n in trace.layers["layer"]], object)
    once = dict(trace.layers) | {"name": names, "recompute_s": trace.layers["forward_s"]}
    twice = once | {name: once[name] * SLOWER for name in ("forward_s", "backward_s", "recompute_s")}
    kinds = {"device_kind": np.repeat(np.array(["fast", "slow"], object), len(names))}
    return replace(trace, layers={name: np.concatenate([once[name], twice[name]]) for name in once} | kinds)


def of_two_kinds(cluster: Cluster, rng: random.Random) -> Cluster:
    """Some of the clusters with slow devices among them, which may have less memory."""
    slow = rng.sample(range(len(cluster.devices)), rng.choice([0, 0, 1, 2]) if len(cluster.devices) > 2 else 0)
    less = rng.choice([1.0, 0.7])
    return replace(cluster, devices=tuple(
        replace(one, kind="slow", memory=int(one.memory * less)) if n in slow else replace(one, kind="fast")
        for n, one in enumerate(cluster.devices)
    ))  # fmt: skip


def trace_of(rng: random.Random, seed: int) -> Trace:
    """Layers of drawn times and sizes, for one and two samples."""
    rows: list[dict[str, Any]] = []
    for n in range(rng.randint(3, 5)):
        forward, size = rng.uniform(1e-3, 8e-3), rng.randint(1, 20) * 10**5
        parameters, backward = rng.randint(0, 20) * 10**5, rng.uniform(1.5, 2.5)
        for samples, times in ((1, 1.0), (2, rng.uniform(1.6, 2.0))):
            rows.append({
                "layer": n, "name": f"layer{n}", "microbatch_size": samples, "forward_s": forward * times,
                "backward_s": forward * times * backward, "output_bytes": size * samples,
                "stash_bytes": 5 * size * samples, "parameter_bytes": parameters,
            })  # fmt: skip
    columns = {name: np.array([row[name] for row in rows]) for name in rows[0]}
    return Trace(f"drawn-{seed}", "drawn", 1, columns | {"name": np.array([row["name"] for row in rows], object)})


def every_layout(pricing: Pricing) -> Iterator[LayoutChoice]:
    """All layouts of the space, with all cuts, and where there are teams with all widths of ranks."""
    room = pricing.room(frozenset())
    space = replace(Space.of(pricing.simulation, given_fields(pricing.simulation), fewer=False), cuts=(EVEN,))
    for one in (*space.candidates(room), *in_several_widths(pricing, room)):
        if one.pipeline == 1 or one.scheduler in WAVES:
            yield one
            continue
        for inner in combinations(range(1, room.blocks), one.stages - 1):
            counts = (b - a for a, b in pairwise((0, *inner, room.blocks)))
            yield replace(one, cuts=" ".join(map(str, counts)))


def in_several_widths(pricing: Pricing, room: Room) -> Iterator[LayoutChoice]:
    """All layouts of ranks that differ in width, in both orders of the kinds."""
    if len(pricing.widths) == 1:
        return
    devices = len(pricing.cluster.devices)
    for ranks, samples, kinds in product(range(2, room.blocks + 1), room.sizes, ("", "slow,fast")):
        if room.global_batch % samples:
            continue
        for data in range(1, devices // ranks + 1):
            for widths in product(pricing.widths, repeat=ranks):
                if len(set(widths)) == 1 or (room.global_batch // samples) % data:
                    continue
                text = ";".join(map(str, widths))
                one = LayoutChoice(
                    widths[0], ranks, data, 1, samples, "none", "none", "", EVEN, kinds=kinds, widths=text
                )
                if not has_room(pricing, one):
                    continue
                for scheduler in ("one_f_one_b", "zb_h1"):
                    yield replace(one, scheduler=scheduler)
                for chunks in range(2, room.blocks // ranks + 1):
                    yield replace(one, scheduler="interleaved", interleave=chunks)


def has_room(pricing: Pricing, one: LayoutChoice) -> bool:
    """Whether there are devices for a layout."""
    try:
        return bool(pricing.kinds(one))
    except PipesimError:
        return False


def every_number_redone(pricing: Pricing, one: LayoutChoice) -> Iterator[tuple[int, ...] | None]:
    """All numbers of blocks that the stages of a layout can do again; None where that is not by stage."""
    if one.recompute != BY_STAGE:
        return iter([None])
    return product(*(range(count + 1) for count in pricing.blocks_of(one)))


def best_of_all(pricing: Pricing, worker: Worker) -> tuple[float, int]:
    """Seconds of the fastest layout that fits, and how many layouts there are."""
    found, count = float("inf"), 0
    for one in every_layout(pricing):
        how = "none" if one.recompute == BY_STAGE else one.recompute
        priced = pricing.priced(replace(one, recompute=how))
        for redone in every_number_redone(pricing, one):
            count += 1
            # no simulation is faster than this bound: tests/studies/test_tuning
            if priced is not None and priced.bound < found:
                found = min(found, seconds_of(worker, pricing.point(one, priced.blocks, redone)))
    return found, count


def seconds_of(worker: Worker, point: Simulation) -> float:
    """Simulated seconds; infinite where they are refused or do not fit."""
    try:
        result = worker.result(point)
    except PipesimError:
        return float("inf")
    return float("inf") if result.fits_memory is False else result.iteration_time


def case(seed: int) -> dict[str, Any]:
    """The best time of all layouts and that of the search."""
    simulation = drawn(seed)
    pricing, worker, _ = prepared(simulation, METRICS)
    best, count = best_of_all(pricing, worker)
    try:
        found = ps.tune(simulation)
    except PipesimError:
        return {
            "seed": seed, "layouts": count, "best_s": best, "found_s": float("inf"), "simulated": 0, "one_width_s": "",
        }  # fmt: skip
    of_one = ps.tune(simulation, within="widths == ''").best.iteration_time if seed >= IN_TEAMS else ""
    return {
        "seed": seed, "layouts": count, "best_s": best, "found_s": found.best.iteration_time,
        "simulated": found.counts.simulated, "one_width_s": of_one,
    }  # fmt: skip


def main() -> None:
    """All cases, a summary, and the table."""
    given = [int(text) for text in sys.argv[1:]]
    rows = [case(seed) for seed in range(*(given or [300]))]
    missed = [row for row in rows if row["found_s"] > row["best_s"]]
    sys.stdout.write(f"{len(rows) - len(missed)} of {len(rows)} are the best of all layouts and cuts\n")
    for row in missed:
        sys.stdout.write(f"case {row['seed']}: {100 * (row['found_s'] / row['best_s'] - 1):.2f} % slower\n")
    better = [row["one_width_s"] / row["found_s"] - 1 for row in rows if row["one_width_s"]]
    better = sorted(part for part in better if part > 0)
    sys.stdout.write(f"in {len(better)} a plan of several widths is best: {[f'{part:.1%}' for part in better]}\n")
    if given:
        return
    with (HERE / "brute.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    main()
