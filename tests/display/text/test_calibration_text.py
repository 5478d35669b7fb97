"""Calibrated devices as text."""

from pipesim.display import text


def test_constants_and_the_largest_residuals_are_shown():
    errors = [0.01 * n for n in range(30)]
    data = {
        "device": {
            "name": "mine", "base": "a100-80gb", "precision": "bf16", "product": 0.61234, "attention": 0.5,
            "memory": 0.7, "launch_s": 1e-5, "unaligned": 0.04,
        },
        "fitted": ["product", "memory"],
        "mean_error": 0.145,
        "mean_error_before": 0.3,
        "residuals": [
            {"label": f"run{n}", "measured_s": 1.0, "computed_s": 1 - error, "error": -error}
            for n, error in enumerate(errors)
        ],
    }  # fmt: skip
    head, constants, residuals = text.calibration(data).split("\n\n")
    assert "mine: a100-80gb in bf16" in head
    assert "product, memory, on 30 measurements" in head
    assert "14.5 % (before: 30.0 %)" in head
    assert constants.splitlines()[2].split() == ["product", "0.6123", "fitted"]
    assert constants.splitlines()[3].split() == ["attention", "0.5", "kept"]
    first, *_, last = residuals.splitlines()[2:]
    assert (first.split()[0], first.split()[-1]) == ("run29", "-29.0%")
    assert last.split()[0] == "run10"
