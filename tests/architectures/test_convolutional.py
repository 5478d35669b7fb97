from helpers.models import build


def test_a_convolution_by_hand():
    """VGG's second convolution: 64 to 64 channels, 3x3, at 224x224, two samples in fp32."""
    layer = build("vgg-19", microbatch=2, precision="fp32").layers[1]
    assert layer.name == "conv1_2"
    assert layer.forward_flops == 2 * (2 * 224 * 224) * 9 * 64 * 64
    assert layer.parameter_bytes == 4 * (9 * 64 * 64 + 64)
    assert layer.output_bytes == layer.stash_bytes == 4 * 2 * 64 * 224 * 224


def test_a_batch_norm_keeps_its_input_besides_that_of_its_convolution():
    """ResNet's first convolution: 3 channels of 224x224 to 64 of 112x112."""
    layer = build("resnet-152").layers[0]
    assert layer.stash_bytes == 2 * (3 * 224 * 224 + 64 * 112 * 112)
    assert layer.parameter_bytes == 2 * (49 * 3 * 64 + 2 * 64)


def test_a_pool_keeps_its_input_and_the_places_of_the_maxima():
    """VGG's first pool: 64 channels of 224x224 to 112x112, in fp16; four comparisons for each maximum."""
    layer = build("vgg-19").layers[2]
    assert layer.stash_bytes == 2 * 64 * 224 * 224 + 8 * 64 * 112 * 112
    assert layer.forward_flops == 4 * 64 * 112 * 112


def test_a_linear_layer_keeps_input_output_and_the_mask_of_its_dropout():
    """VGG's last two, from 4096 values to 4096 with dropout and to 1000 classes without."""
    fc7, fc8 = build("vgg-19", microbatch=3).layers[-2:]
    assert fc7.stash_bytes == 3 * (2 * 4096 + 2 * 4096 + 4096)
    assert fc8.stash_bytes == 3 * (2 * 4096 + 2 * 1000)
    assert fc8.forward_flops == 3 * 2 * 4096 * 1000
