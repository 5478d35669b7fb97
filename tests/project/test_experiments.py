"""The numbers that experiments keep are what their commands give: a few cases of each, exactly."""

import csv
import importlib.util
import re
import shutil
import subprocess

import numpy as np
import pytest
from PIL import Image

import pipesim as ps
from helpers.places import DATA, ROOT, needs_data
from pipesim.analysis.bounds import plan_bound
from pipesim.display import figures
from pipesim.display.figures import Chart
from pipesim.studies import setups, sweep

FOLDER = ROOT / "experiments"
SHOWN = r"!\[[^\]]*\]\(([^)\s]+)|<img[^>]*src=[\"']([^\"']+)"


def script(path):
    """An experiment's script as a module."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


SUITE = [("bert-large", "DGX-1"), ("vgg-19", "4x4, one slow link")]


def row_of_suite(suite, model, cluster, planner):
    """Costs, devices and the kept row of a case of the suite, for four microbatches."""
    with (FOLDER / "planners" / "rows.csv").open(newline="") as file:
        wanted = (model, cluster, "4", planner)
        row = next(
            r for r in csv.DictReader(file) if (r["model"], r["cluster"], r["microbatches"], r["planner"]) == wanted
        )
    return suite.cases.costs_for(model), suite.cases.cluster_of(cluster), row


@pytest.mark.docs
@pytest.mark.parametrize("planner", ["uniform", "spp", "alpa", "pipedream"])
@pytest.mark.parametrize(("model", "cluster"), SUITE)
def test_rows_of_the_suite_come_out_again(model, cluster, planner):
    suite = script(FOLDER / "planners" / "run.py")
    costs, devices, row = row_of_suite(suite, model, cluster, planner)
    plan = setups.plan_with(planner, costs, devices, 4)
    seconds, scheduler = min(suite.cases.timed(plan, costs, devices))
    assert (repr(seconds), scheduler) == (row["iteration_time_s"], row["scheduler"])


@pytest.mark.docs
@pytest.mark.parametrize(("model", "cluster"), SUITE)
def test_bounds_of_the_suite_come_out_again(model, cluster):
    costs, devices, row = row_of_suite(script(FOLDER / "planners" / "run.py"), model, cluster, "spp")
    assert plan_bound(costs, devices, 4) == pytest.approx(float(row["bound_s"]), rel=1e-9)


@pytest.mark.docs
@pytest.mark.parametrize("number", [4, 16, 20, 25])
def test_rows_of_the_shared_spine_come_out_again(number):
    spine = script(FOLDER / "shared-spine" / "run.py")
    with (FOLDER / "shared-spine" / "expected.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert spine.row(*spine.cases()[number]) == rows[number]
    page = (FOLDER / "shared-spine" / "README.md").read_text(encoding="utf-8")
    assert spine.tables(rows) in page


@pytest.mark.docs
def test_what_a_lost_node_costs_comes_out_again():
    uncertainty = script(FOLDER / "uncertainty" / "run.py")
    with (FOLDER / "uncertainty" / "expected.csv").open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["case"] in {"lost node", "goodput"}]
    calm = ps.tune(**uncertainty.SHARED).best
    found = [*uncertainty.lost_node(calm), *uncertainty.goodput(calm)]
    assert uncertainty.as_rows(found) == rows


@pytest.mark.docs
def test_rows_of_the_hand_written_layouts_come_out_again():
    layouts = script(FOLDER / "layouts" / "run.py")
    with (FOLDER / "layouts" / "expected.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    recipe = layouts.recipes()["dense"][-1]
    assert layouts.rows_of(recipe) == rows[-2:]
    page = (FOLDER / "layouts" / "README.md").read_text(encoding="utf-8")
    assert layouts.table(rows) in page
    assert layouts.listed() in page


def kept(*suffixes):
    """The files of these suffixes that git keeps."""
    if not (ROOT / ".git").exists() or not shutil.which("git"):
        pytest.skip("this is not a checkout of git: which files are kept is not known")
    command = [shutil.which("git"), "ls-files", "-z"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [ROOT / name for name in listed.split("\0") if name.endswith(suffixes) and (ROOT / name).exists()]


def shown_by(page):
    """The files of the pictures that a page shows; those of a full address are sought by the end of it."""
    for link in ("".join(found) for found in re.findall(SHOWN, page.read_text(encoding="utf-8"))):
        parts = link.split("/")
        places = (ROOT / "/".join(parts[n:]) for n in range(len(parts)))
        yield next((place for place in places if place.is_file()), page.parent) if "://" in link else page.parent / link


def test_figures_are_kept_once_small_and_for_a_page_that_shows_them():
    """Each new version of a figure stays in the history for ever: two thirds of the repository once were pictures."""
    assert not kept(".pdf"), "PDFs are made on demand"
    shown = {path.resolve() for page in kept(".md", ".ipynb") for path in shown_by(page)}
    pictures = kept(".png", ".svg", ".gif", ".jpg")
    assert [path for path in pictures if path.resolve() not in shown] == [], "no page shows these"
    plain = [path for path in pictures if path.suffix == ".png" and path.read_bytes()[25] != 3]  # its type of colour
    assert plain == [], "python experiments/quantise.py makes them small"


def test_no_file_is_kept_twice():
    by_content = {}
    for path in kept(".csv", ".png", ".json", ".gz", ".toml"):
        by_content.setdefault(path.read_bytes(), []).append(path)
    assert [paths for content, paths in by_content.items() if len(paths) > 1 and len(content) > 200] == []


def pixels(path):
    with Image.open(path) as picture:
        return np.asarray(picture.convert("RGB"), int)


def test_a_quantised_figure_looks_as_before_and_is_not_written_again(tmp_path):
    path = tmp_path / "a.png"
    figures.chart({"x": [1, 2, 3], "y": [3, 1, 2]}, Chart(kind="line", x="x", y="y"), path)
    before = pixels(path)
    size = path.stat().st_size
    quantise = script(FOLDER / "quantise.py").quantise
    quantise([path])
    assert path.stat().st_size < size / 2
    assert np.abs(pixels(path) - before).mean() < 0.5
    written = path.read_bytes()
    quantise([path])
    assert path.read_bytes() == written


def test_the_tables_of_the_suite_are_those_of_its_rows():
    text = (FOLDER / "planners" / "README.md").read_text(encoding="utf-8")
    assert script(FOLDER / "planners" / "summary.py").tables() in text


def test_cases_of_the_suite_are_those_that_have_rows():
    judge = script(FOLDER / "planners" / "judge.py")
    known = judge.kept()
    every = [case for group in judge.cases.SUITE["groups"] for case in judge.cases.cases(group)]
    assert set(known) == set(every)
    assert sum(case.group == "even" for case in every) == 240
    assert {case.tensor for case in every} == {1, 2, 4}


def test_a_planner_is_judged_by_the_rows_that_are_kept():
    judge = script(FOLDER / "planners" / "judge.py")
    case = judge.Case("even", "bert-large", "DGX-1", 4)
    (row,) = judge.rows_of(case, ["uniform"])
    known = {case: judge.kept()[case]}
    assert row["iteration_time_s"] == known[case]["uniform"]
    lines = judge.standing("uniform", {case: row["iteration_time_s"]}, known, 1)
    slower = sum(seconds < row["iteration_time_s"] for seconds in known[case].values())
    assert lines[0] == "uniform: 1 cases with a plan, 1 without"
    assert f"place {1 + slower} of {len(known[case])}" in lines[1]
    mine = {case: min(known[case].values()) / 2}
    assert "0.500 times the best that is known (better 1, equal 0, worse 0); place 1 of" in "".join(
        judge.standing("mine:plan", mine, known, 0)
    )


def test_a_planner_of_another_name_than_any_is_refused(capsys, monkeypatch):
    judge = script(FOLDER / "planners" / "judge.py")
    monkeypatch.setattr("sys.argv", ["judge.py", "sp"])
    with pytest.raises(SystemExit, match="2"):
        judge.main()
    assert "unknown planner 'sp'" in capsys.readouterr().err


@pytest.mark.docs
@pytest.mark.parametrize("group", ["teams", "memory"])
def test_rows_of_constrained_cases_come_out_again(group):
    judge = script(FOLDER / "planners" / "judge.py")
    case = judge.cases.cases(group)[0]
    rows = judge.rows_of(case, ["uniform", "gpipe"])
    assert {row["planner"]: row.get("iteration_time_s") for row in rows if "error" not in row} == {
        name: seconds for name, seconds in judge.kept()[case].items() if name in {"uniform", "gpipe"}
    }


@pytest.mark.docs
def test_the_rows_of_the_schedules_come_out_again():
    schedules = script(FOLDER / "schedules" / "run.py")
    with (FOLDER / "schedules" / "rows.csv").open(newline="") as file:
        kept = {row[0]: row for row in csv.reader(file)}
    names = ("gpipe", "interleaved", "hanayo", "zb_1p", "zb_v", "v_min", "chimera", "dualpipe_v")
    found = schedules.equal_stages.gallery(4, 8, schedules.UNIT, schedulers=names)
    assert [schedules._plain(row) for row in schedules.equal_stages.gallery_rows(found)] == [
        kept[name] for name in names
    ]


@pytest.mark.docs
def test_replays_of_the_kept_recordings_come_out_again():
    replays = script(FOLDER / "replay" / "run.py")
    expected = (FOLDER / "replay" / "expected.csv").read_text(encoding="utf-8")
    assert sweep.csv_text(replays.COLUMNS, replays.rows()) == expected


def test_what_is_said_of_the_kept_recordings_is_what_their_rows_say():
    with (FOLDER / "replay" / "expected.csv").open(newline="") as file:
        whole = [row for row in csv.DictReader(file) if row["phase"] == "iteration"]
    seconds = [float(row["recorded_s"]) for row in whole]
    short = [100 * (1 - float(row["replayed_s"]) / float(row["recorded_s"])) for row in whole]
    sentence = (
        f"they took {min(seconds):.2f} to {max(seconds):.2f} s, and their replays are {min(short):.1f} to "
        f"{max(short):.1f} % shorter"
    )
    text = (FOLDER / "replay" / "README.md").read_text(encoding="utf-8")
    assert sentence in " ".join(text.split())


@pytest.mark.docs
def test_recorded_steps_replayed_with_their_own_operations_come_out_again(monkeypatch):
    needs_data(DATA / "measured" / "straggler" / "trace-ST.parquet")
    own = script(FOLDER / "recorded_runs" / "own_operations.py")
    monkeypatch.setattr(own, "DATA", DATA / "measured")
    kept = list(csv.DictReader(own.EXPECTED.read_text().splitlines()))
    assert own.rows_of("ST") == [row for row in kept if row["job"] == "ST"]
    assert own.table(kept) in (FOLDER / "recorded_runs" / "README.md").read_text()


@pytest.mark.docs
def test_held_out_steps_of_recorded_jobs_are_predicted_as_the_page_has_it(monkeypatch):
    needs_data(DATA / "measured" / "straggler" / "trace-ST.parquet")
    held_out = script(FOLDER / "recorded_runs" / "held_out_steps.py")
    monkeypatch.setattr(held_out, "DATA", DATA / "measured")
    kept = list(csv.DictReader(held_out.EXPECTED.read_text().splitlines()))
    page = (FOLDER / "recorded_runs" / "README.md").read_text()
    assert held_out.table(kept) in page
    assert held_out.given(kept) in page
    errors = {row["prediction"]: row for row in kept if row["job"] == "ST"}["draws share as found"]
    assert abs(float(errors["mean"])) < 0.01
    assert abs(float(errors["p95"])) < 0.03
    monkeypatch.setattr(held_out, "DRAWS", {"found": "as found"})
    monkeypatch.setattr(held_out, "ITERATIONS", 2000)
    again = held_out.rows_of("ST")
    assert [row for row in again if row["prediction"] == "draws share as found"] == [errors]


def test_the_search_finds_the_best_of_all_layouts_of_small_problems():
    """A few of those that are kept."""
    brute = script(FOLDER / "tuning" / "brute.py")
    with (FOLDER / "tuning" / "brute.csv").open(newline="") as file:
        kept = {int(row["seed"]): row for row in csv.DictReader(file)}
    assert sum(float(row["found_s"]) <= float(row["best_s"]) for row in kept.values()) >= 0.95 * len(kept)
    for seed in (0, 2, 5, 203):
        assert {name: str(value) for name, value in brute.case(seed).items()} == kept[seed]


def test_the_regret_of_choosing_by_simulated_times_comes_out_again():
    regret = script(FOLDER / "tuning" / "regret.py")
    with (FOLDER / "tuning" / "regret.csv").open(newline="") as file:
        assert [{name: str(value) for name, value in row.items()} for row in regret.table()] == list(
            csv.DictReader(file)
        )
    text = (FOLDER / "tuning" / "README.md").read_text()
    assert all(line in text for line in regret.summary(regret.table()))
