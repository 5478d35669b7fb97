"""How the time of a share of a microbatch was assumed to scale, as text, beside the time under the other assumption."""

from collections.abc import Mapping
from typing import Any

from pipesim.display.text.formatting import seconds

# How each scaling derives the time of a share of a microbatch.
ASSUMPTIONS = {
    "recorded": "as recorded for smaller microbatches",
    "linear": "linear in the share, as SPP assumes",
}
# Each scaling's alternative, and the label of a time under that alternative.
OTHER = {"recorded": ("linear", "if linear"), "linear": ("recorded", "as recorded")}


def under_other_scaling(data: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The iteration time under the other scaling, where it makes a difference."""
    by_scaling, (other, label) = data.get("iteration_time_by_scaling_s"), OTHER[data.get("scaling", "recorded")]
    if not by_scaling or by_scaling[other] == data["iteration_time_s"]:
        return []
    return [(label, f"{seconds(by_scaling[other])} ({ASSUMPTIONS[other]})")]
