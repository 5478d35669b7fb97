"""Files that are wrong: one valid file of each format that pipesim reads, and ways to spoil it.

corpus(folder)          format -> path of a valid file
mutations(data, rng)    (what was done, the spoilt bytes), again and again; the same for the same rng
"""

import gzip
import io
import json
import random
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from helpers import places
from pipesim.base import serialisation
from pipesim.core.cluster import Cluster, Device, Link
from pipesim.core.costs import costs_of
from pipesim.core.plan import Plan, Stage
from pipesim.core.scenario import Degraded, Scenario, Slow
from pipesim.core.schedule import parse
from pipesim.core.trace import Trace
from pipesim.engines.event import run
from pipesim.lowering import Options, Setup, lower

PROFILE = """\
node1 -- Input0 -- forward_compute_time=7.5, backward_compute_time=0.0, activation_size=64.0, parameter_size=0.0
node3 -- Linear(in=4, out=8) -- forward_compute_time=1.5, backward_compute_time=3, activation_size=[64; 32.0], \
parameter_size=128.0 -- stage_id=0
node2 -- ReLU(inplace) -- forward_compute_time=0.5, backward_compute_time=0.25, activation_size=64, parameter_size=0

\tnode1 -- node3
\tnode3 -- node2
"""


MACHINES = """\
format = "pipesim.machines"
version = 1

[[nodes]]
file = "dgx1.txt"
count = 2
nics = ["mlx5_0", "mlx5_3"]

[[nodes]]
text = '''
       GPU0  GPU1  NIC0
 GPU0   X    NV12  PIX
 GPU1  NV12   X    NODE
 NIC0  PIX   NODE   X
'''
device = "a100-80gb"
memory = "40 GiB"

[fabric]
topology = "leaf_spine"
bandwidth = "25 Gb/s"
latency = "3us"
spines = 2
nodes_per_leaf = 1
"""


def corpus(folder: Path) -> dict[str, Path]:
    """Write one valid file of each format; a trace and a timeline stand beside the files that they are read with."""
    trace, cluster, plan = _trace(), _cluster(), _plan()
    schedule = parse("0F0,0F1,0B0,0B1\n0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1")
    scenario = Scenario((Slow("gpu0", 2.0, 0.0, 1e-3),), (Degraded("gpu2", "hub", 0.5),))
    program = lower(Setup(plan, schedule, costs_of(trace), cluster, Options("fifo", "eager", 1e-9), scenario=scenario))
    timeline = run(program)
    trace.save(folder / "csv", ".csv")
    trace.save(folder / "parquet", ".parquet")
    paths = {"trace toml": folder / "csv" / "trace.toml", "profile txt": folder / "profile.txt"}
    for suffix in ("csv", "parquet"):
        paths |= {f"{stem} {suffix}": folder / suffix / f"{stem}.{suffix}" for stem in ("layers", "transfers")}
    paths["profile txt"].write_text(PROFILE)
    paths |= _machines(folder)
    for noun, value in {"cluster": cluster, "plan": plan, "scenario": scenario}.items():
        for suffix in ("toml", "json"):
            paths[f"{noun} {suffix}"] = folder / f"{noun}.{suffix}"
            serialisation.save(value, paths[f"{noun} {suffix}"])
    for noun, value, suffixes in (
        ("schedule", schedule, ("csv", "json", "toml")),
        ("program", program, ("json",)),
        ("timeline", timeline, ("csv", "parquet")),
    ):
        for suffix in suffixes:
            paths[f"{noun} {suffix}"] = folder / f"{noun}.{suffix}"
            value.save(paths[f"{noun} {suffix}"])
    return paths


def _machines(folder: Path) -> dict[str, Path]:
    """A machine's own descriptions, and a file of machines that names one of them."""
    known = places.MACHINES
    paths = {"smi txt": folder / "smi.txt", "nccl xml": folder / "nccl.xml", "machines toml": folder / "machines.toml"}
    text = (known / "hgx_h100.txt").read_text()
    matrix, names = text.partition("\nLegend")[0], text.partition("NIC Legend:")[2]
    paths["smi txt"].write_text(f"{matrix}\nNIC Legend:{names}")
    paths["nccl xml"].write_text((known / "dgx1.xml").read_text())
    paths["machines toml"].write_text(MACHINES)
    (folder / "dgx1.txt").write_text((known / "dgx1.txt").read_text())
    return paths


def _trace() -> Trace:
    layer, sample = np.repeat(np.arange(4), 2), np.tile([0, 1], 4)
    layers = {
        "layer": layer,
        "name": np.array([f"layer {n}, a part" for n in layer], object),
        "sample": sample,
        "forward_s": 1e-3 + 1e-4 * sample,
        "backward_s": 2e-3 + 1e-4 * sample,
        "output_bytes": 1000 + layer,
        "parameter_bytes": 500 * layer,
        "inputs": np.array(["-", "", "", "0;2"], object)[layer],
    }
    transfers = {
        "source": np.array(["gpu0", "gpu1"], object),
        "target": np.array(["gpu1", "gpu2"], object),
        "bytes": np.array([1000, 2000]),
        "seconds": np.array([1e-4, 2e-4]),
    }
    return Trace("small", "made up", 4, layers, transfers, machine="none")


def _cluster() -> Cluster:
    links = (
        Link("gpu0", "hub", 1e9, 1e-6),
        Link("gpu1", "hub", 2e9, 0.0, "half"),
        Link("hub", "gpu2", 1e9, 0.0, table=((0.0, 1e-6), (1e6, 1e-3))),
        Link("gpu0", "gpu1", 1e9, 0.0, "shared", "wire"),
    )
    return Cluster("small", tuple(Device(f"gpu{i}", "v100", "node0", 2**34, 1e14) for i in range(3)), links)


def _plan() -> Plan:
    return Plan("small", 4, 2, (Stage(0, 2, ("gpu0", "gpu1")), Stage(2, 4, ("gpu2",))), "split", "made up", 0.5)


# --- mutations -------------------------------------------------------------------------------------------------------

# What may stand where a number should, or a number where another should.
NUMBERS = (
    *("", "nan", "NaN", "inf", "-Infinity", "-1", "-0.5", "1.5", "1e400", "1e-400", "1e300", "2e18", "1" + "0" * 30),
    *("9223372036854775807", "9223372036854775808", "-9223372036854775808", "9" * 5000, "0x" + "f" * 5000, "1_0", "٣"),
    *("true", "null", "None", "[]", "{}", "[1, 2]", '"3"', "abc", "2024-01-01", '"\\u0000"', '"\\ud800"'),
    *('"1e1000000 GB"', '"-1 ms"', '"5 parsec"', "{a = 0x" + "f" * 5000 + "}"),
)
NAMES = ("nobody", "", " ", "a\x00b", "\u2028", "é" * 3, "x" * 10_000, "a,b", 'a"b', "a b", "1", "=", "[", "#")
VALUES = (None, True, -1, 0.5, 10**30, 1e300, "text", "", [], {}, [None], ["text"], [-1], [10**30], [[1]], {"a": [1]})
FLIPS = 8


def mutations(data: bytes, rng: random.Random) -> Iterator[tuple[str, bytes]]:
    """The data spoilt in many ways: whole, by bytes, and as what they are, text or parquet."""
    yield from _whole(data, rng)
    for _ in range(FLIPS):
        at = rng.randrange(len(data))
        yield f"byte {at} flipped", data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :]
    if data.startswith(b"PAR1"):
        yield from _parquet(data)
        return
    text = data.decode()
    ways = (_lines, _words, _columns, _keys, _cells, _markup)
    for what, spoilt in (*_nested(), *(found for way in ways for found in way(text, rng))):
        yield what, spoilt.encode("utf-8", "surrogatepass")


def _whole(data: bytes, rng: random.Random) -> Iterator[tuple[str, bytes]]:
    yield "empty", b""
    yield "blank", b" \n\n"
    yield "binary", rng.randbytes(300)
    yield "all zeros", bytes(300)
    yield "not UTF-8", data + b"\xff\xfe"
    yield "UTF-16", b"\xff\xfe" + "text".encode("utf-16-le")
    yield "twice", data + data
    yield "behind a byte order mark", b"\xef\xbb\xbf" + data
    for part in (0.05, 0.3, 0.6, 0.9):
        yield f"cut off at {part}", data[: int(len(data) * part)]
    yield "last byte missing", data[:-1]


def _nested() -> Iterator[tuple[str, str]]:
    yield "lists in lists", "[" * 20_000
    yield "tables in tables, JSON", '{"a":' * 20_000
    yield "tables in lists, JSON", '{"a":' + "[" * 900 + "]" * 900 + "}"
    yield "lists in lists, TOML", "x = " + "[" * 20_000
    yield "keys in keys, TOML", ".".join("a" * 3000) + " = 1"


def _lines(text: str, rng: random.Random) -> Iterator[tuple[str, str]]:
    lines = text.split("\n")
    for _ in range(6):
        at = rng.randrange(len(lines))
        yield f"line {at + 1} missing", "\n".join(lines[:at] + lines[at + 1 :])
        yield f"line {at + 1} twice", "\n".join([*lines[: at + 1], *lines[at:]])
        yield f"junk before line {at + 1}", "\n".join([*lines[:at], "junk, [junk", *lines[at:]])
    yield "lines shuffled", "\n".join(rng.sample(lines, len(lines)))
    yield "version 99", re.sub(r"(version\W+)1\b", r"\g<1>99", text)


def _words(text: str, rng: random.Random) -> Iterator[tuple[str, str]]:
    numbers = list(re.finditer(r"(?<![\w.])\d+(\.\d+)?(e-?\d+)?(?![\w.])", text))
    words = list(re.finditer(r"[A-Za-z_]\w*", text))
    for found, replacements in ((numbers, NUMBERS), (words, NAMES)):
        for replacement in replacements if found else ():
            place = rng.choice(found)
            what = f"{place[0]!r} at {place.start()} is {replacement[:20]!r}"
            yield what, text[: place.start()] + replacement + text[place.end() :]


def _columns(text: str, rng: random.Random) -> Iterator[tuple[str, str]]:
    """Columns of what is separated by commas: left out, added, renamed, filled with something else."""
    rows = [line.split(",") for line in text.split("\n")]
    widest = max(len(row) for row in rows)
    if widest < 2 or text.startswith("{"):
        return
    for _ in range(4):
        column = rng.randrange(widest)
        yield f"column {column} missing", _joined([*row[:column], *row[column + 1 :]] for row in rows)
        yield f"column {column} twice", _joined([*row[: column + 1], *row[column:]] for row in rows)
        cell = rng.choice(NUMBERS)
        yield (
            f"column {column} all {cell[:20]!r}",
            _joined(
                [cell if i == column and line else old for i, old in enumerate(row)] for line, row in enumerate(rows)
            ),
        )


def _joined(rows) -> str:
    return "\n".join(",".join(row) for row in rows)


def _keys(text: str, rng: random.Random) -> Iterator[tuple[str, str]]:
    """Keys of a JSON object, those inside of others too: missing, or holding something of another sort."""
    if not text.startswith("{"):
        return
    for path in _paths(json.loads(text)):
        for value in (_MISSING, *rng.sample(VALUES, 2)):
            data = json.loads(text)
            inner = data
            for key in path[:-1]:
                inner = inner[key]
            if value is _MISSING:
                del inner[path[-1]]
            else:
                inner[path[-1]] = value
            yield f"{path} {'missing' if value is _MISSING else f'is {value!r}'}", json.dumps(data)


CELLS = (
    "X",
    "SYS",
    "NODE",
    "PHB",
    "PXB",
    "PIX",
    "NV0",
    "NV1",
    "NV6",
    "NV99",
    "NV",
    "GPU0",
    "N/A",
    "\x1b[1m",
    "x" * 9999,
)


def _cells(text: str, rng: random.Random) -> Iterator[tuple[str, str]]:
    """Classes of links in a matrix: replaced, exchanged, left out; a column too many for all."""
    found = list(re.finditer(r"\b(X|SYS|NODE|PHB|PXB|PIX|NV\d+)\b", text))
    if not re.search(r"GPU0\s+X", text):
        return
    for cell in CELLS * 3:
        one, other = sorted(rng.sample(found, 2), key=lambda match: match.start())
        yield f"{one[0]} at {one.start()} is {cell[:9]}", text[: one.start()] + cell + text[one.end() :]
        between = text[one.end() : other.start()]
        exchanged = text[: one.start()] + other[0] + between + one[0] + text[other.end() :]
        yield f"{one[0]} at {one.start()} and {other[0]} at {other.start()} exchanged", exchanged
    yield "all cells NV1", re.sub(r"\bNV\d+\b", "NV1", text)
    yield "all cells SYS", re.sub(r"\b(NODE|PHB|PXB|PIX|NV\d+)\b", "SYS", text)
    yield "columns exchanged", text.replace("GPU1", "GPU_").replace("GPU2", "GPU1").replace("GPU_", "GPU2")


def _markup(text: str, rng: random.Random) -> Iterator[tuple[str, str]]:
    """XML: entities, depth, length; attributes missing, twice, or of something else; elements missing or exchanged."""
    if not text.startswith("<"):
        return
    laughs = "".join(f'<!ENTITY a{i} "{f"&a{i - 1};" * 10}">' for i in range(1, 12))
    yield "a billion laughs", f'<!DOCTYPE s [<!ENTITY a0 "ha">{laughs}]>{text.replace(">", ">&a11;", 1)}'
    yield "a file for an entity", f'<!DOCTYPE s [<!ENTITY a SYSTEM "file:///etc/passwd">]>{text}'
    yield "elements in elements", "<system>" + "<cpu><pci>" * 30_000
    yield "elements in a row", "<system>" + "<cpu/>" * 60_000 + "</system>"
    attributes = list(re.finditer(r' (\w+)="([^"]*)"', text))
    values = ("", "-1", "0", "99999", "9" * 5000, "x", "0000:06:00.0", "16.0 GT/s PCIe", "1e9 GT/s", "&lt;", "é", "٣")
    for value in values * 5:
        one = rng.choice(attributes)
        yield f"{one[1]} at {one.start()} missing", text[: one.start()] + text[one.end() :]
        yield f"{one[0]} at {one.start()} twice", text[: one.end()] + one[0] + text[one.end() :]
        yield f"{one[1]} at {one.start()} is {value[:9]!r}", text[: one.start(2)] + value + text[one.end(2) :]
    tags = list(re.finditer(r"<(/?)(\w+)", text))
    for name in ("system", "cpu", "pci", "gpu", "nvlink", "nic", "net", "other") * 2:
        one = rng.choice(tags)
        yield f"{one[0]} at {one.start()} is {name}", text[: one.start(2)] + name + text[one.end() :]
        yield f"all {one[2]} are {name}", re.sub(rf"(</?){one[2]}\b", rf"\g<1>{name}", text)


_MISSING = object()


def _paths(data, above=()) -> Iterator[tuple]:
    """The way to every key, and to the first item of every list."""
    keys = data if isinstance(data, dict) else range(min(len(data), 1)) if isinstance(data, list) else ()
    for key in keys:
        yield (*above, key)
        yield from _paths(data[key], (*above, key))


def inflated(data: bytes) -> bytes:
    """What is in a gzip file."""
    return gzip.decompress(data)


def changed_events(head: dict, rng: random.Random, times: int) -> Iterator[tuple[str, bytes]]:
    """A profiler's file with some of its events changed: dropped, doubled, moved, renamed, with odd values in keys."""
    for _ in range(times):
        events = list(head["traceEvents"])
        done = [_change_event(events, rng) for _ in range(rng.randint(1, 3))]
        yield "; ".join(done), json.dumps(head | {"traceEvents": events}).encode("utf-8", "surrogatepass")


def _change_event(events: list, rng: random.Random) -> str:
    at = rng.randrange(len(events))
    event = dict(events[at])
    what = rng.choice(["drop", "double", "value", "argument", "time", "swap"])
    if what == "drop":
        del events[at : min(at + rng.randint(1, 20), len(events) - 1)]
    elif what == "double":
        events.insert(rng.randrange(len(events)), event)
    elif what == "swap":
        events[at], events[0] = events[0], events[at]
    elif what == "time":
        events[at] = event | {rng.choice(["ts", "dur"]): rng.choice([0, 1e-9, 0.5, 1e6, 1e13, 2e18, -5, 123456789])}
    elif what == "value":
        events[at] = event | {rng.choice(list(event)): rng.choice(VALUES)}
    else:
        args = event["args"] if isinstance(event.get("args"), dict) and event["args"] else {"a": 1}
        events[at] = event | {"args": args | {rng.choice(list(args)): rng.choice(VALUES)}}
    return f"event {at}: {what}"


def _parquet(data: bytes) -> Iterator[tuple[str, bytes]]:
    """Each column left out, or of another type; the notes changed."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pq.read_table(io.BytesIO(data))
    spoilt = {"no rows": table.slice(0, 0), "no columns": table.select([]), "no notes": table.replace_schema_metadata()}
    for at, name in enumerate(table.column_names):
        spoilt[f"{name} missing"] = table.remove_column(at)
        spoilt[f"{name} twice"] = table.append_column(name, table.column(at))
        spoilt[f"{name} renamed"] = table.rename_columns([f"{n}?" if n == name else n for n in table.column_names])
        for what, values in _odd_columns(pa, table.num_rows).items():
            spoilt[f"{name} {what}"] = table.set_column(at, name, values)
    version = b"version"
    for notes in ({b"format": b"x"}, {version: b"99"}, {version: "²".encode()}, {version: b""}, {b"\xff": b"\xff"}):
        spoilt[f"notes {notes}"] = table.replace_schema_metadata({**(table.schema.metadata or {}), **notes})
    for what, content in spoilt.items():
        out = io.BytesIO()
        pq.write_table(content, out)
        yield what, out.getvalue()


def _odd_columns(pa, rows: int) -> dict:
    return {
        "all null": pa.nulls(rows),
        "of texts": pa.array(["text"] * rows),
        "of NaN": pa.array([float("nan")] * rows),
        "of infinities": pa.array([-float("inf")] * rows),
        "of fractions": pa.array([0.5] * rows),
        "negative": pa.array([-1] * rows),
        "too large": pa.array([2**64 - 1] * rows, pa.uint64()),
        "of truth values": pa.array([True] * rows),
        "of lists": pa.array([[1, 2]] * rows),
        "of bytes": pa.array([b"\xff"] * rows),
        "of dates": pa.array([0] * rows, pa.timestamp("ns")),
        "with a null": pa.array([None, *[1] * (rows - 1)]),
    }
