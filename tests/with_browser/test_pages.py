"""Pages in a headless Chromium, used as people use them: mouse, keys, and what they then show."""

import json
import random
import sys

import numpy as np
import pytest

import pipesim as ps
from helpers.browser import MISSING, program
from pipesim.base.errors import PipesimError
from pipesim.core import legality
from pipesim.core.schedule import Schedule, parse
from pipesim.display import pages
from pipesim.engines import by_name, compiled
from pipesim.lowering import Setup, lower
from pipesim.studies import equal_stages
from pipesim.studies.equal_stages import Times

assert program() is not None, MISSING

GUTTER = 168
FIRST_PAINT_S, FRAME_S = 1.0, 1 / 30
# A control's name, as a screen reader has it.
NAMES = """[...document.querySelectorAll("button, input, select, textarea, canvas, summary")].map((one) =>
  one.getAttribute("aria-label") || one.textContent.trim() ||
  (one.labels && one.labels[0] && one.labels[0].textContent.trim()) || "")"""
ROW = "(chart, rank, n) => chart.columns.row_task[chart.row_starts[rank] + n]"


@pytest.fixture(scope="module")
def simulated():
    return ps.simulate(
        "bert-large", 'servers(2, 4, intra="25GB/s", inter="10Gb/s")', "balanced", "one_f_one_b", microbatches=8
    )


@pytest.fixture(scope="module")
def simulation_file(simulated, tmp_path_factory):
    path = tmp_path_factory.mktemp("pages") / "simulation.html"
    pages.write(pages.simulation_page(simulated.as_data(ledger=True), simulated.timeline), path)
    return path


def schedule_file(folder, name="one_f_one_b", **times):
    setup = equal_stages.setup(name, 4, 8, Times.of(**times))
    timeline = by_name.run(lower(setup))
    data = equal_stages.exploration(setup, timeline) | {"scheduler": name}
    pages.write(pages.schedule_page(data, timeline), folder / "schedule.html")
    return setup, timeline, folder / "schedule.html"


def place(browser, row, share=None, task=None):
    """Where a row is in the window, at a share of the time shown or in the middle of a task."""
    return browser.run(f"""(() => {{
      const {{ state }} = pipesim, box = document.getElementById("plot").getBoundingClientRect();
      const item = state.items.find((one) => one.row === {row}), c = item.chart.columns, task = {json.dumps(task)};
      const middle = task === null ? 0 : c.start[task] + c.duration[task] / 2;
      const at = task === null ? {json.dumps(share)} : (middle - state.t0) / (state.t1 - state.t0);
      const left = Math.min({GUTTER}, Math.round(box.width * 0.3));
      document.getElementById("plot").scrollIntoView({{ block: "nearest" }});
      const now = document.getElementById("plot").getBoundingClientRect();
      return [now.left + left + at * (now.width - left), now.top + 24 + item.y - state.scroll + item.tall / 2];
    }})()""")


def text_of(browser, name):
    return browser.run(f"document.getElementById('{name}').textContent")


def test_a_page_asks_for_nothing_but_itself_and_all_its_controls_have_names(browser, simulation_file):
    browser.open(simulation_file)
    assert browser.requests() == [simulation_file.resolve().as_uri()]
    names = browser.run(NAMES)
    assert len(names) > 20
    assert all(names), names
    assert browser.run("document.querySelector('h1').textContent") == "bert-large on servers-2x4"
    assert "critical path" in browser.run("document.body.textContent").lower()


def test_the_columns_in_the_page_are_those_of_the_timeline(browser, simulation_file, simulated):
    browser.open(simulation_file)
    found = browser.run("""(() => { const c = pipesim.state.charts[0].columns;
      return [...c.kind].map((kind, n) => [kind, c.stage[n], c.microbatch[n], c.source[n], c.target[n], c.start[n],
        c.duration[n], c.slack[n], c.critical[n], c.bytes[n]]); })()""")
    timeline, program = simulated.timeline, simulated.timeline.program
    critical = set(ps.critical_path(timeline).tasks)
    from pipesim.analysis.critical_path import slack

    columns = [program.kind, program.stage, program.microbatch, program.source, program.target, timeline.start,
               timeline.end - timeline.start, slack(timeline), [int(t in critical) for t in range(len(program))],
               np.where(program.is_compute, 0, np.rint(program.size)).astype(int)]  # fmt: skip
    assert sorted(map(tuple, found)) == sorted(zip(*(np.asarray(c).tolist() for c in columns), strict=True))


def test_the_wheel_with_ctrl_zooms_where_the_mouse_is_and_keys_pan_and_show_all(browser, simulation_file):
    browser.open(simulation_file)
    x, y = place(browser, 0, share=0.5)
    whole = browser.run("pipesim.state.t1 - pipesim.state.t0")
    middle = browser.run("(pipesim.state.t0 + pipesim.state.t1) / 2")
    browser.mouse("mouseWheel", x, y, modifiers=2, deltaX=0, deltaY=-300)
    browser.frame()
    part = browser.run("pipesim.state.t1 - pipesim.state.t0")
    assert part < whole / 2
    assert abs(browser.run("(pipesim.state.t0 + pipesim.state.t1) / 2") - middle) < whole / 100
    browser.run("document.getElementById('plot').focus()")
    begin = browser.run("pipesim.state.t0")
    browser.key("ArrowRight")
    assert browser.run("pipesim.state.t0") == pytest.approx(begin + part / 10)
    browser.key("+")
    assert browser.run("pipesim.state.t1 - pipesim.state.t0") < part
    browser.key("0")
    assert browser.run("pipesim.state.t1 - pipesim.state.t0") == pytest.approx(whole)


def test_dragging_pans(browser, simulation_file):
    browser.open(simulation_file)
    browser.run("pipesim.zoom(4)")
    before = browser.run("pipesim.state.t0")
    x, y = place(browser, 3, share=0.5)
    browser.drag((x, y), (x - 200, y))
    assert browser.run("pipesim.state.t0") > before


def test_hovering_shows_the_task_its_times_and_what_it_waited_for(browser, simulation_file):
    browser.open(simulation_file)
    task = browser.run("""(() => { const c = pipesim.state.charts[0].columns;
      return [...c.kind].findIndex((kind, n) => kind === 1 && c.stage[n] === 3 && c.microbatch[n] === 0); })()""")
    browser.mouse("mouseMoved", *place(browser, 3, task=task))
    browser.frame()
    shown = text_of(browser, "hint")
    assert not browser.run("document.getElementById('hint').hidden")
    assert shown.startswith("3B0 on node0.gpu3: backward of stage 3, microbatch 0")
    assert "waited for 4<0 from node1.gpu0 to node0.gpu3, which it needs" in shown
    assert ("on the critical path" in shown) != ("slack" in shown)


def test_a_click_selects_a_task_and_p_goes_to_what_it_waited_for(browser, simulation_file):
    browser.open(simulation_file)
    task = browser.run("pipesim.state.charts[0].columns.row_task[3]")
    browser.click(*place(browser, 0, task=task))
    assert text_of(browser, "details").startswith("0F3 on node0.gpu0")
    browser.key("p")
    assert text_of(browser, "details").startswith("0F2 on node0.gpu0")
    browser.key("]")
    assert text_of(browser, "details").startswith("0F3 on node0.gpu0")
    browser.key("Escape")
    assert text_of(browser, "details") == ""


def test_groups_fold_by_their_names_by_buttons_and_by_keys(browser, simulation_file):
    browser.open(simulation_file)
    rows = "pipesim.state.items.filter((one) => one.row !== undefined).length"
    every = browser.run(rows)
    x, y = place(browser, 0, share=0)
    browser.click(x - GUTTER + 20, y - 24)
    assert browser.run("[...pipesim.state.folded]") == ["node0"]
    assert browser.run(rows) == every - 4
    browser.run("document.getElementById('fold').click()")
    assert browser.run(rows) == 0
    browser.run("document.getElementById('unfold').click()")
    assert browser.run(rows) == every
    browser.run("document.getElementById('plot').focus()")
    browser.key("]")
    browser.key("Enter")
    assert browser.run("[...pipesim.state.folded]") == ["node0"]
    browser.run("const g = document.getElementById('group'); g.value = 'stage'; g.dispatchEvent(new Event('change'))")
    groups = browser.run("pipesim.state.items.filter((one) => one.group !== undefined).map((one) => one.group)")
    assert groups == [*(f"stage {n}" for n in range(8)), "links"]


@pytest.mark.parametrize(
    ("words", "count"), [("F3", 8), ("2B1", 1), ("mb:5 forward", 8), ("gpu3 stage:3 backward", 8), ("nothing", 0)]
)
def test_search_finds_tasks_by_action_stage_microbatch_kind_and_device(browser, simulation_file, words, count):
    browser.open(simulation_file)
    browser.run("document.getElementById('plot').focus()")
    browser.key("/")
    browser.type(words)
    assert text_of(browser, "found") == (f"{count} tasks" if count != 1 else "1 task")
    if count:
        browser.key("Enter")
        assert text_of(browser, "found") == f"1 of {count}"
        assert text_of(browser, "details")


def test_memory_load_and_links_are_on_the_same_axis(browser, simulation_file, simulated):
    browser.open(simulation_file)
    for name, kind in (("memory", "memory"), ("load", "load")):
        browser.run(f"document.getElementById('{name}').click()")
        assert browser.run(f"pipesim.state.items.some((one) => one.step && one.step.kind === '{kind}')")
    most = browser.run("""(() => { const chart = pipesim.state.charts[0], c = chart.columns;
      const memory = chart.steps.filter((step) => step.kind === "memory");
      return memory.map((step) => Math.max(...c.step_value.slice(step.from, step.to))); })()""")
    assert most == ps.metrics.peak_memory(simulated.timeline).tolist()


def test_two_timelines_are_side_by_side_with_what_differs(browser, tmp_path):
    from dataclasses import replace

    _, timeline, _ = schedule_file(tmp_path)
    program = timeline.program
    duration = program.duration.copy()
    slower = int(np.flatnonzero((program.stage == 3) & (program.kind == 1) & (program.microbatch == 7))[0])
    duration[slower] += 500_000_000
    changed = by_name.run(replace(program, duration=duration))
    pages.write(pages.Page("two", charts={"one": timeline, "other": changed}), tmp_path / "two.html")
    browser.open(tmp_path / "two.html")
    browser.run("pipesim.compareWith(1)")
    text = text_of(browser, "differences")
    same = int(((timeline.start == changed.start) & (timeline.end == changed.end) & program.is_compute).sum())
    assert f"{same} tasks at the same time, {64 - same} at another, 0 only in A" in text
    assert "500 ms longer" in text
    names = browser.run("pipesim.state.items.filter((one) => one.row !== undefined).map((one) => one.name)")
    assert names[:2] == ["rank0", "rank0 · B"]


def test_a_schedule_against_another_opens_beside_it_and_is_edited(browser, tmp_path, run):
    page = tmp_path / "against.html"
    assert run("schedule", "zb_2p", "--stages", "2", "-m", "4", "--against", "zb_h1", "--html", page)[0] == 0
    browser.open(page)
    assert text_of(browser, "differences").startswith("A zb_2p: ")
    names = browser.run("pipesim.state.items.filter((one) => one.row !== undefined).map((one) => one.name)")
    assert names == ["rank0", "rank0 · B", "rank1", "rank1 · B"]
    browser.run("document.getElementById('editing').click()")
    assert browser.run("pipesim.state.charts.map((chart) => chart.name)") == ["zb_2p", "zb_h1", "edited"]


def test_a_dragged_action_is_timed_again_undone_and_saved(browser, tmp_path):
    setup, timeline, path = schedule_file(tmp_path, hop=0.1)
    browser.open(path)
    browser.run("document.getElementById('editing').click()")
    tasks = [browser.run(f"({ROW})(pipesim.state.charts[1], 0, {n})") for n in (3, 5)]
    begin, end = (place(browser, 0, task=task) for task in tasks)
    browser.drag(begin, (end[0] + 3, end[1]))
    rows = [list(row) for row in setup.schedule.rows]
    moved = rows[0].pop(3)
    rows[0].insert(5, moved)
    expected = timed(setup, Schedule.of(rows))
    assert browser.run("pipesim.tableText(pipesim.state.table)") == str(Schedule.of(rows))
    assert browser.run("pipesim.state.charts[1].makespan") == expected.makespan
    assert str(moved) in text_of(browser, "edited")
    browser.run("document.getElementById('undo').click()")
    assert browser.run("pipesim.state.charts[1].makespan") == timeline.makespan
    browser.run("document.getElementById('redo').click()")
    browser.call("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path))
    browser.run("document.getElementById('save').click()")
    saved = tmp_path / "schedule.csv"
    for _ in range(100):
        browser.frame()
        if saved.exists() and saved.read_text():
            break
    assert Schedule.load(saved) == Schedule.of(rows)
    as_file = by_name.run(lower(equal_stages.setup(str(saved), 4, 8, Times.of(hop=0.1))))  # pipesim schedule FILE
    assert as_file.same_as(expected)


def test_keys_move_an_action_and_an_impossible_order_is_refused(browser, tmp_path):
    _, timeline, path = schedule_file(tmp_path)
    browser.open(path)
    browser.run("document.getElementById('editing').click(); document.getElementById('plot').focus()")
    browser.click(
        *place(
            browser,
            3,
            task=browser.run(f"({ROW})(pipesim.state.charts[1], 3, 0)"),
        )
    )
    browser.key("ArrowRight", shift=True)
    assert "the order is impossible" in text_of(browser, "wrong")
    assert "3B0 waits for 3F0" in text_of(browser, "wrong")
    assert browser.run("pipesim.state.charts[1].makespan") == timeline.makespan
    browser.click(
        *place(
            browser,
            3,
            task=browser.run(f"({ROW})(pipesim.state.charts[1], 3, 1)"),
        )
    )
    browser.key("ArrowRight", shift=True)
    assert browser.run("pipesim.tableText(pipesim.state.table)").split("\n")[3].startswith("3F0,3F1,3B0")


def test_a_table_that_is_no_schedule_is_refused_in_words(browser, tmp_path):
    _, _, path = schedule_file(tmp_path)
    browser.open(path)
    browser.run("document.getElementById('editing').click()")
    for text, message in (("0F0,x", "line 1: cell 2: 'x' found"), ("0F0", "1 ranks found; 4 were expected")):
        browser.run(
            f"document.getElementById('table').value = {json.dumps(text)}; document.getElementById('apply').click()"
        )
        assert message in text_of(browser, "wrong")


def timed(setup, schedule):
    """What `pipesim schedule` does with a table in place of a schedule's name."""
    legality.check(schedule, setup.plan)
    return by_name.run(lower(Setup(setup.plan, schedule, setup.costs, setup.cluster, setup.options)), "compiled")


def drawn_table(setup, rng):
    """An order that is drawn: of the actions that could come next on some rank any; now and then two are swapped."""
    rows, left = [[] for _ in setup.schedule.rows], [list(row) for row in setup.schedule.rows]
    while any(left):
        waiting = {tuple(action) for row in left for action in row}
        stages = len(setup.plan.stages)
        ready = [(rank, one) for rank, row in enumerate(left) for one in row if not inputs(one, stages) & waiting]
        rank, action = rng.choice(ready)
        left[rank].remove(action)
        rows[rank].append(action)
    if rng.random() < 0.25:
        rank = rng.randrange(len(rows))
        a, b = (rng.randrange(len(rows[rank])) for _ in range(2))
        rows[rank][a], rows[rank][b] = rows[rank][b], rows[rank][a]
    return Schedule.of(rows)


def inputs(action, stages):
    s, k, m = action
    if k == 0:
        return {(s - 1, 0, m)} if s else set()
    if k == 3:
        return {(s, 2, m)}
    return {(s, 0, m), *({(s + 1, n, m) for n in (1, 2)} if s < stages - 1 else set())}


def test_200_drawn_tables_are_timed_as_by_the_simulation_and_refused_as_by_it(browser, tmp_path):
    rng, verdicts = random.Random(19), []
    for name in ("one_f_one_b", "zb_h1", "interleaved", "chimera", "zb_v"):
        setup, _, path = schedule_file(tmp_path, name, forward=rng.uniform(0.5, 2), hop=rng.choice([0, 0.13]))
        browser.open(path)
        tables = [drawn_table(setup, rng) for _ in range(40)]
        found = browser.run(f"""{json.dumps([str(one) for one in tables])}.map((text) => {{
          try {{
            const timed = pipesim.retime(pipesim.state.head.editing, pipesim.parseTable(text));
            return [timed.makespan, timed.actions.map((one) => one.start), timed.actions.map((one) => one.end)];
          }} catch (error) {{ return error.message; }}
        }})""")
        for table, answer in zip(tables, found, strict=True):
            try:
                timeline = timed(setup, parse(str(table)))
            except PipesimError:
                assert isinstance(answer, str)
                assert "impossible" in answer
                verdicts.append("refused")
                continue
            count = len(table.kind)
            assert answer == [timeline.makespan, timeline.start[:count].tolist(), timeline.end[:count].tolist()]
            verdicts.append("timed")
    assert len(verdicts) == 200
    assert 15 < verdicts.count("refused") < 80


def test_where_times_depend_on_links_the_page_states_why_it_does_not_edit(browser, simulation_file):
    browser.open(simulation_file)
    assert browser.run("document.getElementById('editing').disabled")
    assert "transfers share links (fair)" in text_of(browser, "refused")


def test_dark_light_and_print_each_have_their_colours(browser, simulation_file):
    browser.open(simulation_file)
    corner = """(() => { const c = document.getElementById("plot"), p = c.getContext("2d");
      return [...p.getImageData(c.width - 4, c.height - 4, 1, 1).data].slice(0, 3); })()"""
    assert browser.run(corner) == [255, 255, 255]
    browser.dark()
    browser.frame()
    assert max(browser.run(corner)) < 40
    browser.run("const t = document.getElementById('theme'); t.value = 'light'; t.dispatchEvent(new Event('change'))")
    browser.frame()
    assert browser.run(corner) == [255, 255, 255]
    browser.call("Emulation.setEmulatedMedia", media="print")
    assert browser.run("getComputedStyle(document.querySelector('.bar')).display") == "none"


def test_a_narrow_window_has_all_controls_and_no_sideways_scrolling(browser, simulation_file):
    browser.size(400, 800)
    browser.open(simulation_file)
    assert browser.run("document.documentElement.scrollWidth") <= 400
    widths = browser.run("[...document.querySelectorAll('.bar button, .bar select')].map((one) => one.offsetWidth)")
    assert max(widths) <= 400 - 2 * 16


@pytest.fixture(scope="module")
def million(tmp_path_factory):
    """256 stages, 1,000 microbatches, each task with a time of its own: 1,022,000 tasks."""
    setup = equal_stages.setup("one_f_one_b", 256, 1000, Times.of(hop=0.1))
    drawn = lower(setup)
    factor = np.where(drawn.is_compute, np.random.default_rng(19).uniform(0.8, 1.2, len(drawn)), 1)
    timeline = compiled.run(drawn.with_durations(np.rint(drawn.duration * factor).astype(np.int64)))
    path = tmp_path_factory.mktemp("large") / "million.html"
    pages.write(pages.Page("a million tasks", charts={"simulated": timeline}), path)
    return path


PANNING = """async (zoom) => {
  pipesim.fit(); pipesim.zoom(zoom); pipesim.state.frames.length = 0;
  const began = performance.now();
  for (let n = 0; n < 40; n++) {
    pipesim.pan(n < 20 ? 0.01 : -0.01);
    await new Promise((done) => requestAnimationFrame(done));
  }
  return [(performance.now() - began) / 40, Math.max(...pipesim.state.frames)];
}"""


def test_a_million_tasks_are_painted_within_a_second_and_pan_with_30_frames_a_second(browser, million):
    browser.size(1600, 1000)
    browser.open(million)
    painted = browser.run("pipesim.state.painted") / 1000
    frames = {}
    for zoom in (1, 2, 4, 30, 1000):
        # The least of three: other work on the machine makes frames longer.
        frames[zoom] = min(browser.run(f"({PANNING})({zoom})") for _ in range(3))
    measured = ", ".join(f"x{zoom}: {mean:.1f}, {most:.1f}" for zoom, (mean, most) in frames.items())
    sys.stdout.write(
        f"\n{million.stat().st_size / 1e6:.1f} MB, first paint after {painted:.2f} s; "
        f"ms per frame (mean, longest drawing) by zoom: {measured}\n"
    )
    assert painted < FIRST_PAINT_S
    assert all(mean < 1000 * FRAME_S for mean, _ in frames.values())
