"""From a plan and a schedule to a Program, in passes: each adds one sort of task, none changes what stands.

    slots        one replica of one stage: (stage 0, replica 0), (stage 0, replica 1), (stage 1, replica 0), ...
    compute      one task per action of the schedule, rank after rank
    optimizer    one task per slot, after its gradients are complete
    transfers    activations and gradients at each cut, from every replica that has a part to every one that needs it
    all-reduce   one task per edge of each replicated stage's ring

A task's index settles ties: compute first, then transfers by microbatch, gradients before activations.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipesim.base import units
from pipesim.base.arrays import Ints, Ragged
from pipesim.base.errors import RefusedError
from pipesim.core import legality
from pipesim.core import plan as plans
from pipesim.core import program as programs
from pipesim.core.cluster import Cluster
from pipesim.core.costs import Costs
from pipesim.core.plan import Plan
from pipesim.core.program import Program
from pipesim.core.scenario import CALM, STEADY, Scenario, Speeds
from pipesim.core.schedule import Schedule
from pipesim.lowering.compute import add_compute, add_optimizer, add_own_needs, redraw
from pipesim.lowering.job import DEFAULTS, Job, Options, Tasks
from pipesim.lowering.rings import add_all_reduces
from pipesim.lowering.transfers import add_transfers

__all__ = ["DEFAULTS", "Options", "lower", "redraw", "state_factor"]


# Bytes of optimizer state per byte of parameters, for Adam: two moments. Parameters of 16 bits have a master copy
# beside them, and all three are kept in 32 bits.
OPTIMIZER_STATE = {"fp16": 6.0, "bf16": 6.0}
OPTIMIZER_STATE_OTHERWISE = 2.0


def lower(
    plan: Plan,
    schedule: Schedule,
    costs: Costs,
    cluster: Cluster,
    options: Options = DEFAULTS,
    *,
    scenario: Scenario = CALM,
) -> Program:
    """All tasks of one iteration with their seconds, bytes, dependencies and memory."""
    plans.check_fits(plan, costs.model, cluster)
    legality.check(schedule, plan)
    scenario.check_devices(cluster)
    job = Job(plan, schedule, costs, cluster, options)
    tasks = Tasks()
    add_compute(tasks, job)
    add_own_needs(tasks, job)
    add_optimizer(tasks, job)
    add_transfers(tasks, job)
    add_all_reduces(tasks, job)
    return _assemble(tasks, job, scenario)


def _assemble(tasks: Tasks, job: Job, scenario: Scenario) -> Program:
    """The columns of all passes, one after the other, with what lanes and media they run on."""
    columns = {name: np.concatenate(parts) for name, parts in tasks.columns.items()}
    compute = np.flatnonzero(columns["lane"] >= 0)
    on_channels = job.options.sharing == "channel"
    media = tuple(name for name, _ in tasks.channels) if on_channels else job.cluster.media
    per_second = np.array(job.cluster.media_bandwidth, np.float64)
    capacity = np.array([rate for _, rate in tasks.channels]) if on_channels else per_second / units.NS_PER_S
    devices = [job.cluster.devices[job.cluster.index[name]] for name in job.plan.devices]
    model = job.costs.model
    program = Program(
        sharing=job.options.sharing,
        transfers=job.options.transfers,
        devices=job.plan.devices,
        media=media,
        capacity=capacity,
        **{name: _typed(name, column) for name, column in columns.items()},
        order=Ragged.of_pairs(len(devices), columns["lane"][compute].astype(np.int64), compute),
        needs=_needs(tasks),
        route=_routes(len(compute), tasks.routes),
        static_memory=_static_memory(job),
        memory=np.array([device.memory for device in devices], np.int64),
        microbatches=job.plan.microbatches,
        samples=job.plan.microbatches * model.microbatch_size,
        flops=None if model.forward_flops is None else 3 * model.forward_flops * job.plan.microbatches,
        peak_flops=float(sum(d.flops for d in devices if d.flops)) if all(d.flops for d in devices) else None,
        lane_speeds=_changing(dict(enumerate(map(scenario.of_device, job.plan.devices)))),
        media_speeds=_media_speeds(job, scenario),
    )
    programs.check(program)
    return program


def _typed(name: str, column: NDArray[Any]) -> NDArray[Any]:
    return column.astype(np.float64 if name in {"size", "limit"} else np.int64)


def _needs(tasks: Tasks) -> Ragged:
    """Task -> what it waits for, each once, in order."""
    waiting, awaited = (np.concatenate(side) for side in zip(*tasks.needs, strict=True))
    code = np.unique(waiting * tasks.count + awaited)
    return Ragged.of_pairs(tasks.count, code // tasks.count, code % tasks.count)


def _routes(without: int, routes: list[Ragged]) -> Ragged:
    """No media for the first tasks, which compute; then block after block."""
    lengths = np.concatenate([np.zeros(without, np.int64), *(block.lengths for block in routes)])
    return Ragged.of_lengths(lengths, np.concatenate([np.zeros(0, np.int64), *(block.values for block in routes)]))


def _static_memory(job: Job) -> Ints:
    """Parameters, gradients and optimizer state of all stages on each device."""
    factor = state_factor(job.costs.model.precision, job.options.optimizer_state)
    held = [sum(job.parameter_bytes(n) for n in stages) for stages in job.plan.chunks]
    return np.rint(np.array(held) * factor).astype(np.int64)


def state_factor(precision: str, optimizer_state: float | None = None) -> float:
    """Bytes held per byte of parameters: the parameters, their gradients, and the optimizer's state."""
    if optimizer_state is None:
        optimizer_state = OPTIMIZER_STATE.get(precision, OPTIMIZER_STATE_OTHERWISE)
    return 2 + optimizer_state


def _changing(speeds: dict[int, Speeds]) -> dict[int, Speeds]:
    return {index: speed for index, speed in speeds.items() if speed is not STEADY}


def _media_speeds(job: Job, scenario: Scenario) -> dict[int, Speeds]:
    if job.options.sharing == "channel" and scenario.degraded:
        raise RefusedError("sharing 'channel' has no links that could be degraded; use fair, fifo or none")
    position = {name: i for i, name in enumerate(job.cluster.media)}
    return {position[name]: speeds for name, speeds in scenario.of_media(job.cluster).items()}
