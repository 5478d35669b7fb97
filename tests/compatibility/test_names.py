"""What scripts of 0.1 write goes on working: commands, options, Python names. Old ones come with the present name."""

import importlib
import warnings

import pytest

import pipesim as ps
from helpers.places import TESTS
from pipesim.cli import COMMANDS, cli
from pipesim.cli.renamed import with_present_names

OPTIONS = (TESTS / "compatibility" / "files" / "options.txt").read_text(encoding="utf-8").splitlines()
PUBLIC = """Cluster PipesimError Plan Schedule Stage Timeline Trace compare costs_of export_timeline gantt
load_cluster load_plan load_sweep load_trace make_case make_plan replay replay_statistics run run_sweep simulate summary
sweep_rows"""
# What the pages and notebooks of 0.1 used of modules.
IN_MODULES = {
    "experiment": "Case load_cluster load_plan load_trace make_case make_plan plan_with replay run simulate",
    "channels": "execute pipeline_of theorem_bound work_bound",
    "planners.groups": "bandwidths",
    "planners.spp": "plan_of rdo",
    "planners.spp.prm": "bottlenecks prm tables_of",
    "plot": "chart cluster comparison gantt_grid layers link_load memory",
    "report": "comparison gallery gantt percent plan seconds size table",
    "sweep": "draw write_table",
    "workbench": "case gallery gallery_rows",
}


@pytest.mark.parametrize("line", OPTIONS, ids=lambda line: line.partition(":")[0])
def test_every_command_and_option_of_0_1_is_one(line):
    command, _, options = line.partition(":")
    (present,) = with_present_names([command])
    assert present in COMMANDS
    known = {o for p in cli.get_command(None, present).params for o in (*p.opts, *p.secondary_opts)}
    unknown = [option for option in options.split() if with_present_names([command, option])[1] not in known]
    assert not unknown, "give these their present names in cli/renamed.py"


def test_every_public_name_of_0_1_is_there():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        assert [name for name in PUBLIC.split() if not hasattr(ps, name)] == []


def test_what_pages_of_0_1_used_of_modules_is_there():
    missing = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        for place, names in IN_MODULES.items():
            module = importlib.import_module(f"pipesim.{place}")
            missing += [f"{place}.{name}" for name in names.split() if not hasattr(module, name)]
    assert not missing, "give these their present names with base.moved.renamed"


def test_the_ten_lines_that_the_readme_of_0_1_showed_give_what_they_gave(tmp_path):
    trace = ps.load_trace("bert-large")
    cluster = ps.load_cluster('servers(2, 4, intra="25GB/s", inter="10Gb/s")')
    plan = ps.make_plan(trace, cluster, "balanced", microbatches=8, granularity="layer")  # the default is blocks now
    timeline = ps.simulate(trace, cluster, plan, "one_f_one_b")  # a result now, which these take as it is
    ps.gantt(timeline, tmp_path / "gantt.png")
    assert f"{ps.summary(timeline)['iteration_time_s'] * 1e3:.1f} ms" == "154.1 ms"
    assert (tmp_path / "gantt.png").stat().st_size > 10_000
