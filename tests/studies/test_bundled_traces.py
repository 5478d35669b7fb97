"""The traces that come with pipesim."""

import subprocess
import sys

from pipesim.core.trace import Trace
from pipesim.studies.bundled_traces import bundled_traces


def test_every_bundled_trace_is_a_folder_of_its_name():
    found = bundled_traces()
    assert {"bert-large", "gpt-small-cpu"} <= found.keys()
    assert all(folder.name == name for name, folder in found.items())
    assert Trace.load(found["bert-large"]).model == "bert-large"


def test_their_names_are_known_without_numpy():
    """Tab asks for them, and has a quarter of a second; what reads traces takes a third of that to import."""
    script = "import sys, pipesim.studies.bundled_traces as b; b.bundled_traces(); sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
