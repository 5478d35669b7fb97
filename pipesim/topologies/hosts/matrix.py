"""The text of `nvidia-smi topo -m` as a matrix of cells with their positions.

            GPU0    GPU1    NIC0    CPU Affinity    NUMA Affinity    GPU NUMA ID
    GPU0     X      NV12    PXB     0-31            0                N/A
    GPU1    NV12     X      PXB     0-31            0                N/A
    NIC0    PXB     PXB      X
                                          (a legend of the classes, and one of the NICs: "NIC0: mlx5_0")

Columns can be separated by tabs or spaces; terminal colours and underlines, and lines above, are ignored.
"""

import re
from dataclasses import dataclass
from itertools import combinations, islice

from pipesim.base import lookup
from pipesim.base.errors import FormatError, InputError, shown, within

# From near to far; SOC is what old drivers call SYS.
CLASSES = ("PIX", "PXB", "PHB", "NODE", "SYS")
ALIASES = {"SOC": "SYS"}
MOST = 256
# The most lines of a log that can look like the line of names.
MOST_ALIKE = 1000
_NVLINK = re.compile(r"NV([0-9]{1,2})")
_GPU = re.compile(r"GPU[0-9]{1,4}")
_ESCAPE = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b[()][A-Z0-9]")
_NIC_NAME = re.compile(r"\s*(NIC[0-9]+)\s*:\s*(\S+)\s*")
_AFFINITIES = {("CPU", "Affinity"), ("NUMA", "Affinity"), ("GPU", "NUMA", "ID")}
_HEADS = {words[0] for words in _AFFINITIES}


@dataclass(frozen=True, slots=True)
class MatrixCell:
    """A cell: a number of NVLinks, or the distance on PCIe (an index of CLASSES)."""

    text: str
    line: int
    column: int
    nvlinks: int = 0
    distance: int | None = None

    @property
    def place(self) -> str:
        """The line and column."""
        return f"line {self.line}, column {self.column}"


@dataclass(frozen=True, slots=True)
class Matrix:
    """GPUs first, then NICs; a cell for each pair (i < j), and the affinity of each GPU to CPUs ("" if not stated)."""

    gpus: tuple[str, ...]
    nics: tuple[str, ...]
    cells: dict[tuple[int, int], MatrixCell]
    affinity: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Word:
    text: str
    line: int
    column: int


def parse(text: str) -> Matrix:
    """Read the text, and check that both cells of a pair are equal."""
    lines = _ESCAPE.sub("", text).split("\n")
    start = _start(lines)
    names, tails = _header(_words(lines[start], start + 1))
    rows, end = _rows(lines, start + 1, names)
    for i, name in enumerate(names):
        _check_itself(rows[name], name, i)
    order = sorted(range(len(names)), key=lambda i: not _GPU.fullmatch(names[i]))
    gpus = [i for i in order if _GPU.fullmatch(names[i])]
    cells = {(a, b): _both(rows, names, i, j) for (a, i), (b, j) in combinations(enumerate(order), 2)}
    known = _nic_names(lines, end, names)
    return Matrix(
        tuple(names[i].lower() for i in gpus),
        _unique([known.get(names[i], names[i].lower()) for i in order[len(gpus) :]]),
        cells,
        tuple(_affinity(rows[names[i]][len(names) + 1 :], tails) for i in gpus),
    )


def _start(lines: list[str]) -> int:
    """The line of names: in a longer log, the first such line that a row follows, or else the first."""
    alike = ((i, words) for i, line in enumerate(lines) if "GPU" in line and _is_header(words := _words(line, i + 1)))
    candidates = list(islice(alike, MOST_ALIKE))
    if not candidates:
        raise FormatError("no line of names, GPU0 GPU1 ..., with rows below found; is it from nvidia-smi topo -m?")
    return next((i for i, words in candidates if _row_follows(lines[i + 1 : i + 4], words)), candidates[0][0])


def _row_follows(lines: list[str], header: list[_Word]) -> bool:
    """Whether the first of these lines that is not blank is a row below this header."""
    words = next((line.split() for line in lines if line.strip()), [])
    return len(words) > 1 and not _is_name(words[1]) and words[0] in {word.text for word in header}


def _words(line: str, number: int) -> list[_Word]:
    """The words of a line, up to the most that a row can have."""
    found = islice(re.finditer(r"\S+", line), MOST + 16)
    return [_Word(word[0], number, word.start() + 1) for word in found]


def _is_header(words: list[_Word]) -> bool:
    """A line of names: the first a GPU's, the second no class of link."""
    if not words or not _GPU.fullmatch(words[0].text):
        return False
    return len(words) == 1 or _is_name(words[1].text) or words[1].text in _HEADS


def _is_name(word: str) -> bool:
    return word != "X" and word not in {*CLASSES, *ALIASES} and not _NVLINK.fullmatch(word)


def _header(words: list[_Word]) -> tuple[list[str], int]:
    """The names of the columns, and the number of affinity columns after them."""
    count = next((i for i, word in enumerate(words) if word.text in _HEADS), len(words))
    names = [word.text for word in words[:count]]
    for i, word in enumerate(words[:count]):
        if not _is_name(word.text):
            raise FormatError(f"line {word.line}, column {word.column}: {shown(word.text)} found; a name was expected")
        if word.text in names[:i]:
            raise FormatError(f"line {word.line}, column {word.column}: duplicate name {shown(word.text)}")
    if count > MOST:
        raise FormatError(f"line {words[0].line}: {count} columns or more found; at most {MOST} were expected")
    return names, sum(word.text in {"Affinity", "ID"} for word in words[count:])


def _rows(lines: list[str], start: int, names: list[str]) -> tuple[dict[str, list[_Word]], int]:
    """The words of each row by its name, and the number of the line after the last."""
    rows: dict[str, list[_Word]] = {}
    known, number = set(names), start
    for number in range(start, len(lines)):
        words = _words(lines[number], number + 1)
        if len(rows) == len(names) or (words and words[0].text.rstrip(":") == "Legend"):
            break
        if not words:
            continue
        with within(f"line {number + 1}"):
            name = words[0].text
            if name not in known:
                raise FormatError(f"{shown(name)} found; a row was expected: {lookup.suggest(name, names)[:300]}")
            if name in rows:
                raise FormatError(f"duplicate row {name}")
            if len(words) <= len(names):
                raise FormatError(f"{len(words) - 1} cells found; {len(names)} were expected, one for each name above")
        rows[name] = words
    missing = [name for name in names if name not in rows]
    if missing:
        raise FormatError(f"line {start}: no row for {missing[0]} found; a row for each name was expected")
    return rows, number


def _both(rows: dict[str, list[_Word]], names: list[str], i: int, j: int) -> MatrixCell:
    """The cell of a pair, equal in both rows."""
    one, other = _cell(rows, names, i, j), _cell(rows, names, j, i)
    if (one.nvlinks, one.distance) != (other.nvlinks, other.distance):
        raise FormatError(
            f"{other.place}: {other.text} found; {one.text} was expected for {names[i]} and {names[j]}, as at "
            f"{one.place}"
        )
    return one


def _check_itself(row: list[_Word], name: str, i: int) -> None:
    itself = row[i + 1]
    if itself.text != "X":
        raise FormatError(
            f"line {itself.line}, column {itself.column}: {shown(itself.text)} found; X was expected where {name} "
            "meets itself"
        )


def _cell(rows: dict[str, list[_Word]], names: list[str], row: int, column: int) -> MatrixCell:
    word = rows[names[row]][column + 1]
    text = ALIASES.get(word.text, word.text)
    if text in CLASSES:
        return MatrixCell(word.text, word.line, word.column, distance=CLASSES.index(text))
    nvlinks = _NVLINK.fullmatch(text)
    between_gpus = all(_GPU.fullmatch(names[i]) for i in (row, column))
    if nvlinks and int(nvlinks[1]) and between_gpus:
        return MatrixCell(word.text, word.line, word.column, nvlinks=int(nvlinks[1]))
    expected = f"{', '.join(CLASSES)}{' or NV#, such as NV2,' if between_gpus else ''}"
    raise FormatError(
        f"line {word.line}, column {word.column}: {shown(word.text)} found for {names[row]} and {names[column]}; "
        f"{expected} was expected"
    )


def _affinity(words: list[_Word], columns: int) -> str:
    """The NUMA nodes near a GPU, or else the CPUs: the second or the first column after the classes."""
    texts = ["" if word.text == "N/A" else word.text for word in words]
    if columns > 1 and len(texts) >= columns and texts[1]:
        return texts[1]
    return texts[0] if texts and columns else ""


def _nic_names(lines: list[str], start: int, names: list[str]) -> dict[str, str]:
    """The names of NICs in the legend below the rows."""
    found: dict[str, str] = {}
    for number, line in enumerate(lines[start:], start + 1):
        match = _NIC_NAME.fullmatch(line)
        if not match:
            continue
        if match[1] not in names or match[1] in found:
            what = "duplicate" if match[1] in found else "no column of the matrix has the name"
            raise FormatError(f"line {number}, column {match.start(1) + 1}: {what} {match[1]}")
        found[match[1]] = match[2]
    return found


def _unique(names: list[str]) -> tuple[str, ...]:
    for i, name in enumerate(names):
        if name in names[:i] or not name.isprintable():
            raise InputError(f"duplicate or unprintable name of a NIC: {shown(name)}")
    return tuple(names)
