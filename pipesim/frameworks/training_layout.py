"""The layout of a training run in the terms that frameworks share: what each stage holds, widths, sizes, memory.

    Etttt | tttt | tttt | ttttL       four stages: E embedding, t transformer block, m multi-token prediction,
                                      L what follows the blocks (norm, head and loss)
    uuu | uuuu                        stages of a model without blocks: u is any layer

Stage n is on position n mod p of a pipeline of p (a loop); or down the positions and up again (a wave).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from itertools import groupby

from pipesim.base.checks import check_one_of, check_whole
from pipesim.base.errors import InputError, RefusedError, shown

EMBEDDING, BLOCK, PREDICTION, LOSS, LAYER = "EtmLu"
LETTERS = {
    EMBEDDING: "embedding",
    BLOCK: "block",
    PREDICTION: "multi-token prediction",
    LOSS: "norm, head and loss",
    LAYER: "layer",
}
MOST_LAYERS = 100_000
PLACEMENTS = ("loop", "wave")
RECOMPUTES = ("none", "full", "selective")
SHARDINGS = ("none", "zero1", "zero2", "zero3")
ONE_F_ONE_B, INTERLEAVED = "one_f_one_b", "interleaved"


class InexpressibleError(RefusedError):
    """A layout that a framework has no arguments for; `nearest` are layouts like it that it has."""

    def __init__(self, message: str, nearest: "Sequence[TrainingLayout]" = ()) -> None:
        super().__init__(message)
        self.nearest = tuple(nearest)


@dataclass(frozen=True, slots=True)
class TrainingLayout:
    """What each stage holds, and how it is trained; validated on construction. None: not stated.

    >>> layout = TrainingLayout(("Ett", "ttL"), pipeline=2, data=4, microbatch_size=1, microbatches=8)
    >>> layout.gpus, layout.global_batch, layout.blocks
    (8, 32, (2, 2))
    """

    stages: tuple[str, ...]
    """The letters of what each stage holds, in order."""
    pipeline: int
    data: int | None = None
    tensor: int = 1
    context: int = 1
    expert: int = 1
    expert_tensor: int | None = None
    """Tensor-parallel width of experts; None: that of the other layers."""
    placement: str = "loop"
    scheduler: str = ONE_F_ONE_B
    """A schedule as fields of a simulation have it: a name, `interleaved(group=8)`, or a .csv file."""
    microbatch_size: int | None = None
    microbatches: int | None = None
    """Of each pipeline."""
    sequence: int | None = None
    precision: str | None = None
    sequence_parallel: bool = False
    sharding: str = "none"
    sharding_size: int | None = None
    gradient_precision: str | None = None
    gradient_overlap: bool = False
    """Gradients are summed while backwards run."""
    gather_overlap: bool = False
    """Parameters are gathered while forwards run."""
    message_overlap: bool = True
    """Under an interleaved schedule, messages between stages are beside computations."""
    recompute: str = "none"
    recompute_blocks: int | None = None
    """Of full recomputation: only so many blocks of each stage, from its first."""
    recompute_unit: int = 1
    """Of full recomputation: so many blocks keep one input together."""
    recompute_modules: tuple[str, ...] = ()
    """Of selective recomputation; none: the core of attention."""

    def __post_init__(self) -> None:
        for name in ("pipeline", "tensor", "context", "expert", "recompute_unit"):
            check_whole(name, getattr(self, name))
        for name in ("data", "expert_tensor", "microbatch_size", "microbatches", "sequence", "sharding_size"):
            if getattr(self, name) is not None:
                check_whole(name, getattr(self, name))
        if self.recompute_blocks is not None:
            check_whole("recompute_blocks", self.recompute_blocks, 0)
        check_one_of("placement", self.placement, PLACEMENTS)
        check_one_of("recompute", self.recompute, RECOMPUTES)
        check_one_of("sharding", self.sharding, SHARDINGS)
        self._check_stages()

    def _check_stages(self) -> None:
        if not self.stages or len(self.stages) % self.pipeline:
            raise InputError(
                f"{len(self.stages)} stages found; a multiple of pipeline = {self.pipeline} was expected, as many on "
                "each position"
            )
        if self.placement == "wave" and self.interleave % 2:
            raise InputError(f"{self.interleave} stages on each position found; an even number was expected of a wave")
        letters = "".join(self.stages)
        if len(letters) > MOST_LAYERS:
            raise InputError(f"{len(letters)} layers found; {MOST_LAYERS} at most were expected")
        unknown = next((letter for letter in letters if letter not in LETTERS), None)
        if unknown is not None:
            raise InputError(f"{shown(unknown)} found; {', '.join(LETTERS)} were expected in stages")
        order = "".join(letter for letter, _ in groupby(letters))
        if order != LAYER and (BLOCK not in order or order not in {"EtL", "EtmL", "tL", "Et", "t", "tm", "Etm", "tmL"}):
            raise InputError(
                f"{shown(order)} found as the order of layers; embedding (E), blocks (t), multi-token prediction (m) "
                "and loss (L) were expected one after the other"
            )

    @property
    def interleave(self) -> int:
        """Stages on each position."""
        return len(self.stages) // self.pipeline

    @property
    def gpus(self) -> int | None:
        """GPUs in all; None where the number of pipelines is not stated."""
        return None if self.data is None else self.tensor * self.context * self.pipeline * self.data

    @property
    def global_batch(self) -> int | None:
        """Samples of an iteration; None where something of it is not stated."""
        if self.data is None or self.microbatch_size is None or self.microbatches is None:
            return None
        return self.data * self.microbatch_size * self.microbatches

    @property
    def blocks(self) -> tuple[int, ...]:
        """The number of blocks of each stage; of layers, where the model has no blocks."""
        return tuple(sum(letter in {BLOCK, LAYER} for letter in stage) for stage in self.stages)

    @property
    def positions(self) -> list[int]:
        """The position of each stage in its pipeline."""
        last = self.pipeline - 1
        return [
            last - n if self.placement == "wave" and chunk % 2 else n
            for chunk in range(self.interleave)
            for n in range(self.pipeline)
        ]

    @property
    def has_blocks(self) -> bool:
        """Whether the model is a transformer, whose layers the letters name."""
        return any(BLOCK in stage for stage in self.stages)

    def joined(self) -> "TrainingLayout":
        """With one E and one L where several are in the same stage: several layers before and after the blocks."""
        stages = tuple(
            "".join(letter if letter in {EMBEDDING, LOSS} else "".join(run) for letter, run in groupby(stage))
            for stage in self.stages
        )
        return replace(self, stages=stages)

    def divided(self) -> bool:
        """Whether what precedes or follows the blocks is in more than one stage."""
        return any(sum(letter in stage for stage in self.stages) > 1 for letter in (EMBEDDING, LOSS))

    def gathered(self) -> "TrainingLayout":
        """With all that precedes the blocks in the stage of the first of it, and what follows in that of the last.

        Stages that would be left without a layer take a block of the next, or of the one before.
        """
        text = "".join(self.stages)
        before, after = text.count(EMBEDDING), text.count(LOSS)
        middle = [stage.replace(EMBEDDING, "").replace(LOSS, "") for stage in self.stages]
        for n in range(1, len(middle) - 1):
            self._fill(middle, n)
        return replace(
            self, stages=(EMBEDDING * min(before, 1) + middle[0], *middle[1:-1], middle[-1] + LOSS * min(after, 1))
            if len(middle) > 1
            else (EMBEDDING * min(before, 1) + middle[0] + LOSS * min(after, 1),),
        )  # fmt: skip

    @staticmethod
    def _fill(middle: list[str], n: int) -> None:
        for other in (n + 1, n - 1):
            if not middle[n] and len(middle[other]) > 1:
                middle[n] = middle[other][0] if other > n else middle[other][-1]
                middle[other] = middle[other][1:] if other > n else middle[other][:-1]

    def effective(self) -> "TrainingLayout":
        """Without what has no effect: sequence parallelism of one GPU, sharding over one replica."""
        sharding = "none" if self.data == 1 or self.sharding_size == 1 else self.sharding
        kept = None if sharding == "none" or self.sharding_size == self.data else self.sharding_size
        divided = self.sequence_parallel and self.tensor > 1
        return replace(self.joined(), sequence_parallel=divided, sharding=sharding, sharding_size=kept)

    def differences(self, other: "TrainingLayout") -> list[str]:
        """The names of the fields in which another layout differs, where that has an effect."""
        one, two = self.effective(), other.effective()
        return [field.name for field in fields(self) if getattr(one, field.name) != getattr(two, field.name)]


def chunks(stages: Sequence[str]) -> Iterator[tuple[str, int]]:
    """Equal stages in a row, as one and how many."""
    return ((stage, len(list(run))) for stage, run in groupby(stages))
