import gc
import os
import sys
from types import SimpleNamespace

import pytest

from pipesim.base.errors import InputError
from pipesim.recorders.steady import steady


@pytest.fixture
def threads(monkeypatch):
    """The number of threads that PyTorch was last given."""
    given = [8]
    torch = SimpleNamespace(get_num_threads=lambda: given[-1], set_num_threads=given.append)
    monkeypatch.setitem(sys.modules, "torch", torch)
    cores = {0, 1, 2, 3}
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(cores), raising=False)

    def pin(_, chosen):
        cores.clear()
        cores.update(chosen)

    monkeypatch.setattr(os, "sched_setaffinity", pin, raising=False)
    return SimpleNamespace(given=given, cores=cores)


def test_within_there_are_so_many_threads_on_the_last_cores_and_no_garbage_collection(threads):
    with steady(2):
        assert threads.given[-1] == 2
        assert threads.cores == {2, 3}
        assert not gc.isenabled()
    assert threads.given[-1] == 8
    assert threads.cores == {0, 1, 2, 3}
    assert gc.isenabled()


def test_for_a_gpu_threads_and_cores_stay_as_they_are(threads):
    with steady(None):
        assert threads.given == [8]
        assert threads.cores == {0, 1, 2, 3}


def test_more_threads_than_cores_are_refused(threads):
    with pytest.raises(InputError, match="threads 5 found; 1 to 4 was expected"), steady(5):
        pass
    assert gc.isenabled()
    assert threads.given == [8]
