"""A family and the sizes of a published model -> a function that builds that model."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from pipesim.core.model import Model

Family = Callable[..., Model]


def of_tokens(family: Family, name: str, *sizes: int, tokens: int, about: str = "", **fixed: Any) -> Family:  # noqa: ANN401 - as the family
    """A published model that reads `tokens` tokens by default."""

    def build(
        *,
        microbatch: int = 1,
        sequence: int = tokens,
        precision: str = "fp16",
        tensor_parallel: int = 1,
        sequence_parallel: bool = False,
    ) -> Model:
        given = {
            "microbatch": microbatch,
            "precision": precision,
            "tensor_parallel": tensor_parallel,
            "sequence_parallel": sequence_parallel,
        }
        return family(*sizes, **fixed, **given, sequence=sequence, name=name)

    layers, hidden, heads = sizes[:3]
    return _described(build, about or f"{layers} blocks of hidden size {hidden} with {heads} heads")


def of_images(family: Family, name: str, *sizes: Any, side: int, about: str, **fixed: Any) -> Family:  # noqa: ANN401 - as the family
    """A published model that reads square images of `side` pixels by default."""

    def build(*, image: int = side, microbatch: int = 1, precision: str = "fp16") -> Model:
        return replace(family(*sizes, **fixed, image=image, microbatch=microbatch, precision=precision), name=name)

    return _described(build, about)


def of_patches(family: Family, name: str, *sizes: int, side: int, about: str, patch: int) -> Family:
    """As `of_images`, for transformers."""

    def build(*, image: int = side, microbatch: int = 1, precision: str = "fp16", tensor_parallel: int = 1) -> Model:
        given = {"microbatch": microbatch, "precision": precision, "tensor_parallel": tensor_parallel}
        return family(*sizes, **given, patch=patch, image=image, name=name)

    return _described(build, f"{about} of {patch} pixels")


def _described(build: Family, about: str) -> Family:
    """The function, with a description as its docstring, for lists of architectures."""
    build.__doc__ = f"{about[0].upper()}{about[1:]}."
    return build
