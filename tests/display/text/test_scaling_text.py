"""How shares of microbatches scale, as text."""

import pytest

from pipesim.core.costs import Scaling
from pipesim.display.text import scaling_text


@pytest.mark.parametrize(
    ("scaling", "label", "time"), [("recorded", "if linear", "2.000 s"), ("linear", "as recorded", "1.000 s")]
)
def test_the_time_under_the_other_scaling_is_shown_where_it_differs(scaling, label, time):
    times = {"recorded": 1.0, "linear": 2.0}
    data = {"iteration_time_s": times[scaling], "iteration_time_by_scaling_s": times, "scaling": scaling}
    ((name, shown),) = scaling_text.under_other_scaling(data)
    assert name == label
    assert shown.startswith(time)
    assert not scaling_text.under_other_scaling(
        data | {"iteration_time_by_scaling_s": dict.fromkeys(times, times[scaling])}
    )
    assert not scaling_text.under_other_scaling({"iteration_time_s": 1.0})


def test_every_scaling_has_its_words():
    scalings = set(Scaling.__args__)
    assert set(scaling_text.ASSUMPTIONS) == set(scaling_text.OTHER) == scalings
    assert {other for other, _ in scaling_text.OTHER.values()} == scalings
