import csv
from dataclasses import replace
from pathlib import Path

import pytest

import pipesim as ps
from pipesim.architectures.device_curves import curve_of
from pipesim.architectures.gpt import gpt
from pipesim.architectures.roofline import roofline
from pipesim.base.errors import InputError, PipesimError
from pipesim.studies.calibration import CONSTANTS, calibrate

KIND = "a100-80gb"
TRUE = replace(curve_of(KIND, "fp16"), product=0.55, memory=0.6, launch_s=2e-5)
CLUSTER = f"flat(2, '100 GB/s', device={KIND!r})"


def measured(path, architectures, curve=TRUE, **columns):
    """A table of iterations as a device with these constants would take them."""
    efficiency = (
        f"device(product={curve.product}, memory={curve.memory}, launch_s={curve.launch_s}, "
        f"attention={curve.attention}, unaligned={curve.unaligned})"
    )
    rows = []
    for architecture in architectures:
        given = {"architecture": architecture, "cluster": CLUSTER, "microbatches": 4}
        took = ps.simulate(**given, efficiency=efficiency).iteration_time
        rows.append(given | {"iteration_s": took} | columns)
    with path.open("w", newline="") as file:
        table = csv.DictWriter(file, rows[0])
        table.writeheader()
        table.writerows(rows)
    return str(path)


SIZES = [
    f"gpt(2, {hidden}, 8, vocabulary=1000, sequence=256, microbatch={samples})"
    for hidden in (256, 1024, 2048)
    for samples in (1, 4)
]


def test_constants_of_a_device_are_found_in_its_iterations(tmp_path):
    """Six different models determine three constants; 40 evaluations each find them to a few percent."""
    found = calibrate([measured(tmp_path / "runs.csv", SIZES)])
    assert found.fitted == ("product", "memory", "launch_s")
    assert found.mean_error < 0.005
    assert found.mean_error_before > 0.1
    own = found.calibration
    assert (own.name, own.base, own.precision) == (KIND, KIND, "fp16")
    assert own.product == pytest.approx(0.55, rel=0.03)
    assert own.memory == pytest.approx(0.6, rel=0.05)
    assert own.launch_s == pytest.approx(2e-5, rel=0.05)
    assert (own.attention, own.unaligned) == (TRUE.attention, pytest.approx(TRUE.unaligned))
    assert own.source.startswith("product, memory, launch_s fitted on 6 measurements of ")


def test_one_iteration_determines_one_constant(tmp_path):
    large = "gpt(2, 4096, 32, vocabulary=1000, sequence=1024, microbatch=4)"
    slower = replace(curve_of(KIND, "fp16"), product=0.5)
    found = calibrate([measured(tmp_path / "runs.csv", [large], slower)])
    assert found.fitted == CONSTANTS[-1][1] == ("product",)
    assert found.calibration.product == pytest.approx(0.5, rel=1e-3)
    assert found.mean_error < 1e-3
    assert found.calibration.memory == slower.memory


def test_iterations_of_one_model_do_not_determine_more_constants(tmp_path):
    same = measured(tmp_path / "runs.csv", SIZES[:1] * 7)
    assert calibrate([same]).fitted == ("product",)
    assert calibrate([same], constants=["launch_s"]).fitted == ("launch_s",)


def test_constants_of_a_device_are_found_in_recorded_layers(tmp_path):
    recorded = roofline(gpt(3, 1024, 8, sequence=256, precision="bf16"), [KIND], efficiency=TRUE)
    replace(recorded, source="recorded", machine="an A100").save(tmp_path / "profile")
    found = calibrate([str(tmp_path / "profile")], architecture="gpt(3, 1024, 8, sequence=256)", name="mine")
    assert found.mean_error < 0.01
    assert found.mean_error_before > 0.1
    assert found.calibration.precision == "bf16"
    assert found.calibration.product == pytest.approx(0.55, rel=0.05)
    assert {one.label for one in found.residuals} >= {"block0.mlp forward", "block2.attention backward"}


def test_a_calibrated_device_gives_the_iterations_that_were_measured(run, tmp_path):
    table = measured(tmp_path / "runs.csv", SIZES[2:4])
    output = str(tmp_path / "own.toml")
    code, out, err = run("calibrate", table, "-o", output, "--constants", "product,memory,launch_s", "--name", "mine")
    assert (code, err) == (0, "")
    assert f"{output}:mine" in out
    with Path(table).open(newline="") as file:
        row = next(csv.DictReader(file))
    kind = f"{output}:mine"
    took = ps.simulate(
        architecture=row["architecture"], cluster=f"flat(2, '100 GB/s', device={kind!r})", microbatches=4
    ).iteration_time
    assert took == pytest.approx(float(row["iteration_s"]), rel=0.01)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("architecture,cluster,iteration_s\ngpt2,flat(2),\n", "line 2: iteration_s is empty"),
        ("architecture,cluster,iteration_s\ngpt2,flat(2),-1\n", "line 2: "),
        ("architecture,klaster,iteration_s\ngpt2,flat(2),1\n", "column 'klaster' is unknown; did you mean 'cluster'"),
        ("trace,cluster,iteration_s\nbert-large,\"flat(2, '1GB/s')\",1\n", "'bert-large' is a recorded trace"),
        ("architecture,cluster,microbatches,iteration_s\ngpt2,flat(2),many,1\n", "microbatches = 'many' found"),
        ("architecture,cluster,iteration_s\n", "no measurements found"),
    ],
)
def test_tables_that_describe_nothing_are_refused_by_line_and_column(text, complaint, tmp_path):
    path = tmp_path / "runs.csv"
    path.write_text(text)
    with pytest.raises(PipesimError, match=complaint):
        calibrate([str(path)])


def test_runs_on_different_devices_are_refused(tmp_path):
    first = measured(tmp_path / "a.csv", SIZES[:1])
    text = (tmp_path / "a.csv").read_text().replace(KIND, "h100-80gb")
    (tmp_path / "b.csv").write_text(text)
    with pytest.raises(InputError, match="a100-80gb in fp16, h100-80gb in fp16 found; one kind"):
        calibrate([first, str(tmp_path / "b.csv")])


def test_a_profile_needs_its_model_and_the_same_layers(tmp_path):
    recorded = roofline(gpt(2, 64, 4), ["a100-80gb"])
    recorded.save(tmp_path / "profile")
    with pytest.raises(InputError, match="name its model with architecture="):
        calibrate([str(tmp_path / "profile")])
    with pytest.raises(InputError, match=r"layer 5: 'norm' found, where .* has 'block2.attention'"):
        calibrate([str(tmp_path / "profile")], architecture="gpt(3, 64, 4)")


def test_constants_of_no_curve_are_refused(tmp_path):
    with pytest.raises(InputError, match="constant 'produkt' is unknown; did you mean 'product'"):
        calibrate([str(tmp_path)], constants=["produkt"])
