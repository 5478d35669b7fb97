"""Results of sweeps in one SQLite file: what was computed is kept, whatever happens to who computes it.

    experiments   one line per experiment that was run into this file: its name, its text, its axes, its metrics
    points        one line per point of an experiment: its number, the values of its axes, the key of its result
    results       one line per key, the hash of everything that determines it: metrics, or the error in their place
    rows          a view for any SQLite tool: points beside their results, of the experiment that was run last

A chunk of results is committed at once or not at all, so a process may be killed at any moment. Several processes may
write to one file: a result has one line, and who comes second finds it there or writes the same again.

SQLite has no checksums, so every row of results has a digest of all that it holds, and every experiment one of its
points. They are compared whenever rows are read: what does not agree is refused, and computed again by the next sweep.

records    what a row holds, and its digest        database   the file: opening, errors, transactions, the clock
checks     every row beside its digest             file       what is put in, and what is asked
"""

from pipesim.studies.store.database import Clock, Connect
from pipesim.studies.store.records import RESERVED, Damage, Experiment, Result, Status
from pipesim.studies.store.store_file import Store

__all__ = ["RESERVED", "SUFFIX", "Clock", "Connect", "Damage", "Experiment", "Result", "Status", "Store"]

SUFFIX = ".sqlite"
