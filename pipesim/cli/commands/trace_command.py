"""pipesim trace."""

import math
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from pipesim.base.errors import within
from pipesim.base.settings import setting, settings_of
from pipesim.cli import names, options, setting_options
from pipesim.cli.table_outputs import ShownItem, TableOutputs

if TYPE_CHECKING:
    from pipesim.core.trace import Trace


@dataclass(frozen=True, slots=True)
class RooflineOptions:
    """What the trace is made for; sizes are options of architectures."""

    devices: tuple[str, ...] = setting(
        (), str, "Kind of device, such as a100-80; may be given several times.",
        flag="--device", short="d", family="devices", multiple=True,
    )  # fmt: skip
    microbatches: tuple[int, ...] = setting(
        (), int, "Samples in a microbatch; several times: the trace has all, and is about the first.  [default: 1]",
        flag="--microbatch", short="b", multiple=True,
    )  # fmt: skip
    sequence: int | None = setting(None, int, "Tokens in a sample; default: what the published model reads.")
    image: int | None = setting(None, int, "Side of an image in pixels; default: what the published model reads.")
    precision: str | None = setting(None, str, "fp16, bf16, fp32, tf32 or fp8.  [default: fp16]")
    tensor_parallel: int | None = setting(
        None, int, "Devices that share each layer; the trace is for one.  [default: 1]", flags=("--tp", "--tensor")
    )  # fmt: skip
    efficiency: str = setting(
        "device",
        str,
        "Speed that is reached: 'device' by operation with constants of each kind, 'curve' by layer, "
        "either with other constants, as 'device(product=0.7)', or a number, the part of the peak of all products.",
    )

    def given(self) -> dict[str, int | str]:
        """The sizes that were given, as architectures take them."""
        sizes = ((name, getattr(self, name)) for name in ("sequence", "image", "precision", "tensor_parallel"))
        return {name: value for name, value in sizes if value is not None}


@click.command(cls=setting_options.GroupedCommand)
@click.argument("model", required=False, shell_complete=setting_options.complete("architectures"))
@setting_options.options(RooflineOptions, "sizes", group="model")
@click.option("--output", "-o", type=click.Path(), help="Folder to write.")
@options.force
@setting_options.options(TableOutputs, "tables")
@click.option("--list", "list_", is_flag=True, help="List all architectures and devices.")
@options.as_json
def trace(
    model: str | None,
    sizes: RooflineOptions,
    *,
    output: str | None,
    force: bool,
    tables: TableOutputs,
    list_: bool,
    as_json: bool,
) -> None:
    """Make a trace of a model from the data sheets of devices; nothing is recorded.

    MODEL is the name of a published model, or an architecture with its sizes: 'gpt(layers, hidden, heads)'.
    --sort, --top and the files of a table are about the kinds of devices.

    \b
    Examples:
      pipesim trace --list
      pipesim trace gpt-6.7b --device a100-80 --microbatch 2 -o my-gpt
      pipesim trace 'gpt(24, 1024, 16)' --device v100-16 --device t4 --sequence 512 -o mixed
      pipesim trace llama-70b --device h100 --tensor-parallel 8 --precision bf16 -o llama
      pipesim trace resnet-50 -d v100-16 -b 32 -b 16 -b 8 --precision fp32 -o resnet
      pipesim compare my-gpt 'servers(2, 4, intra="300GB/s", inter="25GB/s", device="a100-80")'
    """  # fmt: skip
    from pipesim.display import text

    tables.check(as_json=as_json)
    if list_:
        _refuse_beside_list(model)
        options.check_given("beside --list", is_there=False, without=tuple(settings_of(TableOutputs)))
        _list(as_json=as_json)
        return
    folder = _checked_output(model, sizes.devices, output, force=force)
    quiet = as_json or tables.is_alone
    with options.busy("computing", quiet=quiet):
        made = _make(model or "", sizes)
        made.save(folder)
    data = _summary(made)
    shown = ShownItem(
        lambda: text.roofline_trace(data), lambda: data | {"output": folder}, lambda: text.roofline_devices(data)
    )
    tables.show(shown, as_json=as_json)
    options.wrote(folder, "trace", quiet=quiet)


def _refuse_beside_list(model: str | None) -> None:
    if model:
        raise click.UsageError("--list takes no model", click.get_current_context())


def _checked_output(model: str | None, devices: tuple[str, ...], output: str | None, *, force: bool) -> str:
    """Refuse what is missing, and an output that exists, before anything is calculated."""
    missing = [name for name, value in (("MODEL", model), ("--device", devices), ("--output", output)) if not value]
    if missing or output is None:
        raise click.UsageError(f"missing {', '.join(missing)}", click.get_current_context())
    options.check_free(output, force=force)
    return output


def _make(model: str, sizes: RooflineOptions) -> "Trace":
    from pipesim.architectures import described
    from pipesim.studies.simulation import efficiency_of

    with within("--efficiency"):
        efficiency = efficiency_of(sizes.efficiency)
    return described.trace_called(
        model,
        sizes.devices,
        sizes.given(),
        microbatches=sizes.microbatches,
        efficiency=efficiency,
        command=_command(model, sizes),
    )


def _command(model: str, sizes: RooflineOptions) -> str:
    """The command that makes the trace again, but for the name of its folder."""
    words = ["pipesim", "trace", model]
    for device in sizes.devices:
        words += ["--device", device]
    for size in sizes.microbatches:
        words += ["--microbatch", str(size)]
    for name, value in {**sizes.given(), "efficiency": sizes.efficiency}.items():
        words += [f"--{name.replace('_', '-')}", str(value)]
    return shlex.join(words)


def _summary(trace: "Trace") -> dict[str, Any]:
    """What the trace holds, as plain numbers and text; seconds are of one microbatch of the first size."""
    from pipesim.core.costs import costs_of
    from pipesim.core.devices import device_kind

    costs = costs_of(trace)
    flops = costs.model.forward_flops or 0.0
    sizes = dict.fromkeys(trace.layers["microbatch_size"].tolist())
    seconds = {
        kind: {"forward": math.fsum(costs.forward(kind)), "backward": math.fsum(costs.backward(kind))}
        for kind in costs.kinds
    }
    return {
        "model": trace.model,
        "layers": len(costs.model),
        "parameter_bytes": int(costs.model.parameter_bytes.sum()),
        "stash_bytes": int(costs.model.stash_bytes.sum()),
        "forward_flops": flops,
        "microbatch_size": trace.microbatch_size,
        "microbatch_sizes": list(sizes),
        "precision": trace.precision,
        "source": trace.source,
        "machine": trace.machine,
        "command": trace.command,
        "seconds": seconds,
        "forward_share_of_peak": {
            kind: flops / spent["forward"] / device_kind(kind).peak[trace.precision] for kind, spent in seconds.items()
        },
    }


def _list(*, as_json: bool) -> None:
    if as_json:
        options.echo_json({"architectures": names.models(), "devices": names.devices()})
    else:
        from pipesim.display import text

        models = text.models(names.models()).text(options.terminal())
        click.echo(f"{models}\n\n{names.devices_text(names.devices())}")
