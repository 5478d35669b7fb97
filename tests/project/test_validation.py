"""Measured runs of others: copied as they were measured, scored as the page says; kept rows come out again."""

import csv
import importlib
import sys

import numpy as np
import pytest

from helpers.networks import pipeline_trace
from helpers.places import DATA, ROOT, needs_data
from pipesim.studies import measured_runs

FOLDER = ROOT / "experiments" / "validation"
# Rows that are quick; beside them, the first of each source.


@pytest.fixture(scope="module")
def module():
    """A module of the folder by its name; the names are free again after these tests."""
    names = [path.stem for path in FOLDER.glob("*.py")]
    others = {name: sys.modules.pop(name) for name in names if name in sys.modules}  # of other folders
    sys.path.insert(0, str(FOLDER))
    yield importlib.import_module
    sys.path.remove(str(FOLDER))
    for name in names:
        sys.modules.pop(name, None)
    sys.modules.update(others)


def kept():
    with (FOLDER / "expected.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


# --- data ------------------------------------------------------------------------------------------------------------


def test_the_copied_rows_are_those_of_the_shared_measurements(module):
    copying = module("copy_rows")
    for table, about in copying.TABLES.items():
        needs_data(DATA / "measured" / about.source / about.file)
        with (FOLDER / "data" / table).open(encoding="utf-8", newline="") as file:
            assert list(csv.reader(file)) == copying.copied(table), table


def test_every_table_has_its_source_and_licence(module):
    page = (FOLDER / "data" / "README.md").read_text(encoding="utf-8")
    tables = {path.name for path in (FOLDER / "data").glob("*.csv")}
    assert tables == set(module("copy_rows").TABLES)
    assert [name for name in sorted(tables) if f"`{name}`" not in page] == []


def test_sizes_of_rows_agree_with_each_other(module):
    whole = module("tables").whole
    for source, row, about in module("standing").all_rows():
        if about.left_out:
            continue
        widths = [whole(row, name, 1) for name in ("tp", "pp", "dp", "cp")]
        assert np.prod(widths) == whole(row, "gpus"), row["id"]
        size = module("describe").SOURCES[source](row)["microbatch_size"]
        assert whole(row, "global_batch") % (size * whole(row, "dp")) == 0, row["id"]
        assert float(row["iteration_s"]) > 0


def test_rows_with_one_microbatch_size_more_are_not_scored_twice(module):
    scored = [row["id"] for _, row, about in module("standing").all_rows() if not about.left_out]
    assert len(scored) == len(set(scored)) > 250


# --- descriptions ----------------------------------------------------------------------------------------------------


def row_of(module, source, name):
    return next(row for row in module("tables").read(source) if row["id"] == name)


def test_profiled_stages_take_the_profiled_time(module):
    row = row_of(module, "zero_bubble", "T4_1.5B_p8_m24_b6_1F1B")
    made = module("describe").zero_bubble(row)
    layers = made["trace"].layers
    blocks = [n for n, name in enumerate(layers["name"]) if name.startswith("block")]
    assert layers["forward_s"].sum() == pytest.approx(8 * float(row["profiled_forward_s"]))
    assert layers["backward_weight_s"][blocks[:6]].sum() == pytest.approx(float(row["profiled_backward_weight_s"]))


def test_a_row_without_a_profile_takes_that_of_the_same_layers_and_microbatch(module):
    profiles, rows = module("profiles"), module("tables").read("zero_bubble")
    found = profiles.profile_of(row_of(module, "zero_bubble", "T12_1.5B_p8_m2_b6_ZB-2p"), rows)
    assert found["profiled_forward_s"] == "0.018522"
    assert profiles.profile_of(row_of(module, "zero_bubble", "T11_1.5B_p8_m24_b12_1F1B"), rows) is None


def test_stated_layouts_have_all_blocks(module):
    layouts = module("layouts")
    row = row_of(module, "zero_bubble", "T4_1.5B_p8_m24_b6_1F1B-I")
    assert layouts.padded(row) == [0, *[1] * 22, 0]
    assert layouts.stated(row_of(module, "sailor", "clariden_OPT-350_N4_N4_D1")) == [5, 7, 7, 7]


@pytest.mark.parametrize(
    ("name", "chunks"),
    [
        ("selene_jan2021_39B", 1),
        ("selene_apr2021_3.6B", 1),
        ("selene_apr2021_39B", 2),
        ("selene_apr2021_76B", 3),
        ("selene_apr2021_530B", 3),
        ("gpt3_175B_1024", 1),
    ],
)
def test_chunks_follow_the_rule_of_the_source(module, name, chunks):
    row = row_of(module, "megatron_published", name)
    assert module("describe").megatron_published(row)["interleave"] == chunks


# --- results ---------------------------------------------------------------------------------------------------------


@pytest.mark.docs
def test_quick_rows_come_out_again(module):
    """To six digits; `python experiments/validation/run.py --quick` keeps them where results changed for a reason."""
    found = module("run").quick()
    with (FOLDER / "quick.csv").open(encoding="utf-8", newline="") as file:
        assert [tuple(row) for row in csv.reader(file)] == found


def test_the_tables_of_the_page_are_those_of_the_kept_rows(module):
    report = module("report")
    lines = [
        report.Line(
            *(row[name] for name in ("source", "id", "group", "table")),
            *(
                float(row[name]) if row[name] else None
                for name in (
                    "tolerance", "measured_s", "simulated_s", "measured_bytes", "simulated_bytes", "other_s",
                    "other_bytes",
                )
            ),
            row["refused"],
        )
        for row in kept()
    ]  # fmt: skip
    assert report.table(lines) in (FOLDER / "README.md").read_text(encoding="utf-8")


def test_every_other_choice_names_what_a_description_takes(module):
    describe = module("describe")
    for source, choices in describe.OTHERS.items():
        takes = describe.SOURCES[source].__kwdefaults__ or {}
        assert {name for choice in choices.values() for name in choice} <= set(takes), source


# --- how rows are simulated ------------------------------------------------------------------------------------------


def given(**fields):
    trace = pipeline_trace([4e6, 4e6], [8e6, 8e6], [0])
    return {
        "trace": trace,
        "cluster": "flat(2, bandwidth='1 GB/s', latency=0, device='a100-80gb')",
        "planner": "uniform",
    } | fields


def test_devices_are_slower_by_the_part_of_the_iteration_that_they_are_busy(module):
    """Two stages of 12 ms and m microbatches: each is busy for m of m + 1 times."""
    simulate = module("simulating").simulate
    for count in (1, 3, 7):
        plain, slow = (simulate(given(microbatches=count, sustained=factor)).seconds for factor in (1.0, 1.5))
        assert plain == pytest.approx((count + 1) * 12e-3)
        assert slow / plain == pytest.approx(1 + 0.5 * count / (count + 1), rel=1e-6)


def test_rows_that_a_choice_leaves_as_they_are_are_not_simulated_again(module):
    run, tables = module("run"), module("tables")
    rows = {row["id"]: row for row in tables.read("megatron_published")}
    differs = {name: run._differs("megatron_published", row, {"microbatch": 2}) for name, row in rows.items()}
    assert {differs[name] for name, row in rows.items() if row["microbatch"]} == {False}
    assert differs["selene_jan2021_1.7B"] is True


def test_what_calibrates_a_round_is_not_scored_under_any_choice(module):
    run, tables = module("run"), module("tables")
    for choice in (run.RULE, {"calibrated": "largest"}):
        for row in tables.read("mlperf"):
            if row["id"] == run.base_of(row, choice):
                assert run.line_of("mlperf", row, choice).refused == "calibrates its round"


# --- what ships ------------------------------------------------------------------------------------------------------


def test_the_rows_in_the_package_are_those_of_the_experiments(module, tmp_path):
    """`python experiments/validation/shipped.py` writes them after a deliberate change."""
    module("shipped").write(module("shipped").rows(), tmp_path / "runs.csv")
    assert (tmp_path / "runs.csv").read_bytes() == measured_runs.FILE.read_bytes()
