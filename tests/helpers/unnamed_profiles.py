"""Profiles of two ranks under 1F1B, as PyTorch's Schedule1F1B leaves them: without ranges for actions."""

from helpers.profiles import Profile

ORDERS = ("F0 F1 B0 F2 B1 B2", "F0 B0 F1 B1 F2 B2")  # 1F1B of two stages, three microbatches
NODES = 3  # of each forward, and operators


def profile(rank, order, *, steps=2, named=False, optimizer=True, iterations=True):
    """A rank of so many steps.

    As PyTorch does, operators that make no node carry the number of the next one, and the first operators of a step
    (gradients scaled, a batch cut) carry that of its first forward.
    """
    made = Profile(rank, len(ORDERS), base_ns=10**18)
    time, sequence = 0, 100
    for step in range(steps):
        begin, numbers = time, {}
        made.op("aten::slice", time + 1, time + 2, sequence)
        for cell in order.split():
            microbatch = int(cell[1:])
            if cell[0] == "F":
                numbers[microbatch] = sequence
                time, sequence = forward(made, rank, time, sequence)
            else:
                time = backward(made, rank, time, numbers[microbatch])
            if named:
                start = time - (38 if cell[0] == "F" else 66)
                made.range(f"{'Forward' if cell[0] == 'F' else 'Backward'} {microbatch}", start, time - 6)
        made.op("aten::div_", time + 10, time + 12, sequence)
        if optimizer:
            made.range("Optimizer.step#SGD.step", time + 20, time + 30)
        time += 40
        if iterations:
            made.step(step, begin, time)
    return made


def forward(made, rank, time, sequence):
    """Operators of 30 us, behind a receive and before a send; the time after it, and the next number."""
    if rank:
        made.op("c10d::recv_", time + 10, time + 14, sequence)
    time += 50
    for n in range(NODES):
        made.op("aten::linear", time + 10 * n, time + 10 * n + 9, sequence + n)
    made.op("aten::detach", time + 30, time + 31, sequence + NODES)
    if rank < len(ORDERS) - 1:
        made.op("c10d::send", time + 32, time + 37, sequence + NODES)
    return time + 38, sequence + NODES


def backward(made, rank, time, numbers):
    """Nodes of 60 us, behind a receive and before a send; the time after it."""
    if rank < len(ORDERS) - 1:
        made.op("c10d::recv_", time + 6, time + 9, numbers + 50)
        time += 50
    for n in range(NODES):
        made.node("AddmmBackward0", time + 20 * n, time + 20 * n + 18, numbers + NODES - 1 - n)
        made.node("torch::autograd::AccumulateGrad", time + 20 * n + 18, time + 20 * n + 20)
    if rank:
        made.op("c10d::send", time + 60, time + 65, numbers + 50)
    return time + 66


def files(folder, **how):
    folder.mkdir()
    for rank, order in enumerate(ORDERS):
        profile(rank, order, **how).write(folder / f"rank{rank}.json")
    return folder
