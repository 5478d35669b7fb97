"""Where and by what a sweep is computed: options of `pipesim sweep`, keywords of `ps.run_sweep`."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pipesim.base.settings import setting, settings_of
from pipesim.studies.simulation import Simulation

if TYPE_CHECKING:
    from pipesim.core.limits import HostMemory

# What worker processes import before they are given anything.
WORKER_MODULES = (
    "pipesim.studies.sweep.workers",
    "pipesim.engines.selection",
    "pipesim.engines.sharing_rules.fair",
    "pipesim.schedulers.one_f_one_b",
)


@dataclass(frozen=True, slots=True)
class SweepOptions:
    """How a sweep runs. Its results do not depend on it."""

    workers: int | None = setting(
        None, int, "Processes; default: one per core. With --dask local, its workers.", short="w"
    )
    dask: str | None = setting(
        None, str, "Run on a dask.distributed cluster; 'local' starts one here.", metavar="ADDRESS"
    )
    store: "Path | str | None" = setting(
        None, str, "Where results are kept; default: FILE with the suffix .sqlite.", is_file=True
    )
    engine: str | None = setting(None, str, "The engine; results do not depend on it.")
    only: str | None = setting(
        None, str, "Leave points for later for which this does not hold: 'gpus <= 64'.", metavar="FORMULA"
    )
    retry: bool = setting(False, bool, "Try again what failed.")
    host_memory: "HostMemory" = setting(None, str, settings_of(Simulation)["host_memory"].help, metavar="SIZE")
    allow_modules: Sequence[str] | None = None
    """Modules whose functions the file may name; None: any."""
