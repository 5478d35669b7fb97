"""Traces from data sheets as text."""

from pipesim.display import text


def test_sizes_and_the_times_of_each_device_are_shown():
    data = {
        "model": "gpt",
        "layers": 24,
        "precision": "fp16",
        "parameter_bytes": 2**30,
        "microbatch_sizes": [4, 2],
        "stash_bytes": 2**20,
        "forward_flops": 1.5e12,
        "machine": "data sheets",
        "seconds": {"v100": {"forward": 0.1, "backward": 0.2}},
        "forward_share_of_peak": {"v100": 0.5},
    }
    head, table = text.roofline_trace(data).split("\n\n")
    assert "4 and 2 samples" in head
    assert "1.500 TFLOP" in head
    assert table.splitlines()[2].split() == ["v100", "100.0", "ms", "200.0", "ms", "50.0", "%"]
