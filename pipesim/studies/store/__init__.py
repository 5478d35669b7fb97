"""Results of sweeps in one SQLite file; what was computed is kept if a process or machine fails.

    experiments   one row per experiment that was run with this file: its name, its text, its axes, its metrics
    points        one row per point of an experiment: its number, the values of its axes, the key of its result
    results       one row per key, the hash of everything that determines it: metrics, or an error
    rows          a view for any SQLite tool: points beside their results, of the last experiment

A chunk of results is committed at once or not at all, so a process may be killed at any moment. Several processes may
write to one file: a result has one row, and the second process finds it there or writes the same again.

SQLite has no checksums, so every row of results has a digest of its values, and every experiment one of its points.
They are compared whenever rows are read: rows that differ are refused, and computed again by the next sweep.

records      rows and their digests             database     the file: opening, errors, transactions, the clock
integrity    comparing rows with digests        store_file   writing and reading of results
"""

from pipesim.studies.store.database import Clock, Connect
from pipesim.studies.store.records import RESERVED, Damage, Experiment, Result, Status
from pipesim.studies.store.store_file import Store

__all__ = ["RESERVED", "SUFFIX", "Clock", "Connect", "Damage", "Experiment", "Result", "Status", "Store"]

SUFFIX = ".sqlite"
