from pipesim.architectures.t5 import t5
from pipesim.architectures.translation import translation


def layer(model, name):
    return next(layer for layer in model.layers if layer.name == name)


def position(model, name):
    return [layer.name for layer in model.layers].index(name)


def test_a_translation_model_by_hand():
    """Two samples, 5 tokens to read and 3 to write, of 24 values in fp16; an mlp of 96; 100 words."""
    model = translation(1, 24, 4, vocabulary=100, sequence=5, target=3, microbatch=2)
    assert [layer.name for layer in model.layers] == [
        "embedding", "encoder0.attention", "encoder0.mlp",
        "decoder.embedding", "decoder0.attention", "decoder0.cross_attention", "decoder0.mlp", "head",
    ]  # fmt: skip
    cross = layer(model, "decoder0.cross_attention")
    own = layer(model, "decoder0.attention")
    read, written = 2 * 5, 2 * 3
    assert cross.parameter_bytes == own.parameter_bytes == 2 * (4 * 25 * 24 + 2 * 24)
    assert cross.forward_flops == 2 * written * 24 * 48 + 2 * read * 24 * 48 + 2 * 2 * written * 5 * 24
    # inputs of norm, queries, and projection, the queries; keys, values and what they are made of; mask; scores
    scores = 4 * written * 5
    assert cross.stash_bytes == 2 * (4 * written * 24 + 3 * read * 24) + written * 24 + scores * (2 + 1 + 2)
    assert cross.output_bytes == 2 * written * 24
    mlp = layer(model, "decoder0.mlp")
    assert mlp.stash_bytes == 2 * 2 * written * 24 + written * 96 * (2 + 2 + 1) + written * 24


def test_every_cross_attention_reads_what_the_encoder_made():
    """So the memory crosses every cut from the encoder's end to the last cross-attention."""
    model = t5(3, 24, 4, vocabulary=100, sequence=10, target=6, microbatch=2)
    memory = position(model, "encoder.norm")
    for block in range(3):
        cross = position(model, f"decoder{block}.cross_attention")
        assert model.inputs(cross) == (memory, cross - 1)
    source, target = 2 * 2 * 10 * 24, 2 * 2 * 6 * 24
    last = position(model, "decoder2.cross_attention")
    assert model.cut_bytes[memory] == source
    assert model.cut_bytes[memory + 1 : last].tolist() == [source + target] * (last - memory - 1)
    assert model.cut_bytes[last] == target


def test_the_decoder_reads_data_of_its_own_and_shares_the_table():
    model = t5(1, 24, 4, vocabulary=100)
    inner = layer(model, "decoder.embedding")
    assert (inner.inputs, inner.kind, inner.parameter_bytes) == ((), "tied_embedding", 0)
    assert model.layers[-1].parameter_bytes == 0
    assert model.layers[0].parameter_bytes == 2 * 100 * 24


def test_the_biases_for_distances_belong_to_the_first_block():
    model = t5(2, 24, 4, head_width=8, vocabulary=100)
    for stack in ("encoder", "decoder"):
        first, second = (layer(model, f"{stack}{block}.attention").parameter_bytes for block in (0, 1))
        assert first - second == 2 * 32 * 4
        assert second == 2 * (4 * 24 * 32 + 24)
