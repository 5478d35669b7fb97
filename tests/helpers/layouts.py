"""Random layouts that frameworks have, and what spoils text."""

from dataclasses import replace

from pipesim.frameworks.training_layout import TrainingLayout


def random_stages(rng, pipeline, chunks, *, ends=True):
    """Stages of a transformer with a block in each, now and then none beside embedding or loss."""
    stages = ["t" * rng.randint(1, 5) for _ in range(pipeline * chunks)]
    if rng.random() < 0.5:
        stages = ["t" * rng.randint(1, 4)] * (pipeline * chunks)
    if ends and len(stages) > 2 and rng.random() < 0.3:
        stages[0] = ""
    if ends and len(stages) > 2 and rng.random() < 0.3:
        stages[-1] = ""
    stages[0] = f"E{stages[0]}"
    stages[-1] = f"{stages[-1]}L"
    return tuple(stages)


def random_layout(rng):
    """A layout that Megatron-LM has."""
    pipeline = rng.choice([1, 2, 3, 4, 8])
    chunks = rng.choice([1, 1, 2, 3]) if pipeline > 1 else 1
    tensor, data = rng.choice([1, 2, 8]), rng.choice([1, 2, 6])
    sharding = rng.choice(["none", "zero1"])
    recompute = rng.choice(["none", "full", "selective"])
    group = rng.choice([pipeline, pipeline + 2])
    layout = TrainingLayout(
        random_stages(rng, pipeline, chunks),
        pipeline=pipeline,
        data=data,
        tensor=tensor,
        context=rng.choice([1, 2]),
        expert=rng.choice([1, 1, 4]),
        scheduler="one_f_one_b" if chunks == 1 else "interleaved",
        microbatch_size=rng.choice([1, 4]),
        microbatches=group * rng.randint(1, 5),
        sequence=rng.choice([None, 4096]),
        precision=rng.choice([None, "bf16", "fp16", "fp8"]),
        sequence_parallel=rng.random() < 0.5,
        sharding=sharding,
        sharding_size=rng.choice([None, data // 2]) if sharding == "zero1" and data % 2 == 0 else None,
        gradient_overlap=rng.random() < 0.5,
        gather_overlap=rng.random() < 0.5,
        gradient_precision=rng.choice([None, "bf16", "fp32"]),
        recompute=recompute,
        recompute_unit=rng.choice([1, 3]) if recompute == "full" else 1,
        recompute_modules=rng.choice([(), ("mlp", "layernorm")]) if recompute == "selective" else (),
    )
    if chunks > 1:
        scheduler = "interleaved" if group == pipeline else f"interleaved({group=})"
        layout = replace(layout, scheduler=scheduler, message_overlap=rng.random() < 0.5)
    if recompute == "full" and layout.recompute_unit == 1 and rng.random() < 0.5:
        layout = replace(layout, recompute_blocks=rng.randint(0, 4))
    if rng.random() < 0.2 and chunks == 1:
        layout = replace(layout, stages=(*layout.stages[:-1], f"{layout.stages[-1][:-1]}mL"))
    return layout


def spoilt(rng, text):
    """Text with a few places damaged."""
    words = [
        "",
        "-1",
        "0",
        "x",
        "999999999999999999999",
        "|",
        "(",
        ")*9",
        "*",
        "'",
        '"',
        "$X",
        "${Y}",
        "[",
        "null",
        "\x00",
    ]
    for _ in range(rng.randint(1, 3)):
        a = rng.randrange(len(text) + 1)
        b = min(len(text), a + rng.choice([0, 1, 1, 3, 12]))
        text = text[:a] + rng.choice(words) + text[b:]
    return text
