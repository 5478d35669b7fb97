"""Tables of records: what each column shows, what it sorts by, and its name in files."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from pipesim.base.errors import InputError, quoted
from pipesim.display.text.formatting import table
from pipesim.display.text.terminal import PLAIN, Terminal

Record = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class TextColumn:
    """A column of a table: its header, the field of a record that it shows, and how.

    `key` names a field, and one within a field with a dot: `bubble.idle_share`. `on_left` is for names. Columns with
    `drop` above 0 are left out first on a narrow terminal, the greatest before the others.
    """

    header: str
    key: str
    form: Callable[[Any], str] = str
    on_left: bool = False
    drop: int = 0

    def cell(self, record: Record) -> str:
        """What the table shows of a record; nothing where it has no such field."""
        found = value_of(record, self.key)
        return "" if found is ABSENT else self.form(found)


class TextTable(NamedTuple):
    """Records with the columns that show them."""

    columns: Sequence[TextColumn]
    records: Sequence[Record]

    def text(self, on: Terminal = PLAIN, most: int | None = None) -> str:
        """The table, or its first records."""
        return shown(self.columns, self.records[:most], on)


ABSENT = object()


def value_of(record: Record, key: str) -> Any:  # noqa: ANN401 - any plain value
    """A field of a record, or ABSENT."""
    if key in record:
        return record[key]
    head, dot, rest = key.partition(".")
    inner = record.get(head)
    return value_of(inner, rest) if dot and isinstance(inner, Mapping) else ABSENT


def shown(
    columns: Sequence[TextColumn],
    records: Sequence[Record],
    on: Terminal = PLAIN,
    bold: Sequence[int] = (),
    red: Sequence[int] = (),
) -> str:
    """Records as a table; `bold` and `red` are their numbers."""
    first = sorted((one for one in columns if one.drop), key=lambda one: -one.drop)
    left = sum(one.on_left for one in columns)
    headers, rows = [one.header for one in columns], cells(columns, records)
    return table(headers, rows, left, on, bold, red, drop=[one.header for one in first])


def cells(columns: Sequence[TextColumn], records: Sequence[Record]) -> list[list[str]]:
    """What the table shows of each record."""
    return [[one.cell(record) for one in columns] for record in records]


def ordered(columns: Sequence[TextColumn], records: Sequence[Record], by: str) -> list[int]:
    """The numbers of records in the order of a column, by header or key; from the greatest with a `-` before it.

    Records without a value come last.
    """
    name = by.removeprefix("-")
    found = next((one for one in columns if name in {one.header, one.key}), None)
    if found is None:
        known = ", ".join(repr(one.header) for one in columns)
        raise InputError(f"no column is called {quoted(name)}; one of {known} was expected (-NAME: from the greatest)")
    values = [value_of(record, found.key) for record in records]
    there = [n for n, value in enumerate(values) if value is not ABSENT and value is not None]
    is_text = any(isinstance(values[n], str) for n in there)
    order = sorted(there, key=lambda n: str(values[n]) if is_text else values[n], reverse=by != name)
    return [*order, *(n for n in range(len(records)) if n not in set(there))]


def flat(record: Record, within: str = "") -> dict[str, Any]:
    """A record with the fields of inner ones beside its own: bubble.idle_share; lists are left out."""
    found: dict[str, Any] = {}
    for key, value in record.items():
        if isinstance(value, Mapping):
            found |= flat(value, f"{within}{key}.")
        elif not isinstance(value, list | tuple):
            found[f"{within}{key}"] = value
    return found
