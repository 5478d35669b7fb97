import numpy as np

from helpers.recorded_links import TWO, gloo_like, links_of, transfers
from pipesim.recorders.link_files import RecordedLinks


def test_recorded_links_load_as_they_were_saved(tmp_path):
    links = links_of(TWO, transfers("node0.cpu0", "node0.cpu1", gloo_like), ("all-reduce among 2: 4 bytes",))
    links.save(tmp_path)
    again = RecordedLinks.load(tmp_path)
    assert again.about == links.about
    assert all(np.array_equal(again.transfers[name], links.transfers[name]) for name in links.transfers)
