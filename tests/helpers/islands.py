"""A cluster with a slow server, and the bound's program for its islands."""

from dataclasses import replace

from pipesim.analysis.bounds.islands import Network, best_partitions, island_model
from pipesim.analysis.bounds.layer_sums import layer_sums
from pipesim.analysis.bounds.moves import in_blocks

SLOW = 'servers(3, 2, intra="25GB/s", inter="25Gb/s")'


def with_a_slow_server(cluster, times=100):
    links = (
        replace(x, bandwidth=x.bandwidth / (times if {"node2.nic0", "core"} == {x.source, x.target} else 1))
        for x in cluster.links
    )
    return replace(cluster, links=tuple(links))


def program_of(costs, cluster, microbatches, replicas, block=1):
    network = Network(cluster)
    model = island_model(network, best_partitions(network)[0])
    return layer_sums(costs, cluster, microbatches, replicas), *in_blocks(model, replicas, microbatches, block)
