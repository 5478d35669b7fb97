"""Programs with kernels, which are run in folders of their own."""

import os
import subprocess
import sys

from helpers.places import ROOT

CALLED = "from pipesim.base.kernels import compiled\n\n@compiled\ndef inner(x):\n    return x + {}\n"
CALLING = (
    "import inside\nfrom pipesim.base.kernels import compiled\n\ninner = inside.inner\n\n"
    "def outer(x):\n    return 10 * inner(x)\n\nprint(compiled(outer)(1))\n"
)


def result(folder, **environment):
    return run(folder, **environment).stdout


def run(folder, **environment):
    kept = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"}
    # Python takes its own for the same within one second
    environment = kept | {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": str(ROOT)} | environment
    command = [sys.executable, "calling.py"]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=True)
