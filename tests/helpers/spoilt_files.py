"""Small files of every importable format, and a judge of what reading a spoilt one gives."""

import functools
import json
import signal
import tracemalloc

import numpy as np

from helpers import chakra_files as et
from helpers import strategies
from helpers.profiles import Profile
from pipesim.base.errors import PipesimError
from pipesim.core.costs import costs_of
from pipesim.core.members import ImporterInfo, infos
from pipesim.core.trace import Trace
from pipesim.importers import IMPORTERS

SECONDS = 20  # no file here may take longer
# Bytes of memory for each byte of a file; below so many bytes what is always needed counts more.
TIMES, ALWAYS = 20, 4 * 2**20


def npy_files(folder):
    np.save(folder / "gpt2_A100_1.npy", np.array([[0.5, 0.25, 0.125], [0.5, 0.26, 0.12]]))
    return ["npy"], [folder / "gpt2_A100_1.npy"]


def chakra_files(folder):
    groups = json.dumps([{"pg_name": "dp", "ranks": [0, 1]}])
    ranks = [
        [
            et.node(0, "pg", et.METADATA, extra=et.data(8, et.data(1, f"['{groups}']"))),
            et.compute(1, "a_FWD", 10, extra=et.outputs("[[4, 16]]", "['Tensor(float)']")),
            et.send(2, rank, 1 - rank, 500, tag=rank, needs=[1]),
            et.receive(3, 1 - rank, rank, 500, tag=1 - rank),
            et.compute(
                4,
                "a_BWD",
                20,
                needs=[3],
                ctrl=[0],
                start=7,
                num_ops=99,
                pipesim_task=3,
                pipesim_ns=20_700,
                pipesim_kind=1,
                pipesim_stage=2,
                pipesim_microbatch=1,
            ),
            et.collective(
                5,
                "all_reduce",
                4096,
                needs=[4],
                pg_name="dp",
                micros=9,
                involved_dim=[1],
                pipesim_ranks="0,1",
                pipesim_task=4,
                pipesim_kind=7,
            ),
        ]
        for rank in range(2)
    ]
    return ["chakra", 'chakra(device="v100-16gb", backward_factor=2)'], et.ranks(folder, *ranks)


def native_files(folder):
    strategies.even_trace(3).save(folder / "t")
    return ["native"], [folder / "t"]


def kineto_files(folder):
    made = Profile()
    for step in range(2):
        at = 1000 * step
        made.step(step, at, at + 900)
        for layer in range(3):
            begin = at + 100 * layer
            made.range(f"layer{layer}", begin, begin + 80)
            made.op("aten::mm", begin + 5, begin + 40, sequence=10 * step + layer, shape=[4, 8])
            made.kernel(begin + 10, begin + 20, begin + 70)
            made.node("MmBackward0", at + 700 - 90 * layer, at + 760 - 90 * layer, sequence=10 * step + layer)
    (folder / "rank0.json").write_text(json.dumps({**made.head, "traceEvents": made.events}))
    return ["kineto", "kineto(at_least=0)"], [folder / "rank0.json"]


def declared_files(name, contents, folder):
    for file, text in contents.items():
        (folder / file).write_text(text)
    return [name, *MORE_FORMS.get(name, ())], [folder / file for file in contents]


MORE_FORMS = {"csv": ['csv(columns={"forward_s": "backward_ms"}, backward_factor=1)']}
# Formats whose example is not a text that an importer can declare.
MADE = {"native": native_files, "kineto": kineto_files, "chakra": chakra_files, "npy": npy_files}
# Format -> what makes its files: how to ask for it, and the files that are read together.
FILES = {
    name: MADE.get(name) or functools.partial(declared_files, name, info.example)
    for name, info in infos(IMPORTERS, "format", ImporterInfo).items()
    if name in MADE or info.example
}
# Format -> recorded files, each read by itself.
RECORDED = {
    "pipedream": ["pipedream/vgg16.txt", "pipedream/gnmt.txt", "dapple/bert-24-pbs-6.txt", "dapple/amoeba-18-pbs-8.txt",
                  "dapple/gnmt-32-pbs-64-simplified.txt"],
    "chakra": ["chakra/reduce_scatter.0.et", "chakra/reduce_scatter.1.et"],
    "kineto": ["kineto/alexnet_gpu.json.gz", "kineto/sampled_rank-0.json.gz"],
}  # fmt: skip
LARGE = {"kineto/sampled_rank-0.json.gz": 8}  # takes so many times as long: so many times fewer mutations


class TooLongError(Exception):
    """An import took longer than any may."""


def _too_long(*_):
    raise TooLongError


def outcome(read, path):
    """What came of reading, and the bytes that it needed at most."""
    signal.signal(signal.SIGALRM, _too_long)
    signal.alarm(SECONDS)
    tracemalloc.start()
    try:
        return read(), tracemalloc.get_traced_memory()[1]
    except PipesimError as error:
        message = str(error)
        message.encode()
        assert path.stem.partition(".")[0] in message, f"names no file: {message}"
        assert "\n\n" not in message.strip()
        assert len(message) < 2000
        return error, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
        signal.alarm(0)


def judge(read, path, data, what, unpacked=0):
    """Read and check; what came of it in a word. `unpacked` is the size of what a compressed file holds."""
    try:
        found, peak = outcome(read, path)
    except Exception as error:
        raise AssertionError(f"{what}: {type(error).__name__}: {error}") from error
    size = max(sum(p.stat().st_size for p in path.parent.iterdir() if p.is_file()), len(data), unpacked)
    assert peak <= max(TIMES * size, ALWAYS), f"{what}: {peak} bytes of memory for a file of {size}"
    if isinstance(found, PipesimError):
        return "refused"
    if isinstance(found, Trace):
        assert costs_of(found).forward(found.device_kinds[0]).shape == (found.layer_count,)
    return "read"
