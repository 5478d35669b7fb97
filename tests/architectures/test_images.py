import pytest

from pipesim.architectures import ARCHITECTURES
from pipesim.architectures.amoebanet import amoebanet
from pipesim.architectures.inception import inception_v3
from pipesim.base import lookup
from pipesim.base.errors import InputError


def build(text, **arguments):
    return lookup.resolve(text, ARCHITECTURES, "architecture")(**arguments)


def position(model, name):
    return [layer.name for layer in model.layers].index(name)


def named(model, name):
    return model.layers[position(model, name)]


def test_alexnet_shrinks_its_images_as_published():
    """64 channels of 55x55, 192 of 27x27, 384 and 256 of 13x13; 6x6 of 256 go into the linear layers."""
    outputs = {layer.name: layer.output_bytes // 2 for layer in build("alexnet").layers}
    assert outputs["conv1"] == 64 * 55 * 55
    assert outputs["conv2"] == 192 * 27 * 27
    assert (outputs["conv3"], outputs["conv5"]) == (384 * 13 * 13, 256 * 13 * 13)
    assert outputs["pool5"] == 256 * 6 * 6


def test_the_modules_of_inception_hand_on_the_published_maps():
    """Szegedy et al. (2015), table 1: 35x35x288, 17x17x768, 8x8x1280 and 8x8x2048."""
    model = build("inception-v3")
    values = {layer.name: layer.output_bytes // 2 for layer in model.layers if layer.kind == "concat"}
    assert values["A1.concat"] == values["A2.concat"] == 35 * 35 * 288
    assert values["B.concat"] == values["C3.concat"] == 17 * 17 * 768
    assert values["D.concat"] == 8 * 8 * 1280
    assert values["E1.concat"] == 8 * 8 * 2048


def test_a_cut_inside_a_module_carries_its_entry_and_the_branches_so_far():
    """Behind the second branch of the second A, of 35x35: the entry of 256 channels, and two branches of 64."""
    model = inception_v3(auxiliary=False, microbatch=2)
    cut = position(model, "A1.five.conv2")
    assert model.cut_bytes[cut] == 2 * 2 * 35 * 35 * (256 + 64 + 64)


def test_the_last_modules_fork_at_the_end_of_two_branches():
    model = inception_v3()
    for branch, trunk in (("three", "conv1"), ("double", "conv2")):
        reads = {model.inputs(position(model, f"E0.{branch}.{side}")) for side in ("row", "column")}
        assert reads == {(position(model, f"E0.{branch}.{trunk}"),)}
    assert len(model.inputs(position(model, "E0.concat"))) == 6


def test_the_auxiliary_classifier_reads_the_last_c_and_goes_nowhere():
    model, without = inception_v3(), inception_v3(auxiliary=False)
    assert len(model) == len(without) + 5
    source = position(model, "C3.concat")
    assert model.inputs(position(model, "auxiliary.pool")) == (source,)
    assert model.inputs(position(model, "D.three.conv1")) == (source,)
    read = {source for index in range(len(model)) for source in model.inputs(index)}
    assert position(model, "auxiliary.fc") not in read


def test_a_cell_reads_the_two_cells_before_it():
    model = amoebanet(6, 16, image=64)
    assert model.inputs(position(model, "stem_cell0")) == (0,)
    for index in range(2, len(model) - 2):
        assert model.inputs(index) == (index - 2, index - 1)


def test_a_cut_carries_what_the_last_two_cells_made():
    """All normal cells of a group hand on 4 states: at 8x8, of 16 channels in fp16."""
    model = amoebanet(9, 16, image=64)
    assert model.cut_bytes[position(model, "cell1")] == 2 * (2 * 4 * 16 * 8 * 8)


def test_a_reduction_halves_the_image_and_doubles_the_channels():
    """A normal cell hands on 4 states, a reduction 3; F filters at an eighth of the side, 2F and 4F below."""
    model = build("amoebanet(18, 256)")
    values = {layer.name: layer.output_bytes // 2 for layer in model.layers}
    assert values["cell0"] == values["cell5"] == 4 * 256 * 28 * 28
    assert values["reduction0"] == 3 * 512 * 14 * 14
    assert values["cell11"] == 4 * 512 * 14 * 14
    assert values["cell17"] == 4 * 1024 * 7 * 7


def test_a_normal_cell_in_the_middle_of_a_group_by_hand():
    """Two 1x1 from 4c to c, three from c to c, two 1x7 with 7x1 on a quarter between 1x1: 13.75c², and batch norms."""
    c = 512
    cell = named(build("amoebanet-18x512"), "cell3")
    norms = 2 * (2 * c + 3 * c + 2 * (3 * c // 4 + c))
    assert cell.parameter_bytes == 2 * (13.75 * c * c + norms)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("alexnet(image=50)", "image is too small: at pool5"),
        ("inception-v3(image=64)", "image is too small: at "),
        ("inception-v3(auxiliary=1)", "auxiliary: 1 found"),
        ("inception-v3(classes=0)", "classes = 0 found"),
        ("amoebanet(4)", "3 groups of layers = 3 found; a divisor of layers = 4"),
        ("amoebanet(3, 24)", "a divisor of filters = 24"),
        ("amoebanet(image=100)", "image = 100 found; a multiple of 32"),
        ("amoebanet(0)", "layers = 0 found"),
    ],
)
def test_a_bad_size_is_refused_by_its_name(text, complaint):
    with pytest.raises(InputError, match=complaint):
        lookup.call(text, ARCHITECTURES, "architecture")
