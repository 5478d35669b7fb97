"""PyTorch's profiler (Kineto): one file per rank, .json or .json.gz, as `export_chrome_trace` writes them.

Exports of Nsight Systems (.sqlite) are read as the same events (`nsight`): ranges of NVTX, launches and kernels.

The package reads a profile in two ways, which share the upper row:

    files ── ranks, parsing, reading ──> Events ── nesting, layer_ranges, work_pieces, layer_sizes, process_groups

    profile to trace       `kineto`: the layers of an ordinary training run, with samples from its iterations
                           numbering, data_operators, layer_measurements, assembly ──> Trace
    run to recording       `pipelined.recording`: which rank ran which action (0F3) when, for `pipesim rebuild`
                           action_names, action_times, stages, pipelined ──> Recording, which contains a Trace
    run to recorded run    `pipelined.kineto_run`: all iterations, with messages, collectives and the optimizer
                           profiled_runs ──> RecordedRun

Record with `profile(record_shapes=True, profile_memory=True)` over several steps, with ranges around the layers
(`with record_function("block3"): ...`) or with `with_modules=True`.
"""

from collections.abc import Sequence
from pathlib import Path

from pipesim.base.errors import InputError, within
from pipesim.core.members import ImporterInfo
from pipesim.core.trace import ANY_KIND, Trace
from pipesim.importers.kineto.action_names import have_actions
from pipesim.importers.kineto.assembly import TraceOptions, trace_of
from pipesim.importers.kineto.layer_measurements import LayerOptions, measure_layers
from pipesim.importers.kineto.layer_ranges import AUTO, ITERATION
from pipesim.importers.kineto.process_groups import communications, transfer_table
from pipesim.importers.kineto.profile_files import is_folder_of_profiles, is_profile
from pipesim.importers.kineto.ranks import events_by_rank, title


@ImporterInfo(
    recognises=is_profile,
    recognises_path=is_folder_of_profiles,
    otherwise="does not begin as profiles of PyTorch do",
)
def kineto(
    path: Path | Sequence[Path],
    *,
    layers: str = AUTO,
    depth: int | None = None,
    iteration: str = ITERATION,
    microbatches: int | None = None,
    moves: bool = False,
    samples: int = 1,
    backward_factor: float | None = None,
    device: str = ANY_KIND,
    at_least: float = 0.8,
) -> Trace:
    """The trace in the files of one or several ranks, or in all files of a folder.

    `layers` defines the layers: `ranges` (record_function), `modules` (with_modules=True), `operators`, `auto` (the
    first of these that finds two), or a regular expression for the names of any of them, whose group `layer`, or first
    group, is the layer's name. `depth` is the number of levels of nested ranges to open; by default those with most of
    the work are opened. `iteration` is a regular expression for the ranges that are iterations; each becomes a sample,
    or several where it runs `microbatches` (counted where layers have distinct names). If no range matches and
    operators are the layers, ranges that all call the same operators are iterations. Work outside iterations does not
    count; nor do operators before and after the model that only move or create data (copies of parameters to the
    device, random inputs), unless `moves` makes them layers too. `samples` is the size of a microbatch. If no backward
    was recorded, it is `backward_factor` times the forward. `device` is the kind of device that was measured. A trace
    is refused if less than `at_least` of the work is that of layers.

    Ranks that call the same layers (data parallelism) add samples; ranks that call different layers add layers.
    A forward that is recomputed for the backward (checkpointing) is part of the backward, as is its memory: simulate
    such a trace with recompute `none`; `full` would count those forwards twice.
    """
    choice, terms = (
        LayerOptions(layers, depth, iteration, microbatches, moves),
        TraceOptions(samples, backward_factor, device, at_least),
    )
    found, seen = [], []
    for rank, events in events_by_rank(path):
        with within(events.path):
            if layers == AUTO and have_actions(events):
                raise InputError(
                    "was recorded in a pipelined run (it has ranges such as PP:0F3): rebuild it from the files of all "
                    "ranks, with pipesim rebuild FILES -o TRACE, or define the layers (option layers)"
                )
            found.append(measure_layers(events, choice))
            seen += communications(events, rank)
    return trace_of(title(path), found, transfer_table(seen), terms)
