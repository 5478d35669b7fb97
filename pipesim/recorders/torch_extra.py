"""The check for PyTorch, an optional dependency that recorders need."""

import importlib.util

from pipesim.base.errors import MissingExtraError


def require_torch(what: str) -> None:
    """Raise an error that explains the installation if there is no PyTorch. `what` needs it: a noun phrase."""
    found = importlib.util.find_spec("torch")
    if found is None or found.origin is None:  # a folder named torch has no origin
        raise MissingExtraError(what, "torch")
