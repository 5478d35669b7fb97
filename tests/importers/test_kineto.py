"""Files of PyTorch's profiler, as traces."""

import json
import os
import random
import subprocess
import sys
import traceback

import numpy as np
import pytest
from click.testing import CliRunner

from helpers import mutations, profiles
from helpers.places import PROFILES, ROOT, needs_data
from helpers.profiles import AUTOGRAD, Profile, training
from pipesim.base import lookup
from pipesim.base.errors import InputError, PipesimError
from pipesim.base.intervals import covered_by_label, union
from pipesim.cli import cli
from pipesim.core.costs import costs_of
from pipesim.display import text
from pipesim.importers import IMPORTERS
from pipesim.importers.detect import importer_for
from pipesim.importers.kineto import kineto
from pipesim.importers.kineto.nesting import outermost, owners
from pipesim.importers.kineto.pipelined import recording
from pipesim.importers.kineto.reading import read
from pipesim.studies import loading

RECORDED = PROFILES / "kineto"


recorded = pytest.mark.usefixtures("recordings")


@pytest.fixture
def recordings():
    return needs_data(RECORDED)


@pytest.fixture
def imported(tmp_path):
    """Write one profile per rank and import them."""

    def run(*made, **options):
        paths = [one.write(tmp_path / f"part{at}.json") for at, one in enumerate(made)]
        return kineto(paths[0] if len(paths) == 1 else paths, **options)

    return run


def micro(trace, column):
    """[layer][sample] -> microseconds."""
    count = trace.layer_count
    values = trace.layers[column] * 1e6
    return [values[trace.layers["layer"] == layer].round(3).tolist() for layer in range(count)]


def names(trace):
    return list(dict.fromkeys(trace.layers["name"]))


def two_layers():
    """Ranges a and b of one iteration, without work yet."""
    made = Profile()
    made.range("a", 0, 10)
    made.range("b", 10, 20)
    return made


def test_kernels_that_run_long_after_their_launch_belong_to_the_layer_that_launched_them(imported):
    trace = imported(training(layers=3, steps=2))
    assert names(trace) == ["layer0", "layer1", "layer2"]
    assert micro(trace, "forward_s") == [[10, 10], [11, 11], [12, 12]]


def test_a_backward_belongs_to_the_forward_with_its_sequence_number(imported):
    """Each node runs on another thread, layers in reverse, under the number of its layer's operator."""
    trace = imported(training(layers=3, steps=2))
    assert micro(trace, "backward_s") == [[20, 20], [22, 22], [24, 24]]


def test_streams_that_run_at_once_count_once(imported):
    """5 to 15 us on one stream and 10 to 30 on another are 25 us of the GPU, not 30."""
    made = two_layers()
    made.kernel(1, 105, 115, stream=7)
    made.kernel(2, 110, 130, stream=20)
    made.kernel(11, 140, 150)
    assert micro(imported(made), "forward_s") == [[25], [10]]


def test_iterations_are_samples_and_one_that_was_cut_off_is_left_out(imported):
    made = training(layers=2, steps=3)
    made.step(3, 3000, 3990)
    made.range("layer0", 3000, 3015)
    made.kernel(3002, 3100, 3999)
    trace = imported(made)
    assert micro(trace, "forward_s") == [[10] * 3, [11] * 3]
    assert "3 iterations (1 left out, which call other layers)" in trace.source


def test_work_outside_of_iterations_does_not_count(imported):
    made = training(layers=2, steps=1)
    made.kernel(5000, 5000, 9000)
    assert "iteration" in imported(made).source
    assert imported(made).source.split(";")[0] == imported(training(layers=2, steps=1)).source.split(";")[0]


def test_accumulate_grad_belongs_to_the_node_before_it(imported):
    made = two_layers()
    made.op("mm", 1, 2, 7)
    made.op("mm", 11, 12, 8)
    made.kernel(1, 100, 101)
    made.kernel(11, 101, 102)
    made.node("MmBackward0", 30, 40, 8)
    made.kernel(35, 200, 210, AUTOGRAD)
    made.node("torch::autograd::AccumulateGrad", 41, 45)
    made.kernel(42, 210, 213, AUTOGRAD)
    made.node("MmBackward0", 50, 60, 7)
    made.node("torch::autograd::AccumulateGrad", 61, 65)
    made.kernel(62, 220, 224, AUTOGRAD)
    assert micro(imported(made), "backward_s") == [[4], [13]]


def test_of_operators_with_one_number_the_last_one_made_the_node(imported):
    """All operators that run until the next node is made have its number: the one in a did not make it."""
    made = two_layers()
    made.op("aten::empty", 1, 2, 7)
    made.op("aten::mm", 11, 12, 7)
    for layer in (1, 11):
        made.kernel(layer, 100 + layer, 105 + layer)
    made.node("MmBackward0", 30, 40, 7)
    made.kernel(35, 200, 210, AUTOGRAD)
    assert micro(imported(made), "backward_s") == [[0], [10]]


def test_a_node_whose_operator_was_not_recorded_belongs_where_the_next_lower_number_does(imported):
    made = two_layers()
    made.op("aten::mm", 1, 2, 5)
    made.op("aten::mm", 11, 12, 9)
    for layer in (1, 11):
        made.kernel(layer, 100 + layer, 105 + layer)
    made.node("ReluBackward0", 30, 40, 7)
    made.kernel(35, 200, 210, AUTOGRAD)
    assert micro(imported(made), "backward_s") == [[10], [0]]


def test_the_backward_of_what_no_layer_made_belongs_to_nobody(imported):
    made = two_layers()
    for layer, number in ((1, 5), (11, 6)):
        made.op("aten::mm", layer, layer + 1, number)
        made.kernel(layer, 100 + layer, 105 + layer)
    made.op("aten::mse_loss", 25, 26, 7)
    made.node("MseLossBackward0", 30, 40, 7)
    made.kernel(35, 200, 202, AUTOGRAD)
    trace = imported(made)
    assert micro(trace, "backward_s") == [[0], [0]]
    assert trace.source.startswith("kineto: 83.3 % of the work")  # 10 of 12 us


def test_a_kernel_without_a_launch_belongs_to_nobody(imported):
    made = two_layers()
    made.kernel(1, 100, 130)
    made.kernel(11, 130, 190)
    made.add("kernel", "lost", 200, 210, "stream 7", correlation=999)
    made.add("kernel", "lost", 210, 220, "stream 7")
    trace = imported(made)
    assert micro(trace, "forward_s") == [[30], [60]]
    assert trace.source.startswith("kineto: 81.8 % of the work")  # 90 of 110 us


def test_less_than_the_stated_share_is_refused_unless_less_is_stated(imported):
    made = two_layers()
    made.kernel(1, 100, 110)
    made.kernel(11, 110, 120)
    made.kernel(30, 120, 200)
    with pytest.raises(
        InputError, match=r"20\.0 % of the work .* at least 80 % .* 'kineto\(at_least=0\.2\)'; its ranges are 'a', 'b'"
    ):
        imported(made)
    assert micro(imported(made, at_least=0.2), "forward_s") == [[10], [10]]


def test_the_optimizer_and_communication_are_no_work_of_layers(imported):
    made = training(layers=2, steps=1)
    for name in ("ncclDevKernel_AllReduce_Sum_f32_RING_LL", "ncclKernel_SendRecv"):
        made.kernel(12, 1000, 1900, stream=84, name=name)
    assert micro(imported(made), "forward_s") == [[10], [11]]


def test_a_forward_that_runs_again_for_the_backward_is_part_of_the_backward(imported):
    """Checkpointing: inside of its node the layer's range comes again, its operator makes a node of its own."""
    made = two_layers()
    made.op("CheckpointFunction", 1, 9, 5)
    made.op("aten::mm", 11, 12, 6)
    made.kernel(2, 100, 110)
    made.kernel(11, 110, 120)
    made.op("autograd::engine::evaluate_function: CheckpointFunctionBackward", 30, 80, 5, AUTOGRAD)
    made.range("a", 31, 40, AUTOGRAD)
    made.op("aten::mm", 32, 33, 7, AUTOGRAD)
    made.kernel(32, 200, 210, AUTOGRAD)
    made.node("MmBackward0", 50, 60, 7)
    made.kernel(55, 300, 320, AUTOGRAD)
    trace = imported(made)
    assert micro(trace, "forward_s") == [[10], [10]]
    assert micro(trace, "backward_s") == [[30], [0]]
    assert trace.source.endswith("; recomputed forwards are part of the backward")


def test_so_is_one_whose_operators_make_no_nodes(imported):
    """Checkpoints that are not reentrant run a forward again inside of the first node that asks for what it kept."""
    made = two_layers()
    for layer, number in ((0, 5), (10, 6)):
        made.op("aten::mm", layer + 1, layer + 2, number)
        made.kernel(layer + 1, 100 + layer, 110 + layer)
    made.op("autograd::engine::evaluate_function: MmBackward0", 30, 80, 6, AUTOGRAD)
    for layer, name in ((0, "a"), (10, "b")):
        made.range(name, 31 + layer, 40 + layer, AUTOGRAD)
        made.op("aten::mm", 32 + layer, 33 + layer, 7, AUTOGRAD)
        made.kernel(32 + layer, 200 + layer, 209 + layer, AUTOGRAD)
    made.kernel(55, 300, 320, AUTOGRAD)
    trace = imported(made)
    assert micro(trace, "backward_s") == [[9], [29]]
    assert trace.source.endswith("; recomputed forwards are part of the backward")


def test_a_range_in_the_backward_that_makes_no_nodes_is_no_layer(imported):
    made = training(layers=2, steps=1)
    made.range("compress", 302, 308, AUTOGRAD)
    trace = imported(made)
    assert names(trace) == ["layer0", "layer1"]
    assert micro(trace, "backward_s") == [[20], [22]]


def test_without_kernels_the_time_inside_of_operators_is_the_work(imported):
    """Operators that others call, and those that communicate, do not count again; nor does what lies between them."""
    made = two_layers()
    made.op("aten::linear", 1, 6, 5)
    made.op("aten::addmm", 2, 5, 5)
    made.op("aten::relu", 7, 9, 6)
    made.op("aten::linear", 11, 19, 7)
    made.op("c10d::allreduce_", 9, 10)
    made.node("AddmmBackward0", 30, 40, 7, profiles.MAIN)
    made.node("ReluBackward0", 40, 44, 6, profiles.MAIN)
    trace = imported(made)
    assert micro(trace, "forward_s") == [[7], [8]]
    assert micro(trace, "backward_s") == [[4], [10]]


def nested():
    """A model around an embedding and two blocks of two parts each, as ranges or as modules."""
    spans = [("model", 0, 100), ("emb", 5, 15), ("block0", 20, 50), ("attn", 22, 30), ("mlp", 35, 48)]
    spans += [("block1", 60, 90), ("attn", 62, 70), ("mlp", 75, 88)]
    return spans


@pytest.mark.parametrize("kind", ["range", "module"])
def test_what_holds_most_of_the_work_is_opened_and_its_parts_take_what_lies_between_them(imported, kind):
    made = Profile()
    for name, start, end in nested():
        getattr(made, kind)(name, start, end)
    for time in (10, 25, 40, 65, 80):
        made.kernel(time, 1000 + time, 1010 + time)
    made.kernel(95, 2000, 2007)  # of the model itself, behind its last part
    trace = imported(made)
    assert names(trace) == ["emb", "block0", "block1"]
    assert micro(trace, "forward_s") == [[10], [20], [27]]


def test_depth_says_how_far_ranges_are_opened(imported):
    made = Profile()
    for name, start, end in nested():
        made.range(name, start, end)
    for time in (10, 25, 40, 65, 80):
        made.kernel(time, 1000 + time, 1010 + time)
    assert names(imported(made, layers="ranges", depth=0)) == ["model"]
    assert names(imported(made, layers="ranges", depth=1)) == ["emb", "block0", "block1"]
    assert names(imported(made, layers="ranges", depth=2)) == ["emb", "attn", "mlp", "attn #2", "mlp #2"]
    with pytest.raises(InputError, match="depth = -1 found"):
        imported(made, depth=-1)


def test_a_regular_expression_says_what_a_layer_is_and_its_group_the_name(imported):
    made = training(layers=3, steps=1)
    trace = imported(made, layers=r"layer(?P<layer>[02])$", at_least=0.5)
    assert names(trace) == ["0", "2"]
    assert micro(trace, "forward_s") == [[10], [12]]
    with pytest.raises(InputError, match=r"layers = 'block': matches no range.*its ranges are .*'layer0'"):
        imported(made, layers="block")
    with pytest.raises(InputError, match=r"layers = '\(' found; a regular expression was expected"):
        imported(made, layers="(")


def test_without_ranges_and_modules_the_operators_are_the_layers(imported):
    made = Profile()
    for time, name in enumerate(("aten::conv2d", "aten::relu", "aten::view", "aten::conv2d")):
        made.op(name, 10 * time, 10 * time + 8)
        made.op("aten::inner", 10 * time + 1, 10 * time + 7)
        if name != "aten::view":
            made.kernel(10 * time + 2, 100 + 10 * time, 105 + 10 * time)
    trace = imported(made)
    assert names(trace) == ["aten::conv2d", "aten::relu", "aten::conv2d #2"]
    assert set(trace.layers["kind"]) == {"aten::conv2d", "aten::relu"}


def moving(made, at, lasting=30):
    """Parameters that go to the GPU, and a random input: 10 us more of work."""
    made.op("aten::to", at, at + 5)
    made.kernel(at + 1, at + 1000, at + 1000 + lasting, name="Memcpy HtoD (Pageable -> Device)")
    made.op("aten::rand", at + 5, at + 9)
    made.kernel(at + 6, at + 1000 + lasting, at + 1010 + lasting, name="distribution_elementwise")


def computing(made, at, operators=("aten::conv2d", "aten::to", "aten::relu", "aten::conv2d")):
    """These operators one after another, 4 us of work each."""
    for place, name in enumerate(operators):
        made.op(name, at + 10 * place, at + 10 * place + 8)
        made.kernel(at + 10 * place + 1, at + 1000 + 10 * place, at + 1004 + 10 * place)


def test_operators_that_only_move_or_make_data_are_layers_between_others_only(imported):
    made = Profile()
    moving(made, 0)
    computing(made, 100)
    made.op("aten::item", 200, 220)
    made.kernel(201, 1201, 1203, name="Memcpy DtoH (Device -> Pageable)")
    trace = imported(made)
    assert names(trace) == ["aten::conv2d", "aten::to", "aten::relu", "aten::conv2d #2"]
    assert "100.0 % of the work" in trace.source
    assert (
        "; not counted: 4.2e-05 s of data moved or made around the model (aten::to, aten::rand, aten::item; option"
        in (trace.source)
    )
    assert names(imported(made, moves=True)) == ["aten::to", "aten::rand", *names(trace)[:1], "aten::to #2", *names(
        trace
    )[2:], "aten::item"]  # fmt: skip


def test_a_custom_operator_whose_work_is_copies_only_moves(imported):
    made = Profile()
    made.op("mine::load", 0, 9)
    made.kernel(1, 500, 510, name="Memcpy HtoD (Pinned -> Device)")
    computing(made, 100)
    assert names(imported(made))[0] == "aten::conv2d"


def test_without_kernels_operators_that_move_are_told_by_their_names(imported):
    made = Profile()
    for place, name in enumerate(("aten::randn", "aten::linear", "aten::view", "aten::linear", "aten::detach")):
        made.op(name, 10 * place, 10 * place + 8)
    assert names(imported(made)) == ["aten::linear", "aten::view", "aten::linear #2"]


def benchmark(*ranges):
    """A range for each run of a model, within one around everything, in which data move before."""
    made = Profile()
    made.range("benchmark", 0, 990)
    moving(made, 10, lasting=90)
    for at, name in ranges:
        made.range(name, at, at + 60)
        made.range(f"{name} again", at + 1, at + 59)
        computing(made, at + 10)
    return made


def test_ranges_that_call_the_same_operators_and_all_that_compute_are_iterations(imported):
    trace = imported(benchmark((100, "warm-up"), (200, "measure"), (300, "measure")))
    assert len(names(trace)) == 4
    assert micro(trace, "forward_s") == [[4] * 3] * 4
    assert "3 iterations; not counted: 0.0001 s outside of iterations (option iteration)" in trace.source


def test_an_iteration_found_so_goes_on_with_its_backward_until_the_next_begins(imported):
    made = benchmark((100, "warm-up"), (300, "measure"))
    for at in (100, 300):
        made.op("aten::mm", at + 11, at + 12, at)
        made.node("MmBackward0", at + 100, at + 120, at)
        made.kernel(at + 105, at + 1200, at + 1209, AUTOGRAD)
    assert micro(imported(made), "backward_s")[0] == [9, 9]


def test_ranges_beside_which_something_computes_are_no_iterations(imported):
    """Such as the blocks of a model in front of its head."""
    made = benchmark((100, "block0"), (200, "block1"))
    computing(made, 300, ["aten::linear"])
    assert len(names(imported(made, layers="operators"))) == 9


def test_an_iteration_may_be_any_range(imported):
    made = Profile()
    for t0 in (0, 1000, 2000):
        made.range("warm-up" if t0 == 0 else "measure", t0, t0 + 500)
        for layer in range(2):
            made.range(f"layer{layer}", t0 + 100 * layer, t0 + 100 * layer + 50)
            made.kernel(t0 + 100 * layer + 1, t0 + 600 + 10 * layer, t0 + 605 + 10 * layer + t0 // 1000)
    assert micro(imported(made, iteration="measure"), "forward_s") == [[6, 7], [6, 7]]
    with pytest.raises(InputError, match=r"iteration = 'epoch': no range has a matching name"):
        imported(made, iteration="epoch")


def accumulating(order):
    """One iteration that runs two layers for two microbatches; kernels take 1, 2, 3, 4 us."""
    made = Profile()
    made.step(0, 0, 900)
    for place, layer in enumerate(order):
        made.range(layer, 100 * place, 100 * place + 50)
        made.kernel(100 * place + 1, 1000 + 100 * place, 1001 + 101 * place)
    return made


def test_microbatches_of_an_iteration_are_samples(imported):
    trace = imported(accumulating("abab"))
    assert micro(trace, "forward_s") == [[1, 3], [2, 4]]
    assert "1 iteration of 2 microbatches" in trace.source
    assert names(imported(accumulating("abab"), microbatches=1)) == ["a", "b", "a #2", "b #2"]
    with pytest.raises(InputError, match="microbatches = 3: an iteration calls 4 layers"):
        imported(accumulating("abab"), microbatches=3)
    with pytest.raises(InputError, match="microbatches = 0 found"):
        imported(accumulating("abab"), microbatches=0)


def test_the_same_name_again_and_again_is_a_layer_each_time(imported):
    assert names(imported(accumulating("aaaa"))) == ["a", "a #2", "a #3", "a #4"]
    assert names(imported(accumulating("aabb"), layers="ranges")) == ["a", "a #2", "b", "b #2"]
    assert micro(imported(accumulating("aaaa"), microbatches=2), "forward_s") == [[1, 3], [2, 4]]


def test_parameters_are_what_gradients_are_accumulated_for(imported):
    trace = imported(training(layers=2, steps=2))
    assert trace.layers["parameter_bytes"].tolist() == [256] * 4


def test_a_layer_hands_on_what_the_next_one_reads_and_keeps_the_blocks_that_outlive_it(imported):
    made = two_layers()
    made.op("aten::linear", 1, 2, shape=[4, 4])
    made.op("aten::linear", 11, 12, shape=[10, 10])
    made.kernel(1, 100, 101)
    made.kernel(11, 101, 102)
    made.memory(1, 1000, 0xA)
    made.memory(2, 300, 0xB)
    made.memory(3, -300, 0xB)  # released within the layer
    made.memory(4, 24, 0xB)
    made.memory(5, 8000, 0xC, device=0)  # on the CPU
    made.memory(12, 512, 0xD)
    made.memory(30, -1000, 0xA)
    trace = imported(made)
    assert trace.layers["output_bytes"].tolist() == [400, 512]
    assert trace.layers["stash_bytes"].tolist() == [1024, 512]


def test_without_memory_a_layer_keeps_as_much_as_it_hands_on(imported):
    made = two_layers()
    made.op("aten::linear", 11, 12, shape=[10, 10])
    made.kernel(1, 100, 101)
    made.kernel(11, 101, 102)
    assert imported(made).layers["stash_bytes"].tolist() == [400, 0]


def test_where_no_backward_was_recorded_it_is_a_stated_multiple_of_the_forward(imported):
    made = two_layers()
    made.kernel(1, 100, 110)
    made.kernel(11, 110, 140)
    assert "; no backward was recorded" in imported(made).source
    trace = imported(made, backward_factor=2.0)
    assert micro(trace, "backward_s") == [[20], [60]]
    assert "taken as 2 x forward" in trace.source
    for wrong in (-1.0, float("nan")):
        with pytest.raises(InputError, match="backward_factor"):
            imported(made, backward_factor=wrong)


def test_samples_and_the_kind_of_device_are_as_stated(imported):
    trace = imported(training(layers=2, deviceProperties=[{"name": "NVIDIA H100"}]), samples=16, device="h100-80gb")
    assert (trace.microbatch_size, trace.device_kinds, trace.machine) == (16, ("h100-80gb",), "NVIDIA H100")
    for wrong in (0, 1.5, True):
        with pytest.raises(InputError, match="samples = "):
            imported(training(layers=2), samples=wrong)


def test_ranks_with_the_same_layers_give_more_samples(imported):
    trace = imported(training(0, layers=2, steps=2), training(1, layers=2, steps=3))
    assert micro(trace, "forward_s") == [[10] * 5, [11] * 5]
    assert "5 iterations of 2 ranks" in trace.source


def test_ranks_with_other_layers_give_more_layers_in_the_order_of_ranks(imported):
    second = accumulating("xy")
    second.head["distributedInfo"]["rank"] = 1
    trace = imported(accumulating("ab"), second)
    assert names(trace) == ["a", "b", "x", "y"]


def test_ranks_that_share_some_layers_only_are_refused(imported):
    second = accumulating("bc")
    second.head["distributedInfo"]["rank"] = 1
    message = (
        r"part0\.json and .*part1\.json have layers in common, such as 'b' \(1 in all\), and 'a' \(2 in all\) not; .*"
        r"--format \"kineto\(layers='b'\)\", or import each file by itself"
    )
    with pytest.raises(InputError, match=message):
        imported(accumulating("ab"), second)


def test_two_files_of_one_rank_are_refused(imported):
    with pytest.raises(InputError, match=r"part1\.json: is of rank 0, as is part0\.json"):
        imported(training(0), training(0))


def test_a_rank_is_told_by_the_file_or_by_its_name(tmp_path):
    made = training()
    del made.head["distributedInfo"]
    assert read(made.write(tmp_path / "step_rank12.json")).rank == 12
    assert read(training(5).write(tmp_path / "step_rank13.json")).rank == 5
    assert read(made.write(tmp_path / "profile.json")).rank is None


def test_a_folder_of_files_is_a_trace_and_so_is_a_file_whether_compressed_or_not(tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    training(0, layers=2).write(folder / "rank0.json")
    training(1, layers=2).write(folder / "rank1.json.gz")
    for path in (folder, folder / "rank0.json", folder / "rank1.json.gz"):
        assert importer_for(path) == "kineto"
        assert names(loading.load_trace(path)) == ["layer0", "layer1"]
    assert loading.load_trace(folder).model == "run"
    (folder / "notes.json").write_text("{}")
    with pytest.raises(
        InputError, match=r"is a folder of no known format; .* found notes\.json, rank0\.json, rank1\.json\.gz"
    ):
        importer_for(folder)


def test_a_pipelined_run_is_referred_to_rebuild(imported):
    files, _ = profiles.pipelined("0F0,0B0\n1F0,1B0")
    with pytest.raises(InputError, match=r"pipelined run .* pipesim rebuild FILES -o TRACE"):
        imported(*files)


def rows(trace):
    names = ("source", "target", "bytes", "seconds", "kind", "participants", "sample")
    return [
        (s, t, int(b), round(float(x) * 1e6, 3), k, int(n), int(i))
        for s, t, b, x, k, n, i in zip(*(trace.transfers[name] for name in names), strict=True)
    ]


def collective(rank, waits, name="allreduce", **more):
    made = training(rank, layers=2, world=4)
    args = {"Collective name": name, "dtype": "Float", "In msg nelems": 100, "Out msg nelems": 100}
    args |= {"Group size": 4, "Process Group Ranks": "[0, 1, 2, 3]"} | more
    made.kernel(600, 1500, 1520 + waits, stream=84, name="ncclDevKernel_AllReduce", **args)
    return made


def test_a_collective_lasts_as_long_as_on_the_rank_that_came_last(imported):
    """The others' kernels wait for it."""
    trace = imported(collective(0, 30), collective(1, 0), collective(2, 5))
    assert rows(trace) == [("rank0", "rank3", 400, 20, "all_reduce", 4, 0)]


def test_a_message_joins_the_rank_that_sends_with_the_one_that_receives(imported):
    there = {"Src Rank": 0, "Dst Rank": 1, "Group size": 2, "dtype": "BFloat16"}
    trace = imported(collective(0, 40, "send", **there), collective(1, 0, "recv", **there))
    assert rows(trace) == [("rank0", "rank1", 200, 20, "p2p", 2, 0)]


def test_an_older_profiler_names_the_collective_in_the_range_that_launches_it(imported):
    made = training(0, layers=2, world=8)
    made.range("nccl:_all_gather_base", 600, 610, **{"Input Dims": [[32]], "Input type": ["signed char"]})
    made.kernel(605, 1500, 1530, name="ncclKernel_AllGather_RING")
    assert rows(imported(made)) == [("rank0", "rank7", 32, 30, "all_gather", 8, 0)]


def test_on_a_cpu_a_message_moves_from_when_both_have_begun_until_it_is_received(imported):
    """A sender's range goes on until somebody looks whether it is done."""
    made = []
    for rank, name, start, end in ((0, "send", 100, 500), (1, "recv_", 120, 160)):
        one = two_layers()
        one.head["distributedInfo"] |= {"rank": rank, "world_size": 2}
        one.op("aten::mm", 1, 2, 3)
        one.op("aten::mm", 11, 12, 4)
        one.op(f"c10d::{name}", start - 1, start + 2, **{"Concrete Inputs": ["", "", str(1 - rank), "0"]})
        args = {"Input Dims": [[64]], "Input type": ["float"]}
        one.range(f"gloo:{name.rstrip('_')}", start, end, **args)
        made.append(one)
    assert rows(imported(*made)) == [("rank0", "rank1", 256, 40, "p2p", 2, 0)]


def arrays(*values):
    return tuple(np.array(column, np.int64) for column in zip(*values, strict=True))


def test_an_instant_belongs_to_the_innermost_mark():
    """Against the same told instant by instant: of the marks around it the one that began last."""
    rng = np.random.default_rng(1)
    for _ in range(50):
        start = rng.integers(0, 20, 8)
        end = start + rng.integers(1, 12, 8)
        found = owners(np.zeros(8, np.int64), start, end, np.arange(8)).at(np.zeros(40, np.int64), np.arange(40))
        order = np.lexsort((-end, start))
        for time in range(40):
            around = [mark for mark in order.tolist() if start[mark] <= time < end[mark]]
            assert found[time] == (around[-1] if around else -1)


def test_the_union_of_intervals_is_what_any_of_them_covers():
    rng = np.random.default_rng(2)
    for _ in range(50):
        start = rng.integers(0, 30, 9)
        end, label = start + rng.integers(0, 9, 9), rng.integers(0, 3, 9)
        told = [len({t for s, e in zip(start[label == k], end[label == k], strict=True) for t in range(s, e)})
                for k in range(3)]  # fmt: skip
        assert covered_by_label(label, start, end, 3).tolist() == told
        first, last = union(start, end)
        assert (first[1:] > last[:-1]).all()


def test_an_interval_is_outermost_on_its_thread_alone():
    thread, start, end = arrays((0, 0, 10), (0, 2, 5), (0, 10, 12), (1, 3, 4))
    assert outermost(thread, start, end).tolist() == [True, False, True, True]


@recorded
def test_alexnet_imported_as_it_is_has_21_layers_and_two_samples_without_the_parameters_on_their_way_to_the_gpu():
    """Its model runs within a range for the warm-up and one for the measurement; 56 ms of copies come before."""
    trace = kineto(RECORDED / "alexnet_gpu.json.gz")
    alone = kineto(RECORDED / "alexnet_gpu.json.gz", iteration="measure.forward")
    assert names(trace) == names(alone)
    assert (trace.layer_count, len(trace.layers["layer"])) == (21, 42)
    assert micro(trace, "forward_s")[0][1:] == micro(alone, "forward_s")[0]
    assert "2 iterations; not counted: 0.0556 s outside of iterations" in trace.source
    whole = kineto(RECORDED / "alexnet_gpu.json.gz", iteration="param.cuda")
    assert whole.layer_count == 42
    assert "not counted: 0.0556 s of data moved or made around the model (aten::to, aten::rand; " in whole.source
    moved = kineto(RECORDED / "alexnet_gpu.json.gz", iteration="param.cuda", moves=True)
    assert (moved.layers["kind"] == "aten::to").sum() == 16


@recorded
def test_two_ranks_of_a_large_job_import_as_they_are():
    """They call the same ranges; what their collectives wait for does not open one of these on one rank alone."""
    paths = [RECORDED / f"sampled_rank-{rank}.json.gz" for rank in range(2)]
    trace = kineto(paths)
    assert names(trace) == names(kineto(paths[0])) == names(kineto(paths[1]))
    assert len(trace.layers["layer"]) == 4 * trace.layer_count
    (note,) = [one for one in text.trace_notes(trace) if "have no backward" in one]
    assert note.startswith("5 of 6 layers ('## sdd_preprocess_splits ##', ...) have no backward, and ")


@recorded
def test_alexnet_on_an_a100_has_its_21_layers_that_work():
    """5 convolutions, 7 activations, 4 poolings, 2 dropouts, 3 linear layers, with all of the forward's GPU time."""
    trace = kineto(RECORDED / "alexnet_gpu.json.gz", iteration="measure.forward", backward_factor=2.0)
    kinds = trace.layers["kind"].tolist()
    assert [kinds.count(f"aten::{op}") for op in ("conv2d", "relu_", "dropout", "linear")] == [5, 7, 2, 3]
    assert len(kinds) == 21
    assert "100.0 % of the work" in trace.source
    assert trace.machine == "NVIDIA A100-PG509-200"
    events = json.loads(mutations.inflated((RECORDED / "alexnet_gpu.json.gz").read_bytes()))["traceEvents"]
    measured = max(e["ts"] for e in events if e.get("cat") == "user_annotation" and "measure" in e["name"])
    launched = {e["args"]["correlation"] for e in events if e.get("cat") == "cuda_runtime" and e["ts"] > measured}
    ran = [e for e in events if e.get("cat") in {"kernel", "gpu_memset"} and e["args"]["correlation"] in launched]
    busy = len({microsecond for e in ran for microsecond in range(e["ts"], e["ts"] + e["dur"])})
    assert busy < sum(e["dur"] for e in ran), "two streams run at once"
    assert trace.layers["forward_s"].sum() * 1e6 == pytest.approx(busy)


@recorded
def test_two_ranks_of_a_large_job_give_layers_samples_and_collectives():
    paths = [RECORDED / f"sampled_rank-{rank}.json.gz" for rank in range(2)]
    trace = kineto(paths, layers="## (data_load|forward|recmetrics_update) ##")
    assert names(trace) == ["data_load", "forward", "recmetrics_update"]
    assert (trace.layers["layer"] == 1).sum() == 4  # two ranks, two iterations each
    assert {"all_reduce", "all_to_all", "all_gather"} == set(trace.transfers["kind"])
    assert set(trace.transfers["participants"].tolist()) == {128}
    forward, backward = (trace.layers[name][trace.layers["layer"] == 1] for name in ("forward_s", "backward_s"))
    assert ((forward > 0.02) & (backward > 2 * forward)).all()
    share = float(trace.source.split()[1])
    assert 90 < share <= 100


@recorded
@pytest.mark.parametrize("name", ["alexnet_gpu", "sampled_rank-0", "sampled_rank-1"])
def test_every_recorded_file_imports_as_it_is_and_can_be_planned(name):
    trace = kineto(RECORDED / f"{name}.json.gz")
    costs = costs_of(trace)
    assert costs.forward("any").sum() > 0
    assert trace.layer_count > 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{}", "has no list 'traceEvents'"),
        ('{"traceEvents": {}}', "has no list 'traceEvents'"),
        ("[", "is not JSON: unexpected end of data"),
        ("[1]", r"traceEvents\[0\]: 1 found; an object was expected"),
        ("[]", "has no operators, ranges or kernels"),
        ('[{"ph": "X", "cat": "cpu_op", "ts": 1, "dur": 1}]', r"traceEvents\[0\]\.name: None found"),
        ('[{"ph": "X", "cat": "cpu_op", "name": "a", "dur": 1}]', r"traceEvents\[0\]\.ts: None found; microseconds"),
        ('[{"ph": "X", "cat": "cpu_op", "name": "a", "ts": 1, "dur": "1"}]', r"traceEvents\[0\]\.dur: '1' found"),
        ('[{"ph": "X", "cat": "cpu_op", "name": "a", "ts": 1, "dur": -1}]', r"traceEvents\[0\]\.dur: -1\.0 found"),
        ('[{"ph": "X", "cat": "cpu_op", "name": "a", "ts": 1e300, "dur": 1}]', r"traceEvents\[0\]\.ts: 1e\+300 found"),
        ('[{"ph": "M"}, {"ph": "X", "cat": "kernel", "name": "k", "ts": -1, "dur": 1}]', r"traceEvents\[1\]\.ts: -1"),
    ],
)
def test_what_is_wrong_is_named_with_its_event_and_key(tmp_path, text, message):
    (tmp_path / "p.json").write_text(text)
    with pytest.raises(InputError, match=r"p\.json: " + message):
        kineto(tmp_path / "p.json")


def test_infinities_that_old_versions_write_are_read_over(tmp_path):
    text = training(layers=2).text().replace('"stream": 7', '"memory bandwidth (GB/s)": inf, "stream": 7')
    (tmp_path / "p.json").write_text(text)
    assert names(kineto(tmp_path / "p.json")) == ["layer0", "layer1"]


def spoilt(folder):
    """(file, what was done to it, how it is read), some hundred times."""
    made = {"training": training(layers=2), "pipelined": profiles.pipelined("0F0,0F1,0B0,0B1")[0][0]}
    for name, reader in (("training", kineto), ("pipelined", recording)):
        data = made[name].write(folder / f"{name}.json").read_bytes()
        for what, changed in mutations.mutations(data, random.Random(name)):
            yield folder / f"{name}.json", what, changed, reader
        for what, changed in mutations.changed_events(json.loads(data), random.Random(name), 150):
            yield folder / f"{name}.json", what, changed, reader


def assert_read_or_refused(path, what, data, reader):
    """Either a trace that can be planned, or one paragraph that names the file."""
    path.write_bytes(data)
    try:
        found = reader(path)
    except PipesimError as error:
        message = str(error)
        message.encode()
        assert "\n\n" not in message, f"{what}: {message}"
        assert len(message) < 2000, f"{what}: {message}"
        return True
    except Exception:  # noqa: BLE001 - whatever escapes is what the test is about
        pytest.fail(f"{path.name}, {what}:\n{traceback.format_exc()[-2500:]}")
    costs = costs_of(getattr(found, "trace", found))
    assert costs.forward(costs.kinds[0]).shape == (len(costs.model),)
    return False


def test_a_spoilt_file_is_read_or_refused_in_one_paragraph(tmp_path):
    refused = [assert_read_or_refused(*case) for case in spoilt(tmp_path)]
    assert len(refused) > 500
    assert 0.2 * len(refused) < sum(refused) < len(refused)


@recorded
@pytest.mark.parametrize("name", ["alexnet_gpu", "sampled_rank-0"])
def test_a_spoilt_recorded_file_is_read_or_refused_in_one_paragraph(tmp_path, name):
    data = mutations.inflated((RECORDED / f"{name}.json.gz").read_bytes())
    head = json.loads(data)
    for what, changed in mutations.changed_events(head, random.Random(name), 25):
        assert_read_or_refused(tmp_path / "spoilt.json", what, changed, kineto)
    for cut in (0.1, 0.7, 0.99):
        assert assert_read_or_refused(tmp_path / "spoilt.json", cut, data[: int(len(data) * cut)], kineto)


def test_the_command_line_shows_a_profile_although_clusters_are_json_too(tmp_path):
    path = training(layers=2).write(tmp_path / "rank0.json")
    shown = CliRunner().invoke(cli, ["show", str(path)], catch_exceptions=False)
    assert "layers (ranges); 2 iterations" in shown.output
    (tmp_path / "cluster.json").write_text("{}")
    with pytest.raises(InputError, match=r"cluster\.json: no key 'format' found; format = 'pipesim\.cluster'"):
        CliRunner().invoke(cli, ["show", str(tmp_path / "cluster.json")], catch_exceptions=False)


def test_options_can_be_written_behind_the_name_of_the_format(tmp_path):
    path = training(layers=3).write(tmp_path / "rank0.json")
    importer = lookup.resolve("kineto(layers='layer[01]', at_least=0.5, samples=4)", IMPORTERS, "format")
    assert names(importer(path)) == ["layer0", "layer1"]
    with pytest.raises(InputError, match="samples: 'four' found; int was expected"):
        lookup.resolve("kineto(samples='four')", IMPORTERS, "format")


def test_the_same_files_give_the_same_trace_whatever_the_hash_seed(tmp_path):
    paths = [str(collective(rank, 3 * rank).write(tmp_path / f"rank{rank}.json")) for rank in range(3)]
    code = (
        "import sys; from pathlib import Path; from pipesim import tables; "
        "from pipesim.importers.kineto import kineto; "
        "t = kineto([Path(p) for p in sys.argv[1:]]); "
        "print(t.source, tables.format_csv(t.layers), tables.format_csv(t.transfers))"
    )
    seen = {
        subprocess.run(
            [sys.executable, "-c", code, *paths],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("0", "1")
    }
    assert len(seen) == 1
    assert b"all_reduce" in next(iter(seen))
