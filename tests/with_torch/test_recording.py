"""Recording a live model: numbers that are sane, gradients that are right, bytes that are counted once, refusals."""

import json
import sys
from collections import OrderedDict
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest

nn = pytest.importorskip("torch.nn", reason="PyTorch is not installed; make test-torch runs these tests")
import torch

from pipesim.base.errors import InputError, RefusedError
from pipesim.cli import main
from pipesim.core.costs import costs_of
from pipesim.core.trace import Trace
from pipesim.importers.native import native
from pipesim.recorders import layer_recording, measuring, quiet, steady, subjects, values
from pipesim.recorders.clock import clock_of
from pipesim.recorders.hooks import hooks
from pipesim.recorders.loop import loop
from pipesim.recorders.measuring import OPTIONAL, Settings
from pipesim.recorders.model_sizes import sizes
from pipesim.recorders.optimizers import optimizer_steps

CPU = torch.device("cpu")
LENIENT = Settings(tolerance=10.0)  # other tests may run beside these
WIDTH, TOKENS, WORDS = 32, 6, 50


@pytest.fixture(autouse=True)
def _alike():
    """The same numbers every time, on one thread."""
    torch.manual_seed(0)
    torch.set_num_threads(1)


class Embed(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(WORDS, WIDTH)

    def forward(self, tokens):
        return self.table(tokens)


class Head(nn.Module):
    """Logits by the embedding's own matrix, and a loss."""

    def __init__(self, matrix):
        super().__init__()
        self.matrix = matrix

    def forward(self, x):
        return nn.functional.linear(x, self.matrix).square().mean()


def block():
    return nn.TransformerEncoderLayer(WIDTH, 4, 64, batch_first=True, norm_first=True, dropout=0.0)


def tied(*, microbatch, depth=2):
    """Tokens, blocks, and a head that shares the embedding's matrix."""
    embed = Embed()
    layers_ = OrderedDict(embed=embed) | {f"block{n}": block() for n in range(depth)}
    return layers_ | {"head": Head(embed.table.weight)}, torch.randint(0, WORDS, (microbatch, TOKENS))


class Pair(nn.Module):
    """Hands a skip connection through, as layers of a chain do."""

    def __init__(self):
        super().__init__()
        self.map = nn.Linear(WIDTH, WIDTH)

    def forward(self, both):
        x, skip = both
        return self.map(x), skip


class Fork(nn.Module):
    def forward(self, x):
        return x, x


class Join(nn.Module):
    def forward(self, both):
        return both[0] + both[1]


def skipping(*, microbatch):
    return [nn.Linear(8, WIDTH), Fork(), Pair(), Pair(), Join()], torch.randn(microbatch, 8)


def convolutions(*, microbatch):
    chain = nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(8 * 9, 10), nn.LogSoftmax(-1)
    )
    return chain, torch.randn(microbatch, 3, 8, 8)


class Named(nn.Module):
    """Takes and returns a dict, with an output that nobody reads."""

    def __init__(self):
        super().__init__()
        self.map = nn.Linear(8, 8)

    def forward(self, given):
        y = self.map(given["x"])
        return {"x": y, "deep": [{"mask": given["mask"]}], "mask": given["mask"], "unused": y.exp()}


class Last(nn.Module):
    def forward(self, given):
        return given["x"].where(given["mask"], 0).square().sum()


def dicts(*, microbatch):
    mask = torch.rand(microbatch, 8) > 0.5
    return [Named(), Named(), Named(), Last()], {"x": torch.randn(microbatch, 8), "mask": mask}


def stopped(*, microbatch):
    """No gradient comes before the second layer."""
    return [nn.Linear(8, 8), Detach(), nn.Linear(8, 8)], torch.randn(microbatch, 8)


class Detach(nn.Module):
    def forward(self, x):
        return x.detach()


def lazy(*, microbatch):
    return [nn.LazyLinear(8), nn.Linear(8, 8)], torch.randn(microbatch, 5)


FACTORIES = [tied, skipping, convolutions, dicts, stopped, lazy]


def subject_of(factory, microbatch=4):
    return subjects.make_subject(factory, microbatch, CPU)


def of(*chain, example):
    """A subject of these layers."""
    return subject_of(lambda **_: (list(chain), example))


def gradients(subject, way):
    """What a way of running a microbatch adds up in the parameters, from nothing."""
    for parameter in subject.parameters:
        parameter.grad = None
    way()
    return [None if p.grad is None else p.grad.clone() for p in subject.parameters]


# --- ways of running a microbatch -------------------------------------------------------------------------------------


@pytest.mark.parametrize("factory", FACTORIES)
@pytest.mark.parametrize("method", [loop, hooks])
def test_however_a_microbatch_is_timed_the_gradients_are_those_of_the_model_as_it_is(factory, method):
    subject = subject_of(factory)
    clock = clock_of(CPU)
    expected = gradients(subject, partial(measuring._reference, subject, clock))
    assert any(gradient is not None for gradient in expected)
    for way in method(subject, clock).values():
        for mine, theirs in zip(gradients(subject, way), expected, strict=True):
            torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("factory", [factory for factory in FACTORIES if factory is not stopped])
def test_a_later_microbatch_adds_to_the_gradients_and_a_first_one_does_not(factory):
    subject = subject_of(factory)
    ways = loop(subject, clock_of(CPU))
    once = gradients(subject, ways["whole"])
    ways["whole"]()
    for parameter, gradient in zip(subject.parameters, once, strict=True):
        torch.testing.assert_close(parameter.grad, 2 * gradient, rtol=1e-4, atol=1e-6)
    ways["first"]()
    for parameter, gradient in zip(subject.parameters, once, strict=True):
        torch.testing.assert_close(parameter.grad, gradient, rtol=1e-4, atol=1e-6)


def test_a_layer_without_inputs_or_weights_to_differentiate_has_no_such_part():
    """Embedding: tokens have no gradient. Flatten: there are no weights."""
    subject = of(
        nn.Embedding(WORDS, WIDTH), nn.Flatten(), nn.Linear(WIDTH * TOKENS, 4), example=torch.zeros(4, TOKENS).long()
    )
    taken = loop(subject, clock_of(CPU))["split"]()
    inputs, weights = taken["backward_input_s"], taken["backward_weight_s"]
    assert (inputs[0], weights[1]) == (0.0, 0.0)
    assert min(inputs[1:]) > 0
    assert weights[0] > 0 < weights[2]


@pytest.mark.parametrize("method", [loop, hooks])
def test_layers_that_hand_on_dicts_have_backwards_of_their_own(method):
    """Each as much work as the next; were dicts handed on uncut, the last layer would have all of it."""
    subject = subject_of(dicts)
    for way in method(subject, clock_of(CPU)).values():
        for column, taken in way().items():
            assert min(taken[1:3]) > 0, column


def test_every_way_can_be_run_where_outputs_have_no_reader_and_layers_no_gradient():
    for factory in (dicts, stopped):
        found = layer_recording.record(factory, [4], LENIENT, clocks=None)
        assert {one.why for one in found.not_measured} <= {"samples scatter by more than 25%"}


def test_a_dict_of_a_class_of_its_own_stays_of_that_class_when_it_is_cut():
    class Output(dict):
        def __init__(self, x):
            super().__init__(x=x)

    x = torch.ones(2, requires_grad=True)
    made = values.cut(Output((x * 2).tanh()))
    assert type(made) is Output
    assert made["x"].is_leaf
    assert made["x"].requires_grad


def test_a_layer_that_no_gradient_reaches_takes_no_time_backward():
    """The first layer only reshapes the images."""
    subject = of(nn.Flatten(), nn.Linear(192, 4), example=torch.randn(4, 3, 8, 8))
    for method in (loop, hooks):
        backward = method(subject, clock_of(CPU))["whole"]()["backward_s"]
        assert backward[0] == 0.0 < backward[1]


@pytest.mark.parametrize("method", ["loop", "hooks"])
def test_a_layer_with_ten_thousand_times_the_work_takes_longer(method):
    subject = of(
        nn.Linear(8, 8), nn.Linear(8, 1024), nn.Linear(1024, 1024), nn.Linear(1024, 8), example=torch.randn(256, 8)
    )
    way = {"loop": loop, "hooks": hooks}[method](subject, clock_of(CPU))["whole"]
    way()
    taken = [way() for _ in range(5)]
    for column in ("forward_s", "backward_s"):
        least = np.min([one[column] for one in taken], axis=0)
        assert least[2] > 3 * least[0]


# --- bytes and FLOPs --------------------------------------------------------------------------------------------------


class KeepsViews(nn.Module):
    """Keeps two views of one storage and one of another: x.sin() keeps x, the product keeps both of its factors."""

    def forward(self, x):
        both = x.sin()  # keeps x
        return both[:, :2] * both[:, 2:]  # keeps two halves of one storage


def test_a_storage_that_is_kept_through_two_views_counts_once():
    """The input of 4 x 4 floats, 64 bytes, and its sine, 64 bytes, of which both halves are kept."""
    example = torch.randn(4, 4)
    subject = of(nn.Linear(4, 4), KeepsViews(), example=example)
    assert sizes(subject).stash_bytes == [64, 128]  # the linear layer keeps the example


def test_what_one_layer_returns_and_keeps_and_the_next_keeps_as_its_input_counts_once():
    """ReLU keeps what it returns, which is what the linear layer keeps to differentiate its weights."""
    subject = of(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4), example=torch.randn(2, 8))
    found = sizes(subject)
    assert found.stash_bytes == [2 * 8 * 4, 2 * 16 * 4, 0]
    assert found.output_bytes == [2 * 16 * 4, 2 * 16 * 4, 2 * 4 * 4]


def test_parameters_and_buffers_are_not_what_is_kept_for_the_backward():
    """Batch norm keeps its input, and a mean and a deviation per channel; its weights and running values are there."""
    subject = of(nn.Linear(8, 8), nn.BatchNorm1d(8), example=torch.randn(16, 8))
    assert sizes(subject).stash_bytes == [16 * 8 * 4, 16 * 8 * 4 + 2 * 8 * 4]


def test_a_tied_parameter_counts_once_where_it_first_stands():
    subject = subject_of(tied)
    found = sizes(subject).parameter_bytes
    assert found[0] == WORDS * WIDTH * 4
    assert found[-1] == 0
    assert sum(found) == sum(p.numel() * 4 for p in subject.parameters)


def test_what_is_handed_through_a_layer_is_part_of_its_output():
    found = sizes(subject_of(skipping)).output_bytes
    assert found == [4 * WIDTH * 4, 4 * WIDTH * 4, 2 * 4 * WIDTH * 4, 2 * 4 * WIDTH * 4, 4 * WIDTH * 4]


def test_flops_are_those_of_the_products_attention_included():
    """2 x tokens x (4 width^2 + 2 width x 64), and twice 2 x tokens x sequence x width for scores and mixing."""
    tokens = 4 * TOKENS
    linear = 2 * tokens * (4 * WIDTH**2 + 2 * WIDTH * 64)
    attention = 4 * tokens * TOKENS * WIDTH
    found = sizes(subject_of(tied)).forward_flops
    assert found == [0, linear + attention, linear + attention, 2 * tokens * WIDTH * WORDS]


# --- a recording ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def recording():
    torch.manual_seed(0)
    return layer_recording.record(
        tied, [4, 2], LENIENT, clocks=None, labels=layer_recording.TraceLabels(command="as tested")
    )


def test_a_recording_holds_every_sample_of_every_column(recording):
    trace = recording.trace
    assert (trace.model, trace.source, trace.microbatch_size, trace.precision) == ("tied", "recorded", 4, "fp32")
    assert trace.layer_count == 4
    assert trace.device_kinds == ("cpu",)
    assert len(trace.layers["layer"]) == 2 * 16 * 4, "two sizes, two passes of eight microbatches, four layers"
    assert not recording.not_measured or {one.why for one in recording.not_measured} == {
        "samples scatter by more than 25%"
    }
    for name in ("forward_s", "backward_s"):
        assert (trace.layers[name] > 0).all()
        assert len(set(trace.layers[name])) > 50, "samples are not repeated"


def test_a_recording_says_where_it_was_made(recording):
    assert f"torch {torch.__version__}" in recording.trace.machine
    assert "cores" in recording.trace.machine
    assert recording.trace.command == "as tested"


def test_layers_of_a_recording_add_up_to_what_was_checked(recording):
    for check in recording.checks:
        rows = recording.trace.layers["microbatch_size"] == check.microbatch_size
        both = recording.trace.layers["forward_s"][rows] + recording.trace.layers["backward_s"][rows]
        assert np.median(both.reshape(16, 4).sum(axis=1)) == pytest.approx(check.layers_s)
        assert check.reference_s > 0


def test_a_recording_loads_again_and_gives_costs(recording, tmp_path):
    recording.trace.save(tmp_path / "t")
    trace = native(tmp_path / "t")
    assert trace.same_as(recording.trace)
    costs = costs_of(trace)
    assert (costs.forward("cpu") > 0).all()
    halves = trace.layers["forward_s"][trace.layers["microbatch_size"] == 2].reshape(16, 4)
    assert costs.forward("cpu", 0.5).tolist() == np.median(halves, axis=0).tolist(), (
        "half a microbatch was recorded too"
    )


def test_optimizers_keep_nothing_one_or_two_values_per_parameter(recording):
    state = {step.name: step.state_per_byte for step in recording.trace.optimizers}
    assert state == {"sgd": 0.0, "sgd_momentum": 1.0, "adamw": 2.0}
    seconds = {step.name: step.s_per_byte for step in recording.trace.optimizers}
    assert 0 < seconds["sgd"] < seconds["adamw"]


def test_timing_optimizers_changes_no_parameter():
    subject = subject_of(tied)
    loop(subject, clock_of(CPU))["whole"]()
    before = [p.clone() for p in subject.parameters]
    steps, missing = optimizer_steps(subject, clock_of(CPU), 3, lambda units: [unit() for unit in units])
    assert (len(steps), missing) == (3, [])
    assert all(torch.equal(p, old) for p, old in zip(subject.parameters, before, strict=True))


def test_an_optimizer_that_was_never_timed_in_quiet_is_named_not_guessed():
    subject = subject_of(tied)
    loop(subject, clock_of(CPU))["whole"]()
    steps, missing = optimizer_steps(subject, clock_of(CPU), 3, lambda units: [None for _ in units])
    assert (steps, missing) == ([], ["sgd", "sgd_momentum", "adamw"])


def test_hooks_leave_empty_what_they_cannot_tell():
    found = layer_recording.record(tied, [4], Settings(method="hooks", tolerance=10.0), clocks=None)
    assert {one.what for one in found.not_measured} >= {"backward_input_s", "backward_weight_s", "recompute_s"}
    assert all(np.isnan(found.trace.layers[name]).all() for name in OPTIONAL if name != "backward_first_s")
    assert (found.trace.layers["forward_s"] > 0).all()


def test_threads_and_cores_are_as_before_afterwards():
    before = torch.get_num_threads()
    cores = steady.os.sched_getaffinity(0) if hasattr(steady.os, "sched_getaffinity") else None
    with steady.steady(1):
        assert torch.get_num_threads() == 1
        assert cores is None or len(steady.os.sched_getaffinity(0)) == 1
    assert torch.get_num_threads() == before
    assert cores is None or steady.os.sched_getaffinity(0) == cores


# --- refusals ---------------------------------------------------------------------------------------------------------


def test_a_recording_whose_layers_do_not_add_up_is_refused():
    with pytest.raises(RefusedError, match="microbatch size 4: the layers do not add up"):
        layer_recording.record(tied, [4], Settings(tolerance=1e-9), clocks=None)


def test_without_a_quiet_moment_nothing_is_recorded():
    stolen = quiet.Clocks(cpu=lambda: 0.0)
    with pytest.raises(RefusedError, match="the machine is not quiet"):
        layer_recording.record(tied, [4], Settings(patience_s=0.0), clocks=stolen)


def test_what_cannot_do_without_a_quiet_moment_gives_up_when_it_had_none(monkeypatch):
    """Quiet while it waits, and never again: the model as it is was run, and nothing after it."""
    monkeypatch.setattr(measuring, "wait_until_quiet", lambda *_: 0.0)
    told = []
    with pytest.raises(RefusedError, match="the machine is not quiet"):
        layer_recording.record(
            tied,
            [4],
            Settings(patience_s=0.0),
            clocks=quiet.Clocks(cpu=lambda: 0.0),
            watch=told.append,
        )
    assert told == []


def test_a_layer_that_works_in_place_on_its_input_is_for_hooks():
    def factory(*, microbatch):
        return [nn.Linear(8, 8), nn.ReLU(inplace=True), nn.Linear(8, 8)], torch.randn(microbatch, 8)

    with pytest.raises(InputError, match=r"layer 1 \(relu-1\) forward raised RuntimeError: .*in-place.*method hooks"):
        layer_recording.record(factory, [4], LENIENT, clocks=None)
    found = layer_recording.record(factory, [4], Settings(method="hooks", tolerance=10.0), clocks=None)
    assert found.trace.layer_count == 3


class Keep(nn.Module):
    """Keeps what it computes, and hands it on too."""

    def __init__(self, shelf):
        super().__init__()
        self.shelf = shelf

    def forward(self, x):
        self.shelf.append(x + 1)
        return x * 2


class Take(nn.Module):
    """Adds what another kept."""

    def __init__(self, shelf):
        super().__init__()
        self.shelf = shelf

    def forward(self, x):
        return x + self.shelf.pop()


def test_what_one_layer_takes_from_another_behind_the_cuts_back_is_for_hooks():
    """A sum keeps nothing for its backward, so that PyTorch itself would not complain."""

    def factory(*, microbatch):
        shelf = []
        return [nn.Linear(8, 8), Keep(shelf), nn.Linear(8, 8), Take(shelf)], torch.randn(microbatch, 8)

    with pytest.raises(
        InputError,
        match=r"layer 3 \(take-3\) uses a tensor of layer 1 \(keep-1\) that it does not receive as input.*method hooks",
    ):
        layer_recording.record(factory, [4], LENIENT, clocks=None)
    found = layer_recording.record(factory, [4], Settings(method="hooks", tolerance=10.0), clocks=None)
    assert found.trace.layer_count == 4


class Whole(nn.Module):
    """A model of layers with something between them."""

    def __init__(self, order=(0, 1)):
        super().__init__()
        self.parts = nn.ModuleList([nn.Linear(8, 8), nn.Linear(8, 8)])
        self.order = order

    def forward(self, x):
        for place in self.order:
            x = self.parts[place](x).tanh()
        return x.sum()


def test_a_model_with_its_own_forward_is_recorded_by_hooks_and_not_by_the_loop():
    def factory(*, microbatch):
        model = Whole()
        return model.parts, torch.randn(microbatch, 8), model

    with pytest.raises(InputError, match="returned a model beside its layers"):
        layer_recording.record(factory, [4], LENIENT, clocks=None)
    found = layer_recording.record(factory, [4], Settings(method="hooks", tolerance=10.0), clocks=None)
    assert found.trace.layers["name"][:2].tolist() == ["linear-0", "linear-1"]
    assert found.trace.layers["stash_bytes"][:2].tolist() == [4 * 8 * 4 + 4 * 8 * 4, 4 * 8 * 4]


@pytest.mark.parametrize(
    ("order", "message"),
    [
        ((1, 0), r"called layer 1 \(linear-1\) where layer 0 \(linear-0\) was expected"),
        ((0, 1, 0), r"called layer 0 \(linear-0\) again after all layers"),
        ((0,), "called 1 of its 2 layers"),
    ],
)
def test_layers_that_are_not_called_once_each_in_order_are_refused(order, message):
    def factory(*, microbatch):
        model = Whole(order)
        return model.parts, torch.randn(microbatch, 8), model

    with pytest.raises(InputError, match=message):
        layer_recording.record(factory, [4], Settings(method="hooks"), clocks=None)


def test_a_parameter_used_twice_in_a_layer_leaves_its_split_backward_empty():
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.map = nn.Linear(8, 8)

        def forward(self, x):
            return self.map(self.map(x).tanh())

    def factory(*, microbatch):
        return [nn.Linear(8, 8), Twice()], torch.randn(microbatch, 8)

    found = layer_recording.record(factory, [4], LENIENT, clocks=None)
    missing = {one.what: one.why for one in found.not_measured if not one.layers}
    assert missing == dict.fromkeys(
        ("backward_input_s", "backward_weight_s"), "a parameter is used in several places of one layer"
    )


def test_a_factory_that_makes_as_many_samples_for_every_microbatch_is_refused():
    with pytest.raises(
        InputError, match=r"microbatch size 2: the example is as large as at 4; factory\(microbatch=n\)"
    ):
        layer_recording.record(lambda **_: ([nn.Linear(8, 8)], X), [4, 2], LENIENT, clocks=None)


X = torch.zeros(2, 8)


class Other(nn.Module):
    def forward(self, x):
        return SimpleNamespace(x=x)


def bad_forward():
    class Bad(nn.Module):
        def forward(self, x):
            raise KeyError(x.shape)

    return [nn.Linear(8, 8), Bad()], X


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (lambda: None, r"the factory returned a NoneType; \(layers, example\)"),
        (lambda: ([nn.ReLU()],), "a tuple of 1"),
        (lambda: ([], X), "no layers"),
        (lambda: (3, X), r"layers are a int \(3\)"),
        (lambda: ([nn.ReLU(), "relu"], X), "layer 1 of the factory is a str"),
        (lambda: ([nn.ReLU()], "nothing"), "without tensors"),
        (lambda: ([nn.ReLU()], X, 5), r"model is a int \(5\)"),
        (lambda: 1 / 0, "microbatch=2, raised ZeroDivisionError"),
        (lambda: ([nn.ReLU()], X), "has no gradient"),
        (lambda: ([nn.Linear(9, 9)], X), "forward raised RuntimeError"),
        (bad_forward, r"layer 1 \(bad-1\) forward raised KeyError"),
        (
            lambda: ([nn.ReLU(), Other()], X),
            r"layer 1 \(other-1\) returned a SimpleNamespace without tensors; a tensor",
        ),
        (lambda: ([nn.Linear(8, 8, device="meta")], X), r"layer 0 \(linear-0\), moved to cpu, raised NotImplemented"),
    ],
)
def test_what_breaks_the_contract_is_said_in_a_sentence(made, message):
    with pytest.raises(InputError, match=message):
        layer_recording.record(lambda **_: made(), [2], LENIENT, clocks=None)


@pytest.mark.parametrize("text", ["gpt", "no_such_module:gpt", "json:no_such_function", "json:__name__"])
def test_a_factory_that_is_not_there_is_said_to_be_so(text):
    with pytest.raises(InputError, match="factory"):
        subjects.load_factory(text)


@pytest.mark.parametrize("line", ["import sys; sys.exit(3)", "1 / 0", "def :"])
def test_a_module_that_ends_or_fails_while_it_is_imported_is_said_to_do_so(tmp_path, monkeypatch, line):
    (tmp_path / "ends_at_once.py").write_text(line)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(InputError, match=r"factory 'ends_at_once:gpt'"):
        subjects.load_factory("ends_at_once:gpt")


@pytest.mark.parametrize(("name", "message"), [("tpu9", "cpu, cuda"), ("meta", "works on cpu and cuda")])
def test_a_device_that_cannot_be_timed_is_refused(name, message):
    with pytest.raises(InputError, match=message):
        subjects.device_of(name)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_a_gpu_that_is_not_there_is_refused():
    with pytest.raises(InputError, match="sees 0 CUDA devices"):
        subjects.device_of("cuda")


@pytest.mark.parametrize("given", [[], [4, 4], [0]])
def test_microbatch_sizes_that_make_no_sense_are_refused(given):
    with pytest.raises(InputError, match="microbatch"):
        layer_recording.record(tied, given, LENIENT, clocks=None)


# --- the command ------------------------------------------------------------------------------------------------------


@pytest.fixture
def in_folder(tmp_path, monkeypatch):
    """A folder with a user's module, and a gate that lets everything through."""
    (tmp_path / "my_models.py").write_text(
        "from torch import nn, randn\n"
        "def mlp(*, microbatch, width=64):\n"
        "    return [nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 1)], randn(microbatch, width)\n"
        "def broken(*, microbatch):\n"
        "    raise ValueError('no such luck')\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(quiet, "LIMIT", 1.0)
    monkeypatch.setattr(measuring, "Settings", partial(Settings, tolerance=10.0))
    yield tmp_path
    sys.modules.pop("my_models", None)


def call(capsys, *arguments):
    code = 0
    try:
        main([str(argument) for argument in arguments])
    except SystemExit as stop:
        code = stop.code
    return SimpleNamespace(code=code, **dict(zip(("out", "err"), capsys.readouterr(), strict=True)))


def test_the_command_writes_a_trace_of_a_model_in_the_current_folder(in_folder, capsys):
    done = call(capsys, "record", "my_models:mlp(width=16)", "-b", "8", "-o", "made", "--name", "tiny", "--json")
    assert (done.code, done.err) == (0, "")
    told = json.loads(done.out)
    trace = Trace.load(in_folder / "made")
    assert (told["model"], told["layers"]) == (trace.model, trace.layer_count) == ("tiny", 3)
    assert trace.command == "pipesim record 'my_models:mlp(width=16)' -b 8 -o made --name tiny --json"
    assert trace.layers["output_bytes"][:3].tolist() == [8 * 16 * 4, 8 * 16 * 4, 8 * 4]
    assert [one["layer"] for one in told["noise"]] == [0, 1, 2]
    assert told["windows"] > 0


@pytest.mark.usefixtures("in_folder")
def test_the_command_says_what_it_measured_in_a_table(capsys):
    done = call(capsys, "record", "my_models:mlp", "-b", "8", "-o", "made", "--method", "hooks")
    assert done.code == 0
    for words in (
        "forward",
        "± MAD",
        "linear-0",
        "step of adamw",
        "layer by layer",
        "not measured",
        "trace written to made",
    ):
        assert words in done.out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["my_models:mlp", "-b", "0"], "microbatch = 0 found"),
        (["my_models:mlp", "-b", "8", "--passes", "1"], "passes = 1 found; at least 2"),
        (["my_models:mlp", "-b", "8", "--microbatches", "4"], "microbatches = 4 found; at least 8"),
        (["my_models:mlp", "-b", "8", "--threads", "9999"], "threads 9999 found"),
        (["my_models:none", "-b", "8"], "has no 'none'"),
        (["my_models:broken", "-b", "8"], "raised ValueError: no such luck"),
        (["my_models:mlp(depth=3)", "-b", "8"], "unexpected keyword argument 'depth'"),
        (["mlp", "-b", "8"], "a factory as module:factory"),
        (["my_models.py:mlp", "-b", "8"], "the name of a module, package.module,"),
        (["./my_models:mlp", "-b", "8"], "the name of a module, package.module,"),
        (["my_models:mlp(microbatch=4)", "-b", "8"], "give it with --microbatch"),
    ],
)
@pytest.mark.usefixtures("in_folder")
def test_what_is_wrong_is_said_in_one_paragraph_and_nothing_is_written(capsys, tmp_path, arguments, message):
    done = call(capsys, "record", *arguments, "-o", "made")
    assert (done.code, done.out) == (2, "")
    assert message in done.err
    assert done.err.count("\n") == 1
    assert not (tmp_path / "made").exists()
