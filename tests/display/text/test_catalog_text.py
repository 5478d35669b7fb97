"""Lists of everything that has a name, as text."""

from pipesim.display.text import catalog_text


def test_a_member_has_what_it_needs_a_sentence_and_its_options():
    found = {"flat": {"needs": ["n"], "about": "One switch.", "options": {"latency": "'2.5us'", "device": "x" * 30}}}
    assert catalog_text.members(found).splitlines() == [
        "flat(n)",
        "    One switch.",
        "    options: latency='2.5us', device=...",
    ]
    plain = {"uniform": {"needs": [], "about": "Equal stages.", "options": {}}}
    assert catalog_text.members(plain) == "uniform\n    Equal stages."


def test_traces_are_a_table():
    one = {"layers": 24, "microbatch_size": 4, "device_kinds": ["v100", "t4"], "source": "roofline"}
    assert catalog_text.traces({"bert": one}).text().splitlines()[2].split() == [
        "bert",
        "24",
        "4",
        "v100,",
        "t4",
        "roofline",
    ]


def test_models_that_need_sizes_are_shown_as_calls_and_others_by_their_names():
    found = [
        {"names": ["gpt"], "needs": ["layers"], "call": "gpt(layers)", "about": "A decoder."},
        {"names": ["gpt2", "gpt-2"], "needs": [], "call": "gpt2", "about": "Published."},
    ]
    lines = catalog_text.models(found).text().splitlines()
    assert [line.split("  ")[0] for line in lines[2:]] == ["gpt(layers)", "gpt2, gpt-2"]


def test_peaks_that_a_device_does_not_have_are_dashes():
    kind = {"memory_bytes": 2**34, "memory_bandwidth": 9e11, "interconnect": 3e11, "peak": {"fp16": 1.25e14}}
    line = catalog_text.device_kinds({"v100": kind}, ["fp32", "fp16"]).text().splitlines()[2]
    assert line.split() == ["v100", "16.00", "GiB", "900.0", "GB/s", "300.0", "GB/s", "-", "125"]
