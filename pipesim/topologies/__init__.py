"""Sizes and bandwidths, or the description of a machine -> Cluster: devices, switches, NICs and their links.

All bandwidths are numbers of bytes/s or text such as "25 Gb/s", per direction; all links are full duplex. `latency` is
that of one link, and a route's is the sum over its links. The defaults are orders of magnitude, about 2 us between GPUs
of one machine and 5 us across a network; replace them by measured values, or by 0.

To add one: a file here with a function, and its line below. The function declares small examples
(`core.members.TopologyInfo`), which the contract tests build.
"""

TOPOLOGIES = {
    "flat": "pipesim.topologies.flat:flat",
    "servers": "pipesim.topologies.servers:servers",
    "dgx1_v100": "pipesim.topologies.nvidia_machines:dgx1_v100",
    "dgx_a100": "pipesim.topologies.nvidia_machines:dgx_a100",
    "hgx_h100": "pipesim.topologies.nvidia_machines:hgx_h100",
    "fat_tree": "pipesim.topologies.fat_tree:fat_tree",
    "leaf_spine": "pipesim.topologies.leaf_spine:leaf_spine",
    "rail_fat_tree": "pipesim.topologies.rail_fat_tree:rail_fat_tree",
    "ring": "pipesim.topologies.ring:ring",
    "torus2d": "pipesim.topologies.torus2d:torus2d",
    "random": "pipesim.topologies.random_graph:random",
    "nvidia_smi": "pipesim.topologies.nvidia_smi:nvidia_smi",
    "nccl_xml": "pipesim.topologies.nccl_xml:nccl_xml",
    "nccl_tests": "pipesim.topologies.nccl_tests:nccl_tests",
}
