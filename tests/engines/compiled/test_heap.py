"""The heap gives entries in the order of time."""

import heapq

from hypothesis import given
from hypothesis import strategies as st

from pipesim.base.kernels import compiled
from pipesim.engines.compiled.heap import empty_heap, pop, push


@given(st.lists(st.one_of(st.none(), st.integers(0, 20)), max_size=60))
def test_entries_leave_in_the_order_of_time(steps):
    """A number is pushed, None pops; codes are unique, so that what leaves is known."""
    for plain in (False, True):
        put, take = (push, pop) if plain else (compiled(push), compiled(pop))
        heap, expected = empty_heap(len(steps)), []
        for code, time in enumerate(steps):
            if time is not None:
                put(heap, time, code)
                heapq.heappush(expected, time)
            elif expected:
                assert heap[1, 0] == expected[0]
                assert steps[take(heap)] == heapq.heappop(expected)
            assert heap[0, 0] == len(expected)


def test_a_full_heap_uses_all_of_its_room():
    heap = empty_heap(3)
    for time in (3, 1, 2):
        push(heap, time, 10 * time)
    assert [pop(heap) for _ in range(3)] == [10, 20, 30]
