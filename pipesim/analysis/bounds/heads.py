"""What plans have behind them, at the least, as stages and channels are added: what does not depend on islands.

B1 to B36 are the inequalities of docs/certificate.md, beside the lines that keep them.
"""

from typing import NamedTuple

from pipesim.analysis.bounds.tails import Tail
from pipesim.analysis.bounds.transition import ChannelStep, StageStep
from pipesim.base.arrays import Floats
from pipesim.base.kernels import borrowing


class Heads(NamedTuple):
    """What plans have behind them that lead to a state or a place, at the least: seconds, but for `rounds`."""

    head: float  # B16: one microbatch, both ways, or what ends later: there and back from a stage on, its all-reduce
    forward_head: float  # B15: one microbatch, forward
    last_forward: float  # B20: when the last forward can have come as far, to one replica at least
    before_tail: float  # B26: what there is to be done beside all that is still to come
    before_least: float  # B27, B28: the same, where one replica alone may be so late
    backward_head: float  # B17: head where one replica alone may be late on the way back, so that only its part is
    forwards_done: float  # B29: when all is done of the last stage if what follows its last forward takes no time
    backwards_done: float  # B30: the same if what is before its first backward takes no time
    spread: float  # B18: its forward; at a place, how much later the last replica can start than the first
    mean_spread: float  # B19: its forward and backward; at a place, how much later all start and sooner end, on average
    own_head: float  # B9: at a place, head for the replica that has most before it
    rounds: float  # B29, B30: at a place, turns of its replicas until each of the stage before has sent a microbatch


@borrowing
def heads_at(table: Floats, r: int) -> Heads:
    """The first columns of a row."""
    return Heads(
        table[r, 0], table[r, 1], table[r, 2], table[r, 3], table[r, 4], table[r, 5],
        table[r, 6], table[r, 7], table[r, 8], table[r, 9], table[r, 10], table[r, 11],
    )  # fmt: skip


@borrowing
def keep(label: Floats, heads: Heads) -> None:
    """Set the first columns of a row."""
    for d in range(len(heads)):
        label[d] = heads[d]


@borrowing
def can_cross(heads: Heads, step: ChannelStep, tail: Tail, target: float) -> bool:
    """Whether plans keep what does not depend on islands, with a channel to where `tail` is to come."""
    one, after = step.delay + step.forward, step.delay + step.backward_min
    over = step.delay + step.load + (after + tail.least) - target
    if heads.head + max(2 * one - tail.room, over) > 0:  # B36, B28
        return False
    before, before_least = before_tails(heads, step)
    return max(before + tail.seconds, before_least + tail.least) <= target  # B26; B27, B28


@borrowing
def before_tails(heads: Heads, step: ChannelStep) -> tuple[float, float]:
    """What there is to be done beside all that is to come behind a channel: for any, and for one late replica."""
    one, leaving = step.delay + step.forward, step.delay + step.backward
    before = max(heads.before_tail + one, heads.before_least + step.delay + step.forward_min) + leaving  # B26, B22
    return before, heads.head + step.delay + step.load + (step.delay + step.backward_min)  # B28


@borrowing
def crossed(  # noqa: PLR0917 - the letters of a step
    heads: Heads, step: ChannelStep, before: int, k: int, most_before: int, most: int
) -> Heads:
    """With a channel between stages of `before` and k devices, of which so many have most microbatches."""
    one, leaving = step.delay + step.forward, step.delay + step.backward
    rounds = most // before  # so many times all of the stage before have one, then the others
    mean = (before * rounds / 2 + most - before * rounds) * (rounds + 1) / most - 1
    before_tail, before_least = before_tails(heads, step)
    return Heads(
        head=heads.head + 2 * one,  # B16
        forward_head=heads.forward_head + one,  # B15
        last_forward=max(heads.last_forward + step.forward_min, heads.forward_head + step.load) + step.delay,  # B20
        before_tail=before_tail,
        before_least=before_least,
        backward_head=heads.head + one + (step.delay + step.backward_min),  # B17
        forwards_done=heads.forwards_done + leaving + one,  # B29
        backwards_done=heads.backwards_done + leaving + one,  # B30
        spread=((most - 1) // before) * heads.spread,  # B18
        mean_spread=mean * heads.mean_spread,  # B19
        own_head=heads.head + 2 * step.delay + step.round_trip,  # B9
        rounds=float((most_before - 1) // k),  # B29, B30
    )


@borrowing
def works_too_long(heads: Heads, step: StageStep, target: float) -> bool:
    """Whether a stage cannot do its work in time, nor could with more layers."""
    starts = heads.forward_head + heads.spread
    return step.work + max(heads.own_head + heads.mean_spread, starts + step.reduce) > target  # B23, B24


@borrowing
def can_stay(heads: Heads, step: StageStep, tail: Tail, target: float) -> bool:
    """Whether plans keep what does not depend on islands, with a stage behind which `tail` is to come."""
    if step.ends + tail.seconds + ready(heads, step) > target:  # B25
        return False
    before, before_least = before_next(heads, step)
    return max(before + tail.seconds, before_least + tail.least) <= target  # B26; B27, B28


@borrowing
def ready(heads: Heads, step: StageStep) -> float:
    """What is before the first forward of the last replica and after its last backward."""
    return max(heads.head + heads.mean_spread, heads.forward_head + heads.spread + step.reduce)  # B16, B19; B18


@borrowing
def last_forward_end(heads: Heads, step: StageStep) -> float:
    """When the last forward of a stage ends at the earliest."""
    return max(heads.last_forward + step.forward, heads.forward_head + heads.spread + step.forwards)  # B20


@borrowing
def before_next(heads: Heads, step: StageStep) -> tuple[float, float]:
    """What there is to be done beside all that is to come behind a stage: for any, and for one late replica."""
    forwards_done = heads.forwards_done + heads.rounds * step.forward  # B29
    backwards_done = heads.backwards_done + heads.rounds * step.backward  # B30
    before = max(heads.before_tail, forwards_done, backwards_done) + step.both  # B26
    last = last_forward_end(heads, step) + step.backward + step.reduce  # B27
    return max(before, step.ends + ready(heads, step)), max(heads.before_least + step.both, last)


@borrowing
def stayed(heads: Heads, step: StageStep) -> Heads:
    """With one more stage."""
    before_tail, before_least = before_next(heads, step)
    return Heads(
        head=max(heads.head, heads.forward_head + step.reduce) + step.both,  # B16
        forward_head=heads.forward_head + step.forward,  # B15
        last_forward=last_forward_end(heads, step),  # B20
        before_tail=before_tail,
        before_least=before_least,
        backward_head=max(heads.backward_head, heads.forward_head + step.reduce) + step.both,  # B17
        forwards_done=heads.forward_head + step.forwards + step.backward + step.reduce,  # B29
        backwards_done=heads.forward_head + step.forward + step.backwards + step.reduce,  # B30
        spread=step.forward,  # B18
        mean_spread=step.forward + step.backward,  # B19
        own_head=0.0,
        rounds=0.0,
    )
