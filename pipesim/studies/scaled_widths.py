"""Times at widths of teams that a trace was not timed at, from those that it was timed at.

a model that is known     recorded seconds x computed at the widths / computed at the trace's: by layer and phase, with
                          the exchanges of a team of the cluster
any other                 recorded seconds x GPUs of a team of the trace / GPUs of a team: as if all of every layer were
                          divided, without exchanges

Bytes and FLOPs in the same way. Context parallelism is always in proportion, and divides no parameters.
"""

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from pipesim.architectures import ARCHITECTURES
from pipesim.architectures.described import trace_called
from pipesim.architectures.team_links import TeamLink
from pipesim.base.arrays import Floats
from pipesim.base.errors import PipesimError, RefusedError
from pipesim.base.tables import Table
from pipesim.core.teams import Widths
from pipesim.core.trace import Trace

LinkOf = Callable[[str, int], TeamLink | None]
SCALED = "times at "
_SIZES = ("stash_bytes", "core_stash_bytes", "forward_flops")
_WHOLE = {
    "backward_s": ("backward_input_s", "backward_weight_s"),
    "backward_first_s": ("backward_input_s", "backward_weight_s"),
}


def scaled(trace: Trace, wanted: Iterable[Widths], link_of: LinkOf) -> Trace:
    """The trace with rows at all of these widths; a note states how those that were not timed are scaled.

    `link_of` is the link of a team of a kind of device, and of so many GPUs.
    """
    found = trace
    for widths in dict.fromkeys(wanted):
        if widths not in trace.widths:
            rows, how = _rows_at(trace, widths, link_of)
            columns = {name: np.concatenate([found.layers[name], rows[name]]) for name in rows}
            note = f"{SCALED}{widths} are scaled from those at {trace.widths[0]}, {how}"
            found = replace(found, layers=columns, notes=(*found.notes, note))
    return found


def is_scaled(trace: Trace) -> bool:
    """Whether a trace has rows that were scaled to other widths."""
    return any(note.startswith(SCALED) for note in trace.notes)


def _rows_at(trace: Trace, widths: Widths, link_of: LinkOf) -> tuple[Table, str]:
    """The rows of the trace's first widths at other ones, and how they were scaled."""
    base = trace.widths[0]
    if widths.expert != base.expert:
        raise RefusedError(
            f"expert = {widths.expert} found; the trace of {trace.model!r} was timed at {base.expert}, and only tensor "
            "and context widths are scaled"
        )
    at = trace.rows_at(base)
    rows = {name: column[at].copy() for name, column in trace.layers.items()}
    groups = zip(rows["device_kind"].tolist(), rows["microbatch_size"].tolist(), strict=True)
    hows = []
    for kind, size in dict.fromkeys(groups):
        mine = (rows["device_kind"] == kind) & (rows["microbatch_size"] == size)
        tables = _computed(trace, (kind, size), (base, widths), link_of)
        hows.append("in proportion and without exchanges of the team")
        if tables:
            hows[-1] = f"by computed times of {trace.model}"
        _scale(rows, mine, base.tensor / widths.tensor, tables)
    for name in (*(name for name in rows if name.endswith("_s")), *_SIZES):
        rows[name] = _as(rows[name], rows[name] * (base.context / widths.context))
    for name, width in widths.by_name.items():
        rows[name] = np.full(len(rows[name]), width)
    return rows, " and ".join(dict.fromkeys(hows))


def _scale(rows: Table, mine: NDArray[np.bool_], part: float, tables: tuple[Table, Table] | None) -> None:
    """Multiply what these rows have by computed ratios, layer by layer; in proportion where there are none."""
    layer = rows["layer"][mine]
    logits = ["output_bytes"] if tables else []  # what is passed on is whole, but for the logits, which are divided
    for name in (*(name for name in rows if name.endswith("_s")), *_SIZES, "parameter_bytes", *logits):
        ratio = np.full(len(layer), part)
        if tables:
            before, after = (_column(table, name)[layer] for table in tables)
            np.divide(after, before, out=ratio, where=before > 0)
        rows[name][mine] = _as(rows[name], rows[name][mine] * ratio)


def _column(table: Table, name: str) -> Floats:
    """A column of computed rows, where whole backwards are in two parts."""
    found: Floats = sum(table[part].astype(np.float64) for part in _WHOLE.get(name, (name,)))  # type: ignore[assignment]
    return np.nan_to_num(found)


def _as(column: NDArray[np.generic], values: Floats) -> NDArray[np.generic]:
    """Values in the type of a column: bytes are whole."""
    return np.rint(values).astype(column.dtype) if column.dtype.kind == "i" else values


def _computed(
    trace: Trace, group: tuple[str, int], widths: tuple[Widths, Widths], link_of: LinkOf
) -> tuple[Table, Table] | None:
    """Computed rows of the trace's model at two widths; None where the model or the device is not known.

    A width that the model cannot be divided by is refused.
    """
    if trace.model not in ARCHITECTURES:
        return None
    before = None
    with suppress(PipesimError):
        before = _computed_at(trace, group, widths[0], link_of)
    if before is None or not _agrees(trace, group[1], before):
        return None
    return before, _computed_at(trace, group, widths[1], link_of)


def _computed_at(trace: Trace, group: tuple[str, int], widths: Widths, link_of: LinkOf) -> Table:
    kind, size = group
    sizes: dict[str, int | str] = {"microbatch": size}
    sizes |= {name: value for name in ("sequence", "precision") if (value := getattr(trace, name))}
    if widths.tensor > 1:
        sizes |= {"tensor_parallel": widths.tensor, "sequence_parallel": trace.sequence_parallel}
    link = link_of(kind, widths.tensor) if widths.tensor > 1 else None
    return trace_called(trace.model, [kind], sizes, team_link=link).layers


def _agrees(trace: Trace, size: int, computed: Table) -> bool:
    """Whether computed rows are of the same layers and sizes as the trace's."""
    at = trace.rows_at(trace.widths[0]) & (trace.layers["microbatch_size"] == size)
    first = np.flatnonzero(at)[np.unique(trace.layers["layer"][at], return_index=True)[1]]
    names = ("name", "output_bytes", "parameter_bytes")
    return all(np.array_equal(trace.layers[name][first], computed[name]) for name in names)
