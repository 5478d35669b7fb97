"""Moves by where they lead, against all moves of all states."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from helpers.strategies import clusters
from pipesim.analysis.bounds.forms import by_form, by_shape
from pipesim.analysis.bounds.incoming import incoming_of
from pipesim.analysis.bounds.islands import Network, island_model
from pipesim.analysis.bounds.moves import by_island


@pytest.mark.parametrize("build", [by_island, by_shape, by_form])
@settings(max_examples=15)
@given(cluster=clusters(shapes=("nodes", "star")), replicas=st.sampled_from(["split", "whole"]))
def test_every_move_leads_to_its_place_once(build, cluster, replicas):
    assume(len(cluster.devices) > 1)
    label = np.arange(len(cluster.devices)) % 2
    moves = build(island_model(Network(cluster), label), replicas, 4)
    incoming = incoming_of(moves)
    expected = sorted(
        (int(moves.shift[s] + moves.place[m]), s, m)
        for s in range(len(moves.first))
        for m in range(moves.first[s], moves.stop[s])
    )
    found = []
    for p in range(len(moves.size)):
        b = p - incoming.shift[p]
        for i in range(incoming.first[b], incoming.first[b + 1]):
            s, m = int(incoming.row[i] + incoming.shift[p]), int(incoming.move[i])
            if m < moves.stop[s]:
                found.append((p, s, m))
    assert sorted(found) == expected
