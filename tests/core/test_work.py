from pipesim.core.work import Attention, Kernels, LayerWork, Product


def test_a_product_takes_two_flops_per_multiply_and_add():
    assert Product(2, 3, 5, count=7).flops == 2 * 2 * 3 * 5 * 7


def test_attention_is_two_products_for_each_head_and_a_causal_mask_halves_what_is_computed():
    full, causal = (Attention(4, 16, 16, 8, 6, causal=causal) for causal in (False, True))
    assert full.flops == causal.flops == full.computed_flops == 4 * 2 * 16 * 16 * (8 + 6)
    assert causal.computed_flops == full.flops / 2
    assert full.values == 4 * (16 + 16) * (8 + 6)


def test_a_mask_over_keys_of_another_length_saves_nothing():
    one = Attention(4, 16, 32, 8, 8, causal=True)
    assert one.computed_flops == one.flops


def test_the_flops_of_a_work_are_those_of_its_products():
    work = LayerWork((Product(2, 3, 5), Kernels(100.0, 200.0), Attention(1, 2, 2, 4, 4)))
    assert work.flops == 60 + 64
