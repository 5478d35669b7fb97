"""Lines of a layer and its milliseconds, `layer milliseconds`, below a heading."""

from pathlib import Path

import numpy as np

from pipesim.base import files, units
from pipesim.base.errors import within
from pipesim.core.members import ImporterInfo
from pipesim.core.trace import ANY_KIND, Trace

HEADING = "# added format"


def is_added(_: bytes, text: str) -> bool:
    """Whether a file begins with the heading."""
    return text.startswith(HEADING)


@ImporterInfo(
    recognises=is_added,
    otherwise=f"does not begin with {HEADING!r}",
    example={"added.txt": f"{HEADING}\nembedding 1.5\nblock 20\n"},
)
def added_importer(path: Path) -> Trace:
    """A layer per line, with its forward time; backwards take twice as long, sizes are 0."""
    names, forward = [], []
    for number, line in enumerate(files.read_text(path).splitlines()[1:], 2):
        with within(f"{path}, line {number}"):
            name, _, milliseconds = line.partition(" ")
            names.append(name)
            forward.append(units.duration(f"{milliseconds}ms"))
    with within(str(path)):
        seconds, sizes = np.array(forward), np.zeros(len(names), np.int64)
        return Trace(
            path.stem,
            "added_importer",
            1,
            {
                "layer": np.arange(len(names)),
                "name": np.array(names, object),
                "device_kind": np.array([ANY_KIND] * len(names), object),
                "sample": np.zeros(len(names), np.int64),
                "forward_s": seconds,
                "backward_s": 2 * seconds,
                "output_bytes": sizes,
                "stash_bytes": sizes,
                "parameter_bytes": sizes,
            },
        )
