"""Plain CSV under whatever headings."""

import pytest

from pipesim.base.errors import InputError
from pipesim.importers.csv_table import csv_table
from pipesim.importers.detect import importer_for
from pipesim.importers.opening import open_trace


@pytest.fixture
def save(tmp_path):
    def write(*lines, name="times.csv"):
        (tmp_path / name).write_text("\n".join(lines))
        return tmp_path / name

    return write


def test_headings_are_mapped_and_units_told(save):
    path = save("op,fwd,bwd,act,junk", "conv,1.5,3,2,x", "", '"fc, last",0.5,1,0.5,y')
    columns = {"name": "op", "forward_s": "fwd", "backward_s": "bwd", "output_bytes": "act"}
    trace = csv_table(path, columns=columns, time_unit="ms", size_unit="kB", samples=8)
    assert trace.layers["name"].tolist() == ["conv", "fc, last"]
    assert trace.layers["forward_s"] == pytest.approx([1.5e-3, 0.5e-3])
    assert trace.layers["backward_s"] == pytest.approx([3e-3, 1e-3])
    assert trace.layers["output_bytes"].tolist() == [2000, 500]
    assert (trace.model, trace.source, trace.microbatch_size) == ("times", "csv", 8)


def test_headings_that_a_trace_knows_need_no_mapping_and_name_their_unit(save):
    path = save("name,forward_ms,backward_us,parameter_bytes", "a,1,500,7")
    assert importer_for(path) == "csv"
    trace = open_trace([path])
    assert (trace.layers["forward_s"][0], trace.layers["backward_s"][0]) == pytest.approx((1e-3, 5e-4))
    assert trace.layers["parameter_bytes"].tolist() == [7]


def test_the_layers_of_a_trace_are_read_back(save, tmp_path):
    trace = csv_table(save("forward_s,backward_s,output_bytes,inputs", "1,2,3,", "4,5,6,-", "7,8,9,0;1"))
    trace.save(tmp_path / "t")
    again = open_trace([tmp_path / "t" / "layers.csv"])
    assert again.layers["forward_s"].tolist() == trace.layers["forward_s"].tolist()
    assert again.layers["inputs"].tolist() == ["", "-", "0;1"]


def test_a_backward_that_is_not_there_is_stated_as_a_multiple(save):
    path = save("forward_s", "1", "2")
    with pytest.raises(InputError, match=r"times\.csv: no column for backward_s; .*backward_factor=\.\.\."):
        csv_table(path)
    trace = csv_table(path, backward_factor=2.5, output_bytes="1KiB")
    assert trace.layers["backward_s"].tolist() == [2.5, 5.0]
    assert trace.layers["output_bytes"].tolist() == [1024, 1024]


def test_rows_are_numbered_for_each_sample_and_files_are_read_on(save):
    one = save("forward_s,backward_s,sample", "1,1,0", "2,2,0")
    two = save("forward_s,backward_s,sample", "3,3,1", "4,4,1", name="more.csv")
    trace = csv_table([one, two])
    assert trace.layers["layer"].tolist() == [0, 1, 0, 1]
    assert trace.layers["name"].tolist() == ["layer 0", "layer 1"] * 2
    with pytest.raises(InputError, match=r"less\.csv: columns for sample are in one file and not in the other"):
        csv_table([one, save("forward_s,backward_s", "1,1", name="less.csv")])


def test_other_delimiters_are_told(save):
    assert csv_table(save("forward_s;backward_s", "1;2"), delimiter=";").layers["backward_s"].tolist() == [2.0]
    with pytest.raises(InputError, match="delimiter = ',,' found"):
        csv_table(save("forward_s", "1"), delimiter=",,")


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([], "is empty; a line with the headings"),
        (["forward_s,backward_s"], "has no rows below its headings"),
        (["fwd,bwd", "1,2"], r"no column for forward_s; .*found fwd, bwd"),
        (["forward_s,backward_s", "1,2", "x,2"], "line 3: forward_s: 'x' found; a finite number"),
        (["forward_s,backward_s", "1,2", "", "-1,2"], "line 4: forward_s: '-1' found"),
        (["forward_s,backward_s", "nan,2"], "line 2: forward_s: 'nan' found"),
        (["forward_s,backward_s", "1e309,2"], "line 2: forward_s: '1e309' found"),
        (["forward_s,backward_s", "1"], "line 2: 1 cells found; 2 were expected"),
        (["forward_s,backward_s,layer", "1,2,0.5"], "line 2: layer: '0.5' found; a whole number"),
        (
            ["forward_s,forward_ms,backward_s", "1,2,3"],
            "forward_s: the headings 'forward_s', 'forward_ms' are both for it",
        ),
        (["forward_s,forward_s,backward_s", "1,2,3"], "duplicate heading 'forward_s'"),
        (["forward_s,backward_s", '1,"2'], "line 2: is not CSV"),
        (["forward_s,backward_s,layer", "1,2,7"], "layer 0 is missing"),
        (["forward_s,backward_s,output_bytes", "1,2,1e300"], "line 2: output_bytes: '1e300' found"),
    ],
)
def test_what_is_wrong_is_named_with_line_and_heading(save, lines, message):
    with pytest.raises(InputError, match=r"times\.csv: " + message):
        csv_table(save(*lines))


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"forward": "a"}, "a trace has no 'forward'; did you mean 'forward_s'"),
        ({"forward_s": 3}, "forward_s: 3 found; a heading"),
        ({"forward_s": "fwdd"}, r"columns: forward_s: no heading 'fwdd'; did you mean 'fwd'"),
        ("fwd", "columns = 'fwd' found; a mapping"),
    ],
)
def test_a_mapping_that_fits_nothing_says_what_was_meant(save, columns, message):
    with pytest.raises(InputError, match=message):
        csv_table(save("fwd,bwd", "1,2"), columns=columns)
