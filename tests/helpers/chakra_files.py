"""Execution traces for tests, written here from the published numbers of the fields: the reader is not asked.

rank(path, [compute(1, "a_FWD", micros=5), send(2, to=1, size=64, needs=[1]), ...])
"""

import struct

COMPUTE, SEND, RECEIVE, COLLECTIVE, METADATA, MEM_LOAD = 4, 5, 6, 7, 1, 2
SORTS = ("all_reduce", "reduce", "all_gather", "gather", "scatter", "broadcast", "all_to_all", "reduce_scatter",
         "reduce_scatter_block", "barrier")  # fmt: skip


def varint(value):
    out = bytearray()
    value &= 2**64 - 1
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def number(field, value):
    return varint(field << 3) + varint(value)


def data(field, content):
    content = content.encode() if isinstance(content, str) else content
    return varint(field << 3 | 2) + varint(len(content)) + content


def attribute(name, value, field=None):
    """A value in the field that its type has, or in another: writers do not agree on one."""
    if field in {3, 5}:
        kind, form = (1, "<d") if field == 3 else (5, "<f")
        return data(10, data(1, name) + varint(field << 3 | kind) + struct.pack(form, value))
    if isinstance(value, str):
        return data(10, data(1, name) + data(29, value))
    if isinstance(value, list):
        return data(10, data(1, name) + data(28, data(1, b"".join(varint(v) for v in value))))
    if isinstance(value, bool):
        return data(10, data(1, name) + number(27, value))
    return data(10, data(1, name) + number(field or 9, value))


def node(ident, name, kind, *, micros=0, needs=(), ctrl=(), start=0, packed=True, extra=b"", **attributes):
    deps = b""
    for field, ids in ((4, ctrl), (5, needs)):
        if ids and packed:
            deps += data(field, b"".join(map(varint, ids)))
        else:
            deps += b"".join(number(field, one) for one in ids)
    timing = (number(6, start) if start else b"") + (number(7, micros) if micros else b"")
    head = (number(1, ident) if ident else b"") + data(2, name) + number(3, kind)
    return head + deps + timing + extra + b"".join(attribute(key, value) for key, value in attributes.items())


def compute(ident, name, micros, **more):
    return node(ident, name, COMPUTE, micros=micros, **{"is_cpu_op": False, **more})


def send(ident, source, to, size, tag=0, **more):
    return node(ident, "send", SEND, comm_src=source, comm_dst=to, comm_size=size, comm_tag=tag, **more)


def receive(ident, source, to, size, tag=0, **more):
    return node(ident, "receive", RECEIVE, comm_src=source, comm_dst=to, comm_size=size, comm_tag=tag, **more)


def collective(ident, sort, size, **more):
    return node(ident, sort, COLLECTIVE, comm_type=SORTS.index(sort), comm_size=size, **more)


def outputs(shapes, types):
    return data(9, data(2, shapes) + data(3, types))


def write(path, nodes, version="0.0.4"):
    messages = [data(1, version), *nodes]
    path.write_bytes(b"".join(varint(len(message)) + message for message in messages))
    return path


def ranks(folder, *nodes, name="run"):
    """A file for each rank."""
    return [write(folder / f"{name}.{rank}.et", mine) for rank, mine in enumerate(nodes)]
