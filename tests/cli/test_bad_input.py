"""Whatever a file holds, reading it gives a valid value or one paragraph that says what is wrong."""

import contextlib
import random
import resource
import time
import traceback

import pytest

from helpers import mutations
from pipesim.base import serialisation
from pipesim.base.errors import FormatError, InputError, PipesimError
from pipesim.core.cluster import Cluster
from pipesim.core.costs import costs_of
from pipesim.core.plan import DERIVED_KEYS, Plan
from pipesim.core.program import Program
from pipesim.core.scenario import Scenario
from pipesim.core.schedule import Schedule, parse
from pipesim.core.timeline import Timeline
from pipesim.importers.detect import importer_for
from pipesim.importers.native import native
from pipesim.importers.pipedream import pipedream
from pipesim.topologies.hosts import cluster_file

pytest.importorskip("pyarrow", reason="the files in parquet need pyarrow")


def read(what, path):
    """Read a file of the corpus, and look at all of what it gives."""
    noun = what.split()[0]
    if noun in {"trace", "layers", "transfers"}:
        costs = costs_of(native(path.parent))
        assert costs.forward(costs.kinds[0]).shape == (len(costs.model),)
        return costs
    if noun == "timeline":
        timeline = Timeline.load(path, Program.load(path.with_name("program.json")))
        assert timeline.makespan >= 0
        return timeline
    return READERS[noun](path)


def read_cluster(path):
    return bandwidths(serialisation.load(Cluster, path))


def bandwidths(cluster):
    assert cluster.bandwidth_matrix.shape == (len(cluster.devices),) * 2
    return cluster


def read_schedule(path):
    schedule = Schedule.load(path)
    assert parse(str(schedule)) == schedule
    return schedule


def read_program(path):
    program = Program.load(path)
    assert len([program.label(task) for task in range(len(program))]) == len(program.needs.inverse(len(program)))
    return program


READERS = {
    "cluster": read_cluster,
    "plan": lambda path: serialisation.load(Plan, path, DERIVED_KEYS).chunks,
    "scenario": lambda path: serialisation.load(Scenario, path).of_device("gpu0"),
    "schedule": read_schedule,
    "program": read_program,
    "profile": lambda path: pipedream(path).inputs(),
    "smi": lambda path: bandwidths(cluster_file.load(path)),
    "nccl": lambda path: bandwidths(cluster_file.load(path)),
    "machines": lambda path: bandwidths(cluster_file.load(path)),
}
FORMATS = (
    *("trace toml", "layers csv", "layers parquet", "transfers csv", "transfers parquet", "profile txt"),
    *("cluster toml", "cluster json", "plan toml", "plan json", "scenario toml", "scenario json"),
    *("smi txt", "nccl xml", "machines toml"),
    *("schedule csv", "schedule json", "schedule toml", "program json", "timeline csv", "timeline parquet"),
)

# Tables of a trace follow the version in its trace.toml; the other two are formats of others.
UNVERSIONED = (
    "layers csv",
    "layers parquet",
    "transfers csv",
    "transfers parquet",
    "profile txt",
    "smi txt",
    "nccl xml",
    "schedule csv",
)


@pytest.fixture(scope="module")
def paths(tmp_path_factory):
    return mutations.corpus(tmp_path_factory.mktemp("corpus"))


def test_the_corpus_has_every_format(paths):
    assert set(paths) == set(FORMATS)


@pytest.mark.parametrize("what", FORMATS)
def test_the_unspoilt_file_is_read(paths, what):
    assert read(what, paths[what]) is not None


@pytest.mark.parametrize("what", FORMATS)
def test_a_spoilt_file_is_read_or_refused_in_one_paragraph(paths, what):
    """No other error escapes, whatever was done to the file."""
    path = paths[what]
    data = path.read_bytes()
    outcomes = []
    try:
        for done, spoilt in mutations.mutations(data, random.Random(what)):
            path.write_bytes(spoilt)
            outcomes.append(_refused(what, path, done))
    finally:
        path.write_bytes(data)
    assert sum(outcomes) > 0.4 * len(outcomes), "hardly any of these files is wrong: are they read at all?"


def _refused(what, path, done):
    try:
        read(what, path)
    except PipesimError as error:
        message = str(error)
        message.encode()
        assert message.strip(), f"{what}, {done}: refused without a word"
        assert "\n\n" not in message, f"{what}, {done}: {message}"
        assert "Traceback" not in message, f"{what}, {done}: {message}"
        assert len(message) < 2000, f"{what}, {done}: {len(message)} characters"
        return True
    except Exception:  # noqa: BLE001 - whatever escapes is what the test is about
        pytest.fail(f"{what}, {done}:\n{traceback.format_exc()[-2000:]}")
    return False


LINES = 200_000


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("junk", "lorem ipsum, dolor\n" * LINES),
        ("comments", "#\n" * LINES),
        ("junk below a header", "layer,name,forward_s,output_bytes\n" + "lorem\n" * LINES),
        ("one layer again and again", "layer,name,forward_s,backward_s,output_bytes\n" + "0,a,1,1,1\n" * LINES),
        ("one endless cell", '"' + "lorem\n" * LINES),
        ("columns", ",".join(f"c{i}" for i in range(LINES))),
    ],
)
def test_many_lines_are_refused_in_seconds_within_bounded_memory(paths, name, text):
    path = paths["layers csv"]
    data = path.read_bytes()
    path.write_text(text)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    begin = time.monotonic()
    try:
        with pytest.raises(InputError):
            native(path.parent)
    finally:
        path.write_bytes(data)
    assert time.monotonic() - begin < 120, name  # what hangs takes hours
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < LINES, f"{name}: more than 1 KiB a line"


@pytest.mark.parametrize("inputs", ["3", "4", "1;9", "-1", "0;", ";", "x", "1;;2", "1 2", "9" * 5000])
def test_a_layer_that_reads_itself_or_a_later_one_is_refused(paths, inputs):
    """Layers in a circle cannot be written: whatever reads forward is refused."""
    path = paths["layers csv"]
    data = path.read_bytes()
    path.write_text(data.decode().replace("0;2", inputs))
    try:
        with pytest.raises(InputError, match="layer 3: inputs"):
            native(path.parent)
    finally:
        path.write_bytes(data)


def test_guessing_a_format_of_a_spoilt_file_gives_a_known_one_or_says_which_are_known(paths):
    path = paths["profile txt"].with_name("guessed.txt")
    guessed = []
    for _, spoilt in mutations.mutations(paths["profile txt"].read_bytes(), random.Random(1)):
        path.write_bytes(spoilt)
        with contextlib.suppress(InputError):
            guessed.append(importer_for(path))
    assert set(guessed) == {"pipedream"}


@pytest.mark.parametrize("what", [what for what in FORMATS if what not in UNVERSIONED])
def test_a_version_that_is_yet_to_come_is_refused_in_every_format(paths, what):
    """Whoever meets such a file is told to upgrade, not that the file is wrong."""
    path = paths[what]
    data = path.read_bytes()
    spoilt = dict(mutations.mutations(data, random.Random(0)))
    path.write_bytes(spoilt["version 99" if "version 99" in spoilt else "notes {b'version': b'99'}"])
    try:
        with pytest.raises(FormatError, match=r"version 99 is newer than this pipesim reads \(1\); upgrade pipesim"):
            read(what, path)
    finally:
        path.write_bytes(data)
