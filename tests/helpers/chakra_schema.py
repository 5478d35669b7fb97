"""Chakra's schema as messages of protocol buffers, from the published names and numbers of its fields."""

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.unknown_fields import UnknownFieldSet

ENUMS = {
    "NodeType": "INVALID_NODE METADATA_NODE MEM_LOAD_NODE MEM_STORE_NODE COMP_NODE COMM_SEND_NODE COMM_RECV_NODE "
    "COMM_COLL_NODE",
}
MESSAGES = {
    "BoolList": {1: "values bool*"},
    "AttributeProto": {1: "name string", 2: "doc_string string", 3: "double_val double", 7: "int32_val int32",
                       9: "int64_val int64", 13: "uint64_val uint64", 27: "bool_val bool", 28: "bool_list BoolList",
                       29: "string_val string"},
    "IOInfo": {1: "values string", 2: "shapes string", 3: "types string"},
    "GlobalMetadata": {1: "version string", 2: "attr AttributeProto*"},
    "Node": {1: "id uint64", 2: "name string", 3: "type NodeType", 4: "ctrl_deps uint64*", 5: "data_deps uint64*",
             6: "start_time_micros uint64", 7: "duration_micros uint64", 8: "inputs IOInfo", 9: "outputs IOInfo",
             10: "attr AttributeProto*"},
}  # fmt: skip
SCALARS = descriptor_pb2.FieldDescriptorProto


def _classes():
    file = descriptor_pb2.FileDescriptorProto(name="et_def.proto", package="ChakraProtoMsg", syntax="proto3")
    for name, values in ENUMS.items():
        kind = file.enum_type.add(name=name)
        for number, value in enumerate(values.split()):
            kind.value.add(name=value, number=number)
    for name, fields in MESSAGES.items():
        message = file.message_type.add(name=name)
        if name == "AttributeProto":
            message.oneof_decl.add(name="value")
        for number, text in fields.items():
            label, sort = text.split()
            field = message.field.add(name=label, number=number)
            if name == "AttributeProto" and number > 2:
                field.oneof_index = 0
            many, sort = sort.endswith("*"), sort.rstrip("*")
            field.label = SCALARS.LABEL_REPEATED if many else SCALARS.LABEL_OPTIONAL
            if sort in ENUMS or sort in MESSAGES:
                field.type = SCALARS.TYPE_ENUM if sort in ENUMS else SCALARS.TYPE_MESSAGE
                field.type_name = f".ChakraProtoMsg.{sort}"
            else:
                field.type = getattr(SCALARS, f"TYPE_{sort.upper()}")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return [
        message_factory.GetMessageClass(pool.FindMessageTypeByName(f"ChakraProtoMsg.{name}"))
        for name in ("GlobalMetadata", "Node")
    ]


Metadata, Node = _classes()


def read(path):
    """The head and the nodes of a file: each message after its length."""
    data, at, messages = path.read_bytes(), 0, []
    while at < len(data):
        length, shift = 0, 0
        while True:
            byte, at = data[at], at + 1
            length |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
        messages.append(data[at : at + length])
        at += length
    return Metadata.FromString(messages[0]), [Node.FromString(message) for message in messages[1:]]


def value(node, name):
    """The field that an attribute's value is in, and the value."""
    (found,) = (attribute for attribute in node.attr if attribute.name == name)
    field = found.WhichOneof("value")
    return field, getattr(found, field)


def unknown(message):
    """The numbers of fields that the schema does not have, also inside fields."""
    found = [field.field_number for field in UnknownFieldSet(message)]
    for field, held in message.ListFields():
        if field.message_type is not None:
            found += [number for part in (held if field.is_repeated else [held]) for number in unknown(part)]
    return found
