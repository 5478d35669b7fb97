"""What determines a simulation, described once: its options, keywords, keys of files, and the key of its result.

A `Simulation` is a description: names, expressions and file names, or the values themselves where it is made in Python.
`pipesim.studies.setups` makes of it what is lowered, a `Setup`.

Nothing here imports numpy, because the command line derives its options, and `--help`, from these fields.
"""

import dataclasses
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from pipesim.architectures import ARCHITECTURES
from pipesim.base import files, lookup, settings
from pipesim.base.errors import InputError, quoted
from pipesim.base.settings import setting
from pipesim.core.sharing import SHARINGS
from pipesim.schedulers import SCHEDULERS

if TYPE_CHECKING:
    from pipesim.core.background import Background
    from pipesim.core.cluster import Cluster
    from pipesim.core.limits import HostMemory
    from pipesim.core.plan import Plan
    from pipesim.core.scenario import Scenario
    from pipesim.core.schedule import Schedule
    from pipesim.core.sequence_lengths import SequenceLengths
    from pipesim.core.trace import Trace

    Planner = Callable[..., Plan]
    Scheduler = Callable[..., Schedule]


Function = TypeVar("Function", bound=Callable[..., Any])

TRANSFERS = ("eager", "rendezvous", "blocking", "paired", "sequential", "posted")
RECOMPUTES = ("none", "full", "selective")
SCALINGS = ("recorded", "linear")
GRANULARITIES = ("block", "layer")
SHARDINGS = ("none", "zero1", "zero2", "zero3")
RINGS = ("one", "all")
PRECISIONS = ("fp32", "tf32", "fp16", "bf16", "fp8")

# What fields are that are not given: with no framework, and with one, as its documentation and code have it;
# docs/frameworks.md names the versions.
UNSTATED: dict[str, Any] = {
    "planner": "balanced",
    "transfers": "eager",
    "whole_first_stage": False,
    "sharding": "none",
    "gradient_overlap": False,
    "rings": "one",
    "scatter_sends": False,
    "tied_all_reduce": False,
    "gradient_norm": False,
    "reserve": 0.0,
    "fit": True,
}
# Bytes of a GPU that the CUDA context takes with PyTorch's kernels, and NCCL for each of its groups that communicates:
# tensor, pipeline, data, and but in torch one for the norm of gradients. docs/frameworks.md has the sources.
_FOUR_GROUPS, _THREE_GROUPS = 4.0 * 2**30, 3.3 * 2**30
_MEGATRON: dict[str, Any] = {
    "rings": "all", "tied_all_reduce": True, "gradient_norm": True, "reserve": _FOUR_GROUPS,
}  # fmt: skip
FRAMEWORKS: dict[str, dict[str, Any]] = {
    "megatron": _MEGATRON,
    "megatron-v2": _MEGATRON | {"scatter_sends": True},
    "deepspeed": {
        "transfers": "sequential", "scatter_sends": True, "rings": "all", "tied_all_reduce": True,
        "gradient_norm": True, "reserve": _FOUR_GROUPS,
    },
    "torch": {
        "gradient_overlap": True, "rings": "all", "reserve": _THREE_GROUPS, "whole_first_stage": True,
    },
}  # fmt: skip
# Of frameworks whose schedules send in different ways, how each does; "" are those that are not named.
TRANSFERS_OF: dict[str, dict[str, str]] = {
    "megatron": {"one_f_one_b": "blocking", "gpipe": "blocking", "interleaved": "eager", "": "rendezvous"},
    "megatron-v2": {"one_f_one_b": "blocking", "gpipe": "blocking", "interleaved": "paired", "": "rendezvous"},
    "torch": {"one_f_one_b": "blocking", "gpipe": "rendezvous", "": "posted"},
}
# Parameters of these precisions have gradients in fp32; others in their own precision.
FP32_GRADIENTS: dict[str, tuple[str, ...]] = {"megatron": ("bf16", "fp8"), "megatron-v2": ("bf16",)}
# Bytes per parameter that the optimizer's step makes of gradients of 16 bits: copies in fp32, and what they are made
# from in one piece; not sharded, and sharded, of each parameter that a GPU steps on.
STEP_COPIES: dict[str, tuple[float, float]] = {
    "megatron": (4.0, 4.0), "megatron-v2": (4.0, 4.0), "deepspeed": (8.0, 6.0),
}  # fmt: skip
LAYOUT = ("pipeline", "data", "interleave")
ANY = "any"  # tensor width: whatever a planner chooses for each stage
# What only models that are computed take.
COMPUTED = ("efficiency", "sequence", "lengths", "packed", "precision", "sequence_parallel", "tensor_overlap")
MODEL = "model:"  # before the name of a model, where a bundled trace has the same name


def efficiency_of(value: Any) -> Any:  # noqa: ANN401 - text or a number
    """The efficiency in text or a number: a part of the peak, or a name with its constants, such as "device"."""
    from pipesim.base import units  # noqa: PLC0415 - imports numpy

    if not isinstance(value, str):
        return value
    try:
        return units.number(value)
    except ValueError:
        pass
    from pipesim.architectures import efficiency_names  # noqa: PLC0415 - as units

    efficiency_names.named(value)
    return value


def counts_of(value: Any) -> Any:  # noqa: ANN401 - text or a number
    """A whole number in text, or such text with one for each stage: 3;2;0;0."""
    parts = str(value).split(";") if value is not None else []
    if not all(part.strip().isdecimal() for part in parts):
        raise InputError(f"{quoted(str(value))} found; whole numbers such as 3, or 3;2;0;0 by stage, were expected")
    return value if len(parts) != 1 else int(parts[0])


def tensor_of(value: Any) -> Any:  # noqa: ANN401 - text or a number
    """As `counts_of`, or ANY."""
    if isinstance(value, str) and value.strip().lower() == ANY:
        return ANY
    try:
        return counts_of(value)
    except InputError:
        raise InputError(f"{quoted(str(value))} found; a width such as 8, 8;8;4 by rank, or any was expected") from None


def size_of(value: Any) -> Any:  # noqa: ANN401 - text or a number
    """Bytes in text such as 4GB, or in a number."""
    from pipesim.base import units  # noqa: PLC0415 - imports numpy

    return None if value is None else units.size(value)


def duration_of(value: Any) -> Any:  # noqa: ANN401 - text or a number
    """Seconds in text such as 5us, or in a number."""
    from pipesim.base import units  # noqa: PLC0415 - imports numpy

    return units.duration(value)


def count_of(value: Any) -> Any:  # noqa: ANN401 - text or a number
    """A number in text such as 15T, or a number."""
    from pipesim.base import units  # noqa: PLC0415 - imports numpy

    return None if value is None else units.count(value)


@dataclass(frozen=True, slots=True)
class Simulation:
    """One simulation, or many iterations of it with drawn times.

    >>> simulation = ps.Simulation(trace="bert-large", cluster='flat(2, bandwidth="1GB/s")', microbatches=4)
    >>> print(f"{ps.simulate(simulation).iteration_time * 1e3:.1f} ms")
    194.2 ms
    """

    trace: "Trace | Path | str | None" = setting(
        None, str, "A trace: a folder, a file of any format that can be imported, or the name of a bundled trace.",
        family="traces", is_file=True, group="inputs",
    )  # fmt: skip
    architecture: str | None = setting(
        None, str, "A model in place of a trace, timed from data sheets: a name such as gpt-6.7b, or name(sizes).",
        family="architectures", group="inputs",
    )  # fmt: skip
    efficiency: "float | str" = setting(
        "device", float, "Speed of computed models: 'device' by operation, 'curve' by layer, or a part of the peak.",
        metavar="NUMBER|NAME", parse=efficiency_of, group="inputs",
    )  # fmt: skip
    cluster: "Cluster | Path | str | None" = setting(
        None, str, "A cluster: a topology with its sizes, a cluster file, or a machine's own description.",
        family="topologies", group="inputs",
    )  # fmt: skip
    device: str | None = setting(
        None,
        str,
        "The kind of all devices, in place of that of the cluster: a100-80gb, ...",
        family="devices",
        group="inputs",
    )
    planner: "Planner | str | None" = setting(
        None, str, "The planner: a name, name(option=value), or module:function; default: balanced, or megatron where "
        "a width or the layout is given.", short="p", family="planners", group="plan",
    )  # fmt: skip
    plan: "Plan | Path | str | None" = setting(
        None, str, "A plan from a file, in place of a planner.", is_file=True, group="plan"
    )
    objective: str | None = setting(
        None, str, "What planners that are given a cost of plans minimise of iterations with drawn times; default: the "
        "iteration with median times.", choices=("mean", "p50", "p95", "p99"), group="plan",
    )  # fmt: skip
    fit: bool | None = setting(
        None, bool, "Where the plan of a planner does not fit in memory, take its other options, cuts or fewer "
        "replicas that do; default: yes.", group="memory",
    )  # fmt: skip
    scheduler: "Scheduler | Schedule | str" = setting(
        "one_f_one_b", str, "The order of microbatches: a name, module:function, or a schedule file (.csv, .json).",
        short="s", family="schedulers", group="schedule",
    )  # fmt: skip
    microbatches: int = setting(8, int, "Microbatches in one iteration.", short="m", group="schedule")
    microbatch_size: int | None = setting(
        None, int, "Samples in a microbatch; default: as in the trace.", group="schedule"
    )
    global_batch: int | None = setting(
        None, int, "Samples in one iteration, of all replicas, in place of the number of microbatches.",
        flags=("--gbs", "--global-batch-size"), group="schedule",
    )  # fmt: skip
    tokens: "float | str | None" = setting(
        None, float, "Tokens of a whole training run, as 15T or 300B: shows the days and GPU-hours that it takes.",
        metavar="NUMBER", parse=count_of, group="training",
    )  # fmt: skip
    sequence: int | None = setting(
        None, int, "Tokens in a sample of a computed model.", flags=("--seq-length",), group="inputs"
    )
    lengths: "SequenceLengths | Path | str | None" = setting(
        None, str, "Lengths of the sequences of a computed model: lognormal(median, sigma), uniform(least, most), "
        "exponential(mean), or a file with one per line.", is_file=True, group="inputs",
    )  # fmt: skip
    packed: bool = setting(
        False, bool, "Sequences of --lengths fill samples of full length; otherwise samples are padded to the longest "
        "of their microbatch.", group="inputs",
    )  # fmt: skip
    precision: str | None = setting(
        None,
        str,
        "Precision of a computed model; default: bf16, fp16 where a device has no bf16.",
        choices=PRECISIONS,
        group="inputs",
    )
    framework: str | None = setting(
        None, str, "How it posts messages, shards and reduces, where no other option does.",
        choices=tuple(FRAMEWORKS), group="training",
    )  # fmt: skip
    tensor: "int | str | None" = setting(
        None, int, "Tensor-parallel width: GPUs that share each layer of a stage, or by rank of a pipeline: 8, or "
        "8;8;4; any: as planner spp_plus chooses; default: as the trace was timed.", metavar="NUMBERS", parse=tensor_of,
        flags=("--tp", "--tensor-parallel"), group="plan",
    )  # fmt: skip
    pipeline: int | None = setting(
        None, int, "Devices of one pipeline.", flags=("--pp", "--pipeline-parallel"), group="plan"
    )
    data: int | None = setting(None, int, "Pipelines side by side.", flags=("--dp", "--data-parallel"), group="plan")
    interleave: int | None = setting(
        None, int, "Stages on each device (virtual stages).", flags=("--vpp",), group="plan"
    )
    context: int | None = setting(
        None,
        int,
        "Context-parallel width: GPUs that share each sequence.",
        flags=("--cp", "--context-parallel"),
        group="plan",
    )
    expert: int | None = setting(
        None,
        int,
        "Expert-parallel width, for traces recorded at it.",
        flags=("--ep", "--expert-parallel"),
        group="plan",
    )
    scale_widths: bool = setting(
        False,
        bool,
        "Scale a trace to widths that it was not timed at, by computed times of its model, or in proportion.",
        group="plan",
    )
    sequence_parallel: bool | None = setting(
        None,
        bool,
        "Divide norms, dropouts and what is sent along the sequence over a tensor-parallel team.",
        group="plan",
    )
    tensor_overlap: float = setting(
        0.0, float, "Part of a computed model's tensor-parallel exchanges that its own products hide.",
        flags=("--tp-overlap",), group="inputs",
    )  # fmt: skip
    scaling: str = setting(
        "recorded", str, "Time of a part of a microbatch: interpolated between recorded sizes, or in proportion (SPP).",
        choices=SCALINGS, group="inputs",
    )  # fmt: skip
    weight_share: float = setting(
        0.5,
        float,
        "Part of a backward that computes weight gradients, where a trace has only whole backwards.",
        group="inputs",
    )
    whole_first_stage: bool | None = setting(
        None, bool, "With split backwards, the first stage does its whole backward as the gradient of weights.",
        group="training",
    )  # fmt: skip
    granularity: str = setting(
        "block", str, "Where plans cut, and what is recomputed as one: blocks (blockN.x stay together), or layers.",
        choices=GRANULARITIES, group="plan",
    )  # fmt: skip
    sharing: str = setting("fair", str, "How transfers share links.", choices=SHARINGS, group="network")
    transfers: str | None = setting(
        None, str, "When transfers start, and whether they hold their devices; default: eager, or as the framework.",
        choices=TRANSFERS, group="network",
    )  # fmt: skip
    scatter_sends: bool | None = setting(
        None, bool, "Each GPU of a team sends its part of a tensor, not all of it.", group="network"
    )
    message_time: "float | str" = setting(
        0.0,
        float,
        "Time of each message between stages beside that of its links: software at both ends (50us).",
        metavar="TIME",
        parse=duration_of,
        group="network",
    )
    optimizer: str | None = setting(
        None, str, "Optimizer step and state as recorded in the trace: sgd, adamw, ...", group="training"
    )
    optimizer_s_per_byte: float = setting(0.0, float, "Optimizer step: seconds per parameter byte.", group="training")
    optimizer_state: float | None = setting(
        None,
        float,
        "Optimizer state: bytes per parameter byte; default: Adam's in the trace's precision.",
        group="memory",
    )
    recompute: str = setting(
        "none", str, "Layers that keep only their input and compute their forward again before the backward.",
        choices=RECOMPUTES, group="memory",
    )  # fmt: skip
    recompute_blocks: "int | str | None" = setting(
        None, int, "With --recompute full, only so many blocks of each stage, from its first: 3, or 3;2;0;0 by stage.",
        metavar="NUMBERS", parse=counts_of, group="memory",
    )  # fmt: skip
    sharding: str | None = setting(
        None, str, "What replicas divide: nothing, optimizer state (zero1), gradients too (zero2), parameters too "
        "(zero3); default: nothing, or as the framework.", choices=SHARDINGS, group="training",
    )  # fmt: skip
    sharding_size: int | None = setting(
        None, int, "Over how many replicas that is divided; default: all of them.", group="training"
    )
    gradient_precision: str | None = setting(
        None, str, "Precision of gradients that are summed; default: that of the parameters, or as the framework.",
        choices=PRECISIONS, group="training",
    )  # fmt: skip
    gradient_overlap: bool | None = setting(
        None,
        bool,
        "Sum gradients in buckets while the last backwards run; gather parameters while first forwards do.",
        group="training",
    )
    rings: str | None = setting(
        None, str, "Rings over which replicas sum gradients: one, or one for each of a node's NICs that they reach.",
        choices=RINGS, group="training",
    )  # fmt: skip
    tied_all_reduce: bool | None = setting(
        None, bool, "First and last stage both hold a tied embedding, and sum its gradient.", group="training"
    )
    gradient_norm: bool | None = setting(
        None, bool, "All devices exchange the gradients' norm before optimizer steps.", group="training"
    )
    reserve: "float | str | None" = setting(
        None,
        float,
        "Memory of each GPU that is held beside tensors, by CUDA and NCCL (4GB); default: 0, or as the framework.",
        metavar="SIZE",
        parse=size_of,
        group="memory",
    )
    frozen: str | None = setting(
        None, str, "Layers that are not trained, by name or glob: 'embedding;block[0-9].*'.", metavar="NAMES",
        group="training",
    )  # fmt: skip
    lora_rank: int | None = setting(
        None, int, "Train low-rank adapters of this rank, and nothing else.", group="training"
    )
    lora_targets: str | None = setting(
        None, str, "Matrices with adapters, as PEFT or Megatron-LM names them: 'q_proj;v_proj' (the default), "
        "'linear_qkv;linear_fc1', all-linear.", metavar="NAMES", group="training",
    )  # fmt: skip
    pair_overlap: float = setting(
        0.0,
        float,
        "Of a forward and a backward that run as one (DualPipe), the part of the shorter that is hidden.",
        group="schedule",
    )
    pair_factor: float | None = setting(
        None,
        float,
        "In place of --pair-overlap: the time of such a pair, as a factor on the sum of both.",
        group="schedule",
    )
    scenario: "Scenario | Path | str | None" = setting(
        None, str, "TOML file with slow devices and degraded links.", is_file=True, group="variation"
    )
    slow: str | None = setting(
        None, str, "Devices whose tasks take longer, by name or pattern: gpu2=1.1, or 'gpu2=1.1;node1.*=1.05'.",
        metavar="DEVICE=FACTOR", group="variation",
    )  # fmt: skip
    background: "Background | Path | str | None" = setting(
        None, str, "CSV file of what others use of links over time: link (a->b, a<->b), time (20ms), share (0.3).",
        is_file=True, group="network",
    )  # fmt: skip
    iterations: int | None = setting(
        None,
        int,
        "Simulate so many iterations, with layer times drawn from the trace's samples.",
        short="n",
        group="variation",
    )
    seed: int = setting(0, int, "Seed of the draws.", group="variation")
    jitter: float = setting(
        0.0, float, "Vary each layer's time by this coefficient of variation: 0.05 is 5 %.", group="variation"
    )
    draw: str | None = setting(
        None, str, "What tasks share of a draw: everything in a step, all of a microbatch, both directions of a layer, "
        "or nothing; default: found from the trace's samples.",
        choices=("microbatch", "step", "layer", "independent"), group="variation",
    )  # fmt: skip
    fold: str = setting(
        "auto", str, "Whether devices, messages and links that do the same at the same time are simulated once: auto, "
        "where a job is large; off. Results do not depend on it.",
        choices=("auto", "off"), in_key=False, group="engine",
    )  # fmt: skip
    engine: str = setting(
        "auto", str, "The engine: auto, event (SimPy), compiled, or module:function; results do not depend on it.",
        in_key=False, group="engine",
    )  # fmt: skip
    host_memory: "HostMemory" = setting(
        None, str, "Refuse what would take more of this machine's memory (8GB); default: half of it.",
        metavar="SIZE", in_key=False, group="engine",
    )  # fmt: skip

    def as_data(self) -> dict[str, Any]:
        """Plain text and numbers, as in files and JSON; values made in Python are there by their names."""
        return {field.name: _plain(getattr(self, field.name)) for field in dataclasses.fields(self)}

    def _check_types(self) -> None:
        for name, about in settings.settings_of(Simulation).items():
            value = getattr(self, name)
            whole = about.kind is int and (isinstance(value, bool) or not isinstance(value, int))
            if about.parse is not None:
                continue
            if value is not None and whole and not hasattr(value, "__index__"):
                raise InputError(f"{name} = {value!r} found; a whole number was expected")
            if isinstance(value, int | float) and about.kind is str and name != "host_memory":
                raise InputError(f"{name} = {value!r} found; a name was expected")

    def check(self) -> None:
        """Refuse fields that are missing, contradict each other, or have no effect."""
        self._check_types()
        given = {name for name, default in defaults().items() if not _is(getattr(self, name), default)}
        check_together(given, traces=(self.trace,))
        settings.check_choices(self)
        if "recompute_blocks" in given and self.recompute != "full":
            raise InputError("recompute_blocks has no effect without recompute = full")
        if "packed" in given and "lengths" not in given:
            raise InputError("packed has no effect without lengths")
        if "lengths" in given and self.architecture is not None:
            raise InputError("lengths and architecture found; lengths need a model that is named as the trace")
        if "lora_targets" in given and "lora_rank" not in given:
            raise InputError("lora_targets has no effect without lora_rank")
        if self.lora_rank is not None and self.lora_rank < 1:
            raise InputError(f"lora_rank = {self.lora_rank} found; 1 or more was expected")
        if "seed" in given and "iterations" not in given:
            raise InputError("seed has no effect without iterations")


Simulation.__doc__ = f"{Simulation.__doc__}\n\nFields:\n\n{settings.described(Simulation)}\n"

FIELDS = tuple(settings.settings_of(Simulation))
KEY_FIELDS = tuple(name for name, about in settings.settings_of(Simulation).items() if about.in_key)
# What functions take by position: those that simulate, and those that only plan.
SIMULATING = ("trace", "cluster", "planner", "scheduler", "microbatches", "microbatch_size")
PLANNING = ("trace", "cluster", "planner", "microbatches", "microbatch_size", "scaling")


def checked(name: str, value: Any, place: str) -> Any:  # noqa: ANN401 - what a file holds is anything
    """A value from a file as a field has it."""
    from pipesim.base import serialisation  # noqa: PLC0415 - imports numpy

    about = settings.settings_of(Simulation)[name]
    if about.parse is not None and isinstance(value, str):
        value = about.parse(value)
        return value if isinstance(value, str) else serialisation.checked(about.kind, value, place)
    if value is None and defaults()[name] is not None:
        raise InputError(f"{place}: null found; a value was expected")
    kind: Any = Literal[about.choices] if about.choices else about.kind
    return None if value is None else serialisation.checked(kind, value, place)


def with_defaults(simulation: Simulation) -> Simulation:
    """The simulation with what its framework, or no framework, makes of fields that are not given.

    >>> ps.studies.simulation.with_defaults(ps.Simulation(framework="deepspeed")).transfers
    'sequential'
    """
    values = UNSTATED | FRAMEWORKS.get(simulation.framework or "", {})
    if (simulation.interleave or 1) > 1 and simulation.scheduler == defaults()["scheduler"]:
        simulation = replace(simulation, scheduler="interleaved")
    if (of := TRANSFERS_OF.get(simulation.framework or "")) is not None:
        values |= {"transfers": of.get(_schedule_named(simulation.scheduler), of[""])}
    if any(getattr(simulation, name) is not None for name in LAYOUT) or widths_of_ranks(simulation):
        values |= {"planner": "megatron"}
    elif simulation.tensor == ANY:
        values |= {"planner": "spp_plus"}
    simulation = _with_chunks_of_schedule(simulation)
    return replace(simulation, **{name: value for name, value in values.items() if getattr(simulation, name) is None})


def widths_of_ranks(simulation: Simulation) -> tuple[int, ...]:
    """The tensor width of each rank of a pipeline, where they are given one by one; else none.

    >>> ps.studies.simulation.widths_of_ranks(ps.Simulation(tensor="8;8;4"))
    (8, 8, 4)
    """
    text = simulation.tensor
    return tuple(map(int, text.split(";"))) if isinstance(text, str) and text != ANY else ()


def _with_chunks_of_schedule(simulation: Simulation) -> Simulation:
    """Refuse stages per device that a schedule does not have; where it has always as many, its own cuts are used."""
    name = _schedule_named(simulation.scheduler)
    if simulation.interleave is None or not name:
        return simulation
    from pipesim.core.members import SchedulerInfo, info_of  # noqa: PLC0415 - imports numpy

    text = str(simulation.scheduler)
    info = info_of(lookup.function_named(name, SCHEDULERS, "scheduler"), SchedulerInfo)
    units = lookup.parse_member(text, SCHEDULERS, "scheduler")[2].get(info.chunks_option)
    if info.layout not in {"loop", "wave"}:
        return simulation
    if info.chunks_option and units is None and simulation.interleave > 1:
        return simulation  # as many as the plan has
    if not info.chunks_option or units is not None:
        chunks = info.chunks * (units if isinstance(units, int) else 1)
        if simulation.interleave == chunks:
            return simulation if info.chunks_option else replace(simulation, interleave=None)
        expected = f"{chunks} stages on each device: interleave = {chunks}, or none, was expected"
    else:
        expected = "several stages on each device: interleave = 2 or more, or none, was expected"
    raise InputError(f"interleave = {simulation.interleave} found; scheduler {quoted(text)} has {expected}")


def _schedule_named(scheduler: object) -> str:
    """The name in the list of schedules that text such as "1F1B" or "interleaved(chunks=2)" means; "" for others."""
    if not isinstance(scheduler, str):
        return ""
    return lookup.member_named(scheduler.partition("(")[0].strip(), SCHEDULERS) or ""


def defaults() -> dict[str, Any]:
    """The default of every field."""
    return settings.defaults_of(Simulation)


def names_config(path: Path) -> bool:
    """Whether a path is a Hugging Face config.json, or a folder that has one and is no trace."""
    beside = path / "config.json"
    return (
        files.exists(path) if path.name == beside.name else files.exists(beside) and not (path / "trace.toml").exists()
    )


def may_be_model(trace: object) -> bool:
    """Whether a TRACE is the name of a model, or of a model and a bundled trace, or a config.json of one."""
    if not isinstance(trace, str):
        return False
    is_name = trace.startswith(MODEL) or trace.partition("(")[0].strip() in ARCHITECTURES
    return is_name or Path(trace).name == "config.json" or names_config(Path(trace))


def check_together(names: "set[str] | frozenset[str]", where: str = "", traces: Sequence[object] = ()) -> None:
    """Refuse names of fields that contradict each other, that have no effect, or without which nothing is described.

    `where` ends the sentence about what is missing: what it could have been given in. `traces` are the values of trace.
    """
    exclusive = (
        ("trace", "architecture"),
        ("plan", "planner"),
        ("plan", "objective"),
        ("plan", "microbatches"),
        ("plan", "global_batch"),
        ("microbatches", "global_batch"),
        *(("plan", name) for name in LAYOUT),
        ("optimizer", "optimizer_s_per_byte"),
        ("optimizer", "optimizer_state"),
        ("frozen", "lora_rank"),
    )
    for one, other in exclusive:
        if {one, other} <= names:
            raise InputError(f"{one} and {other} found; one of them was expected")
    if not {"trace", "architecture"} & names or "cluster" not in names:
        missing = "cluster" if {"trace", "architecture"} & names else "trace, or architecture,"
        raise InputError(f"{missing} is missing{where}")
    is_computed = "architecture" in names or any(map(may_be_model, traces))
    for name in COMPUTED if not is_computed else ():
        if name in names:
            raise InputError(f"{name} has no effect without a model that is computed: a trace has its own times")
    for name in ("jitter", "draw"):
        if name in names and not {"iterations", "objective"} & names:
            raise InputError(f"{name} has no effect without iterations, or objective")


def idle_fields(simulation: Simulation) -> frozenset[str]:
    """The fields that have no effect on the result of a simulation."""
    stated = simulation.efficiency != defaults()["efficiency"] and may_be_model(simulation.trace)
    effects = (
        (("efficiency",), simulation.architecture is not None or stated),
        (("planner", "microbatches"), simulation.plan is None),
        (("seed",), simulation.iterations is not None),
        (("jitter", "draw"), simulation.iterations is not None or simulation.objective is not None),
        (("objective",), simulation.plan is None),
    )
    return frozenset(name for names, has_effect in effects if not has_effect for name in names)


def simulation_of(*values: Any, order: Sequence[str] = SIMULATING, **fields: Any) -> Simulation:  # noqa: ANN401 - fields of Simulation
    """The simulation that positional values and keywords of a function such as `ps.simulate` describe.

    Values are fields in the `order` given, or a Simulation, whose fields the keywords replace. A keyword that no field
    has is refused, with what was probably meant.
    """
    settings.check_names(fields, list(FIELDS) + list(_GROUPS), "keyword")
    base = Simulation()
    if values and isinstance(values[0], Simulation):
        base, values = values[0], values[1:]
    if len(values) > len(order):
        raise InputError(f"{len(values)} values found; {len(order)} at most were expected, then keywords")
    given = dict(zip(order, values, strict=False))
    for name in given.keys() & fields.keys():
        raise InputError(f"{name} found as a value and as a keyword; one of them was expected")
    made = replace(base, **_as_fields(given | fields))
    made.check()
    return made


def takes_fields(order: Sequence[str] = SIMULATING) -> Callable[[Function], Function]:
    """Show the fields as the signature of a function that hands its arguments to `simulation_of`."""

    def decorate(function: Function) -> Function:
        own = [one for one in signature(function).parameters.values() if one.kind is one.KEYWORD_ONLY]
        names = [*order, *(name for name in FIELDS if name not in order)]
        kinds = {True: Parameter.POSITIONAL_OR_KEYWORD, False: Parameter.KEYWORD_ONLY}
        fields = [Parameter(name, kinds[name in order], default=defaults()[name]) for name in names]
        shown = Signature([*fields, *own], return_annotation=signature(function).return_annotation)
        setattr(function, "__signature__", shown)  # noqa: B010 - a type checker knows no such attribute
        return function

    return decorate


# Keywords of pipesim 0.1 that hold several fields: a value of this class each.
_GROUPS = ("options",)


def _as_fields(given: Mapping[str, Any]) -> dict[str, Any]:
    """Keywords as fields: a plan may be given as the planner and the other way round, options as one value."""
    found = dict(given)
    options = found.pop("options", None)
    if options is not None:
        stated = {field.name: getattr(options, field.name) for field in dataclasses.fields(options)}
        if stated.pop("gradient_bytes") is not None:
            raise InputError("options: gradient_bytes found; gradient_precision is the keyword for it")
        for name in ("step_bytes", "workspace"):
            if stated.pop(name):
                raise InputError(f"options: {name} found; framework is the keyword for it")
        found = stated | found
    planner, plan = found.get("planner"), found.get("plan")
    if planner is not None and _is_plan(planner):
        found["plan"] = found.pop("planner")
    elif "planner" not in found and plan is not None and not _is_plan(plan) and not _is_plan_file(plan):
        if isinstance(plan, str):
            text = f"plan={plan!r} names a planner; write planner={plan!r} (the old keyword goes with the next release)"
            warnings.warn(text, DeprecationWarning, stacklevel=4)
        found["planner"] = found.pop("plan")
    parsed = {name: about.parse for name, about in settings.settings_of(Simulation).items() if about.parse}
    return found | {name: parse(found[name]) for name, parse in parsed.items() if found.get(name) is not None}


def _is_plan(value: object) -> bool:
    from pipesim.core.plan import Plan  # noqa: PLC0415 - imports numpy

    return isinstance(value, Plan)


def _is_plan_file(value: object) -> bool:
    return isinstance(value, Path) or (isinstance(value, str) and value.endswith((".json", ".toml")))


def _is(value: object, default: object) -> bool:
    """Whether a value is the default; values made in Python never are, and some cannot be compared."""
    return value is default or (isinstance(value, str | int | float) and value == default)


def _plain(value: Any) -> Any:  # noqa: ANN401 - of any field
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, Path):
        return str(value)
    name = getattr(value, "name", None) or getattr(value, "model", None) or getattr(value, "__name__", None)
    return str(name or type(value).__name__)
