"""Clusters drawn from a seed: where ties, shared wires, one-way links and parallel ways are likely."""

import itertools

from pipesim.core.cluster import Cluster, Device, Link
from pipesim.studies.loading import load_cluster

SHAPES = ("chain", "ring", "star", "bus", "nodes", "spines", "mesh", "any", "segments")
KINDS = ("v100-16gb", "a100-80gb")
MADE = (
    'servers(2, 3, intra="25GB/s", inter="1GB/s", device="a100-80gb")',
    'servers(3, 2, intra="8GB/s", inter="10Gb/s", device="a100-80gb")',
    'fat_tree(2, bandwidth="10Gb/s", device="a100-80gb")',
    'fat_tree(4, bandwidth="8Gb/s", device="a100-80gb")',
    'leaf_spine(2, 2, 3, "10Gb/s", "4Gb/s", device="a100-80gb")',
    'torus2d(2, 3, bandwidth="8Gb/s", device="a100-80gb")',
    "dgx1_v100(1)",
)


def cluster(rng, kinds=KINDS, *, even=False) -> Cluster:
    """Two to seven devices, most of them joined; `even`: all devices and links alike."""
    if rng.random() < 0.08:
        return load_cluster(rng.choice(MADE))
    shape, count = rng.choice(SHAPES), rng.randint(2, 7)
    nodes = rng.choice([1, 2, 3])
    gpus = [Device(f"g{i}", kinds[0] if even else rng.choice(kinds), f"node{i % nodes}") for i in range(count)]
    if not even:
        rng.shuffle(gpus)
    same = _numbers(rng)
    links = []
    for a, b in _ends(shape, [gpu.name for gpu in gpus], rng):
        numbers = same if even or rng.random() < 0.4 else _numbers(rng)
        links += _links(rng, shape, a, b, numbers, same)
    return Cluster(shape, tuple(gpus), tuple(links))


def _numbers(rng) -> dict:
    """Bandwidth in bytes/s (often a power of two per ns), latency, perhaps a table of recorded times."""
    table = (
        ((0.0, 1e-6), (1e3, rng.choice([3e-6, 1.2e-6])), (1e5, rng.choice([2e-4, 1.5e-4, 2e-5])))
        if rng.random() < 0.15
        else ()
    )
    if table and rng.random() < 0.3:
        table = table[1:]  # goes on below its first point
    return {
        "bandwidth": rng.choice([1e9, 2e9, 0.5e9, 3e9, rng.uniform(2e8, 4e9)]),
        "latency": rng.choice([0.0, 0.0, 512e-9, 5e-6, rng.uniform(0, 1e-5)]),
        "table": table,
    }


def _links(rng, shape, a, b, numbers, same) -> list[Link]:  # noqa: PLR0917 - a link and what it is drawn from
    if shape == "bus":
        return [Link(a, b, same["bandwidth"], numbers["latency"], "shared", "wire", same["table"])]
    if shape == "segments" and rng.random() < 0.7:
        return [Link(a, b, same["bandwidth"], numbers["latency"], "shared", rng.choice(["left", "right"]))]
    duplex = rng.choice(["full", "full", "half", "one_way"])
    if duplex != "one_way":
        return [Link(a, b, **numbers, duplex=duplex)]
    back = [] if rng.random() < 0.04 else [Link(b, a, **(numbers | {"bandwidth": same["bandwidth"]}), duplex="one_way")]
    return [Link(a, b, **numbers, duplex="one_way"), *back]


def _ends(shape, names, rng) -> list[tuple[str, str]]:  # noqa: PLR0911 - one return per shape
    """Which vertices are joined."""
    if shape == "ring" and len(names) > 2:
        return list(zip(names, [*names[1:], names[0]], strict=True))
    if shape in {"star", "bus"}:
        return [(name, "hub") for name in names]
    if shape == "nodes":
        nics = rng.choice([1, 2])
        up = [(f"switch{i}", f"nic{i}.{j}") for i in range(2) for j in range(nics)]
        core = [(f"nic{i}.{j}", "core") for i in range(2) for j in range(nics)]
        return [(name, f"switch{i % 2}") for i, name in enumerate(names)] + up + core
    if shape == "spines":
        leaves, spines = 2, rng.randint(1, 4)
        return [(name, f"leaf{i % leaves}") for i, name in enumerate(names)] + [
            (f"leaf{i}", f"spine{j}") for i in range(leaves) for j in range(spines)
        ]
    if shape == "mesh":
        return list(itertools.combinations(names, 2))
    if shape in {"any", "segments"}:
        vertices = [*names, *(f"switch{i}" for i in range(rng.randint(0, 3)))]
        joined = [(rng.choice(vertices[:i]), vertices[i]) for i in range(1, len(vertices))]
        more = rng.sample(list(itertools.combinations(vertices, 2)), min(rng.randint(0, 6), len(vertices) - 1))
        known = {frozenset(ends) for ends in joined}
        return joined + [ends for ends in more if frozenset(ends) not in known]
    return list(itertools.pairwise(names))
