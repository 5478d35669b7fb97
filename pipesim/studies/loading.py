"""Traces, clusters, plans and scenarios by name, from files, or as they are."""

from pathlib import Path

from pipesim.base import files, lookup, serialisation
from pipesim.base.errors import InputError, quoted, within
from pipesim.base.settings import check_names
from pipesim.core.cluster import Cluster
from pipesim.core.plan import DERIVED_KEYS, Plan
from pipesim.core.scenario import Scenario
from pipesim.core.trace import Trace
from pipesim.importers.opening import open_trace
from pipesim.studies.bundled_traces import bundled_traces
from pipesim.studies.simulation import FIELDS, Simulation, checked
from pipesim.topologies import TOPOLOGIES
from pipesim.topologies.hosts import cluster_file

__all__ = ["bundled_traces", "load_cluster", "load_plan", "load_scenario", "load_simulation", "load_trace"]


def load_trace(trace: Trace | Path | str) -> Trace:
    """A trace folder, a file of any format that can be imported, or the name of a bundled trace.

    >>> trace = ps.load_trace("bert-large")
    >>> trace.layer_count, trace.device_kinds
    (52, ('v100-16gb', 'a100-40gb'))
    """
    if isinstance(trace, Trace):
        return trace
    path = Path(trace)
    if not str(trace) or not files.exists(path):
        bundled = bundled_traces()
        if str(trace) not in bundled:
            suggestion = lookup.suggest(str(trace), bundled)
            raise InputError(f"no trace file or bundled trace named {quoted(str(trace))}; {suggestion}")
        path = bundled[str(trace)]
    return open_trace([path])


def load_cluster(cluster: Cluster | Path | str) -> Cluster:
    """A cluster file, a machine's own description, or an expression as `servers(2, 8, intra="25GB/s", inter="1GB/s")`.

    A description is the output of `nvidia-smi topo -m` or a topology dump of NCCL.

    >>> cluster = ps.load_cluster('servers(2, 4, intra="25GB/s", inter="10Gb/s")')
    >>> cluster.devices[5].name, cluster.route("node0.gpu0", "node1.gpu1").bandwidth
    ('node1.gpu1', 1250000000.0)
    """
    if isinstance(cluster, Cluster):
        return cluster
    if isinstance(cluster, Path) or cluster_file.is_file(cluster, TOPOLOGIES):
        return cluster_file.load(Path(cluster))
    made = lookup.call(cluster, TOPOLOGIES, "cluster")
    if not isinstance(made, Cluster):
        raise InputError(f"cluster {quoted(cluster)}: returned a {type(made).__name__}; a Cluster was expected")
    return made


def load_plan(plan: Plan | Path | str) -> Plan:
    """A plan as `pipesim plan --json` prints it, or as `serialisation.save` writes it.

    >>> import json
    >>> from pathlib import Path
    >>> found = ps.find_plan("bert-large", 'flat(2, bandwidth="1GB/s")')
    >>> Path("plan.json").write_text(json.dumps(found.as_data())) > 0
    True
    >>> ps.load_plan("plan.json") == found.plan
    True
    """
    return plan if isinstance(plan, Plan) else serialisation.load(Plan, Path(plan), ignore=DERIVED_KEYS)


def load_simulation(path: Path | str) -> Simulation:
    """A simulation from a .toml or .json file with its fields, or from what `pipesim simulate --json` printed."""
    path = Path(path)
    data = serialisation.read_data(path)
    with within(str(path)):
        if isinstance(data.get("simulation"), dict):
            data = data["simulation"]
        data = {name: value for name, value in data.items() if name not in {"format", "version"} and value is not None}
        check_names(data, list(FIELDS), "the field")
        return Simulation(**{name: checked(name, value, name) for name, value in data.items()})


def load_scenario(scenario: Scenario | Path | str) -> Scenario:
    """Slow devices and degraded links, from a file.

    >>> import json
    >>> from pathlib import Path
    >>> slow = [{"device": "gpu0", "factor": 2}]
    >>> Path("slow.json").write_text(json.dumps({"format": "pipesim.scenario", "version": 1, "slow": slow})) > 0
    True
    >>> ps.load_scenario("slow.json").slow[0].factor
    2.0
    """
    return scenario if isinstance(scenario, Scenario) else serialisation.load(Scenario, Path(scenario))
