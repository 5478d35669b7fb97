"""Values that several points of a sweep share: the latest of them are kept, and of them not more than fit."""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock
from typing import Generic, TypeVar

Made = TypeVar("Made")


class KeptValues(Generic[Made]):
    """The latest values by what they were made from, with at most so many rows in all; `rows` counts those of one."""

    def __init__(self, most: int, rows: Callable[[Made], int]) -> None:
        self._most, self._rows = most, rows
        self._values: OrderedDict[Hashable, Made] = OrderedDict()
        self._held = 0
        self._lock = Lock()

    def of(self, key: Hashable, make: Callable[[], Made]) -> Made:
        """The value of a key: the one that is kept, or the one that is made now. What raises is not kept."""
        with self._lock:  # a worker of dask may have several threads
            if key in self._values:
                self._values.move_to_end(key)
                return self._values[key]
        made = make()
        with self._lock:
            if key not in self._values:
                self._values[key] = made
                self._held += self._rows(made)
            while self._held > self._most:
                self._held -= self._rows(self._values.popitem(last=False)[1])
        return made
