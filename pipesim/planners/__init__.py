"""(model, cluster, costs, microbatches) -> Plan. The docstring of each states what it optimises and what it ignores.

To add one: a file here with a function, and its line below. The function declares what its tables take
(`core.members.PlannerInfo`). A planner that simulates is given a cost function (`exact`, `estimate`), and imports no
engine.
"""

PLANNERS = {
    "uniform": "pipesim.planners.uniform:uniform",
    "balanced": "pipesim.planners.balanced:balanced",
    "data_parallel": "pipesim.planners.data_parallel:data_parallel",
    "gpipe": "pipesim.planners.gpipe:gpipe",
    "pipedream": "pipesim.planners.pipedream:pipedream",
    "dapple": "pipesim.planners.dapple:dapple",
    "megatron": "pipesim.planners.megatron:megatron",
    "hetpipe": "pipesim.planners.hetpipe:hetpipe",
    "alpa": "pipesim.planners.alpa:alpa",
    "piper": "pipesim.planners.piper:piper",
    "annealing": "pipesim.planners.annealing:annealing",
    "brute": "pipesim.planners.brute:brute",
    "spp": "pipesim.planners.spp:spp",
    "spp_plus": "pipesim.planners.spp_plus:spp_plus",
}
