"""Plans and schedules drawn from a seed: groups, chunks, waves, two directions; orders made at random or by name."""

import itertools

from pipesim.core.plan import Plan, Stage

NAMED = (
    "gpipe", "one_f_one_b", "one_f_one_b", "eager_1f1b", "pe", "interleaved", "looped_bfs", "zb_h1", "zb_2p",
    "interleaved_zb", "interleaved_zb_1p", "zb_v", "v_half", "hanayo", "chimera", "dualpipe", "dualpipe_v",
    "list_schedule",
)  # fmt: skip


def plan(rng, layers: int, devices: list[str]) -> Plan:
    """Stages on disjoint groups of devices; a group may hold several: in a loop, up and down, or both ways."""
    devices = rng.sample(devices, rng.randint(max(1, len(devices) - 2), len(devices)))
    way = rng.choice(["loop", "loop", "wave", "both", "mixed"])
    groups = rng.randint(1, min(len(devices), layers))
    if way == "both":
        groups = min(groups, len(devices) // 2, layers // 2)
        if groups >= 1:
            return _both_ways(rng, layers, devices[: 2 * groups])
        groups = 1
    ends = [0, *sorted(rng.sample(range(1, len(devices)), groups - 1)), len(devices)]
    held = [devices[a:b] for a, b in itertools.pairwise(ends)]
    stages = min(layers, groups * rng.choice([1, 1, 1, 2, 3]))
    lanes = [_lane(rng, way, n, groups) for n in range(stages)]
    rows = [rng.sample(held[lane], len(held[lane])) if way == "mixed" else held[lane] for lane in lanes]
    return _plan(rng, layers, rows, rng.choice(["split", "whole"]))


def _lane(rng, way: str, n: int, groups: int) -> int:
    chunk, place = divmod(n, groups)
    if way == "mixed" and chunk:
        return rng.randrange(groups)
    return groups - 1 - place if way == "wave" and chunk % 2 else place


def _both_ways(rng, layers: int, devices: list[str]) -> Plan:
    """Two copies of a model in opposite directions."""
    return _plan(rng, layers, list(zip(devices, reversed(devices), strict=True)), "whole")


def _plan(rng, layers: int, rows, replicas: str) -> Plan:
    cuts = [0, *sorted(rng.sample(range(1, layers), len(rows) - 1)), layers]
    stages = [Stage(a, b, tuple(row)) for (a, b), row in zip(itertools.pairwise(cuts), rows, strict=True)]
    return Plan("drawn", layers, rng.choice([1, 2, 3, 4, 4, 6]), tuple(stages), replicas)


def holders(made: Plan, n: int, m: int) -> list[str]:
    """The devices of a stage that work on a microbatch."""
    held = made.stages[n].devices
    return list(held) if made.replicas == "split" else [held[m % len(held)]]


def drawn_order(rng, made: Plan, devices: list[str]) -> str:
    """An order in which everything can run, in text form: again and again any action that could come next.

    Some forwards and backwards that stand together are then made one, which may stop everything.
    """
    split = {n for n in range(len(made.stages)) if rng.random() < 0.3}
    left = {
        (kind, n, m, device)
        for n in range(len(made.stages))
        for m in range(made.microbatches)
        for device in holders(made, n, m)
        for kind in ("FIW" if n in split else "FB")
    }
    rows = {device: [] for device in devices}
    keen = rng.choice(["", "", "BIW", "F"])  # what is taken first where there is a choice
    while left:
        free = sorted(action for action in left if not _waits(action, left, made))
        action = rng.choice([action for action in free if action[0] in keen] or free)
        left.remove(action)
        rows[action[-1]].append(action)
    pairs = rng.choice([0] * 9 + [0.3])
    return "\n".join(",".join(_cells(rng, rows[device], pairs)) or "," for device in devices)


def _waits(action, left, made: Plan) -> bool:
    kind, n, m, device = action
    if kind == "W":
        return ("I", n, m, device) in left
    if kind == "F":
        return n > 0 and any(("F", n - 1, m, other) in left for other in holders(made, n - 1, m))
    after = [
        (k, n + 1, m, other) for k in "BI" for other in (holders(made, n + 1, m) if n + 1 < len(made.stages) else [])
    ]
    return ("F", n, m, device) in left or any(name in left for name in after)


def _cells(rng, row, pairs: float) -> list[str]:
    texts, at = [], 0
    while at < len(row):
        text = f"{row[at][1]}{row[at][0]}{row[at][2]}"
        following = row[at + 1] if at + 1 < len(row) else ("", -1, -1)
        if row[at][0] == "F" and following[0] in {"B", "I"} and rng.random() < pairs:
            text = f"({text};{following[1]}{following[0]}{following[2]})OVERLAP_F_B"
            at += 1
        texts.append(text)
        at += 1
    return texts
