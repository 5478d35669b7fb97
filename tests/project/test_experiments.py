"""The numbers that experiments keep are what their commands give: a few cases of each, exactly."""

import csv
import importlib.util

import pytest

from helpers.places import ROOT
from pipesim.analysis.bounds import plan_bound
from pipesim.studies import experiment, sweep

FOLDER = ROOT / "experiments"


def script(path):
    """An experiment's script as a module."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("planner", ["uniform", "spp", "alpa", "pipedream"])
@pytest.mark.parametrize(("model", "cluster"), [("bert-large", "DGX-1"), ("vgg-19", "4x4, one slow link")])
def test_rows_of_the_suite_come_out_again(model, cluster, planner):
    suite = script(FOLDER / "planners" / "run.py")
    with (FOLDER / "planners" / "rows.csv").open(newline="") as file:
        wanted = (model, cluster, "4", planner)
        row = next(
            r for r in csv.DictReader(file) if (r["model"], r["cluster"], r["microbatches"], r["planner"]) == wanted
        )
    made = suite.lookup.call(suite.MODELS[model], suite.ARCHITECTURES, "architecture")
    costs, devices = suite.costs_of(suite.roofline(made, ["v100-16gb"])), suite.cluster_of(cluster)
    plan = experiment.plan_with(planner, costs, devices, 4)
    seconds, scheduler = min(suite._timed(plan, costs, devices))
    assert (repr(seconds), scheduler) == (row["iteration_time_s"], row["scheduler"])
    assert plan_bound(costs, devices, 4) == pytest.approx(float(row["bound_s"]), rel=1e-9)


def test_the_tables_of_the_suite_are_those_of_its_rows():
    text = (FOLDER / "planners" / "README.md").read_text(encoding="utf-8")
    assert script(FOLDER / "planners" / "summary.py").tables() in text


def test_the_rows_of_the_schedules_come_out_again():
    schedules = script(FOLDER / "schedules" / "run.py")
    with (FOLDER / "schedules" / "rows.csv").open(newline="") as file:
        kept = {row[0]: row for row in csv.reader(file)}
    names = ("gpipe", "interleaved", "hanayo", "zb_1p", "zb_v", "v_min", "chimera", "dualpipe_v")
    found = schedules.equal_stages.gallery(4, 8, schedules.UNIT, schedulers=names)
    assert [schedules._plain(row) for row in schedules.equal_stages.gallery_rows(found)] == [
        kept[name] for name in names
    ]


def test_replays_of_the_kept_recordings_come_out_again():
    replays = script(FOLDER / "replay" / "run.py")
    expected = (FOLDER / "replay" / "expected.csv").read_text(encoding="utf-8")
    assert sweep.csv_text(replays.COLUMNS, replays.rows()) == expected


def test_what_is_said_of_the_kept_recordings_is_what_their_rows_say():
    with (FOLDER / "replay" / "expected.csv").open(newline="") as file:
        whole = [row for row in csv.DictReader(file) if row["phase"] == "iteration"]
    seconds = [float(row["recorded_s"]) for row in whole]
    short = [100 * (1 - float(row["replayed_s"]) / float(row["recorded_s"])) for row in whole]
    said = (
        f"they took {min(seconds):.2f} to {max(seconds):.2f} s, and their replays are {min(short):.1f} to "
        f"{max(short):.1f} % shorter"
    )
    text = (FOLDER / "replay" / "README.md").read_text(encoding="utf-8")
    assert said in " ".join(text.split())
