import pytest

from helpers import strategies
from pipesim.base.errors import InputError
from pipesim.core.members import ImporterInfo, infos
from pipesim.importers import IMPORTERS
from pipesim.importers.opening import open_trace


@pytest.fixture
def profile(tmp_path):
    (contents,) = infos(IMPORTERS, "format", ImporterInfo)["pipedream"].example.items()
    (tmp_path / contents[0]).write_text(contents[1])
    return tmp_path / contents[0]


def test_the_format_is_guessed_or_named_with_options(profile):
    assert open_trace([profile]).same_as(open_trace([profile], "pipedream"))
    assert open_trace([profile], "pipedream(samples=2)").microbatch_size == 2
    assert open_trace([profile], samples=2).microbatch_size == 2


def test_another_microbatch_size_keeps_the_recorded_rows(profile):
    found = open_trace([profile], microbatch_size=8)
    assert found.microbatch_size == 8
    assert (found.layers["microbatch_size"] == open_trace([profile]).layers["microbatch_size"]).all()


@pytest.mark.parametrize(
    ("form", "options", "message"),
    [
        (None, {"pages": 3}, "format 'pipedream' has no option 'pages'; its options are samples"),
        ("pipedream(samples=2)", {"samples": 2}, "samples is given twice: as an option, and in the parentheses"),
        ("os.path:basename", {}, "returned a str; a Trace was expected"),
    ],
)
def test_wrong_options_and_results_are_refused(profile, form, options, message):
    with pytest.raises(InputError, match=message):
        open_trace([profile], form, **options)


def test_files_of_one_format_are_expected_and_at_least_one(profile, tmp_path):
    strategies.even_trace(2).save(tmp_path / "t")
    with pytest.raises(InputError, match=r"t: has format native, .* has pipedream; files of one format"):
        open_trace([profile, tmp_path / "t"])
    with pytest.raises(InputError, match="format 'pipedream' takes one file; 2 found"):
        open_trace([profile, profile])
    with pytest.raises(InputError, match="no file to read"):
        open_trace([])
