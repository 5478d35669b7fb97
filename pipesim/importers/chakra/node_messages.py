"""The messages of an execution trace: one with the version, then one for each node.

The numbers of the fields are those of the schema that Chakra publishes (versions 0.0.4 and later); only fields that
pipesim uses are kept.
"""

import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from pipesim.base import files
from pipesim.base.errors import FormatError, shown, within
from pipesim.core.program import KINDS
from pipesim.importers.chakra import wire
from pipesim.importers.chakra.wire import Field

INVALID, METADATA, MEM_LOAD, MEM_STORE, COMPUTE, SEND, RECEIVE, COLLECTIVE = range(8)
COLLECTIVES = (
    "all_reduce",
    "reduce",
    "all_gather",
    "gather",
    "scatter",
    "broadcast",
    "all_to_all",
    "reduce_scatter",
    "reduce_scatter_block",
    "barrier",
)

Value = float | str | tuple[bool, ...]
# Values that most nodes share, kept once.
_NOTHING: Mapping[str, Value] = MappingProxyType({})
_NO_OUTPUTS = ("", "")

TASK, NS, BYTES, KIND, STAGE, MICROBATCH, RANKS = (
    "pipesim_task", "pipesim_ns", "pipesim_bytes", "pipesim_kind", "pipesim_stage", "pipesim_microbatch",
    "pipesim_ranks",
)  # fmt: skip
"""What pipesim writes beside Chakra's own attributes, so that it reads its own files to the nanosecond: the number of a
task (nodes of several ranks that compute as one task have the same), its nanoseconds, the bytes of a message where they
are not whole, what the task is, and the ranks of a process group, with commas."""
# The attributes that are kept, and the largest value of each number.
NUMBERS = {
    "comm_size": 2**62,
    "comm_src": 2**31,
    "comm_dst": 2**31,
    "comm_tag": 2**62,
    "comm_type": 2**31,
    "num_ops": 2**62,
    "tensor_size": 2**62,
    "is_cpu_op": 1,
    "seq_id": 2**62,
    "fw_tid": 2**62,
    TASK: 2**62,
    NS: 2**62,
    BYTES: 2**62,
    KIND: len(KINDS) - 1,
    STAGE: 2**31,
    MICROBATCH: 2**31,
}
_TEXTS = {"pg_name", RANKS}
_LISTS = {"involved_dim"}
_MAY_BE_NEGATIVE = {"seq_id", "fw_tid", "comm_tag"}

# Numbers of fields.
_ID, _NAME, _TYPE, _CTRL, _DATA, _START, _DURATION, _INPUTS, _OUTPUTS, _ATTR = range(1, 11)
_WHOLE = {_ID: "id", _TYPE: "type", _START: "start_time_micros", _DURATION: "duration_micros"}
_MOST = {_ID: 2**64, _TYPE: 2**31, _START: 2**62, _DURATION: 10**12}  # microseconds: 11 days
_NEEDS = {_CTRL: "ctrl_deps", _DATA: "data_deps"}
_TENSORS = {_INPUTS: "inputs", _OUTPUTS: "outputs"}
# Those of an attribute's value: double_val, float_val, int32_val ... as varints, as bytes of fixed width, as texts.
_VARINTS, _SIGNED, _ZIGZAG = {7, 9, 11, 13, 15, 17, 27}, {7, 9}, {15, 17}
_FIXED = {3: "<d", 5: "<f", 19: "<I", 21: "<Q", 23: "<i", 25: "<q"}
_TEXT, _BOOLS = 29, 28


@dataclass(frozen=True, slots=True)
class Node:
    """One node of a rank's graph; microseconds, as recorded."""

    id: int
    name: str
    type: int
    start_us: int
    duration_us: int
    values: str  # of the inputs, where the node is about process groups
    outputs: tuple[str, str]  # shapes and types
    attributes: Mapping[str, Value]

    @property
    def task(self) -> int:
        """The number of its task, if pipesim wrote it; else -1."""
        return self.number(TASK, -1)

    @property
    def size(self) -> float:
        """Bytes of a message."""
        value = self.attributes.get(BYTES, self.number("comm_size"))
        return float(value) if isinstance(value, int | float) else 0.0

    def number(self, name: str, default: int = 0) -> int:
        """An attribute that is a number."""
        value = self.attributes.get(name, default)
        return int(value) if isinstance(value, int | float) else default


def read(path: Path) -> Iterator[tuple[Node, tuple[int, ...]]]:
    """The nodes of a file, in its order, and the ids of the nodes that each waits for; duplicate ids are refused."""
    data = files.read_bytes(path, limit=files.RECORDING)
    seen: set[int] = set()
    with within(str(path)):
        if not data:
            raise FormatError("is empty; a message with the version, then the nodes, were expected")
        for number, (start, stop) in enumerate(wire.spans(data)):
            with within(f"message {number}"):
                if not number:
                    _check_head(data, start, stop)
                    continue
                node, needs = _node(data, start, stop)
                if node.id in seen:
                    raise FormatError(f"byte {start}: id: duplicate node {node.id}")
                seen.add(node.id)
            yield node, needs


def _check_head(data: bytes, start: int, stop: int) -> None:
    """Refuse a first message with other fields than a version and attributes."""
    for field in wire.fields(data, start, stop):
        if field.number not in {1, 2} or field.wire_type != wire.BYTES:
            raise FormatError(f"field {field.number} found; GlobalMetadata, a version and attributes, was expected")


def _node(data: bytes, start: int, stop: int) -> tuple[Node, tuple[int, ...]]:
    numbers = dict.fromkeys(_WHOLE, 0)
    texts: dict[int, dict[int, str]] = {}
    name, needs, attributes = "", dict[int, None](), dict[str, Value]()
    for field in wire.fields(data, start, stop):
        if field.number in _WHOLE:
            numbers[field.number] = _whole(field)
        elif field.number == _NAME:
            name = _text("name", data, field)
        elif field.number in _NEEDS:
            needs.update(dict.fromkeys(_ids(data, field)))
        elif field.number in _TENSORS:
            texts[field.number] = _parts(data, field)
        elif field.number == _ATTR:
            _add_attribute(attributes, data, field)
    outputs = texts.get(_OUTPUTS, {})
    node = Node(
        numbers[_ID],
        name,
        numbers[_TYPE],
        numbers[_START],
        numbers[_DURATION],
        texts.get(_INPUTS, {}).get(1, "") if numbers[_TYPE] == METADATA else "",
        (outputs.get(2, ""), outputs.get(3, "")) if outputs else _NO_OUTPUTS,
        attributes or _NOTHING,
    )
    return node, tuple(needs)


def _whole(field: Field) -> int:
    name = _WHOLE[field.number]
    if field.wire_type != wire.VARINT:
        raise FormatError(f"{name}: field of wire type {field.wire_type} found; a whole number was expected")
    if field.start > _MOST[field.number]:
        raise FormatError(f"{name}: {field.start} found; at most {_MOST[field.number]} was expected")
    return field.start


def _ids(data: bytes, field: Field) -> Iterable[int]:
    with within(_NEEDS[field.number]):
        if field.wire_type == wire.VARINT:
            return [field.start]
        if field.wire_type == wire.BYTES:
            return list(wire.packed(data, field.start, field.stop))
        raise FormatError(f"field of wire type {field.wire_type} found; ids of nodes were expected")


def _text(name: str, data: bytes, field: Field) -> str:
    if field.wire_type != wire.BYTES:
        raise FormatError(f"{name}: field of wire type {field.wire_type} found; text was expected")
    part = data[field.start : field.stop]
    try:
        return part.decode()
    except UnicodeDecodeError:
        raise FormatError(f"byte {field.start}: {name}: {shown(part)} found; UTF-8 text was expected") from None


def _parts(data: bytes, field: Field) -> dict[int, str]:
    """The texts of a message that contains only texts."""
    with within(_TENSORS[field.number]):
        if field.wire_type != wire.BYTES:
            raise FormatError(f"field of wire type {field.wire_type} found; a message was expected")
        return {part.number: _text(f"field {part.number}", data, part) for part in wire.inside(data, field)}


# --- attributes ------------------------------------------------------------------------------------------------------


def _add_attribute(found: dict[str, Value], data: bytes, field: Field) -> None:
    """Add an attribute: a name, and one value of one of many types; unknown names are ignored."""
    with within("attr"):
        if field.wire_type != wire.BYTES:
            raise FormatError(f"field of wire type {field.wire_type} found; a message was expected")
        parts = {part.number: part for part in wire.inside(data, field)}
        name = _text("name", data, parts.pop(1)) if 1 in parts else ""
        parts.pop(2, None)  # its documentation
        if not (name in NUMBERS or name in _TEXTS or name in _LISTS):
            return
        with within(name):
            if len(parts) != 1:
                raise FormatError(f"byte {field.start}: {len(parts)} values found; one was expected")
            (value,) = parts.values()
            held = _value(name, data, value)
            if held or name != "is_cpu_op":  # most nodes have it, and False is the default
                found[name] = held


def _value(name: str, data: bytes, field: Field) -> Value:
    if name in _LISTS:
        if field.number != _BOOLS or field.wire_type != wire.BYTES:
            raise FormatError(f"field {field.number} found; bool_list was expected")
        return _bools(data, field)
    if name in _TEXTS:
        if field.number != _TEXT:
            raise FormatError(f"field {field.number} found; string_val was expected")
        return _text("string_val", data, field)
    value = _number(data, field)
    if not (-(2**63) if name in _MAY_BE_NEGATIVE else 0) <= value <= NUMBERS[name]:
        raise FormatError(f"{value} found; a number from 0 to {NUMBERS[name]} was expected")
    return value


def _number(data: bytes, field: Field) -> float:
    """A number of any of the types that writers use."""
    value = field.start
    if field.number in _VARINTS and field.wire_type == wire.VARINT:
        if field.number in _ZIGZAG:
            return (value >> 1) ^ -(value & 1)
        return wire.signed(value) if field.number in _SIGNED else value
    form = _FIXED.get(field.number, "")
    if form and field.wire_type in {wire.FIXED32, wire.FIXED64} and field.stop - field.start == struct.calcsize(form):
        number: float = struct.unpack(form, data[field.start : field.stop])[0]
        return number
    raise FormatError(f"field {field.number} of wire type {field.wire_type} found; a number was expected")


def _bools(data: bytes, field: Field) -> tuple[bool, ...]:
    """A list of truth values, packed or one by one."""
    values: list[bool] = []
    for part in wire.inside(data, field):
        if part.number == 1 and part.wire_type == wire.VARINT:
            values.append(bool(part.start))
        elif part.number == 1 and part.wire_type == wire.BYTES:
            values += [bool(value) for value in wire.packed(data, part.start, part.stop)]
    return tuple(values)
