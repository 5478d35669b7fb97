"""Opening a trace from files of any format."""

import functools
import inspect
import typing
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

from pipesim.base import lookup
from pipesim.base.errors import InputError, within
from pipesim.core.trace import Trace
from pipesim.importers import IMPORTERS
from pipesim.importers.detect import importer_for

Importer = Callable[..., Trace]


def open_trace(
    paths: Sequence[Path],
    form: str | None = None,
    *,
    microbatch_size: int | None = None,
    **options: int | str,
) -> Trace:
    """The trace in one or several files that belong together.

    `form` names the format, with options if needed, `pipedream(samples=64)`; by default it is guessed from the files.
    `options` are passed to the importer, too. `microbatch_size` is the default size of a microbatch of the trace: the
    recorded rows are kept, and scaled to it.
    """
    if not paths:
        raise InputError("no file to read; at least one was expected")
    form = form or _guessed(paths)
    importer, name = _importer(form)
    for option in options:
        _check_option(importer, name, option)
    if len(paths) > 1 and not _takes_several(importer):
        raise InputError(f"format {name!r} takes one file; {len(paths)} found ({paths[0]} and others)")
    with lookup.calling(form, "format") if ":" in name else nullcontext():
        trace = importer(paths[0] if len(paths) == 1 else tuple(paths), **options)
    if not isinstance(trace, Trace):
        raise InputError(f"format {name!r}: returned a {type(trace).__name__}; a Trace was expected")
    return trace if microbatch_size is None else replace(trace, microbatch_size=microbatch_size)


def _guessed(paths: Sequence[Path]) -> str:
    """The one format that all these files are of."""
    first = importer_for(paths[0])
    for path in paths[1:]:
        if (other := importer_for(path)) != first:
            raise InputError(f"{path}: has format {other}, {paths[0]} has {first}; files of one format were expected")
    return first


def _importer(form: str) -> tuple[Importer, str]:
    importer: Importer = lookup.resolve(form, IMPORTERS, "format")
    with within(f"format {form!r}"):
        lookup.check_takes(importer, "path")
    return importer, form.partition("(")[0].strip()


def _check_option(importer: Importer, name: str, option: str) -> None:
    """Refuse an option that this importer does not have, or that its expression sets already."""
    known = [p.name for p in inspect.signature(importer).parameters.values() if p.kind is p.KEYWORD_ONLY]
    if option not in known:
        has = f"its options are {', '.join(known)}" if known else "it has no options"
        raise InputError(f"format {name!r} has no option {option!r}; {has}")
    if isinstance(importer, functools.partial) and option in importer.keywords:
        raise InputError(f"{option} is given twice: as an option, and in the parentheses of {name!r}")


def _takes_several(importer: Importer) -> bool:
    """Whether the first argument can be several paths."""
    function = importer.func if isinstance(importer, functools.partial) else importer
    first = next(iter(inspect.signature(function).parameters))
    return typing.get_type_hints(function).get(first) is not Path
