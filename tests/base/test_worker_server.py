"""Processes are forked from a server that has imported what they need."""

import subprocess
import sys

PROGRAM = """
import sys
from multiprocessing import forkserver
from pipesim.base import forked, worker_server

forked.is_alone = lambda: False

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


WITHOUT_MAIN = """
import sys
from pipesim.base import worker_server
from pipesim.base.cores import core_count

print("script")
context = worker_server.server_context()
with worker_server.without_script():
    pool = context.Pool(1)
print(pool.apply(core_count) == core_count(), sys.modules["__main__"].__file__ == __file__)
pool.terminate()
"""


def test_processes_can_be_started_that_do_not_run_the_script(tmp_path):
    path = tmp_path / "program.py"
    path.write_text(WITHOUT_MAIN, encoding="utf-8")
    found = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, check=True, timeout=120)
    assert found.stdout == "script\nTrue True\n"


ALONE = """
from multiprocessing import forkserver
from pipesim.base import forked, worker_server

worker_server.start("wave")
is_forked = worker_server.context_of("wave").get_start_method() == "fork"
print(forked.is_possible() == is_forked, (forkserver._forkserver._forkserver_pid is None) == is_forked)
"""


def test_a_process_without_threads_needs_no_server(tmp_path):
    path = tmp_path / "program.py"
    path.write_text(ALONE, encoding="utf-8")
    found = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, check=True, timeout=120)
    assert found.stdout == "True True\n"
