"""The server from which worker processes are forked: it imports what they need once, while the caller goes on."""

import multiprocessing
from multiprocessing import forkserver
from multiprocessing.context import BaseContext

METHOD = "forkserver"


def context_of(*modules: str) -> BaseContext:
    """How to start processes that are forked from a server that has imported these modules."""
    context = multiprocessing.get_context(METHOD)
    context.set_forkserver_preload(list(modules))
    return context


def is_possible() -> bool:
    """Whether the system has such a server."""
    return METHOD in multiprocessing.get_all_start_methods()


def start(*modules: str) -> None:
    """Start the server now, if the system has it; processes are then there sooner when they are needed."""
    if is_possible():
        context_of(*modules)
        forkserver.ensure_running()
