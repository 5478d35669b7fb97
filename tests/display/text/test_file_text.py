"""Files that people write, as text."""

from pipesim.core.calibrations import Calibration, Calibrations
from pipesim.core.scenario import CALM, Degraded, Scenario, Slow
from pipesim.display import text


def test_a_scenario_is_a_line_for_each_change():
    scenario = Scenario(
        (Slow("gpu3", 1.5, 0.01, 0.05),), (Degraded("a", "b", 0.25), Degraded("b", "c", 0.5, 0.001, one_way=True))
    )
    lines = [line.split("  ") for line in text.scenario(scenario).split("\n")[2:]]
    assert [[cell.strip() for cell in line if cell] for line in lines] == [
        ["device", "gpu3", "takes 1.5 times as long", "from 10.00 ms to 50.00 ms"],
        ["link", "a <-> b", "has 25.0 % of its bandwidth", "throughout"],
        ["link", "b -> c", "has 50.0 % of its bandwidth", "from 1.000 ms"],
    ]
    assert text.scenario(CALM) == "no device is slow, no link is degraded"


def test_calibrated_devices_are_shown_with_all_their_constants():
    ours = Calibration("ours", "a100-80gb", "bf16", 0.7, 0.5, 0.8, 5e-6, 1.0)
    line = text.calibrations(Calibrations((ours,))).split("\n")[2]
    assert line.split() == [
        "ours",
        "a100-80gb",
        "bf16",
        *["70.0", "%", "50.0", "%", "80.0", "%", "5.000", "us", "100.0", "%"],
    ]


def test_a_sweep_without_axes_says_so():
    data = {
        "name": "one",
        "simulate": {},
        "points": 1,
        "filtered": False,
        "metrics": ["iteration_time_s"],
        "charts": [],
    }
    assert text.sweep_file(data, []).endswith("no axes")
    data |= {"filtered": True, "points": 4}
    shown = text.sweep_file(data, [("m", [1, 2]), ("n", [1, 2])])
    assert "4 before filters" in shown
    assert "m          2  1, 2" in shown
