"""Kernels on disk: what is kept of them is never older than what they say."""

import os
import subprocess
import sys

CALLED = "from pipesim.kernels import compiled\n\n@compiled\ndef inner(x):\n    return x + {}\n"
CALLING = (
    "import inside\nfrom pipesim.kernels import compiled\n\ninner = inside.inner\n\n"
    "def outer(x):\n    return 10 * inner(x)\n\nprint(compiled(outer)(1))\n"
)


def result(folder):
    environment = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"}
    environment["PYTHONDONTWRITEBYTECODE"] = "1"  # Python takes its own for the same within one second
    command = [sys.executable, "calling.py"]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=True).stdout


def test_a_kernel_is_made_anew_when_one_that_it_calls_has_changed(tmp_path):
    (tmp_path / "calling.py").write_text(CALLING)
    (tmp_path / "inside.py").write_text(CALLED.format(1))
    assert result(tmp_path) == "20\n"
    (tmp_path / "inside.py").write_text(CALLED.format(4))
    assert result(tmp_path) == "50\n"
    (tmp_path / "inside.py").write_text(CALLED.format(1))
    assert result(tmp_path) == "20\n"
