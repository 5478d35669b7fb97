"""Which engine `auto` is."""

from pipesim.engines import selection
from pipesim.lowering import lower
from pipesim.studies import equal_stages


def test_auto_is_simpy_where_that_is_quicker():
    program = lower(equal_stages.setup("one_f_one_b", 4, 8, equal_stages.Times()))
    assert selection.run(program).engine == "event"
    assert selection.run(program, large=10).engine == "compiled"
