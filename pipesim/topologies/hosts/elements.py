"""XML as elements with their positions in the file; nothing is expanded, fetched or declared.

A document type and entities are refused: a dump has none, and a few lines of them can expand to gigabytes.
"""

import itertools
from dataclasses import dataclass, field
from typing import NoReturn
from xml.parsers import expat

from pipesim.base.errors import FormatError, shown

MOST_ELEMENTS = 20_000
DEEPEST = 64


@dataclass(frozen=True, slots=True)
class Element:
    """An element: its attributes, its children, and where it begins."""

    tag: str
    attributes: dict[str, str]
    line: int
    column: int
    inside: list["Element"] = field(default_factory=list)

    def error(self, message: str, attribute: str = "") -> FormatError:
        """An error about this element, or about an attribute of it."""
        what = f"<{self.tag}> {attribute}" if attribute else f"<{self.tag}>"
        return FormatError(f"line {self.line}, column {self.column}: {what}: {message}")

    def all(self, tag: str) -> list["Element"]:
        """The elements directly inside that have this tag."""
        return [element for element in self.inside if element.tag == tag]

    def text(self, attribute: str) -> str:
        """An attribute that must be there."""
        if not self.attributes.get(attribute):
            raise self.error(f"missing; found {shown(', '.join(self.attributes))}", attribute)
        return self.attributes[attribute]

    def whole(self, attribute: str, most: int) -> int:
        """An attribute that must be a whole number from 0 on."""
        text = self.text(attribute)
        if not (text.isascii() and text.isdigit() and len(text) < 16 and int(text) <= most):
            raise self.error(f"{shown(text)} found; a whole number from 0 to {most} was expected", attribute)
        return int(text)


def parse(data: bytes) -> Element:
    """The outermost element of a document."""
    parser = expat.ParserCreate()
    document = Element("document", {}, 1, 1)
    _build(parser, document)
    try:
        parser.Parse(data, True)
    except expat.ExpatError as error:
        reason = expat.errors.messages.get(error.code, str(error))
        raise FormatError(f"line {error.lineno}, column {error.offset + 1}: is not XML: {reason}") from None
    except (ValueError, LookupError) as error:  # an unknown encoding, or one that is not for text
        raise FormatError(f"line 1: is not XML that can be read: {str(error)[:200]}") from None
    return document.inside[0]


def _build(parser: expat.XMLParserType, document: Element) -> None:
    """Let a parser add elements to the document, and refuse too many, too deep ones, and declarations."""
    stack, count = [document], itertools.count(1)

    def begin(tag: str, attributes: dict[str, str]) -> None:
        element = Element(tag[:60], attributes, parser.CurrentLineNumber, parser.CurrentColumnNumber + 1)
        if next(count) > MOST_ELEMENTS:
            raise element.error(f"more than {MOST_ELEMENTS} elements found")
        if len(stack) > DEEPEST:
            raise element.error(f"nested more than {DEEPEST} deep")
        stack[-1].inside.append(element)
        stack.append(element)

    def refuse(*_: object) -> NoReturn:
        place = f"line {parser.CurrentLineNumber}, column {parser.CurrentColumnNumber + 1}"
        raise FormatError(f"{place}: a document type or an entity found; a topology dump without them was expected")

    parser.StartElementHandler = begin
    parser.EndElementHandler = lambda _: stack.pop()
    parser.StartDoctypeDeclHandler = parser.EntityDeclHandler = parser.ExternalEntityRefHandler = refuse
