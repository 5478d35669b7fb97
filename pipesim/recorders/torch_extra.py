"""The library that records, which is optional."""

import importlib.util

from pipesim.base.errors import MissingExtraError


def require_torch(what: str) -> None:
    """Refuse, saying how to install it, if there is no PyTorch. `what` needs it: a noun phrase."""
    found = importlib.util.find_spec("torch")
    if found is None or found.origin is None:  # a folder that happens to be called torch has no origin
        raise MissingExtraError(what, "torch")
