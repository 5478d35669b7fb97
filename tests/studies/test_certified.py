"""What a setup is measured against."""

from helpers.strategies import even_trace
from pipesim.core.schedule import WEIGHT
from pipesim.engines import by_name
from pipesim.lowering import lower
from pipesim.studies import certified, results


def test_an_assumed_split_of_backwards_is_stated_and_used():
    """Where a trace has whole backwards only: a schedule that splits them says by what, one that does not is silent."""
    trace, cluster = even_trace(4, 1e-3, 2e-3), 'flat(4, bandwidth="10GB/s")'
    for share in (0.25, 0.5):
        case = results.make_setup(trace, cluster, "balanced", "zb_h1", 8, weight_share=share)
        program = lower(case)
        assert set(program.duration[program.kind == WEIGHT]) == {share * 2e6}
        assert results.SimulationResult(case, by_name.run(program)).as_data()["weight_share"] == share
    assert certified.weight_share(results.make_setup(trace, cluster, "balanced", "one_f_one_b", 8)) is None
    assert (
        certified.weight_share(results.make_setup("bert-large", 'flat(4, bandwidth="1GB/s")', "balanced", "zb_h1"))
        is None
    )
