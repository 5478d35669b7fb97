"""A ledger as text: what is left first, then each cause, then the sum."""

from pipesim.display import text
from pipesim.studies import results


def test_a_ledger_shows_its_lines_their_sum_and_the_bound():
    result = results.simulate("bert-large", 'flat(4, bandwidth="1GB/s")', microbatches=4)
    data = result.ledger.as_data()
    lines = text.ledger(data, bound=1.5).splitlines()
    assert lines[2].startswith("computation, evenly spread")
    assert lines[-2].split()[:2] == ["iteration", text.seconds(result.iteration_time).split()[0]]
    assert lines[-1].endswith("no plan of this kind takes less than 1.500 s")
    assert "no plan of this kind" not in text.ledger(data)


def test_a_line_that_is_negative_has_its_sign_and_stragglers_are_listed_by_what_they_save():
    line = {"cause": "forward", "seconds": -0.25, "share": -0.25, "step_without_s": 1.25}
    ideal = {"cause": "ideal_compute", "seconds": 1.25, "share": 1.25, "step_without_s": 1.25}
    stragglers = [{"what": "stage", "number": n, "step_without_s": 0.5 + 0.1 * n} for n in range(8)]
    data = {"step_s": 1.0, "lines": [line, ideal], "without_all_s": 1.25, "stragglers": stragglers}
    shown = text.ledger(data, most=2)
    assert "stragglers: forwards" in shown
    assert "-250.0 ms" in shown
    assert shown.endswith("... and 3 more")
