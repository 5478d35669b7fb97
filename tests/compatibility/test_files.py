"""Files that earlier versions wrote are read, and come to the results that they came to then."""

import json
import shutil

import pytest

from helpers.places import TESTS
from pipesim.base import serialisation
from pipesim.base.errors import FormatError
from pipesim.core.cluster import Cluster
from pipesim.core.model import Model, model_of
from pipesim.core.plan import Plan
from pipesim.core.program import Program
from pipesim.core.scenario import Scenario
from pipesim.core.schedule import Schedule
from pipesim.core.timeline import Timeline
from pipesim.core.trace import Trace
from pipesim.engines import event

FILES = TESTS / "compatibility" / "files"


@pytest.mark.parametrize(("name", "kind"), [("cluster", Cluster), ("plan", Plan)])
def test_toml_and_json_of_one_value_are_read_as_equal(name, kind):
    assert serialisation.load(kind, FILES / f"{name}.toml") == serialisation.load(kind, FILES / f"{name}.json")


def test_a_trace_and_its_model_are_read():
    trace = Trace.load(FILES / "trace")
    assert (trace.model, trace.microbatch_size, trace.layer_count) == ("tiny", 2, 4)
    assert trace.layers["backward_s"].tolist() == [0.002, 0.004, 0.005, 0.002]
    assert model_of(trace) == serialisation.load(Model, FILES / "model.json")
    assert model_of(trace).inputs(0) == ()
    assert model_of(trace).inputs(3) == (1, 2)


def test_a_scenario_is_read():
    scenario = serialisation.load(Scenario, FILES / "scenario.toml")
    assert [(slow.device, slow.factor, slow.start, slow.end) for slow in scenario.slow] == [
        ("node0.gpu0", 1.5, 0.01, 0.05)
    ]
    assert [(link.source, link.fraction, link.end) for link in scenario.degraded] == [("node0.gpu0", 0.25, None)]


def test_a_schedule_is_read_from_csv_and_json():
    assert Schedule.load(FILES / "schedule.csv") == Schedule.load(FILES / "schedule.json")
    assert str(Schedule.load(FILES / "schedule.csv")).splitlines()[3] == "2F0,2B0,2F1,2B1,2F2,2B2,2F3,2B3"


def test_a_program_runs_as_its_timeline_shows():
    program = Program.load(FILES / "program.json")
    assert event.run(program).same_as(Timeline.load(FILES / "timeline.csv", program))


@pytest.mark.parametrize(
    ("options", "seconds"),
    [
        ((), 0.041168),
        (("--scenario", FILES / "scenario.toml"), 0.044878),
        (("--scenario", FILES / "scenario.toml", "--scheduler", FILES / "schedule.json"), 0.044878),
    ],
)
def test_files_come_to_the_iteration_time_that_they_came_to(run, options, seconds):
    files = (FILES / "trace", FILES / "cluster.toml", "--plan", FILES / "plan.toml")
    code, out, _ = run("simulate", *files, *options, "--json")
    assert code == 0
    assert json.loads(out)["iteration_time_s"] == seconds


def test_a_file_of_a_newer_version_is_refused_with_what_to_do(tmp_path):
    path = tmp_path / "plan.toml"
    shutil.copyfile(FILES / "plan.toml", path)
    path.write_text(path.read_text().replace("version = 1", "version = 99"))
    with pytest.raises(FormatError, match=r"pipesim.plan version 99 is newer than this pipesim reads \(1\); upgrade"):
        serialisation.load(Plan, path)
