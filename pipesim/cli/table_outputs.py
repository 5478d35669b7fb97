"""Options of commands that show a table: its order, how much of it, and files for other programs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from pipesim.base.errors import InputError
from pipesim.base.settings import setting
from pipesim.cli import options

if TYPE_CHECKING:
    from pipesim.display.text.columns import Record, TextColumn, TextTable

STANDARD_OUTPUT = "-"


class ShownItem(NamedTuple):
    """Something as text, as data for --json, and as the table in that text, if it has one."""

    text: Callable[[], str]
    data: Callable[[], dict[str, Any]]
    table: "Callable[[], TextTable] | None" = None


@dataclass(frozen=True, slots=True)
class TableOutputs:
    """The order of a table's rows, how many are shown, and what is written of them."""

    sort: str | None = setting(
        None, str, "Sort by this column, as the table or --json names it; -NAME: from the greatest.", metavar="NAME"
    )
    top: int | None = setting(None, int, "Show so many rows, the first after sorting.")
    csv_file: str | None = setting(
        None, str, "Write the rows to this CSV file, all fields as plain numbers; - is standard output.",
        flag="--csv", is_file=True,
    )  # fmt: skip
    markdown_file: str | None = setting(
        None, str, "Write the table in Markdown; - is standard output.", flag="--markdown", is_file=True
    )
    latex_file: str | None = setting(
        None, str, "Write the table in LaTeX, for the package booktabs; - is standard output.",
        flag="--latex", is_file=True,
    )  # fmt: skip

    def check(self, *, as_json: bool) -> None:
        """Refuse what cannot be, before anything is computed."""
        if self.top is not None and self.top < 1:
            raise InputError(f"--top {self.top} found; 1 or more was expected")
        if self.is_alone and (as_json or self._files.count(STANDARD_OUTPUT) > 1):
            raise InputError("several outputs to standard output found; one was expected")

    @property
    def _files(self) -> tuple[str | None, ...]:
        return self.csv_file, self.markdown_file, self.latex_file

    @property
    def is_alone(self) -> bool:
        """Whether a file is standard output, which then has nothing else."""
        return STANDARD_OUTPUT in self._files

    @property
    def picks(self) -> bool:
        """Whether rows are sorted or left out: then the table alone is shown."""
        return self.sort is not None or self.top is not None

    @property
    def is_used(self) -> bool:
        """Whether the rows are sorted, left out or written."""
        return any(each is not None for each in (self.sort, self.top, *self._files))

    def chosen(self, columns: "Sequence[TextColumn]", records: "Sequence[Record]") -> list[int]:
        """The numbers of the records that are shown, in their order."""
        from pipesim.display.text.columns import ordered

        order = list(range(len(records))) if self.sort is None else ordered(columns, records, self.sort)
        return order[: self.top]

    def show(self, shown: ShownItem, *, as_json: bool) -> None:
        """Print it: all of it, or where rows are sorted or left out, the table alone."""
        from pipesim.display.text.columns import TextTable

        if shown.table is None and self.is_used:
            raise InputError("--sort, --top, --csv, --markdown or --latex found; this has no table")
        table = shown.table() if shown.table is not None and self.is_used else TextTable((), ())
        found = TextTable(table.columns, self.records(*table))
        picks = self.picks
        if as_json:
            options.echo_json(shown.data() | ({"rows": found.records} if picks else {}))
        elif not self.is_alone:
            click.echo(found.text(options.terminal()) if picks else shown.text())
        self.write(*found, quiet=as_json)

    def records(self, columns: "Sequence[TextColumn]", records: "Sequence[Record]") -> "list[Record]":
        """The records that are shown, in their order."""
        return [records[n] for n in self.chosen(columns, records)]

    def write(self, columns: "Sequence[TextColumn]", records: "Sequence[Record]", *, quiet: bool) -> None:
        """Write the files that were asked for, of the records that are shown; below them, as all that was written."""
        from pipesim.base import files
        from pipesim.display.text import table_files

        texts = (
            table_files.csv_of(records),
            table_files.markdown_of(columns, records),
            table_files.latex_of(columns, records),
        )
        for path, text in zip(self._files, texts, strict=True):
            if path == STANDARD_OUTPUT:
                click.echo(text, nl=False)
            elif path is not None:
                files.write_text(Path(path), text)
                options.wrote(path, "table", quiet=quiet or self.is_alone)
