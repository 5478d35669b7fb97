"""What worker processes are forked from: this process where it has no threads, else a server.

The server imports what they need once, while the caller goes on.
"""

import multiprocessing
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import forkserver
from multiprocessing.context import BaseContext
from types import ModuleType

from pipesim.base import forked

METHOD = "forkserver"


def context_of(*modules: str) -> BaseContext:
    """How to start processes that are forked from this one, or from a server that has imported these modules."""
    context: BaseContext = forked.context() if forked.is_alone() else server_context(*modules)
    return context


def server_context(*modules: str) -> BaseContext:
    """How to start processes that are forked from a server that has imported these modules."""
    context = multiprocessing.get_context(METHOD)
    context.set_forkserver_preload(list(modules))
    return context


def is_possible() -> bool:
    """Whether the system has such a server."""
    return METHOD in multiprocessing.get_all_start_methods()


def start(*modules: str) -> None:
    """Start the server now, if processes will be forked from it; they are then there sooner when they are needed."""
    if is_possible() and not forked.is_alone():
        server_context(*modules)
        forkserver.ensure_running()


@contextmanager
def without_script() -> Iterator[None]:
    """Processes that are started now do not run the caller's script, of which they need nothing.

    Python has each of them run it: one without `if __name__ == "__main__"` would start processes from all of them.
    """
    main = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main
