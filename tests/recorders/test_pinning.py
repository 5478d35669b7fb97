from pipesim.recorders import pinning


def test_a_process_is_kept_on_a_core_of_its_own_and_let_go(monkeypatch):
    """Of four cores, two and two are threads of one; where processes are more than cores they stay as they are."""
    now = {0, 1, 2, 3}
    monkeypatch.setattr(pinning, "_siblings", lambda core: str(core // 2))
    monkeypatch.setattr(pinning.os, "sched_getaffinity", lambda _: set(now), raising=False)
    monkeypatch.setattr(
        pinning.os, "sched_setaffinity", lambda _, cores: (now.clear(), now.update(cores)), raising=False
    )
    for local, expected in enumerate((0, 2, 1, 3)):
        with pinning.pinned(local, 4):
            assert (pinning.core(), now) == (expected, {expected})
        assert now == {0, 1, 2, 3}
    with pinning.pinned(0, 5):
        assert pinning.core() is None
    monkeypatch.delattr(pinning.os, "sched_setaffinity")
    with pinning.pinned(0, 2):
        assert (pinning.core(), pinning.allowed_cores()) == (None, [])


def test_it_is_said_which_core_a_process_had_or_that_it_had_none_of_its_own():
    assert pinning.described([("a", 0, 2), ("b", 1, 2)]) == "a on core 2, b on core 2"
    for cores in ((2, 2), (None, None), (1, None)):
        found = pinning.described([("a", 0, cores[0]), ("b", 0, cores[1])])
        assert found == "processes without separate cores: times can include waiting for a core"
