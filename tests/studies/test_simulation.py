"""A simulation is described once: each field can be set on the command line, in Python and in a sweep file."""

import dataclasses
import inspect

import click
import pytest

import pipesim as ps
from helpers.places import ROOT
from helpers.strategies import even_trace
from pipesim.base.errors import InputError
from pipesim.base.settings import defaults_of, settings_of
from pipesim.cli import options
from pipesim.cli.commands.simulate_command import simulate
from pipesim.lowering import Options
from pipesim.studies.simulation import COMPUTED, FIELDS, KEY_FIELDS, Simulation, simulation_of, with_defaults
from pipesim.studies.sweep.sweep_file import parse

SETTINGS, DEFAULTS = settings_of(Simulation), defaults_of(Simulation)
# A value for each field that is not its default, and the fields without which it has no effect.
VALUES = {
    "trace": "vgg-19",
    "architecture": "gpt(2, 64, 2)",
    "efficiency": 0.25,
    "cluster": 'flat(3, bandwidth="2GB/s")',
    "device": "a100-80gb",
    "planner": "uniform",
    "plan": "plan.json",
    "scheduler": "gpipe",
    "microbatches": 3,
    "microbatch_size": 2,
    "granularity": "layer",
    "scaling": "linear",
    "weight_share": 0.25,
    "sharing": "fifo",
    "transfers": "blocking",
    "optimizer": "adamw",
    "optimizer_s_per_byte": 1e-12,
    "fit": True,
    "optimizer_state": 3.0,
    "recompute": "full",
    "pair_overlap": 0.5,
    "pair_factor": 0.75,
    "scenario": "slow.toml",
    "background": "load.csv",
    "global_batch": 64,
    "tokens": 3e11,
    "sequence": 512,
    "precision": "bf16",
    "framework": "megatron",
    "tensor": 2,
    "pipeline": 2,
    "data": 2,
    "interleave": 2,
    "context": 2,
    "expert": 2,
    "frozen": "conv*",
    "lora_rank": 8,
    "lora_targets": "all-linear",
    "scale_widths": True,
    "sequence_parallel": True,
    "tensor_overlap": 0.5,
    "scatter_sends": True,
    "message_time": 0.25,
    "recompute_blocks": 2,
    "sharding": "zero1",
    "sharding_size": 2,
    "gradient_precision": "fp32",
    "gradient_overlap": True,
    "rings": "all",
    "tied_all_reduce": True,
    "gradient_norm": True,
    "whole_first_stage": True,
    "reserve": 4e9,
    "iterations": 5,
    "seed": 7,
    "jitter": 0.125,
    "slow": "gpu1=1.5",
    "draw": "layer",
    "objective": "p95",
    "lengths": "uniform(16, 64)",
    "packed": True,
    "fold": "off",
    "engine": "compiled",
    "host_memory": "1GB",
}
NEEDS = {
    **dict.fromkeys(COMPUTED, "architecture"),
    "seed": "iterations",
    "jitter": "iterations",
    "draw": "iterations",
    "lengths": "sequence",
    "packed": "lengths",
    "recompute_blocks": "recompute",
    "lora_targets": "lora_rank",
}
FIXED = {"trace": "bert-large", "cluster": 'flat(2, bandwidth="1GB/s")'}


def given_with(name):
    """The fields that set one of them: it, what it needs, and a trace and a cluster."""
    found = {**FIXED, name: VALUES[name]}
    if name in NEEDS:
        found[NEEDS[name]] = VALUES[NEEDS[name]]
    if "architecture" in found:
        del found["trace"]
    return found


def test_every_field_has_a_value_here():
    assert VALUES.keys() == set(FIELDS) == {field.name for field in dataclasses.fields(Simulation)}
    assert all(VALUES[name] != DEFAULTS[name] for name in FIELDS)


@pytest.mark.parametrize("name", FIELDS)
def test_every_field_can_be_set_on_the_command_line(name, monkeypatch):
    class SeenError(Exception):
        """Ends the command where it would load what is described."""

    def seen(simulation, **_):
        raise SeenError(simulation)

    monkeypatch.setattr(options, "make_setup", seen)
    given = given_with(name)
    words = [given.pop("trace")] if "trace" in given else []
    words.append(given.pop("cluster"))
    for field, value in given.items():
        words += [f"--{field.replace('_', '-')}", *([] if value is True else [str(value)])]
    with pytest.raises(SeenError) as found:
        simulate.main(words, standalone_mode=False)
    assert found.value.args[0] == simulation_of(**given_with(name))


@pytest.mark.parametrize("name", FIELDS)
def test_every_field_can_be_set_in_python(name):
    given = given_with(name)
    made = simulation_of(**given)
    assert getattr(made, name) == VALUES[name]
    others = set(FIELDS) - given.keys()
    assert all(getattr(made, other) == DEFAULTS[other] for other in others)
    assert simulation_of(simulation_of(**{**given, "microbatches": 8}), **given) == made


@pytest.mark.parametrize("name", FIELDS)
def test_every_field_can_be_set_in_a_sweep_file(name, tmp_path):
    lines = ["format = 'pipesim.sweep'", "version = 1", "[simulate]"]
    lines += [
        f"{field} = {str(value).lower() if value is True else repr(value)}" for field, value in given_with(name).items()
    ]
    made = parse("\n".join(lines), tmp_path / "x.toml")
    if name in KEY_FIELDS:
        assert getattr(made.point(0), name) == VALUES[name]
    else:  # what results do not depend on is said once for all points
        assert getattr(made, name) == VALUES[name]


@pytest.mark.parametrize("name", FIELDS)
def test_help_and_docs_name_every_field(name):
    context = click.Context(simulate)
    shown = " ".join(simulate.get_help(context).split())
    assert (f"--{name.replace('_', '-')}" if name not in FIXED else name.upper()) in shown
    assert name in (Simulation.__doc__ or "")
    assert f"`{name}`" in (ROOT / "docs" / "simulation.md").read_text(encoding="utf-8")


def test_the_defaults_of_options_are_those_of_a_simulation():
    plain = dataclasses.asdict(with_defaults(Simulation()))
    for field in dataclasses.fields(Options):
        if field.name not in {
            "gradient_bytes",
            "step_bytes",
            "workspace",
        }:  # follow from gradient_precision, and the framework
            assert field.default == plain[field.name]


@pytest.mark.parametrize("function", [ps.simulate, ps.make_setup, ps.make_plan, ps.find_plan, ps.compare])
def test_the_signature_of_functions_shows_the_fields(function):
    """For `help` and for completion."""
    parameters = inspect.signature(function).parameters
    assert list(parameters)[:3] == ["trace", "cluster", "planner"]
    assert {name: parameters[name].default for name in FIELDS} == DEFAULTS


def test_a_misspelt_keyword_is_answered_with_a_suggestion():
    """A bare TypeError, before."""
    for function in (ps.simulate, ps.make_setup, ps.make_plan, ps.find_plan, ps.compare):
        with pytest.raises(InputError, match="keyword 'shaering' is unknown; did you mean 'sharing'"):
            list(function(*FIXED.values(), shaering="fifo"))


@pytest.mark.parametrize("field", ["weight_share", "background", "optimizer"])
def test_what_python_refused_works(field, tmp_path):
    """`ps.simulate(weight_share=, background=, optimizer=)` raised a bare TypeError."""
    load = tmp_path / "load.csv"
    load.write_text("link,time,share\ngpu0<->switch,0,0.5\n")
    value = {"weight_share": 0.25, "background": load, "optimizer": "adamw"}[field]
    trace = "gpt-small-cpu" if field == "optimizer" else even_trace(4, 1e-3, 2e-3)  # with whole backwards
    kind = 'device="cpu", memory="16GiB"' if field == "optimizer" else 'device="v100-16gb"'
    cluster = f'flat(2, bandwidth="1GB/s", {kind})'
    plain = ps.simulate(trace, cluster, scheduler="zb_h1", microbatches=4)
    found = ps.simulate(trace, cluster, scheduler="zb_h1", microbatches=4, **{field: value})
    assert found.timeline.makespan != plain.timeline.makespan


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"trace": "bert-large"}, "cluster is missing"),
        ({"cluster": "flat(2)"}, "trace, or architecture, is missing"),
        ({**FIXED, "architecture": "gpt-6.7b"}, "trace and architecture found"),
        ({**FIXED, "plan": "plan.json", "planner": "uniform"}, "plan and planner found"),
        ({**FIXED, "trace": "gpt-small-cpu", "efficiency": 0.5}, "efficiency has no effect without a model"),
        ({**FIXED, "jitter": 0.5}, "jitter has no effect without iterations"),
        ({**FIXED, "seed": 5}, "seed has no effect without iterations"),
        ({**FIXED, "sharing": "fast"}, "sharing 'fast' found; one of none, fifo, fair, channel"),
        ({**FIXED, "optimizer": "sgd", "optimizer_state": 2.0}, "optimizer and optimizer_state found"),
    ],
)
def test_fields_that_contradict_each_other_are_refused(given, message):
    with pytest.raises(InputError, match=message.replace("(", r"\(")):
        simulation_of(**given)


def test_keywords_of_0_1_are_understood():
    with pytest.warns(DeprecationWarning, match="write planner='uniform'"):
        assert simulation_of(**FIXED, plan="uniform").planner == "uniform"
    assert simulation_of(**FIXED, options=Options("fifo", "blocking")).transfers == "blocking"


def test_the_efficiency_of_an_architecture_is_that_of_its_device_everywhere(tmp_path):
    """A sweep took 0.5 where `pipesim trace` took a curve: 44.7 s against 53.2 s for the same point."""
    text = "format = 'pipesim.sweep'\nversion = 1\n[simulate]\narchitecture = 'gpt-6.7b'\ncluster = 'flat(2)'"
    assert parse(text, tmp_path / "x.toml").point(0).efficiency == DEFAULTS["efficiency"] == "device"


def test_functions_that_plan_take_microbatches_after_the_planner():
    """As in pipesim 0.1; taken for the scheduler, they would be ignored without a word."""
    assert ps.make_plan(*FIXED.values(), "balanced", 5).microbatches == 5
    assert ps.find_plan(*FIXED.values(), "balanced", 5, 2).costs.model.microbatch_size == 2
    assert ps.make_setup(*FIXED.values(), "balanced", "gpipe", 5).plan.microbatches == 5


@pytest.mark.parametrize(
    ("given", "message"),
    [({"scheduler": 8}, "scheduler = 8 found; a name"), ({"microbatches": 2.5}, "microbatches = 2.5 found; a whole")],
)
def test_values_of_another_type_are_refused(given, message):
    with pytest.raises(InputError, match=message):
        simulation_of(**FIXED, **given)


@pytest.mark.parametrize(
    ("framework", "transfers"),
    [
        ("megatron", ["blocking", "blocking", "eager", "rendezvous"]),
        ("megatron-v2", ["blocking", "blocking", "paired", "rendezvous"]),
        ("deepspeed", ["sequential"] * 4),
        ("torch", ["blocking", "rendezvous", "posted", "posted"]),
        (None, ["eager"] * 4),
    ],
)
def test_a_framework_sends_as_its_schedule_does_under_any_of_its_names(framework, transfers):
    names = ("1F1B", "ScheduleGPipe", "interleaved(chunks=2)", "schedule.csv")
    simulations = [with_defaults(Simulation(framework=framework, scheduler=name)) for name in names]
    assert [simulation.transfers for simulation in simulations] == transfers


@pytest.mark.parametrize(("framework", "whole"), [(None, False), ("megatron", False), ("torch", True)])
def test_only_the_first_stage_of_torch_does_its_backward_at_once(framework, whole):
    assert with_defaults(Simulation(framework=framework)).whole_first_stage is whole
    made = ps.make_setup(*FIXED.values(), scheduler="zb_h1", framework=framework, microbatches=4)
    assert made.options.whole_first_stage is whole
    unlike = ps.make_setup(
        *FIXED.values(), scheduler="zb_h1", framework=framework, microbatches=4, whole_first_stage=not whole
    )
    assert unlike.options.whole_first_stage is not whole


def test_what_is_given_precedes_what_the_framework_does():
    made = with_defaults(Simulation(framework="deepspeed", transfers="eager", scatter_sends=False))
    assert (made.transfers, made.scatter_sends, made.rings) == ("eager", False, "all")


def test_a_config_of_a_model_takes_the_options_of_computed_models(tmp_path):
    """In Python it was taken for a trace, whose times are its own."""
    (tmp_path / "config.json").write_text("{}")
    for named in (str(tmp_path), str(tmp_path / "config.json"), "llama3-8b"):
        assert simulation_of(named, "hgx_h100(1)", sequence=8192).sequence == 8192
    with pytest.raises(InputError, match="sequence has no effect without a model that is computed"):
        simulation_of(str(tmp_path / "trace"), "hgx_h100(1)", sequence=8192)
