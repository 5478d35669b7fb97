"""Whatever a file holds, importing it gives a valid trace or one paragraph that names the file: no traceback, no hang,
no memory beyond reason.

A few mutations for each format; `make fuzz` goes on with tests/fuzz/importers.py. Recorded files are mutated too where
they are at hand.
"""

import functools
import gzip
import json
import random
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from helpers import chakra_files as et
from helpers.places import PROFILES, needs_data
from helpers.profiles import metis_profile, training
from helpers.spoiling import spoilt
from helpers.spoilt_files import FILES, LARGE, RECORDED, TIMES, judge, outcome
from pipesim.base import lookup
from pipesim.base.errors import InputError
from pipesim.core.cluster import Cluster
from pipesim.core.trace import Trace
from pipesim.importers import IMPORTERS, PROGRAMS
from pipesim.importers.detect import importer_for
from pipesim.importers.opening import open_trace
from pipesim.topologies.flat import flat

MUTATIONS = 40


def test_every_importer_is_fuzzed():
    assert set(FILES) == set(IMPORTERS), "declare an example with ImporterInfo"


@pytest.mark.parametrize("name", FILES)
def test_the_unspoilt_files_are_read(name, tmp_path):
    forms, paths = FILES[name](tmp_path)
    for form in forms:
        assert isinstance(open_trace(paths, form), Trace)
    assert {importer_for(path) for path in paths} == {name}


@pytest.mark.parametrize("name", FILES)
def test_spoilt_files_are_read_or_refused(name, tmp_path):
    forms, paths = FILES[name](tmp_path)
    rng = random.Random(name)
    targets = [paths[0] / file for file in ("layers.csv", "trace.toml")] if name == "native" else paths
    whole = {path: path.read_bytes() for path in targets}
    tally = Counter()
    for turn in range(MUTATIONS):
        path = rng.choice(targets)
        data = spoilt(whole[path], rng)
        path.write_bytes(data)
        read = functools.partial(open_trace, paths, rng.choice(forms))
        tally[judge(read, paths[0], data, f"{name} {turn}")] += 1
        path.write_bytes(whole[path])
    assert tally["refused"] > 0.3 * MUTATIONS, "hardly any of these files is wrong: are they read at all?"


@pytest.mark.parametrize(("name", "file"), [(name, file) for name, files in RECORDED.items() for file in files])
def test_spoilt_recordings_are_read_or_refused(name, file, tmp_path):
    packed, path = needs_data(PROFILES / file).read_bytes(), tmp_path / Path(file).name
    whole = gzip.decompress(packed) if path.suffix == ".gz" else packed
    rng = random.Random(file)
    for turn in range(MUTATIONS // len(RECORDED[name]) // LARGE.get(file, 1)):
        as_it_is = rng.random() < 0.1  # else what is in it: few files that are compressed can be spoilt and unpacked
        data = spoilt(packed if as_it_is else whole, rng)
        path.write_bytes(data)
        read = functools.partial(open_trace, [path], name)
        judge(read, path, data, f"{path.stem} {turn}", len(whole) if as_it_is else 0)


@pytest.mark.parametrize("form", PROGRAMS)
def test_spoilt_runs_are_read_or_refused(form, tmp_path):
    """As programs too, which can be replayed: a run that can be read comes to its end."""
    from pipesim.engines import event

    _, paths = FILES[form](tmp_path)
    rng, cluster = random.Random(form), flat(2, bandwidth="1GB/s")
    assert isinstance(cluster, Cluster)
    make = lookup.resolve(form, PROGRAMS, "format")
    whole = {path: path.read_bytes() for path in paths}
    tally = Counter()
    for turn in range(MUTATIONS):
        path = rng.choice(paths)
        data = spoilt(whole[path], rng)
        path.write_bytes(data)
        transfers = rng.choice(["eager", "rendezvous"])
        tally[
            judge(lambda: event.run(make(paths, cluster, transfers=transfers)).verify(), paths[0], data, f"run {turn}")  # noqa: B023 - called at once
        ] += 1
        path.write_bytes(whole[path])
    assert min(tally["refused"], tally["read"]) > 0


@pytest.mark.parametrize("name", FILES)
def test_a_guess_is_a_known_format_or_an_error(name, tmp_path):
    _, paths = FILES[name](tmp_path)
    target = paths[0] / "trace.toml" if name == "native" else paths[0]
    whole, rng, other = target.read_bytes(), random.Random(1), tmp_path / "guessed"
    for _ in range(MUTATIONS):
        other.write_bytes(spoilt(whole, rng))
        try:
            assert importer_for(other) in IMPORTERS
        except InputError as error:
            assert "guessed" in str(error)  # noqa: PT017 - either is right


# --- large files -----------------------------------------------------------------------------------------------------


def large_pipedream(folder):
    line = "node{0} -- Conv2d({0}, 64, kernel_size=(3, 3)) -- forward_compute_time=2.2, backward_compute_time=2.8, "
    line += "activation_size=205520896.0, parameter_size=7168.000"
    nodes, edges = range(1, 4001), range(1, 4000)
    text = "\n".join([*map(line.format, nodes), *(f"\tnode{n} -- node{n + 1}" for n in edges)])
    (folder / "large.txt").write_text(text)
    return [folder / "large.txt"]


def large_metis(folder):
    data = json.dumps(metis_profile(times=[1.2345678] * 9000, parameters=[12345678] * 9000), indent=1)
    (folder / "DeviceType.A100_tp1_bs1.json").write_text(data)
    return [folder / "DeviceType.A100_tp1_bs1.json"]


def large_csv(folder):
    row = "conv{0},0.00123456789,0.0023456789,123456789,4321\n"
    head = "name,forward_s,backward_s,output_bytes,parameter_bytes\n"
    (folder / "large.csv").write_text(head + "".join(row.format(n) for n in range(20_000)))
    return [folder / "large.csv"]


def large_npy(folder):
    np.save(folder / "large.npy", np.full((30, 9_000), 0.5))
    return [folder / "large.npy"]


def large_chakra(folder):
    nodes = [
        et.compute(n, f"COMP_NODE_layer{n // 2}_{('FWD', 'BWD')[n % 2]}", 900 + n, needs=[n - 1] if n else [])
        for n in range(3_000)
    ]
    return et.ranks(folder, nodes, nodes)


def large_kineto(folder):
    return [training(layers=40, steps=50).write(folder / "rank0.json")]


@pytest.mark.parametrize("make", [large_pipedream, large_metis, large_csv, large_chakra, large_kineto])
def test_a_large_file_needs_at_most_twenty_times_its_size(make, tmp_path):
    paths = make(tmp_path)
    size = sum(path.stat().st_size for path in paths)
    found, peak = outcome(lambda: open_trace(paths), paths[0])
    assert isinstance(found, Trace)
    assert peak <= TIMES * size, f"{peak / size:.1f} times its {size} bytes"


@pytest.mark.parametrize(
    "piece", ["{}", "[]", '{"":1}', "[[[]]]", '"aa"', "1.5", '{"a":1,"b":2,"c":3,"d":4,"e":5,"f":6}']
)
def test_a_file_of_nothing_but_small_pieces_is_refused_before_they_are_made(piece, tmp_path):
    """Each takes 20 to 42 times its own size in memory."""
    path = tmp_path / "rank0.json"
    path.write_text('{"traceEvents": [' + ",".join([piece] * (2**21 // (len(piece) + 1))) + "]}")
    found, peak = outcome(lambda: open_trace([path]), path)
    assert "consists of objects too small for events" in str(found)
    assert peak <= TIMES * path.stat().st_size


def test_an_array_needs_memory_in_proportion_to_its_numbers(tmp_path):
    """It has 8 bytes for each time where a trace has 17 columns: 20 times its size cannot be enough."""
    paths = large_npy(tmp_path)
    found, peak = outcome(lambda: open_trace(paths), paths[0])
    assert peak <= 400 * len(found.layers["forward_s"])
