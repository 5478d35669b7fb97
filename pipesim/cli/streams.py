"""Standard output and standard error, whatever encoding they have: a result is never lost for a character.

Tables and charts are drawn with characters that latin-1, cp1252 and others do not have. Where a stream cannot encode
one, a similar ASCII character takes its place; what has none is written as an escape, such as \\u4e2d.
"""

import codecs
import functools
import json
import logging
import sys
import unicodedata
from contextlib import suppress
from typing import Any

import click

PLAIN = "pipesim.plain"  # the name under which Python knows the replacement

# One character for one, so that columns stay aligned.
_SIMILAR = str.maketrans("─│┌┐└┘├┤┬┴┼·•…±×−–—‘’“”µ", "-|+++++++++..~~x---''\"\"u")


def _plain(error: UnicodeError) -> tuple[str, int]:
    """The replacement of characters that could not be encoded."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return "".join(map(_similar, error.object[error.start : error.end])), error.end


def _similar(character: str) -> str:
    found = character.translate(_SIMILAR)
    if not found.isascii():  # é is e with an accent
        found = unicodedata.normalize("NFKD", found).encode("ascii", "ignore").decode()
    return found or character.encode("ascii", "backslashreplace").decode()


def _ascii(name: str) -> codecs.CodecInfo | None:
    """ASCII under another name: where a stream's encoding is called ASCII, click takes that for a mistake."""
    if name != "pipesim_ascii":
        return None
    plain = codecs.lookup("ascii")
    return codecs.CodecInfo(
        plain.encode, plain.decode, plain.streamreader, plain.streamwriter,
        plain.incrementalencoder, plain.incrementaldecoder, name="pipesim_ascii",
    )  # fmt: skip


def prepare() -> None:
    """Let standard output and standard error replace what they cannot encode."""
    _register()
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)  # a replaced stream may have none, a closed one is None
        if reconfigure is not None:
            with suppress(OSError, ValueError):
                reconfigure(errors=PLAIN, encoding="pipesim_ascii" if _is_ascii(stream.encoding) else None)


@functools.cache
def _register() -> None:
    codecs.register_error(PLAIN, _plain)
    codecs.register(_ascii)


def _is_ascii(encoding: str) -> bool:
    return codecs.lookup(encoding).name == "ascii"


def json_text(data: Any) -> str:
    """JSON that standard output can encode without a replacement, which would change its meaning."""
    text = json.dumps(data, indent=2, ensure_ascii=False)
    try:
        text.encode(getattr(sys.stdout, "encoding", None) or "utf-8")
    except UnicodeEncodeError:
        return json.dumps(data, indent=2)
    return text


def is_watched() -> bool:
    """Whether standard error is a terminal, so that a progress bar makes sense."""
    return sys.stderr is not None and sys.stderr.isatty()


class _Announcement(logging.Handler):
    """One line on standard error when the first kernel is compiled."""

    def emit(self, record: logging.LogRecord) -> None:
        logging.getLogger(record.name).removeHandler(self)
        complain("\rcompiling for this machine, once")


def announce_compilation() -> None:
    """Let a terminal show when kernels are compiled, which takes seconds once per machine."""
    logger = logging.getLogger("pipesim.base.kernels.compilation")
    if is_watched() and not logger.handlers:
        logger.setLevel(logging.INFO)
        logger.propagate = False
        logger.addHandler(_Announcement())


def complain(message: str) -> None:
    """Write a line to standard error; where nothing can be written to it, the exit code must say enough."""
    if sys.stderr is not None:
        with suppress(OSError, ValueError):
            click.echo(message, err=True)
