from pipesim.architectures.inception import inception_v3


def position(model, name):
    return [layer.name for layer in model.layers].index(name)


def named(model, name):
    return model.layers[position(model, name)]


def test_the_branches_of_a_module_all_read_what_it_reads_and_meet_again():
    model = inception_v3(auxiliary=False)
    entry = position(model, "A0.concat")
    for first in ("A1.one.conv1", "A1.five.conv1", "A1.double.conv1", "A1.mean.pool"):
        assert model.inputs(position(model, first)) == (entry,)
    ends = ("A1.one.conv1", "A1.five.conv2", "A1.double.conv3", "A1.mean.conv")
    assert model.inputs(position(model, "A1.concat")) == tuple(position(model, end) for end in ends)


def test_a_long_kernel_by_hand():
    """1x7 from 192 channels to 192 at 17x17, with batch norm, in fp16."""
    layer = named(inception_v3(), "C3.seven.conv2")
    assert layer.parameter_bytes == 2 * (7 * 192 * 192 + 2 * 192)
    assert layer.forward_flops == 2 * 7 * 192 * 192 * 17 * 17
    assert layer.output_bytes == 2 * 192 * 17 * 17


def test_a_mean_of_surroundings_keeps_no_places():
    mean, maximum = named(inception_v3(), "A1.mean.pool"), named(inception_v3(), "B.pool")
    assert mean.stash_bytes == 2 * 256 * 35 * 35
    assert mean.output_bytes == 2 * 256 * 35 * 35
    assert maximum.stash_bytes == 2 * 288 * 35 * 35 + 8 * 288 * 17 * 17
