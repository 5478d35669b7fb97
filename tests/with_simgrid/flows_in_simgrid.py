"""When flows end in SimGrid, for the interpreter that has it: JSON from standard input to standard output.

    in     [{"capacity": [bytes per us of each link], "changes": [[us, link, bytes per us from then on]],
             "flows": [[start us, bytes, [links], limit bytes per us or null]]}]
    out    {"ends": [[us of each flow]], from 0 on, "seconds": of CPU that the run took, without what it is built of}

The model is max-min fairness alone: CM02 without what imitates TCP. SimGrid weighs flows by their latency and cannot
do with none, so each crosses a link of its own with the same latency, one microsecond, and with the bandwidth that is
the flow's limit. A second of SimGrid stands for a microsecond.
"""

import json
import sys
from time import process_time

from simgrid import Actor, Comm, Engine, LinkInRoute, NetZone, this_actor

SETTINGS = ("network/model:CM02", "network/TCP-gamma:0", "network/crosstraffic:0", "network/weight-S:0",
            "surf/precision:1e-9", "maxmin/precision:1e-9")  # fmt: skip
LATENCY = 1.0
WIDE = 1e12  # bytes per us of a flow without limit


def build(root, number: int, network: dict) -> tuple[list, list]:
    """A zone with the links, and for each flow two hosts and the route between them: links, hosts."""
    zone = NetZone.create_full_zone(f"network{number}")
    zone.set_parent(root)
    links = [zone.create_link(f"link{number}-{i}", rate).seal() for i, rate in enumerate(network["capacity"])]
    ends = []
    for i, (_, _, route, limit) in enumerate(network["flows"]):
        source, target = (zone.create_host(f"{name}{number}-{i}", 1e9).seal() for name in ("from", "to"))
        own = zone.create_link(f"own{number}-{i}", limit or WIDE).set_latency(LATENCY).seal()
        crossed = [LinkInRoute(link) for link in (own, *(links[m] for m in route))]
        zone.add_route(source.netpoint, target.netpoint, None, None, crossed, False)
        ends.append((source, target))
    zone.seal()
    return links, ends


def change(changes: list, links: list) -> None:
    """Give links another bandwidth, each at its time. (Only one link of a process can have a profile from Python.)"""
    for time, link, rate in sorted(changes):
        if time > Engine.clock:
            this_actor.sleep_until(time)
        links[link].set_bandwidth(rate)


def play(flows: list, ends: list, found: list) -> None:
    """Begin each flow at its time, and note when it ends."""
    comms = {}
    for i in sorted(range(len(flows)), key=lambda i: flows[i][0]):
        start, size, _, _ = flows[i]
        if start > Engine.clock:
            this_actor.sleep_until(start)
        comms[i] = Comm.sendto_async(*ends[i], size)
    for i, comm in comms.items():
        comm.wait()
        found[i] = comm.finish_time


def main() -> None:
    networks = json.load(sys.stdin)
    engine = Engine(["flows", *(f"--cfg={setting}" for setting in SETTINGS), "--log=root.thres:error"])
    root = engine.netzone_root or NetZone.create_full_zone("root")
    found = [[None] * len(network["flows"]) for network in networks]
    played = [build(root, number, network) for number, network in enumerate(networks)]
    root.seal()
    for network, (links, ends), times in zip(networks, played, found):
        Actor.create("changes", ends[0][0], change, network["changes"], links)
        Actor.create("player", ends[0][0], play, network["flows"], ends, times)
    began = process_time()
    engine.run()
    json.dump({"ends": found, "seconds": process_time() - began}, sys.stdout)


if __name__ == "__main__":
    main()
