"""Files, styles and texts of all figures."""

import itertools
import subprocess
import sys

import matplotlib as mpl
import pytest

from helpers.pictures import CHUNKED, REPLICATED, check_no_text_is_hidden, planned, straight, topology
from helpers.places import TESTS
from pipesim.base.errors import InputError
from pipesim.display import figures
from pipesim.display.figures import paper

ROWS = [
    {"planner": p, "scheduler": s, "iteration_time_s": 0.1 + 0.013 * i, "bound_s": 0.1}
    for i, (p, s) in enumerate(itertools.product(["uniform", "balanced", "spp", "pipedream"], ["gpipe", "1f1b", "spp"]))
]


FIGURES = {
    "gantt": lambda: figures.gantt(straight(), title="four stages, eight microbatches"),
    "gantt medium": lambda: figures.gantt(straight(16, 32, "gpipe"), links=True),
    "gantt many rows": lambda: figures.gantt(straight(90, 2), width=5),
    "gantt replicated": lambda: figures.gantt(planned(REPLICATED), links=True, title="replicated", critical=[0, 1, 2]),
    "gantt chunks": lambda: figures.gantt(planned(CHUNKED), width=4),
    "grid": lambda: figures.gantt_grid({f"plan {n}": straight(n, 4) for n in range(2, 9)}),
    "memory": lambda: figures.memory(straight()),
    "memory many": lambda: figures.memory(straight(30, 4)),
    "load": lambda: figures.link_load(straight(3)),
    "load many": lambda: figures.link_load(straight(12, sharing="fifo")),
    "load none": lambda: figures.link_load(planned(REPLICATED, sharing="none")),
    "comparison": lambda: figures.comparison(ROWS),
    "comparison many": lambda: figures.comparison(
        [row | {"planner": f"a long name {n}"} for n, row in enumerate(ROWS)]
    ),
    "cluster servers": lambda: figures.cluster(topology("servers(2, 8, '25GB/s', '12.5GB/s')")),
    "cluster dgx": lambda: figures.cluster(topology("dgx1_v100(8)")),
    "cluster fat tree": lambda: figures.cluster(topology("fat_tree(4)")),
    "cluster random": lambda: figures.cluster(
        topology("random(16, 1, ['1 GB/s', '10 GB/s'], 0.4, distribution='log')")
    ),
}


@pytest.mark.parametrize("name", FIGURES)
def test_no_text_overlaps_another_or_leaves_the_picture(name):
    check_no_text_is_hidden(FIGURES[name]())


_SAVE = """
import sys
sys.path.insert(0, {tests!r})
from pathlib import Path
from helpers.pictures import straight, topology
from pipesim.display import figures
for suffix in ("png", "svg", "pdf"):
    figures.gantt(straight(2, 3), Path({folder!r}) / f"gantt.{{suffix}}", links=True)
figures.cluster(topology("servers(2, 4, '25GB/s', '1GB/s')"), Path({folder!r}) / "cluster.svg")
assert "matplotlib.pyplot" not in sys.modules
"""


def test_the_same_picture_is_the_same_bytes_in_another_process(tmp_path):
    saved = []
    for seed in ("1", "2"):
        folder = tmp_path / seed
        code = _SAVE.format(folder=str(folder), tests=str(TESTS))
        environment = {"PYTHONHASHSEED": seed, "PATH": "", "HOME": str(tmp_path), "PYTHONPATH": ":".join(sys.path)}
        subprocess.run([sys.executable, "-W", "error", "-c", code], check=True, env=environment, cwd=tmp_path)
        saved.append({path.name: path.read_bytes() for path in sorted(folder.iterdir())})
    assert len(saved[0]) == 4
    assert saved[0] == saved[1]


@pytest.mark.parametrize(("suffix", "head"), [(".png", b"\x89PNG"), (".svg", b"<?xml"), (".PDF", b"%PDF")])
def test_a_figure_is_written_in_the_format_of_its_suffix(tmp_path, suffix, head):
    figures.gantt(straight(2, 2), str(tmp_path / f"a{suffix}"))
    assert (tmp_path / f"a{suffix}").read_bytes().startswith(head)


def test_a_pdf_has_its_fonts_as_truetype_and_no_date(tmp_path):
    figures.gantt(straight(2, 2), tmp_path / "a.pdf")
    data = (tmp_path / "a.pdf").read_bytes()
    assert b"/FontFile2" in data
    assert b"/Type3" not in data
    assert b"CreationDate" not in data


@pytest.mark.parametrize("name", ["a.jpg", "a", "a.tar.gz"])
@pytest.mark.parametrize("draw", [figures.gantt, figures.memory, figures.link_load])
def test_another_suffix_is_refused_with_the_three_that_are_known(tmp_path, draw, name):
    with pytest.raises(InputError, match=r"\.png, \.svg, \.pdf"):
        draw(straight(2, 2), tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_a_figure_that_cannot_be_written_is_refused_and_leaves_nothing(tmp_path):
    (tmp_path / "a.png").mkdir()
    with pytest.raises(InputError, match=r"a\.png: cannot be written"):
        figures.gantt(straight(2, 2), tmp_path / "a.png")
    assert [path.name for path in tmp_path.iterdir()] == ["a.png"]


def test_settings_of_the_user_on_which_places_depend_change_nothing_and_none_is_changed(tmp_path):
    figures.memory(straight(2, 2), tmp_path / "plain.svg")
    with mpl.rc_context({"figure.dpi": 30, "savefig.dpi": 10, "text.usetex": True, "figure.figsize": (1, 1)}):
        before = dict(mpl.rcParams)
        figures.memory(straight(2, 2), tmp_path / "mine.svg")
        assert dict(mpl.rcParams) == before
    assert (tmp_path / "mine.svg").read_bytes() == (tmp_path / "plain.svg").read_bytes()


def test_fonts_and_axes_are_the_users_where_they_are_set():
    with mpl.rc_context({"font.family": ["DejaVu Serif"], "axes.linewidth": 3.0}):
        axes = figures.memory(straight(2, 2)).axes[0]
    assert axes.xaxis.label.get_fontfamily() == ["DejaVu Serif"]
    assert axes.spines["left"].get_linewidth() == 3.0


def test_a_font_size_of_the_user_is_that_of_labels_and_ticks_too():
    """They have sizes of their own in the style of all figures, and stayed small."""
    with mpl.rc_context({"font.size": 16, "xtick.labelsize": 5}):
        axes = figures.comparison([{"planner": "a", "scheduler": "b", "iteration_time_s": 1.0}]).axes[0]
    assert axes.yaxis.label.get_fontsize() == 16
    assert axes.yaxis.get_ticklabels()[0].get_fontsize() == 14
    assert axes.xaxis.get_ticklabels()[0].get_fontsize() == 5


def test_matplotlib_is_not_imported_before_something_is_drawn():
    code = "import sys, pipesim.display.figures; sys.exit('matplotlib' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    ("count", "room", "each", "every"), [(10, 100, 10, 1), (11, 100, 10, 2), (90, 100, 10, 10), (1024, 100, 10, 200)]
)
def test_labels_are_thinned_to_round_steps(count, room, each, every):
    assert paper.thinned(count, room, each) == every


def test_a_long_name_loses_its_middle():
    assert paper.shortened("node0.switch0.port17", 11) == "node0…ort17"[:11]
    assert len(paper.shortened("node0.switch0.port17", 11)) == 11
    assert paper.shortened("gpu0", 11) == "gpu0"
