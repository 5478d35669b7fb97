"""The model that a trace was computed for, or is named after, with the work of its layers."""

from collections.abc import Callable
from contextlib import suppress

from pipesim.architectures import ARCHITECTURES, described, operations
from pipesim.base.errors import PipesimError
from pipesim.core.model import Model
from pipesim.core.teams import Widths
from pipesim.core.trace import Trace
from pipesim.core.work import Product
from pipesim.studies.simulation import MODEL

# Matrix products in Transformer Engine and in PyTorch have 32 MiB each to work in, on H100 and newer.
_PRODUCT_WORKSPACES = 2 * 32 * 2**20


def builder(trace: Trace, widths: Widths) -> Callable[[int], Model] | None:
    """A function from a number of samples to the model of a GPU of a team; None where it is not known.

    A trace that was not computed must have the layers of the model that it is named after.
    """
    computed = trace.command.startswith(MODEL)
    name = trace.command.removeprefix(MODEL) if computed else trace.model
    if not computed and name not in ARCHITECTURES:
        return None
    sizes = {key: value for key in ("sequence", "precision") if (value := getattr(trace, key))}
    if widths.tensor > 1:
        sizes |= {"tensor_parallel": widths.tensor, "sequence_parallel": trace.sequence_parallel}

    def build(samples: int) -> Model:
        return described.model_called(name, {**sizes, "microbatch": samples})

    if computed:
        return build
    with suppress(PipesimError):  # a family that needs sizes, widths that it cannot be divided by
        names = dict(zip(trace.layers["layer"].tolist(), trace.layers["name"], strict=True))
        if [layer.name for layer in build(1).layers] == [names[n] for n in sorted(names)]:
            return build
    return None


def transformer_engine_bytes(model: Model, widths: Widths) -> int:
    """Bytes that Transformer Engine holds on a GPU beside tensors of the model, and the most that a backward makes.

    One gradient of weights of each size, in place of those that are added to a buffer by the product itself; room for
    products; and in the backward of an mlp the gradients of its output, of the activation and of the first product.
    """
    value, sizes, made = operations.value_bytes(model.precision), set[tuple[int, int]](), 0
    for layer in model.layers:
        work = layer.work.operations if layer.work and "." in layer.name else ()
        products = [one for one in work if isinstance(one, Product) and one.weights]
        sizes |= {(one.n, one.k) for one in products}
        if layer.kind == "mlp" and len(products) == 2:
            first, last = products
            outside = last.m * last.n // (widths.tensor if model.sequence_parallel else 1)
            made = max(made, value * (first.m * first.n + last.m * last.k + outside))
    held = sum(value * n * k for n, k in sizes)
    return held + made + _PRODUCT_WORKSPACES if sizes else 0
