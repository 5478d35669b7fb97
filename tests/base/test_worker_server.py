"""Processes are forked from a server that has imported what they need."""

import subprocess
import sys

PROGRAM = """
import sys
from multiprocessing import forkserver
from pipesim.base import worker_server

def has(module):
    return module in sys.modules

if __name__ == "__main__":
    worker_server.start("wave")
    server = forkserver._forkserver._forkserver_pid
    assert server is not None
    context = worker_server.context_of("wave")
    with context.Pool(1) as pool:
        print(pool.apply(has, ("wave",)), has("wave"), forkserver._forkserver._forkserver_pid == server)
"""


def test_processes_have_what_the_server_imported_and_the_caller_does_not(tmp_path):
    path = tmp_path / "program.py"
    path.write_text(PROGRAM, encoding="utf-8")
    found = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, check=True)
    assert found.stdout == "True False True\n"
