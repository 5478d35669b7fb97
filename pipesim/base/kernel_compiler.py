"""Numba's compiler for kernels: what a kernel calls is optimised once, as a part of it.

Numba itself makes machine code of each function at once, and optimises it again in each function that calls it. But
what only kernels call needs no machine code of its own: here it is linked into the kernel as it is, and LLVM optimises
the whole, which takes a third less time to compile and gives code that is as fast.
"""

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.compiler_lock import global_compiler_lock


class KernelCompiler(Compiler):
    """Makes machine code of a kernel; what is compiled in the meantime, since the kernel calls it, is a part of it."""

    def compile_extra(self, func: Callable[..., object]) -> Any:  # noqa: ANN401 - numba declares no types
        """Compile it, as numba's own pipeline does."""
        codegen = self.state.targetctx.codegen()
        self.state.library = JITCodeLibrary(codegen, func.__qualname__)  # type: ignore[no-untyped-call]  # as above
        self.state.library.enable_object_caching()
        with global_compiler_lock, _parts(codegen), _without_collection():
            return super().compile_extra(func)  # type: ignore[no-untyped-call]  # as above


@contextmanager
def _without_collection() -> Iterator[None]:
    """No garbage is looked for: a compiler makes millions of objects, and looking costs up to a sixth of its time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@contextmanager
def _parts(codegen: Any) -> Iterator[None]:  # noqa: ANN401 - as above
    """Libraries that are made now are parts of the kernel that is being compiled."""
    before = codegen._library_class  # noqa: SLF001 - numba has no other way to choose it
    codegen._library_class = _LinkedCode  # noqa: SLF001 - as above
    try:
        yield
    finally:
        codegen._library_class = before  # noqa: SLF001 - as above


class _LinkedCode(JITCodeLibrary):
    """Code that is linked into kernels, and neither optimised nor made machine code by itself."""

    @property
    def codegen(self) -> "_WithoutAddresses":
        return _WithoutAddresses(self._codegen)

    def get_pointer_to_function(self, name: str) -> int:  # noqa: ARG002 - numba's signature
        """None: it has no machine code that Python could call."""
        self._ensure_finalized()  # type: ignore[no-untyped-call]  # as above
        return 0

    def _optimize_functions(self, ll_module: Any) -> None:  # noqa: ANN401 - as above
        ll_module.data_layout = self._codegen._data_layout  # noqa: SLF001 - as JITCodeLibrary does

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()  # type: ignore[no-untyped-call]  # as above
        self._finalized = True


class _WithoutAddresses:
    """Numba's code generator for a part, whose environment is at no address that could be set."""

    def __init__(self, codegen: Any) -> None:  # noqa: ANN401 - as above
        self._codegen = codegen

    def set_env(self, name: str, environment: object) -> None:
        pass

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - as above
        return getattr(self._codegen, name)
