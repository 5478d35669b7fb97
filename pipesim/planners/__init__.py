"""(model, cluster, costs, microbatches) -> Plan. Each says what it optimises and what it ignores.

A planner that wants to simulate is given a `cost` function; none imports an engine.
"""

PLANNERS = {
    "uniform": "pipesim.planners.uniform:uniform",
    "balanced": "pipesim.planners.balanced:balanced",
}
