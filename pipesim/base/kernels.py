"""Plain functions over arrays, compiled by numba where that pays.

A kernel also runs as plain Python, and tests compare both. Compiling costs numba's import (a third of a second) and,
once per machine, the compilation, which `kernel_cache` keeps on disk.

A kernel may call other kernels, which are plain functions too: as plain Python it calls them as they are, compiled it
calls their machine code. Arrays that belong together are passed in a NamedTuple.
"""

import atexit
import functools
import logging
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import FunctionType
from typing import Any, TypeVar, get_args, get_origin

import numpy as np

from pipesim.base.errors import is_interrupt
from pipesim.base.kernel_cache import cache_in, folder_of, globals_of

Kernel = TypeVar("Kernel", bound=Callable[..., object])

IMPORT_S, COMPILATION_S = 0.2, 0.5  # what it takes to import numba, and to compile a small kernel


@functools.cache
def compiled(kernel: Kernel) -> Kernel:
    """The kernel as machine code, which is made when it is first called, by Python or by another kernel."""
    return _Compiled(kernel)  # type: ignore[return-value]  # called as the kernel is


class _Compiled:
    """Imports numba no sooner than it must, so that a module of kernels costs nothing until one of them runs."""

    def __init__(self, kernel: Callable[..., object]) -> None:
        functools.update_wrapper(self, kernel)
        self.py_func = kernel

    @functools.cached_property
    def _machine_code(self) -> Any:  # noqa: ANN401 - numba declares no types
        import numba  # noqa: PLC0415 - slow to import, and small problems do without it

        from pipesim.base.kernel_compiler import KernelCompiler  # noqa: PLC0415 - as above

        options = _options(self.py_func) | {"pipeline_class": KernelCompiler}
        code = numba.njit(**options)(_linked(self.py_func))
        if self._folder is not None:
            code._cache = cache_in(self._folder, code.py_func)  # noqa: SLF001 - numba's own locators use the path
            if not self._is_cached():
                logging.getLogger(f"{__name__}.compilation").info("compiling %s", self.py_func.__name__)
        if self.elsewhere is not None:
            self.elsewhere.wait()
        return code

    @functools.cached_property
    def _folder(self) -> Path | None:
        return folder_of(self.py_func)

    def _is_cached(self) -> bool:
        return self._folder is not None and any(self._folder.glob(f"*.{self.py_func.__name__}-*.nbi"))

    @property
    def is_missing(self) -> bool:
        """Whether it is neither in the cache nor in memory, nor on its way there."""
        known = self.elsewhere is not None or "_machine_code" in self.__dict__
        return not known and self._folder is not None and not self._is_cached()

    elsewhere: "subprocess.Popen[bytes] | None" = None  # the process that compiles it

    def __call__(self, *arguments: object) -> object:
        try:
            return self._machine_code(*arguments)
        except SystemError as error:  # a result beside an exception: perhaps an interrupt that came meanwhile
            if is_interrupt(error):
                raise KeyboardInterrupt from None
            raise

    def for_small(self, *arguments: object) -> object:
        """The kernel for a small problem: as plain Python where machine code does not pay yet."""
        if self._pays:
            return self(*arguments)
        began = time.perf_counter()
        try:
            return self.py_func(*arguments)
        finally:
            self._plain_s += time.perf_counter() - began

    @property
    def _pays(self) -> bool:
        """Whether machine code is there, or plain Python has taken as long as it takes to come by it."""
        if "_machine_code" in self.__dict__ or self._plain_s > COMPILATION_S:
            return True
        return (self._plain_s > IMPORT_S or "numba" in sys.modules) and self._was_cached

    @functools.cached_property
    def _was_cached(self) -> bool:
        """Whether it was in the cache when that was first asked."""
        return self._is_cached()

    _plain_s = 0.0  # how long small problems have taken as plain Python

    @property
    def _numba_type_(self) -> Any:  # noqa: ANN401 - numba declares no types
        """What numba takes this for when another kernel calls it."""
        return self._machine_code._numba_type_


def compile_elsewhere(call: str, *kernels: Callable[..., object], later: bool = False) -> None:
    """Have kernels compiled by another process while this one does other work, unless they are compiled or cached.

    `later`: they are needed after others that are being compiled, and give way to these.

    `call` is "module:function": the function runs them on a small problem, with arguments of the types that they always
    have. Whatever becomes of the process, each kernel is compiled: here, if it is not in the cache when it is first
    called and the process has ended.
    """
    missing = [code for code in map(_code_of, kernels) if code.is_missing]
    if missing and sys.executable:
        process = _started(call, niceness=10 if later else 0)
        for code in missing:
            code.elsewhere = process


def is_compiling() -> bool:
    """Whether another process compiles for this one now, and so has a core."""
    return any(process.poll() is None for process in _STARTED)


def _code_of(kernel: Callable[..., object]) -> _Compiled:
    code = kernel if isinstance(kernel, _Compiled) else compiled(kernel)
    assert isinstance(code, _Compiled)  # noqa: S101 - what `compiled` gives
    return code


_STARTED: list["subprocess.Popen[bytes]"] = []


def _started(call: str, niceness: int) -> "subprocess.Popen[bytes]":
    """A process of its own that calls `module:function`, and that does not outlive this one."""
    module, _, function = call.partition(":")
    paths = os.pathsep.join(path or str(Path.cwd()) for path in sys.path)
    gives_way = f"import os; getattr(os, 'nice', int)({niceness}); "
    process = subprocess.Popen(  # noqa: S603 - this Python, and a function of ours
        [sys.executable, "-c", f"{gives_way}import {module}; {module}.{function}()"],
        env=os.environ | {"PYTHONPATH": paths},
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    atexit.register(_end, process)
    _STARTED.append(process)
    return process


def _end(process: "subprocess.Popen[bytes]") -> None:
    process.kill()
    process.wait()


def borrowing(kernel: Kernel) -> Kernel:
    """Declare that a kernel allocates no arrays and returns none.

    Compiled, it then does not count references to the arrays that it is given. In a small kernel that is called often
    with many arrays the counting takes longer than the work.
    """
    if _holds_arrays(kernel.__annotations__["return"]):
        raise TypeError(f"{kernel.__name__} returns arrays, so it cannot be declared as borrowing")
    kernel.__dict__["borrows"] = True
    return kernel


def inlined(kernel: Kernel) -> Kernel:
    """Declare that a kernel is compiled as a part of every kernel that calls it.

    For the steps of a loop that take tuples of many arrays: a call of its own would pass every array of them each time.
    """
    kernel.__dict__["inlined"] = True
    return kernel


def unlocked(kernel: Kernel) -> Kernel:
    """Declare that a kernel runs beside other threads: compiled, it releases Python's lock."""
    kernel.__dict__["unlocked"] = True
    return kernel


def variant(kernel: Kernel, name: str, **replaced: Callable[..., object]) -> Kernel:
    """The same kernel under another name, which calls other kernels in place of those that are named.

    They are replaced within the kernels that it calls, too.
    """
    made = _with(kernel, name, replaced)
    made.__name__ = made.__qualname__ = name  # files of compiled code are named after it
    return made  # type: ignore[return-value]  # a function of the same signature


def _with(kernel: Callable[..., object], name: str, replaced: dict[str, Callable[..., object]]) -> FunctionType:
    """A copy of the kernel that calls these kernels, or the kernel itself if none of them is called.

    Copies have names of their own: of machine code from two caches, one of two functions of one name would serve both.
    """
    called = {name: one for name, one in globals_of(kernel).items() if isinstance(one, FunctionType)}
    found = {
        # What replaces a kernel may call it, but calls the others as they are replaced.
        one: _with(replaced.get(one, code), name, {other: by for other, by in replaced.items() if other != one})
        for one, code in called.items()
    }
    assert isinstance(kernel, FunctionType)  # noqa: S101 - what is compiled is one
    if found == called:
        return kernel
    made = FunctionType(
        kernel.__code__, kernel.__globals__ | found, kernel.__name__, kernel.__defaults__, kernel.__closure__
    )
    made.__annotations__, made.__doc__ = kernel.__annotations__, kernel.__doc__
    made.__qualname__ = f"{name}_{kernel.__qualname__}"
    made.__dict__.update(kernel.__dict__)
    return made


def _holds_arrays(annotation: object) -> bool:
    """Whether a value of this type may be an array, or a tuple with one."""
    fields = annotation.__annotations__.values() if hasattr(annotation, "_fields") else ()
    return get_origin(annotation) is np.ndarray or any(map(_holds_arrays, (*get_args(annotation), *fields)))


def _options(kernel: Callable[..., object]) -> dict[str, Any]:
    """Numba's options; whether references are counted is always stated, since otherwise the caller's choice holds."""
    counts = {"_nrt": not hasattr(kernel, "borrows")}
    inline = {"inline": "always"} if hasattr(kernel, "inlined") else {}
    return counts | inline | ({"nogil": True} if hasattr(kernel, "unlocked") else {})


@functools.cache
def _called(kernel: Callable[..., object]) -> Any:  # noqa: ANN401 - numba declares no types
    """The kernel as machine code for other kernels: cached as part of theirs, without what Python needs to call it."""
    import numba  # noqa: PLC0415 - as above

    only_code = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    return numba.njit(**_options(kernel) | only_code)(_linked(kernel))


def _linked(kernel: Callable[..., object]) -> Callable[..., object]:
    """The kernel, or a copy of it that calls the machine code of each plain function that it calls."""
    called = {name: _called(one) for name, one in globals_of(kernel).items() if isinstance(one, FunctionType)}
    if not called or not isinstance(kernel, FunctionType):
        return kernel
    names = kernel.__globals__ | called
    linked = FunctionType(kernel.__code__, names, kernel.__name__, kernel.__defaults__, kernel.__closure__)
    linked.__annotations__, linked.__qualname__ = kernel.__annotations__, kernel.__qualname__
    return linked


def import_compiler() -> None:
    """Import numba ahead of many small problems: `suited` then gives cached machine code for the first of them too."""
    import numba  # noqa: F401, PLC0415 - slow to import, and few small problems do without it


def suited(kernel: Kernel, *, large: bool) -> Kernel:
    """Machine code for a large problem; for small ones plain Python, until it has taken as long as what it saves.

    So the first run on a machine compiles what it needs, and not what is done by the time numba is imported.
    """
    code = compiled(kernel)
    return code if large or not isinstance(code, _Compiled) else code.for_small  # type: ignore[return-value]
