"""Options with which a simulation that does not fit in memory would."""

import re

import pytest
from click.testing import CliRunner

import pipesim as ps
from pipesim.cli.commands.simulate_command import simulate as command


def result_of(**more):
    given = {"tensor": 2, "pipeline": 2, "data": 2, "microbatches": 8, "microbatch_size": 8, "framework": "megatron"}
    return ps.simulate("llama2-13b", "hgx_h100(1)", **given | more)


def test_every_option_that_is_named_makes_it_fit():
    result = result_of()
    assert result.fits_memory is False
    assert result.would_fit_with
    for text in result.would_fit_with:
        names = dict(re.findall(r"--(\S+) (\S+)", text))
        fields = {name: int(value) if value.isdigit() else value for name, value in names.items()}
        assert result_of(**fields).fits_memory


def test_what_fits_needs_no_other_options():
    assert ps.simulate("bert-large", 'flat(4, bandwidth="1GB/s")').would_fit_with == ()


def test_where_nothing_helps_nothing_is_named():
    result = ps.simulate("gpt2-xl", 'flat(2, bandwidth="1GB/s", memory="1GB")')
    assert result.fits_memory is False
    assert result.would_fit_with == ()


def test_the_text_and_the_error_name_them():
    words = ["llama2-13b", "hgx_h100(1)", "--tp", "2", "--pp", "2", "--dp", "2", "-m", "8", "--framework", "megatron"]
    found = CliRunner().invoke(command, [*words, "--microbatch-size", "8", "--require-fit"])
    (options,) = re.findall(
        r"DOES NOT FIT: .* on node0.gpu0-1, with a reserve of 4.000 GiB; would fit with (.*)", found.output
    )
    assert options.split(", or ") == list(result_of().would_fit_with)
    assert f"would fit with {options}" in str(found.exception)


@pytest.mark.parametrize("column", ["stash_bytes", "parameter_bytes"])
def test_without_bytes_it_is_unknown_whether_it_fits(column):
    trace = ps.load_trace("bert-large")
    lacking = ps.Trace("m", "test", trace.microbatch_size, trace.layers | {column: trace.layers[column] * 0})
    if column == "stash_bytes":
        lacking = ps.Trace("m", "test", 4, lacking.layers | {"core_stash_bytes": trace.layers[column] * 0})
    result = ps.simulate(lacking, 'flat(4, bandwidth="1GB/s")')
    assert result.fits_memory is None
    assert result.as_data()["fits_memory"] is None
    assert any(f"no layer has {column}" in note for note in result.as_data()["notes"])
