"""Schedules go to PyTorch and come back: each side reads what the other writes, and refuses what cannot be kept."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from pipesim.analysis import metrics
from pipesim.base.errors import ScheduleError
from pipesim.cli import main
from pipesim.core import legality
from pipesim.core.schedule import Schedule
from pipesim.engines import by_name
from pipesim.lowering import lower
from pipesim.schedulers import SCHEDULERS
from pipesim.studies import equal_stages
from pipesim.studies.equal_stages import Times

torchs = pytest.importorskip(
    "torch.distributed.pipelining.schedules",
    reason="PyTorch is not installed, or without torch.distributed: pip install 'pipesim[torch]'",
    exc_type=ImportError,
)

SIZES = [(4, 8), (2, 5), (3, 7), (1, 3)]  # ranks, microbatches
TWO_COPIES = ("chimera", "dualpipe")
# What is asked of `auto` and `exact` is one of the others.
MEMBERS = [name for name in SCHEDULERS if name not in {"auto", "exact", *TWO_COPIES}]
CALLS = [*MEMBERS, "one_f_one_b(warm_up='B')", "interleaved(chunks=3)", "hanayo(waves=2)"]
# PyTorch's InterleavedZeroBubble takes multiples of its rounds, and so does `interleaved_zb_1p`.
ORDERED = [
    (name, *size)
    for name in CALLS
    for size in SIZES
    if name != "interleaved_zb_1p" or size[1] % (size[1] // size[0]) == 0
]


def stand_ins(ranks, held, stages):
    """All that PyTorch's schedules ask of stages before they run: no model, no process group."""
    return [
        SimpleNamespace(
            stage_index=n,
            num_stages=stages,
            group_size=ranks,
            group_rank=0,
            is_first=n == 0,
            is_last=n == stages - 1,
            submod=None,
        )
        for n in held
    ]


def loaded(path, form, case):
    """PyTorch's runtime with a schedule from a file."""
    stages = stand_ins(len(case.plan.devices), case.plan.chunks[0], len(case.plan.stages))
    runtime = torchs._PipelineScheduleRuntime(stages, case.plan.microbatches)
    runtime._load_csv(str(path), format=form)
    return runtime


def own(kind, ranks, chunks, microbatches):
    """One of PyTorch's own schedules."""
    stages = stand_ins(ranks, range(chunks), ranks * chunks)
    return torchs.get_schedule_class(kind)(stages, microbatches, loss_fn=lambda *_: None)


def written(path, name, ranks, microbatches, *options):
    main(["schedule", name, "-p", str(ranks), "-m", str(microbatches), "-o", str(path), "--json", *options])


def texts(order):
    return [[str(action) for action in order[rank] if action is not None] for rank in sorted(order)]


def unsharded(rows):
    """Without what is about sharded parameters, which a compute_comms file may leave out."""
    return [[cell for cell in row if not cell.endswith("SHARD")] for row in rows]


# --- from pipesim to PyTorch -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "ranks", "microbatches"), ORDERED)
def test_pytorch_loads_what_pipesim_writes_and_writes_it_again(name, ranks, microbatches, tmp_path):
    case = equal_stages.setup(name, ranks, microbatches, Times())
    written(tmp_path / "plain.csv", name, ranks, microbatches)
    runtime = loaded(tmp_path / "plain.csv", "compute_only", case)
    assert texts(runtime.pipeline_order) == case.schedule.cells
    ranks_of = {n: case.plan.devices.index(stage.devices[0]) for n, stage in enumerate(case.plan.stages)}
    assert runtime.stage_index_to_group_rank == ranks_of
    for form in ("compute_only", "compute_comms"):
        runtime._dump_csv(str(tmp_path / "again.csv"), format=form)
        assert Schedule.load(tmp_path / "again.csv") == case.schedule


@pytest.mark.parametrize(("name", "ranks", "microbatches"), ORDERED)
def test_with_messages_pytorch_reads_the_very_cells_that_it_would_have_added(name, ranks, microbatches, tmp_path):
    case = equal_stages.setup(name, ranks, microbatches, Times())
    written(tmp_path / "plain.csv", name, ranks, microbatches)
    written(tmp_path / "full.csv", name, ranks, microbatches, "--messages")
    full = loaded(tmp_path / "full.csv", "compute_comms", case)
    plain = loaded(tmp_path / "plain.csv", "compute_only", case)
    ours, theirs = texts(full.pipeline_order_with_comms), unsharded(texts(plain.pipeline_order_with_comms))
    assert [sorted(row) for row in ours] == [sorted(row) for row in theirs]
    if "OVERLAP" not in str(case.schedule):  # which PyTorch's dry run cannot do
        assert steps(full, case) <= steps(plain, case)


def steps(runtime, case):
    """How many steps PyTorch's own dry run takes, in which a receive waits for its send. It raises on deadlock."""
    order = {
        rank: [action for action in row if not str(action).endswith(("SHARD", "REDUCE_GRAD"))]
        for rank, row in runtime.pipeline_order_with_comms.items()
    }
    ranks = runtime.stage_index_to_group_rank
    return max(map(len, torchs._simulate_comms_compute(order, ranks.__getitem__, len(case.plan.stages)).values()))


def test_a_forward_and_a_backward_as_one_are_one_action_to_pytorch(tmp_path):
    case = equal_stages.setup("dualpipe_v", 4, 10, Times())
    case.schedule.save(tmp_path / "pairs.csv")
    order = loaded(tmp_path / "pairs.csv", "compute_only", case).pipeline_order
    pairs = [action for row in order.values() for action in row if action.sub_actions]
    assert len(pairs) == case.schedule.paired.sum() > 0
    assert {tuple(part.computation_type.value for part in action.sub_actions) for action in pairs} == {("F", "B")}


@pytest.mark.parametrize("name", TWO_COPIES)
def test_pytorch_does_not_hold_a_stage_on_two_ranks(name, tmp_path):
    """So that schedules of two copies of the model can be written, but not be run there."""
    case = equal_stages.setup(name, 4, 8, Times())
    case.schedule.save(tmp_path / "both.csv")
    with pytest.raises(AssertionError, match="is assigned to both rank"):
        loaded(tmp_path / "both.csv", "compute_only", case)


# --- from PyTorch to pipesim -----------------------------------------------------------------------------------------


def read_back(theirs, path, case):
    """What PyTorch writes, in both forms, as a legal schedule for the plan of a case."""
    found = []
    for form in ("compute_only", "compute_comms"):
        theirs._dump_csv(str(path), format=form)
        found.append(Schedule.load(path))
    legality.check(found[0], case.plan)
    assert found[0] == found[1]
    return found[0]


def numbers(case):
    """Makespan and most chunks in flight."""
    timeline = by_name.run(lower(case))
    return metrics.iteration_time(timeline), int(metrics.in_flight(timeline).max())


@pytest.mark.parametrize("size", [(4, 8), (2, 6), (4, 10), (4, 3), (1, 3), (8, 16)])
@pytest.mark.parametrize(
    ("kind", "name", "chunks"),
    [
        ("Interleaved1F1B", "interleaved(chunks=1)", 1),
        ("Interleaved1F1B", "interleaved(chunks=2)", 2),
        ("Interleaved1F1B", "interleaved(chunks=3)", 3),
        ("InterleavedZeroBubble", "interleaved_zb_1p(chunks=1)", 1),
        ("InterleavedZeroBubble", "interleaved_zb_1p(chunks=2)", 2),
        ("InterleavedZeroBubble", "interleaved_zb_1p(chunks=3)", 3),
        ("ZBVZeroBubble", "zb_v", 2),
        ("DualPipeV", "dualpipe_v", 2),
    ],
)
def test_these_orders_are_the_same_action_for_action(kind, name, chunks, size, tmp_path):
    ranks, microbatches = size
    if kind == "DualPipeV" and microbatches < 2 * ranks:
        with pytest.raises(ValueError, match="at least as many microbatches as stages"):
            own(kind, ranks, chunks, microbatches)
        return
    case = equal_stages.setup(name, ranks, microbatches, Times())
    theirs = read_back(own(kind, ranks, chunks, microbatches), tmp_path / "theirs.csv", case)
    if kind == "ZBVZeroBubble" and microbatches < 2 * ranks - 1:  # too few to fill it: there is a shorter order
        assert numbers(case)[0] < numbers(replace(case, schedule=theirs))[0]
        return
    assert theirs == case.schedule


@pytest.mark.parametrize(("ranks", "microbatches"), [(4, 8), (2, 6), (3, 7), (4, 3), (8, 16)])
def test_looped_bfs_is_the_same_but_for_the_order_of_microbatches_in_backwards(ranks, microbatches, tmp_path):
    """PyTorch takes the last microbatch first; with equal times that takes as long and keeps as much."""
    case = equal_stages.setup("looped_bfs", ranks, microbatches, Times())
    theirs = read_back(own("LoopedBFS", ranks, 2, microbatches), tmp_path / "theirs.csv", case)
    assert numbers(replace(case, schedule=theirs)) == numbers(case)
    mirrored = [
        [(n, kind, m if kind == 0 else microbatches - 1 - m) for n, kind, m, _ in theirs.part(rank)]
        for rank in range(ranks)
    ]
    assert Schedule.of(mirrored) == case.schedule


@pytest.mark.parametrize(("ranks", "microbatches"), [(4, 8), (2, 6), (4, 10), (4, 3), (8, 16)])
@pytest.mark.parametrize("chunks", [1, 2])
def test_interleaved_zero_bubble_takes_no_longer_than_pytorchs(chunks, ranks, microbatches, tmp_path):
    case = equal_stages.setup(f"interleaved_zb(chunks={chunks})", ranks, microbatches, Times(), chunks)
    theirs = read_back(own("InterleavedZeroBubble", ranks, chunks, microbatches), tmp_path / "theirs.csv", case)
    assert numbers(case)[0] <= numbers(replace(case, schedule=theirs))[0]


@pytest.mark.parametrize(("ranks", "microbatches"), [(4, 8), (2, 6), (4, 3), (1, 3)])
def test_gpipe_is_the_same_action_for_action(ranks, microbatches):
    case = equal_stages.setup("gpipe", ranks, microbatches, Times())
    assert single("GPipe", ranks, microbatches) == [",".join(row) for row in case.schedule.cells]


# --- a good first customer -------------------------------------------------------------------------------------------


def single(kind, ranks, microbatches):
    """The order that PyTorch gives for a schedule of one stage per rank, a line of text for each."""
    made = object.__new__(torchs.get_schedule_class(kind))  # the order depends on these alone
    made._num_stages, made._n_microbatches, made.pp_group_size = ranks, microbatches, ranks
    return [",".join(cell for cell in row if "_" not in cell) for row in texts(made._get_pipeline_order())]


@pytest.fixture
def broken():
    """The order of PyTorch's 1F1B for four stages and eight microbatches."""
    rows = single("1F1B", 4, 8)
    if "3F0" in rows[3].split(","):
        pytest.skip("this PyTorch orders its 1F1B as it runs it; 2.13.0 did not")
    return rows


def test_the_order_of_pytorchs_1f1b_does_without_the_first_forward_of_the_last_rank(broken):
    """Its `_get_pipeline_order` counts a forward up before it writes it down, for those after the warm-up.

    The last rank has no warm-up, so that its forwards begin at microbatch 1 and end at one that does not exist. The
    schedule itself does not run in that order; only what asks for it, such as the drawing of schedules, gets it.
    """
    case = equal_stages.setup("one_f_one_b", 4, 8, Times())
    assert broken[:3] == [",".join(row) for row in case.schedule.cells[:3]]
    forwards = [cell for cell in broken[3].split(",") if "F" in cell]
    assert forwards == [f"3F{m}" for m in range(1, 9)]


def test_pipesim_refuses_that_order_and_shows_where_it_gets_stuck(broken, tmp_path):
    path = tmp_path / "theirs.csv"
    path.write_text("\n".join(broken) + "\n", "utf-8")
    with pytest.raises(ScheduleError) as caught:
        legality.check(Schedule.load(path), equal_stages.setup("one_f_one_b", 4, 8, Times()).plan)
    assert str(caught.value).split("\n") == [
        "rank 3, cell 15: 3F8 found; this microbatch does not pass through rank3 (microbatches: 8)",
        "  rank 3: 3B5 3F7 3B6 >3F8< 3B7",
        "so these wait:",
        "  rank 0: 0F1 0F2 0F3 >0B0< 0F4 0B1 0F5   waits for 1B0 of rank1",
        "  rank 1: 1F0 1F1 1F2 >1B0< 1F3 1B1 1F4   waits for 2B0 of rank2",
        "  rank 2: 2F0 2F1 >2B0< 2F2 2B1 2F3   waits for 3B0 of rank3",
        "  rank 3: 3F1 >3B0< 3F2 3B1 3F3   waits for 3F0, which the rank never does",
    ]


def test_nor_does_pytorchs_own_loader_take_that_order(broken, tmp_path):
    path = tmp_path / "theirs.csv"
    path.write_text("\n".join(broken) + "\n", "utf-8")
    with pytest.raises(AssertionError, match="stage 3, microbatch 0 without first running Forward"):
        loaded(path, "compute_only", equal_stages.setup("one_f_one_b", 4, 8, Times()))


def test_with_one_microbatch_less_on_each_forward_of_the_last_rank_it_is_1f1b(broken):
    """The cure: those of the last rank counted from 0."""
    last = [f"3F{int(cell[2:]) - 1}" if "F" in cell else cell for cell in broken[3].split(",")]
    case = equal_stages.setup("one_f_one_b", 4, 8, Times())
    assert [*broken[:3], ",".join(last)] == [",".join(row) for row in case.schedule.cells]
