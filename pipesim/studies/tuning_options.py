"""How a search for the best layout runs: options of `pipesim tune`, keywords of `ps.tune`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipesim.base.errors import InputError
from pipesim.base.settings import setting

OBJECTIVES = ("time", "tokens/s/gpu", "p95", "cost")


def prices_of(value: Any) -> Any:  # noqa: ANN401 - text, a number or a mapping
    """Prices per GPU-hour in text: 2.5, or h100-80gb=2.5;v100-32gb=0.9."""
    if value is None or isinstance(value, dict):
        return value
    found = {}
    for part in str(value).split(";"):
        kind, equals, number = part.rpartition("=")
        try:
            found[kind.strip() if equals else ""] = float(number)
        except ValueError:
            raise InputError(f"{part.strip()!r} found; a price such as 2.5, or h100-80gb=2.5, was expected") from None
        if not 0 <= found[kind.strip() if equals else ""] < float("inf"):
            raise InputError(f"{part.strip()!r} found; a price of 0 or more was expected")
    return found


def time_of(value: Any) -> Any:  # noqa: ANN401 - text or a number
    """Seconds in text such as 10min or 50000h, or in a number."""
    from pipesim.base import units  # noqa: PLC0415 - imports numpy

    if not isinstance(value, str):
        return value
    for unit, seconds in (("h", 3600.0), ("min", 60.0)):
        if value.endswith(unit):
            return units.duration(f"{value.removesuffix(unit).strip()}s") * seconds
    return units.duration(value)


@dataclass(frozen=True, slots=True)
class TuningOptions:
    """What is minimised, where it is searched, and for how long."""

    objective: str = setting(
        "time", str, "What is minimised: seconds of an iteration (time), GPU-seconds of a token (tokens/s/gpu), the "
        "95th percentile of drawn iterations (p95), or money per token (cost).",
        choices=OBJECTIVES, group="search",
    )  # fmt: skip
    within: str | None = setting(
        None, str, "Only layouts for which this holds: 'tensor * pipeline <= 32 and recompute != \"full\"'.",
        metavar="FORMULA", group="search",
    )  # fmt: skip
    budget: int = setting(64, int, "Layouts that are simulated at most.", group="search")
    planners: str | None = setting(
        None, str, "Planners whose plans are candidates too: alpa;dapple, or none. Without it, a few of them where "
        "devices or links differ and no framework is named.", metavar="NAMES", group="search",
    )  # fmt: skip
    front: bool = setting(
        False, bool, "Also simulate slower layouts that may need less memory, for the Pareto front.", group="search"
    )
    bound: bool | None = setting(
        None, bool, "Compute the bound of any layout in this space, whatever its cuts, chunks and schedule (default).",
        group="search",
    )  # fmt: skip
    price: "dict[str, float] | str | float | None" = setting(
        None, str, "Price of a GPU-hour, by kind of device where they differ: 2.5, or h100-80gb=2.5;v100-32gb=0.9.",
        metavar="PRICES", parse=prices_of, group="search",
    )  # fmt: skip
    price_out: float = setting(
        0.0, float, "Price of a GB (10^9 bytes) that leaves a node, beside --price.", metavar="PRICE", group="search"
    )
    mtbf: "float | str | None" = setting(
        None, float, "Mean time between failures of one GPU (50000h): what failures leave of the time counts too.",
        metavar="TIME", parse=time_of, group="failures",
    )  # fmt: skip
    restart: "float | str" = setting(
        0.0, float, "Time to start again after a failure.", metavar="TIME", parse=time_of, group="failures"
    )
    checkpoint: "float | str" = setting(
        0.0, float, "Time to save a checkpoint; they are taken as often as is best.", metavar="TIME", parse=time_of,
        group="failures",
    )  # fmt: skip
    lost: str | None = setting(
        None, str, "Nodes, devices or links that are gone, and are routed around: 'node3', 'node0.gpu[0-3]', "
        "'node0.nic1--core', several with a semicolon.",
        metavar="NAMES", group="failures",
    )  # fmt: skip
    workers: int = setting(1, int, "Processes; results do not depend on it.", flag="--jobs", short="j", group="search")
    dask: str | None = setting(
        None, str, "Simulate on a dask.distributed cluster; 'local' starts one here.", metavar="ADDRESS", group="search"
    )
    store: "Path | str | None" = setting(
        None, str, "Keep results in this .sqlite file, and take those that are there.", is_file=True, group="search"
    )

    def check(self) -> None:
        """Refuse values that mean nothing."""
        if self.objective not in OBJECTIVES:
            raise InputError(f"objective {self.objective!r} found; one of {', '.join(OBJECTIVES)} was expected")
        for name in ("budget", "workers"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} = {getattr(self, name)} found; 1 or more was expected")
        if self.mtbf is None and (self.restart or self.checkpoint):
            raise InputError("restart and checkpoint have no effect without mtbf, the time between failures of a GPU")
        if self.mtbf is not None and not float(self.mtbf) > 0:
            raise InputError(f"mtbf = {self.mtbf} found; more than 0 was expected")
        if not 0 <= self.price_out < float("inf"):
            raise InputError(f"price_out = {self.price_out} found; a price of 0 or more was expected")
        if self.price_out and self.objective != "cost":
            raise InputError("price_out has no effect without objective = cost")
        if (self.objective == "cost") != (self.price is not None):
            raise InputError(
                "objective cost needs price, as in price=2.5 (--price 2.5)"
                if self.objective == "cost"
                else "price has no effect without objective = cost"
            )
