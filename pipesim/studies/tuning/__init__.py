"""The best layout of a model on a cluster: tensor, pipeline and data widths, chunks, microbatches, recomputation, ...

space               the layouts there are
width_inputs        what layouts of one width have in common
pipeline_bounds     closed forms of one pipeline
recomputed_blocks   how many blocks of each stage are done again, so that it fits
planner_layouts     which other planners are asked, and for what
layout_points       layouts as simulations
layout_inputs       costs of layouts, and which devices their ranks have
layout_prices       bound, estimate and memory of a layout
rank_widths         layouts whose ranks have teams of several widths
open_bounds         what no layout has less of, whatever its cuts, chunks and schedule
tuning_results      the best layouts, and what became of the others
lost_parts          a cluster without what is gone
search              which layouts are simulated
"""

from typing import Any

from pipesim.base.settings import settings_of
from pipesim.studies.simulation import FIELDS, simulation_of, takes_fields
from pipesim.studies.tuning.search import Watch, given_fields, tuned
from pipesim.studies.tuning.tuning_results import TuningResult, TuningRow
from pipesim.studies.tuning_options import TuningOptions

__all__ = ["TuningOptions", "TuningResult", "TuningRow", "Watch", "tune", "tuned"]


@takes_fields(("trace", "cluster"))
def tune(
    *values: Any,  # noqa: ANN401 - fields of Simulation
    search: TuningOptions | None = None,
    **fields: Any,  # noqa: ANN401 - fields of Simulation, or of TuningOptions
) -> TuningResult:
    """Search the best layout of a model on a cluster. Takes what `simulate` takes; what is given is not searched.

    Fields of `TuningOptions` are keywords too: objective, within, budget, front, price, mtbf, lost, workers, store, ...

    >>> found = ps.tune("bert-large", 'servers(2, 2, intra="25GB/s", inter="10Gb/s")', global_batch=128, budget=8)
    >>> found.best.candidate.pipeline, found.best.candidate.data
    (4, 1)
    """
    own = {name: fields.pop(name) for name in _OWN if name in fields}
    options = search if search is not None and not own else TuningOptions(**own)
    simulation = simulation_of(*values, order=("trace", "cluster"), **fields)
    given = frozenset(name for name in fields if fields[name] is not None) | given_fields(simulation)
    return tuned(simulation, given & frozenset(FIELDS), options)


_OWN = tuple(settings_of(TuningOptions))
