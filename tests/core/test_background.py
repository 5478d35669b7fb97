"""A CSV of what others use of the links is a scenario; what it cannot mean is refused with its line."""

import json

import pytest
from click.testing import CliRunner

from pipesim.base import serialisation
from pipesim.base.errors import PipesimError
from pipesim.cli import cli
from pipesim.core import background
from pipesim.core.cluster import Cluster, Device, Link
from pipesim.core.scenario import Degraded, Scenario, Slow, Speeds

CLUSTER = Cluster(
    "c",
    tuple(Device(name, "gpu") for name in "abc"),
    (Link("a", "b", 1e9), Link("b", "c", 1e9, 0.0, "half"), Link("c", "a", 1e9, 0.0, "shared", "wire")),
)


@pytest.fixture
def read(tmp_path):
    """What a file with these lines means for the cluster."""

    def reading(*lines, header="link,time,share"):
        path = tmp_path / "load.csv"
        path.write_text("\n".join([header, *lines]) + "\n")
        return background.read(path, CLUSTER)

    return reading


def test_a_share_holds_until_the_next_row_of_its_link_and_the_last_until_the_end(read):
    """Before its first row a link is all ours; rows of other links stand between."""
    found = read("a->b,100e-9,0.5", "b->a,0,0.25", "a->b,300ns,0", "a->b,4e-7,0.75").of_media(CLUSTER)
    assert found == {
        "a->b": Speeds((0, 100, 300, 400), (1.0, 0.5, 1.0, 0.25)),
        "b->a": Speeds((0,), (0.75,)),
    }


@pytest.mark.parametrize(
    ("link", "media"),
    [
        ("a->b", {"a->b"}),
        ("b->a", {"b->a"}),
        ("a<->b", {"a->b", "b->a"}),
        ("b<->a", {"a->b", "b->a"}),
        ("b->c", {"b<->c"}),
        ("b<->c", {"b<->c"}),
        ("c<->b", {"b<->c"}),
        ("wire", {"wire"}),
        ("a->c", {"wire"}),
    ],
)
def test_one_direction_is_one_direction_unless_directions_take_turns(read, link, media):
    assert read(f"{link},0,0.5").of_media(CLUSTER) == dict.fromkeys(media, Speeds((0,), (0.5,)))


def test_columns_may_come_in_any_order_and_blank_lines_do_not_count(read):
    found = read("", "0.5, a->b ,1us", "", header="share,link,time")
    assert found == Scenario((), (Degraded("a", "b", 0.5, 1e-6, None, True),))


def test_rows_that_say_the_same_as_before_are_one_window(read):
    assert len(read("a->b,0,0.5", "a->b,1,0.5", "a->b,2,0.5").degraded) == 1
    assert read("a->b,0,0", "b->a,3,0") == Scenario()
    assert read() == Scenario()


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["a->b,0"], "line 2: 2 cells found; 3 were expected"),
        (["a->b,0,0.5", "a->b,0,0.6"], r"line 3: time: 0\.0 s found; a time after 0\.0 s in line 2 was expected"),
        (["", "a->b,soon,0.5"], "line 3: time: 'soon' is not a"),
        (["a->b,-1,0.5"], "line 2: time: .*not negative"),
        (["a->b,nan,0.5"], "line 2: time: "),
        (["a->b,0,1"], "line 2: share: '1' found; a number from 0 to less than 1 was expected"),
        (["a->b,0,30"], r"line 2: share: '30' found; .*\(0\.3: others use 30 %\)"),
        (["a->b,0,nan"], "line 2: share: 'nan' found"),
        (["a->b,0,"], "line 2: share: '' found"),
        (["a->bb,0,0.5"], "line 2: link: unknown link 'a->bb'; did you mean 'a->b'"),
        (["a->b,0,0.1", "a<->b,5,0.2"], "line 3: link: 'a<->b' is 'a->b', as 'a->b' above is; .*one name"),
        (["wire,0,0.1", "a->b,1,0.1", "c->a,2,0.1"], "line 4: link: 'c->a' is 'wire', as 'wire' above is"),
        (["a->b,1e12,0.5"], "line 2: start: 1000000000000.0 s found; 0 s to 146 years"),
        (['a->b,0,"0.5'], "line 2: is not CSV"),
    ],
)
def test_what_a_load_cannot_mean_is_refused_with_file_and_line(read, lines, message):
    with pytest.raises(PipesimError, match=rf"load\.csv: {message}"):
        read(*lines)


@pytest.mark.parametrize("header", ["", "link,time", "link,time,share,note", "link;time;share"])
def test_other_headings_are_refused(read, header):
    with pytest.raises(PipesimError, match=r"load\.csv: line 1: .* found; the headings link,time,share were expected"):
        read("a->b,0,0.5", header=header)


def test_a_long_recording_is_read_in_no_time(read):
    """Ten thousand changes of one link: in proportion to their number, not to its square (which takes a minute)."""
    found = read(*(f"a->b,{second},{second % 2 / 2}" for second in range(10_000))).of_media(CLUSTER)
    assert found["a->b"].values == (1.0, 0.5) * 5_000


@pytest.mark.parametrize("suffix", [".toml", ".json"])
def test_one_way_is_saved_and_loaded_with_a_scenario(tmp_path, suffix):
    scenario = Scenario((), (Degraded("a", "b", 0.5, one_way=True), Degraded("a", "b", 0.5)))
    serialisation.save(scenario, tmp_path / f"s{suffix}")
    assert serialisation.load(Scenario, tmp_path / f"s{suffix}") == scenario
    assert scenario.of_media(CLUSTER) == {"a->b": Speeds((0,), (0.25,)), "b->a": Speeds((0,), (0.5,))}


def test_a_background_joins_a_scenario():
    one, other = Scenario((Slow("a", 2.0),)), Scenario((), (Degraded("a", "b", 0.5),))
    assert one.beside(other) == Scenario(one.slow, other.degraded)


# --- on the command line ---------------------------------------------------------------------------------------------

COMMAND = ["simulate", "vgg-19", 'flat(2, bandwidth="1GB/s")', "--json", "--verify"]


def run(*arguments):
    return CliRunner().invoke(cli, [*COMMAND, *arguments])


def seconds(*arguments):
    done = run(*arguments)
    assert done.exit_code == 0, done.output
    return json.loads(done.output)["iteration_time_s"]


def test_links_of_which_others_use_half_are_links_of_half_the_bandwidth(tmp_path, monkeypatch):
    """And a scenario beside it counts too. The plan is the same: planners do not know what is to come."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "plan.json").write_text(CliRunner().invoke(cli, ["plan", *COMMAND[1:4]]).output)
    lines = ["link,time,share", *(f"{link},0,0.5" for link in ("gpu0<->switch", "gpu1<->switch"))]
    (tmp_path / "load.csv").write_text("\n".join(lines))
    (tmp_path / "slow.toml").write_text(
        'format = "pipesim.scenario"\nversion = 1\n[[slow]]\ndevice = "gpu0"\nfactor = 100\n'
    )
    given = ("--plan", "plan.json")
    on_half = [*COMMAND[:2], 'flat(2, bandwidth="0.5GB/s")', *COMMAND[3:], *given]
    half = json.loads(CliRunner().invoke(cli, on_half).output)["iteration_time_s"]
    loaded = seconds(*given, "--background", "load.csv")
    assert loaded == pytest.approx(half, rel=1e-6)
    assert loaded > seconds(*given)
    assert seconds(*given, "--background", "load.csv", "--scenario", "slow.toml") > loaded
    for engine in ("event", "compiled"):
        assert seconds(*given, "--background", "load.csv", "--engine", engine) == loaded


def test_a_background_that_means_nothing_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(PipesimError, match=r"nothere\.csv: no such file"):
        CliRunner().invoke(cli, [*COMMAND, "--background", "nothere.csv"], catch_exceptions=False)
    (tmp_path / "load.csv").write_text("link,time,share\ngpu0->gpu9,0,0.5\n")
    with pytest.raises(PipesimError, match=r"load\.csv: line 2: link: unknown link 'gpu0->gpu9'; did you mean"):
        CliRunner().invoke(cli, [*COMMAND, "--background", "load.csv"], catch_exceptions=False)
    (tmp_path / "load.csv").write_text("link,time,share\ngpu0->switch,0,0.5\n")
    with pytest.raises(PipesimError, match="has no links to degrade"):
        CliRunner().invoke(cli, [*COMMAND, "--background", "load.csv", "--sharing", "channel"], catch_exceptions=False)
