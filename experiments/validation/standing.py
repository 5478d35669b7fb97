"""Which rows are scored, and which of them apart: by what the source states, never by how well they come out."""

from collections.abc import Mapping
from dataclasses import dataclass

from describe import SOURCES
from profiles import profile_of
from tables import Row, number, read, whole

MAIN = "main"

# Repeat noise of each source, beside the rounding of its figures; and the mean absolute errors that are asked for.
NOISE: Mapping[str, float] = {
    "zero_bubble": 0.005,
    "megatron_published": 0.005,
    "bigscience": 0.05,
    "vtrain": 0.01,
    "mlperf": 0.005,
    "simumax": 0.02,
    "sailor": 0.02,
}
BAR: Mapping[str, float] = {
    "zero_bubble": 0.04,
    "megatron_published": 0.04,
    "bigscience": 0.08,
    "vtrain": 0.06,
    "mlperf": 0.04,
    "simumax": 0.06,
    "sailor": 0.04,
}
# A table of a source: rows that are ranked beside each other.
TABLES: Mapping[str, tuple[str, ...]] = {
    "zero_bubble": ("table", "model"),
    "megatron_published": ("group",),
    "bigscience": ("section",),
    "vtrain": ("params_billion",),
    "mlperf": ("round",),
    "simumax": (),
    "sailor": (),
}
_INFERRED = ("assumed", "is wrong", "is not GBS", "16 used", "must be", "unexplained")


@dataclass(frozen=True, slots=True)
class Standing:
    """The group in which a row is scored, or why it is not; its table, and how exact its time is."""

    group: str
    table: str
    tolerance: float
    left_out: str = ""


def standing(source: str, row: Row) -> Standing:
    """The group of a row, and how exact it is."""
    table = ", ".join(row[name] for name in TABLES[source])
    rounding = (number(row, "rounding_percent") or 0.0) / 100
    if row.get("iteration_derived") == "1":
        rounding = 0.004
    return Standing(_group(source, row), table, NOISE[source] + rounding, left_out(source, row))


def left_out(source: str, row: Row) -> str:
    """Why a row is not scored; empty if it is."""
    if row["usable"] != "1" or not row["iteration_s"]:
        return f"not usable: {row.get('caveat') or 'no time'}"
    if row.get("duplicate_of"):
        return f"the same measurement as {row['duplicate_of']}"
    if source == "mlperf" and row["id"] == smallest(row["round"]):
        return "calibrates its round"
    return ""


def smallest(round_: str) -> str:
    """The row of a round on which its efficiency is calibrated: the first of its smallest systems."""
    return min((row for row in read("mlperf") if row["round"] == round_), key=lambda row: whole(row, "gpus"))["id"]


def largest(round_: str) -> str:
    """The row of the largest system of a round."""
    return max((row for row in read("mlperf") if row["round"] == round_), key=lambda row: whole(row, "gpus"))["id"]


def _group(source: str, row: Row) -> str:
    return {
        "zero_bubble": _zero_bubble,
        "megatron_published": _megatron_published,
        "bigscience": _bigscience,
        "simumax": _simumax,
        "sailor": _sailor,
    }.get(source, lambda _: MAIN)(row)


def _zero_bubble(row: Row) -> str:
    if row["profiled_forward_s"]:
        return MAIN
    return "profile of more microbatches" if profile_of(row, read("zero_bubble")) else "computed times"


def _megatron_published(row: Row) -> str:
    if not row["microbatch"]:
        return "microbatch size by rule"
    return MAIN if row["vpp"] else "chunks by rule"


def _bigscience(row: Row) -> str:
    """By head size on A100s; rows of which a setting was inferred, or whose launches block, apart."""
    if "LAUNCH_BLOCKING" in row["flags"]:
        return "launches block"
    if any(word in row["caveat"] for word in _INFERRED) or "not stated" in row["precision"]:
        return "settings by rule"
    if row["gpu"].startswith("V100"):
        return "V100"
    head = whole(row, "hidden") / whole(row, "heads")
    if head % 64 == 0:
        return MAIN
    return "head size 8n" if head % 8 == 0 else "head size odd"


def _simumax(row: Row) -> str:
    if whole(row, "ep") > 1:
        return "experts"
    return "context" if whole(row, "cp") > 1 else MAIN


def _sailor(row: Row) -> str:
    """The profile of one sample is slower than that of two (0.104 and 0.084 s a model): its launches take longer."""
    return "profile of one sample" if whole(row, "microbatch") == 1 else MAIN


def all_rows() -> list[tuple[str, Row, Standing]]:
    """Every row of every source, in order."""
    return [(source, row, standing(source, row)) for source in SOURCES for row in read(source)]
