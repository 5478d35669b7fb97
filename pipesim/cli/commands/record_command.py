"""pipesim record."""

import shlex
import sys
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pipesim.base.settings import setting
from pipesim.cli import options, setting_options
from pipesim.cli.table_outputs import ShownItem, TableOutputs

if TYPE_CHECKING:
    from pipesim.core.trace import Trace
    from pipesim.recorders.layer_recording import LayerRecording

METHODS = ("loop", "hooks")  # as in `pipesim.recorders`; a test compares them


@dataclass(frozen=True, slots=True)
class RecordOptions:
    """What is recorded, and how."""

    sizes: tuple[int, ...] = setting(
        (), int, "Samples in a microbatch. Given again: more sizes in the trace, whose own size is the first.",
        flag="--microbatch", short="b", multiple=True, required=True,
    )  # fmt: skip
    method: str = setting("loop", str, "Layer by layer, or hooks.", choices=METHODS)
    microbatches: int = setting(8, int, "Microbatches in a pass; 8 or more.", short="m")
    passes: int = setting(2, int, "Passes; 2 or more.")
    warmup: int = setting(2, int, "Microbatches run first, each time, and not recorded.")
    device: str = setting("auto", str, "cpu, cuda, cuda:1; auto: the GPU if there is one.")
    device_kind: str = setting("", str, "The device kind in clusters; default: cpu, or the GPU's name.")
    threads: int = setting(1, int, "Threads that PyTorch uses on the CPU.")
    patience: float = setting(60.0, float, "Seconds to wait, each time, for a quiet CPU.")
    tensor: int | None = setting(
        None,
        int,
        "Tensor-parallel width of the layers, where the factory makes one GPU's part of them; default: 1.",
        flag="--tensor-parallel",
        flags=("--tp",),
    )
    context: int | None = setting(
        None, int, "Context-parallel width of it.", flag="--context-parallel", flags=("--cp",)
    )
    expert: int | None = setting(None, int, "Expert-parallel width of it.", flag="--expert-parallel", flags=("--ep",))
    busy: int = setting(0, int, "Other cores that train the same model meanwhile, as a pipeline's neighbours do.")
    keep_memory: bool | None = setting(
        None, bool, "Keep freed memory in the process while recording (glibc), so that times repeat; default: yes."
    )
    since: str | None = setting(
        None, str, "State how much longer layers take than in this earlier trace of them; default: the one that is "
        "replaced.", metavar="TRACE", is_file=True,
    )  # fmt: skip
    name: str = setting("", str, "Name of the model in the trace; default: the factory's.")


@click.command(cls=setting_options.GroupedCommand)
@click.argument("factory")
@click.option("--output", "-o", type=click.Path(), required=True, help="Folder of the trace.")
@setting_options.options(RecordOptions, "how", group="recording")
@options.force
@setting_options.options(TableOutputs, "tables")
@options.as_json
def record(factory: str, output: str, how: RecordOptions, *, force: bool, tables: TableOutputs, as_json: bool) -> None:
    """Time the layers of a PyTorch model and write a trace.

    FACTORY names a function of yours as module:factory or module:factory(option=value); the module is looked for in the
    current folder too. Called with microbatch=4, it returns (layers, example): the model as a sequence of
    torch.nn.Modules, each called with what the one before returned, and what the first is called with.

    \b
        def gpt(*, microbatch, depth=4):                      # in my_models.py
            layers = [Embedding(), *(Block() for _ in range(depth)), Head()]
            return layers, torch.zeros(microbatch, 128, dtype=torch.long)

    \b
    Recorded are, for each layer: forward; backward of the first and of later
    microbatches; gradients of inputs and of weights apart; recomputation; bytes of
    outputs, parameters and saved tensors; FLOPs. And the steps of optimizers. On the
    CPU, only what was measured while the machine was quiet is kept, and freed memory
    stays in the process, as the training should have it too: the settings are printed.

    \b
    Examples:
      pipesim record my_models:gpt --microbatch 4 --output gpt
      pipesim record 'my_models:gpt(depth=12)' -b 4 -b 2 -b 1 --output gpt-12 --threads 2
      pipesim record my_models:vgg --microbatch 8 --output vgg --method hooks --json
      pipesim record my_models:gpt --microbatch 4 --output gpt-beside --busy 1
    """
    from pipesim.display import text
    from pipesim.recorders import allocator
    from pipesim.recorders.drift import drift_of
    from pipesim.recorders.noise import noise
    from pipesim.recorders.torch_extra import require_torch

    tables.check(as_json=as_json)
    quiet = as_json or tables.is_alone
    options.check_free(output, force=force)
    earlier = _earlier(how.since, output)
    kept = how.keep_memory is not False and allocator.keep_memory()  # before PyTorch allocates anything
    require_torch("recording")
    recording = _record(factory, how, quiet=quiet)
    trace = recording.trace.stated_at(how.tensor, how.context, how.expert)
    if how.busy:
        trace = replace(trace, machine=f"{trace.machine}; {how.busy} other cores busy")
    if kept:
        trace = replace(trace, machine=f"{trace.machine}; freed memory kept ({allocator.as_environment()})")
    recording = replace(recording, trace=trace)
    found = None if earlier is None else drift_of(earlier, trace)
    trace.save(output)
    drift = None if found is None else {**asdict(found), "change": found.change, "is_large": found.is_large}
    shown = ShownItem(
        lambda: _text(recording),
        lambda: _data(recording) | {"freed_memory_kept": kept, "drift": drift},
        lambda: text.recorded_layers(noise(recording.trace)),
    )
    tables.show(shown, as_json=as_json)
    if found is not None and not quiet:
        more = "; simulations with the earlier trace are as far from this machine now" if found.is_large else ""
        click.echo(f"{'warning: ' if found.is_large else ''}{found}{more}")
    if kept and not quiet:
        click.echo(f"freed memory was kept while recording; for the training: {allocator.as_environment()}")
    options.wrote(output, "trace", quiet=quiet)


def _earlier(since: str | None, output: str) -> "Trace | None":
    """The trace that is named, or that the recording replaces."""
    from pipesim.core.trace import Trace
    from pipesim.studies import loading

    if since is not None:
        return loading.load_trace(since)
    folder = Path(output)
    return Trace.load(folder) if (folder / "trace.toml").is_file() else None


def _record(factory: str, how: RecordOptions, *, quiet: bool) -> "LayerRecording":
    from pipesim.recorders import layer_recording, neighbours
    from pipesim.recorders.measuring import Settings
    from pipesim.recorders.subjects import load_factory

    sys.path.insert(0, str(Path.cwd()))  # as for `python -m`: the user's module may lie here
    settings = Settings(
        method=how.method,
        microbatches=how.microbatches,
        passes=how.passes,
        warmup=how.warmup,
        threads=how.threads,
        patience_s=how.patience,
    )
    command = shlex.join(["pipesim", *options.words()])
    labels = layer_recording.TraceLabels(how.name, how.device_kind, command)
    made = load_factory(factory)
    with (
        neighbours.working(factory, how.sizes[0], how.busy, how.threads),
        options.bar(100 * len(how.sizes) * settings.passes, "recording", quiet=quiet) as watch,
    ):
        return layer_recording.record(made, how.sizes, settings, device=how.device, labels=labels, watch=watch)


def _data(recording: "LayerRecording") -> dict[str, Any]:
    from pipesim.base import serialisation
    from pipesim.recorders.noise import noise

    trace = recording.trace
    return {
        "model": trace.model,
        "layers": trace.layer_count,
        "device_kind": trace.device_kinds[0],
        "machine": trace.machine,
        "precision": trace.precision,
        "checks": [serialisation.to_data(check) | {"difference": check.difference} for check in recording.checks],
        "windows": len(recording.lost),
        "windows_thrown_away": recording.disturbed,
        "not_measured": [serialisation.to_data(one) for one in recording.not_measured],
        "optimizers": [serialisation.to_data(step) for step in trace.optimizers],
        "noise": [serialisation.to_data(one) for one in noise(trace)],
    }


def _text(recording: "LayerRecording") -> str:
    from pipesim.display import text
    from pipesim.recorders.noise import noise

    return text.recording(recording, noise(recording.trace))
