"""pipesim import."""

import shlex
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pipesim.base.settings import setting
from pipesim.cli import options, setting_options
from pipesim.cli.table_outputs import ShownItem, TableOutputs

if TYPE_CHECKING:
    from pipesim.core.trace import Trace


@dataclass(frozen=True, slots=True)
class ImportOptions:
    """How files are read, and what is written."""

    form: str | None = setting(
        None, str, "The files' format: a name, name(option=value), or module:function; default: guessed.",
        flag="--format", family="importers",
    )  # fmt: skip
    samples: int | None = setting(
        None, int, "Samples in the minibatch that the files are about, where they do not say."
    )
    microbatch_size: int | None = setting(
        None, int, "Samples in a microbatch of the trace: times and sizes scale to it."
    )
    tensor: int | None = setting(
        None,
        int,
        "Tensor-parallel width of the run that the files are about; default: as they state, or 1.",
        flag="--tensor-parallel",
        flags=("--tp",),
    )
    context: int | None = setting(
        None, int, "Context-parallel width of it.", flag="--context-parallel", flags=("--cp",)
    )
    expert: int | None = setting(None, int, "Expert-parallel width of it.", flag="--expert-parallel", flags=("--ep",))
    parquet: bool = setting(False, bool, "Write tables as .parquet in place of .csv.")
    force: bool = setting(False, bool, "Replace what exists already.")
    every: bool = setting(False, bool, "Show every layer.", flag="--all")


@click.command(name="import", cls=setting_options.GroupedCommand)
@click.argument("files", nargs=-1, required=True, metavar="FILE...", type=click.Path())
@click.option("--output", "-o", required=True, metavar="TRACE", type=click.Path(), help="Folder to write the trace to.")
@setting_options.options(ImportOptions, "how", group="reading")
@setting_options.options(TableOutputs, "tables")
@options.as_json
def import_(files: tuple[str, ...], output: str, how: ImportOptions, tables: TableOutputs, *, as_json: bool) -> None:
    """Read files that others wrote, and write the trace in them; 'pipesim show formats' lists every option.

    \b
    Formats:
      pipedream   text profiles of PipeDream and DAPPLE         metis   DeviceType.A100_tp1_bs4.json ...
      chakra      execution traces, run.0.et run.1.et ...       npy     vectors of forward seconds (AMP, FASOP)
      csv         a row per layer, any headings                 native  pipesim's own
      layer_profile   JSON of microbatch sizes, widths, layers  megatron_timers   logs with timers of all ranks
      kineto      PyTorch's profiler, .json(.gz) of each rank; exports of Nsight Systems, .sqlite

    \b
    Examples:
      pipesim import vgg16.txt -o vgg16 --samples 64 --microbatch-size 4
      pipesim import DeviceType.A100_tp1_bs*.json -o gpt3 --format 'metis(output_bytes="8MiB")'
      pipesim import gpt2_A100_1.npy -o gpt2 --format 'npy(backward_factor=2, samples=1, output_bytes=6553600)'
      pipesim import times.csv -o mine --format 'csv(columns={"forward_s": "fwd", "backward_s": "bwd"}, time_unit="ms")'
      pipesim import run.0.et run.1.et -o run
      pipesim import rank*.json.gz -o run --samples 8
      pipesim import rank0.json -o run --format 'kineto(layers="block[0-9]+", iteration="train_step", at_least=0.5)'
    """
    tables.check(as_json=as_json)
    quiet = as_json or tables.is_alone
    options.check_free(output, force=how.force)
    options.check_outputs(pictures=[])
    from pipesim.display import text
    from pipesim.importers.opening import open_trace

    chosen = {"samples": how.samples} if how.samples is not None else {}
    began = time.perf_counter()
    with options.busy("reading", quiet=quiet):
        paths = [Path(file) for file in files]
        trace = open_trace(paths, how.form, microbatch_size=how.microbatch_size, **chosen)
        trace = _with_command(trace.stated_at(how.tensor, how.context, how.expert), files, how)
        trace.save(output, ".parquet" if how.parquet else ".csv")
    took = time.perf_counter() - began
    shown = ShownItem(
        lambda: text.trace(trace, None if how.every else text.FEW, options.terminal()),
        lambda: _data(trace, output, took),
        lambda: text.trace_layers(trace),
    )
    tables.show(shown, as_json=as_json)
    options.wrote(output, f"trace, read as {trace.source.partition(':')[0]} in {took:.2f} s,", quiet=quiet)


def _with_command(trace: "Trace", files: tuple[str, ...], how: ImportOptions) -> "Trace":
    """The trace with the command that made it, unless it knows another."""
    if trace.command:
        return trace
    words = ["pipesim", "import", *(Path(file).name for file in files)]
    for option, value in (
        ("--format", how.form),
        ("--samples", how.samples),
        ("--microbatch-size", how.microbatch_size),
        ("--tensor-parallel", how.tensor),
        ("--context-parallel", how.context),
        ("--expert-parallel", how.expert),
    ):
        words += [option, str(value)] if value is not None else []
    return replace(trace, command=shlex.join(words))


def _data(trace: "Trace", output: str, took: float) -> dict[str, Any]:
    from pipesim.display import json_data, text

    return {"output": output, "read_s": took, **json_data.trace_data(trace), "notes": text.trace_notes(trace)}
