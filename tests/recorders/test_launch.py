from pipesim.recorders import launch


def test_a_process_that_torchrun_started_is_known_by_its_environment(monkeypatch):
    for name in launch.STARTED:
        monkeypatch.delenv(name, raising=False)
    assert not launch.is_started()
    for name in launch.STARTED:
        monkeypatch.setenv(name, "0")
    assert launch.is_started()
