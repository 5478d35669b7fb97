"""What comes out of a sweep: rows as tables and files, charts as pictures."""

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from pipesim.base import files, lookup, serialisation, tables
from pipesim.base.errors import InputError, within
from pipesim.display import figures
from pipesim.display.figures import Chart
from pipesim.studies.store import SUFFIX, Damage, Experiment, Store
from pipesim.studies.sweep import sweep_file as sweep_files
from pipesim.studies.sweep.sweep_file import Sweep

if TYPE_CHECKING:
    import pandas as pd

TABLES = (".csv", ".parquet")

Columns = dict[str, list[Any]]


def opened(path: Sweep | Path | str, store: Path | str | None = None) -> tuple[Store, str]:
    """The store of an experiment and the experiment's name; `path` is either of them, or the experiment.

    Results of another grid than that of the file are refused: they would be taken for those of this one.
    """
    if not isinstance(path, Sweep) and (file := Path(path)).suffix == SUFFIX:
        found = Store.open(file)
        try:
            return found, found.experiment().name
        except InputError:
            found.close()
            raise
    sweep = sweep_files.loaded(path)
    found = Store.open(store or sweep.store)
    try:
        check_grid(sweep, found.experiment(sweep.name), found.path)
    except InputError:
        found.close()
        raise
    return found, sweep.name


def check_grid(sweep: Sweep, listed: Experiment, store: Path) -> None:
    """Refuse a file whose points or metrics are not those that a store lists under its name; charts may differ."""
    if listed.text == sweep.text:
        return
    try:
        same = sweep.same_grid(sweep_files.parse(listed.text, sweep.path))
    except InputError:
        same = False
    if not same:
        raise InputError(
            f"{sweep.path}: {store} holds results of another grid under the name {sweep.name!r}: the file was changed "
            f"since, or another was run under its name; `pipesim sweep {sweep.path}` computes what is missing, and "
            f"{store} in place of the file shows what is there"
        )


class SweepRows(NamedTuple):
    """The results of a sweep: names of columns, and a row for each point."""

    columns: list[str]
    rows: list[tuple[Any, ...]]

    def frame(self) -> "pd.DataFrame":
        """The same as a pandas data frame."""
        import pandas as pd  # noqa: PLC0415 - slow to import, and only who asks for a frame needs it

        return pd.DataFrame(self.rows, columns=self.columns)

    def plot(self, chart: Chart | None = None, path: Path | str | None = None, **keys: Any) -> Any:  # noqa: ANN401 - a figure of matplotlib
        """A chart of a sweep, or one with the keys of [plot].

        >>> sweep = ps.load_sweep("experiment.toml")
        >>> figure = ps.sweep_rows(sweep).plot(kind="line", x="gpus", y="iteration_time_s", series="planner")
        """
        given = {} if chart is None else _without_blanks(chart)
        with within("plot"):
            chosen = serialisation.from_data(Chart, given | keys)
            return figures.chart(self.by_column(), chosen, path)

    def by_column(self) -> Columns:
        """The values of each column."""
        return {column: [row[i] for row in self.rows] for i, column in enumerate(self.columns)}

    def __repr__(self) -> str:
        return f"Results of {len(self.rows):,} points: {', '.join(self.columns)}"

    def _repr_html_(self) -> str:
        from pipesim.display import notebook  # noqa: PLC0415 - workers of a sweep show nothing
        from pipesim.display.text.sweep_text import ROWS_SHOWN, shown_cells  # noqa: PLC0415 - as above

        more = f"<p>... and {len(self.rows) - ROWS_SHOWN:,} more rows</p>" if len(self.rows) > ROWS_SHOWN else ""
        return notebook.html_table(self.columns, shown_cells(self.rows[:ROWS_SHOWN]), 0) + more


def rows(
    path: Sweep | Path | str, query: str | None = None, *, store: Path | str | None = None, unfinished: bool = False
) -> SweepRows:
    """Columns and rows of a sweep, in the order of its grid; `path` is the experiment, its file or its results.

    >>> names, rows = ps.sweep_rows("experiment.toml", "microbatches = 4")
    >>> len(rows)
    1
    """
    results, name = opened(path, store)
    with results:
        return SweepRows(*results.rows(name, query, unfinished=unfinished))


def checked(path: Path | str, store: Path | str | None = None) -> tuple[Path, Damage]:
    """The results of an experiment, and what in them is damaged; `path` is the experiment or its results."""
    path = Path(path)
    place = path if path.suffix == SUFFIX else Path(store or sweep_files.load(path).store)
    with Store.open(place) as results:
        return place, results.check()


# --- tables ----------------------------------------------------------------------------------------------------------


def check_table(path: str | None, suffix: str) -> None:
    """Refuse a file name that does not end as its format does."""
    if path and path != "-" and not path.endswith(suffix):
        raise InputError(f"{path}: a name that ends with {suffix} was expected")


def csv_text(columns: Sequence[str], found: Sequence[Sequence[Any]]) -> str:
    """CSV whose numbers read back exactly; what is missing is an empty cell."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([repr(v) if isinstance(v, float) else v for v in row] for row in found)
    return out.getvalue()


def write_table(path: Path, columns: Sequence[str], found: Sequence[Sequence[Any]]) -> None:
    """A .csv or a .parquet file."""
    if path.suffix == ".parquet":
        tables.write_parquet(path, {name: _column([row[i] for row in found]) for i, name in enumerate(columns)}, {})
    else:
        files.write_text(path, csv_text(columns, found))


def _column(values: list[Any]) -> Any:  # noqa: ANN401 - an array of the kind that fits
    """Whole numbers, numbers (missing: NaN) or text (missing: empty)."""
    there = [value for value in values if value is not None]
    if len(there) == len(values) and there and all(isinstance(value, int) for value in there):
        return np.array(values, np.int64)
    if there and all(isinstance(value, int | float) for value in there):
        return np.array([np.nan if value is None else value for value in values], np.float64)
    return np.array(["" if value is None else str(value) for value in values], object)


def read_table(path: Path) -> Columns:
    """The columns of a .csv or .parquet as `write_table` makes it: numbers where all cells are, else text."""
    if path.suffix not in TABLES:
        raise InputError(f"{path}: rows are read from {' or '.join(TABLES)}, and from results of a sweep")
    if path.suffix == ".parquet":
        return tables.read_columns(path)
    with within(str(path)):
        try:
            header, *records = list(csv.reader(io.StringIO(files.read_text(path, files.RECORDING)), strict=True))
        except (csv.Error, ValueError) as error:
            raise InputError(f"is not a CSV table: {error}") from None
        for line, record in enumerate(records, 2):
            if len(record) != len(header):
                raise InputError(
                    f"line {line}: {len(record)} cells found; {len(header)} were expected, as in the header"
                )
        return {name: _parsed([record[i] for record in records]) for i, name in enumerate(header)}


def _parsed(cells: list[str]) -> list[Any]:
    for kind in (int, float):
        try:
            return [kind(cell) if cell else None for cell in cells]
        except ValueError:
            continue
    return [cell or None for cell in cells]


# --- charts ----------------------------------------------------------------------------------------------------------


def draw(
    path: Path | str,
    names: Sequence[str] = (),
    given: Mapping[str, Any] | None = None,
    *,
    output: Path | str | None = None,
    folder: Path | str | None = None,
    rows_file: Path | str | None = None,
    store: Path | str | None = None,
    tell: Callable[[str], None] | None = None,
) -> list[tuple[str, Path]]:
    """Draw charts of an experiment, by name or all; `given` keys make a chart, or replace keys of those drawn.

    Returns name and file of each picture. `tell` is handed what is probably mistyped in their styles.
    """
    path = Path(path)
    given = dict(given or {})
    experiment, columns = _rows_of(path, rows_file, store)
    charts = _charts(path, experiment, names, given)
    if output is not None and len(charts) > 1:
        raise InputError(
            f"one file cannot hold {len(charts)} charts; name one of {', '.join(charts)}, or give --folder"
        )
    drawn = []
    if tell is not None:
        texts = {value for column in columns.values() for value in column if isinstance(value, str)}
        wrong = {name: meant for chart in charts.values() for name, meant in chart.style.mistyped(texts).items()}
        for name, meant in wrong.items():
            tell(f"style: no row has {name!r}; did you mean {meant!r}?")
    for name, chart in charts.items():
        with within(f"plot {name!r}"):
            places = [Path(output)] if output else [Path(folder or path.parent) / f"{name}.{f}" for f in chart.formats]
            for place in places:
                figures.chart(columns, chart, place)
                drawn.append((name, place))
    return drawn


def _charts(path: Path, experiment: Experiment | None, names: Sequence[str], given: dict[str, Any]) -> dict[str, Chart]:
    """What is to be drawn, by name."""
    if "kind" in given:
        if names:
            raise InputError(
                f"{names[0]!r} names a chart of {path}, and --kind makes another; one of them was expected"
            )
        return {path.stem: serialisation.from_data(Chart, given)}
    known: Mapping[str, Chart] = {}
    if path.suffix in {".toml", ".json"}:
        known = sweep_files.load(path).charts
    elif experiment is not None:
        known = sweep_files.parse(experiment.text, path.with_suffix(".toml")).charts
    if not known:
        raise InputError(f"{path}: has no [plot]; say what to draw: --kind line --x COLUMN --y COLUMN")
    for name in names:
        if name not in known:
            raise InputError(f"{path}: [plot] has no {name!r}; {lookup.suggest(name, list(known))}")
    chosen = {name: known[name] for name in names or known}
    return {name: serialisation.from_data(Chart, _without_blanks(chart) | given) for name, chart in chosen.items()}


def _without_blanks(chart: Chart) -> dict[str, Any]:
    data: dict[str, Any] = serialisation.to_data(chart)
    return {key: value for key, value in data.items() if value is not None}


def _rows_of(path: Path, rows_file: Path | str | None, store: Path | str | None) -> tuple[Experiment | None, Columns]:
    """The rows that a chart is drawn of, and the experiment they are of, where a store names it."""
    table = Path(rows_file) if rows_file else path
    if rows_file or path.suffix in TABLES:
        return None, read_table(table)
    results, name = opened(path, store)
    with results:
        return results.experiment(name), SweepRows(*results.rows(name)).by_column()
