"""Tables of measured iterations: a line per iteration, with fields of a simulation, `iteration_s`, and perhaps `id`."""

import csv
import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipesim.base import files, settings, units
from pipesim.base.errors import InputError, quoted, within
from pipesim.studies.simulation import FIELDS, Simulation

MEASURED = "iteration_s"
LABEL = "id"


@dataclass(frozen=True, slots=True)
class MeasuredLine:
    """A measured iteration: its line, what it is called, its seconds, and the fields that are not empty."""

    number: int
    label: str
    measured_s: float
    fields: Mapping[str, Any]


def table_text(path: Path) -> str | None:
    """The text of a CSV file whose header has the column of measured seconds; None of other files."""
    if path.suffix != ".csv" or not files.is_file(path):
        return None
    text = files.read_text(path)
    return text if MEASURED in text.partition("\n")[0].split(",") else None


def measured_lines(text: str) -> Iterator[MeasuredLine]:
    """The lines of a table, in order."""
    for number, row in enumerate(csv.DictReader(io.StringIO(text)), 2):
        with within(f"line {number}"):
            yield _line(row, number)


def _line(row: Mapping[str | None, Any], number: int) -> MeasuredLine:
    given = {name: text.strip() for name, text in row.items() if name and isinstance(text, str) and text.strip()}
    settings.check_names(given, [*FIELDS, MEASURED, LABEL], "column")
    if MEASURED not in given:
        raise InputError(f"{MEASURED} is empty; seconds were expected")
    measured = units.duration(given[MEASURED])
    if not measured > 0:
        raise InputError(f"{MEASURED} = {given[MEASURED]} found; more than 0 s was expected")
    fields = {name: _value(name, text) for name, text in given.items() if name in FIELDS}
    return MeasuredLine(number, given.get(LABEL, f"line {number}"), measured, fields)


def _value(name: str, text: str) -> Any:  # noqa: ANN401 - of the field
    """The value of a field in a table."""
    about = settings.settings_of(Simulation)[name]
    if about.parse is not None:
        return about.parse(text)
    if about.kind is bool:
        if text.lower() not in {"true", "false", "1", "0"}:
            raise InputError(f"{name} = {quoted(text)} found; true or false was expected")
        return text.lower() in {"true", "1"}
    try:
        return units.whole(text) if about.kind is int else units.number(text) if about.kind is float else text
    except ValueError:
        raise InputError(f"{name} = {quoted(text)} found; a number was expected") from None
