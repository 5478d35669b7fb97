"""What would help most is what helps when it is really made faster."""

import json
import re
from dataclasses import replace

import pytest

from pipesim.analysis import metrics
from pipesim.base.errors import InputError
from pipesim.core.costs import costs_of
from pipesim.core.scenario import Scenario, Slow
from pipesim.engines import by_name
from pipesim.lowering import Options, Setup, lower
from pipesim.studies import loading, results, whatif
from pipesim.studies.results import make_setup as make_case

CLUSTER = 'servers(2, 2, intra="25GB/s", inter="5Gb/s")'


def case(sharing="fair", scheduler="one_f_one_b", **options):
    return make_case("bert-large", CLUSTER, "balanced", scheduler, 8, options=Options(sharing, **options))


def seconds(made):
    return metrics.iteration_time(by_name.run(lower(made)))


@pytest.mark.parametrize("sharing", ["none", "fifo", "fair"])
def test_a_faster_device_gains_what_a_scenario_with_it_gains(sharing):
    """A scenario in which it takes 1/1.1 of its time; rounded apart, to a few nanoseconds."""
    made = case(sharing)
    now, found = whatif.gains(made, 0.1, ("device",))
    assert now == seconds(made)
    for gain in found:
        faster = replace(made, scenario=Scenario(slow=(Slow(gain.name, 1 / 1.1),)))
        assert gain.iteration_time_s == pytest.approx(seconds(faster), abs=1e-6)
        assert gain.gain_s == pytest.approx(now - gain.iteration_time_s)


@pytest.mark.parametrize("recompute", ["none", "full"])
@pytest.mark.parametrize("scheduler", ["one_f_one_b", "zb_h1"])
def test_a_faster_layer_gains_what_a_trace_with_it_gains(scheduler, recompute):
    made = case(scheduler=scheduler, recompute=recompute)
    _, found = whatif.gains(made, 0.25, ("layer",))
    trace = loading.load_trace("bert-large")
    equal = next(gain for gain in found if gain.name == "24 x mlp")
    assert sum(gain.group == equal.name for gain in found) == 24
    for name in ("embedding", "head", next(gain.name for gain in found if gain.group), equal.name):
        columns = dict(trace.layers)
        chosen = columns["kind"] == "mlp" if name == equal.name else columns["name"] == name
        (mine,) = (chosen.nonzero(),)
        for column in [c for c in columns if c.endswith("_s")]:
            columns[column] = columns[column].copy()
            columns[column][mine] /= 1.25
        costs = costs_of(replace(trace, layers=columns))
        faster = Setup(made.plan, made.schedule, costs, made.cluster, made.options)
        gain = next((gain for gain in found if gain.name == name), None)
        if gain is not None:
            assert gain.iteration_time_s == pytest.approx(seconds(faster), abs=1e-6)


@pytest.mark.parametrize("sharing", ["fifo", "fair"])
def test_a_faster_link_gains_what_a_cluster_with_it_gains(sharing):
    made = case(sharing)
    _, found = whatif.gains(made, 0.5, ("link",))
    assert found[0].name == "all of 5 Gb/s"
    assert found[0].gain > 0
    for gain in found:
        ends = set(gain.name.split(" - "))
        links = tuple(
            replace(link, bandwidth=link.bandwidth * 1.5)
            if {link.source, link.target} == ends or gain.name == f"all of {8 * link.bandwidth / 1e9:g} Gb/s"
            else link
            for link in made.cluster.links
        )
        assert gain.iteration_time_s == seconds(replace(made, cluster=replace(made.cluster, links=links)))


def test_most_comes_first_and_what_carries_nothing_is_left_out():
    _, found = whatif.gains(case())
    assert [gain.gain_s for gain in found] == sorted((gain.gain_s for gain in found), reverse=True)
    assert {gain.what for gain in found} == {"device", "link", "layer"}
    layers = [gain for gain in found if gain.what == "layer" and " x " not in gain.name]
    assert len(layers) == loading.load_trace("bert-large").layer_count


@pytest.mark.parametrize("by", [0.0, -0.1, float("inf"), float("nan")])
def test_how_much_faster_must_be_more_than_nothing(by):
    with pytest.raises(InputError, match="more than 0 was expected"):
        whatif.gains(case(), by)


def test_the_command_says_the_best_in_a_sentence(run, tmp_path):
    picture = tmp_path / "gains.png"
    code, out, _ = run("whatif", "bert-large", CLUSTER, "-p", "balanced", "--by", "10%", "--plot", picture)
    assert code == 0
    assert picture.stat().st_size > 5_000
    assert re.search(
        r"^first make 24 x mlp faster: by 10 %, that saves \d+\.\d % of the iteration$",
        out,
        re.MULTILINE,
    )
    data = json.loads(run("whatif", "bert-large", CLUSTER, "-p", "balanced", "--by", "0.1", "--json")[1])
    assert data["by"] == 0.1
    assert data["gains"][0]["gain"] >= data["gains"][-1]["gain"]


def test_the_command_speaks_of_all_links_of_a_bandwidth_in_the_plural(run):
    slow = "servers(3, 1, intra='25GB/s', inter='1Gb/s')"
    out = run("whatif", "bert-large", slow, "-p", "balanced", "--only", "link")[1]
    assert re.search(
        r"^first make links of 1 Gb/s faster: by 10 %, that saves \d+\.\d % of the iteration$", out, re.MULTILINE
    )


def test_a_part_that_is_none_is_refused(run):
    code, _, error = run("whatif", "bert-large", CLUSTER, "-p", "balanced", "--by", "much")
    assert code == 2
    assert "is not a part of a whole" in error


@pytest.mark.parametrize("sharing", ["none", "fair"])
def test_layers_of_a_job_that_is_folded_gain_what_they_gain_without_folding(sharing, monkeypatch):
    made = make_case(
        "model:bert-large", "hgx_h100(2)", tensor=2, pipeline=2, data=4, microbatches=8, sharding="zero1",
        sharing=sharing, recompute="selective", fit=False,
    )  # fmt: skip
    whole = whatif.gains(made, 0.1, ("layer",))
    monkeypatch.setattr(results, "LARGE", 0)
    assert results.lowered(made)[1] is not None
    assert whatif.gains(made, 0.1, ("layer",)) == whole
