"""The copied tables: rows of text, read as numbers where they are used."""

import csv
from collections.abc import Mapping
from pathlib import Path

DATA = Path(__file__).resolve().parent / "data"

Row = Mapping[str, str]


def read(table: str) -> list[Row]:
    """The rows of a table in data/."""
    with (DATA / f"{table}.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def number(row: Row, name: str) -> float | None:
    """A number; None where the source states none."""
    text = row.get(name, "")
    return float(text) if text else None


def whole(row: Row, name: str, default: int | None = None) -> int:
    """A whole number; `default` where the source states none."""
    text = row.get(name, "")
    if not text and default is None:
        raise ValueError(f"{row['id']}: {name} is empty; a whole number was expected")
    return int(text) if text else int(default or 0)
