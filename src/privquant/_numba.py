"""Kernels: plain functions, which numba compiles where that pays, and which give the same answer either way.

A kernel called from Python runs as the interpreter runs it: a median of some thousand users takes a second, and
numba is not even imported. Inside `compiled()`, where the lab's engines are, the same call goes to its compiled
twin: the same code, in whose globals every kernel is replaced by the twin of that kernel.

Nobody waits for the compiler unless it pays. All that the engines have compiles in twenty seconds of processor
(`_lean_compiler`), once: numba keeps it in its cache (in `NUMBA_CACHE_DIR`, beside the package, or in the user's
cache folder; where none of them can be written, every process compiles what it needs). A process that has been in
interpreted kernels for as long as compiling takes, one median after the other, compiles them too, and so takes at
most twice as long as if it had known. `stay_interpreted` is for a process that must never stop to compile: the
server.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import wraps
from importlib.util import find_spec
from types import FunctionType, ModuleType
from typing import Any, TypeVar, cast

from privquant._lean_compiler import lean, once_for_all_literals

_Function = TypeVar("_Function", bound=Callable[..., Any])

_PATIENCE = 20.0  # seconds of a process in interpreted kernels, about what compiling them takes
_INTERPRETED, _COMPILED = "interpreted", "compiled"

_mode: ContextVar[str | None] = ContextVar("privquant_kernels", default=None)
_building = threading.RLock()

# For a kernel that makes no array and calls none that makes or returns one: those of its caller live on, so that
# none need be counted, which is an atomic operation a touch of an array in a tuple. Where one is returned to such a
# kernel, memory is freed that is in use. The option is numba's own, not promised; without it kernels are slower,
# no more.
BORROWED: dict[str, Any] = {"_nrt": False}


def _installed() -> bool:
    try:
        return find_spec("numba") is not None
    except (ImportError, ValueError):
        return False


HAVE_NUMBA = _installed()


class _Spent:
    """Seconds this process was in interpreted kernels; infinite patience where it must not compile."""

    seconds = 0.0
    patience = _PATIENCE


def stay_interpreted() -> None:
    """From now on this process compiles only what runs inside `compiled()`."""
    _Spent.patience = float("inf")


@contextmanager
def compiled() -> Iterator[None]:
    """Kernels called in here are the compiled ones, where numba is installed."""
    token = _mode.set(_COMPILED if HAVE_NUMBA else _mode.get())
    try:
        yield
    finally:
        _mode.reset(token)


def runs_compiled(function: _Function) -> _Function:
    """A decorator: the function calls compiled kernels."""

    @wraps(function)
    def run(*args: Any, **named: Any) -> Any:
        with compiled():
            return function(*args, **named)

    return cast(_Function, run)


class _Kernel:
    """A function, and its compiled twins: one that Python calls, and one that only other kernels call, without the
    wrapper that takes Python objects apart (for a table of counts, as long as the kernel itself)."""

    def __init__(self, function: FunctionType, options: dict[str, Any]) -> None:
        self.function = function
        self.options = options
        self.entry: Any = None
        self._inner: Any = None

    def compiled(self) -> Any:
        """The twin that Python calls."""
        if self.entry is None:
            with _building:
                self.entry = self.entry or self._twin("entry")
        return self.entry

    def inner(self) -> Any:
        """The twin that kernels call."""
        if self._inner is None:
            self._inner = self._twin("inner")
        return self._inner

    def _twin(self, use: str) -> Any:
        import numba
        from numba.core.options import DefaultOptions

        function = self.function
        scope = dict(function.__globals__)
        twin = FunctionType(function.__code__, scope, function.__name__, function.__defaults__)
        twin.__module__ = function.__module__
        twin.__qualname__ = f"{function.__qualname__}.{use}"  # names its place in the cache
        options = {"error_model": "numpy", "no_cfunc_wrapper": True, "no_cpython_wrapper": use == "inner"}
        options |= {name: value for name, value in self.options.items() if hasattr(DefaultOptions, name)}
        dispatcher = numba.njit(**options, **lean(part=use == "inner"))(twin)
        if use == "entry" and self.options.get("cache"):  # what is behind it is in it
            with suppress(RuntimeError):  # no folder for a cache can be written
                dispatcher.enable_caching()
        if use == "inner":
            self._inner = dispatcher  # before its own kernels, which may come back to it
            once_for_all_literals(dispatcher)
        names = function.__code__.co_names
        for name in names:
            if isinstance(scope.get(name), ModuleType) and scope[name].__name__.startswith("privquant."):
                module, scope[name] = scope[name], ModuleType(scope[name].__name__)
                vars(scope[name]).update(vars(module))
                _put_twins(names, vars(scope[name]))
        _put_twins(names, scope)
        return dispatcher


def _put_twins(names: Iterable[str], scope: dict[str, Any]) -> None:
    """Among what a kernel calls by these names, the twins of kernels in place of the kernels."""
    for name in names:
        kernel = getattr(scope.get(name), "kernel", None)
        if isinstance(kernel, _Kernel):
            scope[name] = kernel.inner()


def njit(*, always: bool = False, **options: Any) -> Callable[[_Function], _Function]:
    """A decorator that makes a function a kernel.

    always:   compiled wherever it is called, for what the interpreter cannot do (words of 64 bits that wrap round).
    options:  numba's; cache=True keeps what was compiled.
    """

    def make(function: _Function) -> _Function:
        if not HAVE_NUMBA:
            return function
        kernel = _Kernel(cast(FunctionType, function), options)

        @wraps(function)
        def call(*args: Any) -> Any:
            mode = _mode.get()
            if mode is _INTERPRETED and not always:  # called by an interpreted kernel
                return function(*args)
            if always or mode is _COMPILED or _Spent.seconds > _Spent.patience:
                return kernel.compiled()(*args)
            token = _mode.set(_INTERPRETED)
            start = time.perf_counter()
            try:
                return function(*args)
            finally:
                _mode.reset(token)
                _Spent.seconds += time.perf_counter() - start

        call.kernel = kernel  # type: ignore[attr-defined]
        return cast(_Function, call)

    return make


def compiled_form(plain: Callable[..., Any], **options: Any) -> Callable[[_Function], _Function]:
    """Say what kernels compile where they call `plain`, which the interpreter goes on running as it is."""

    def register(function: _Function) -> _Function:
        plain.kernel = _Kernel(cast(FunctionType, function), options)  # type: ignore[attr-defined]
        return function

    return register


def shared(**options: Any) -> Callable[[_Function], _Function]:
    """A function that the interpreter runs as it is, and that compiles as a part of the kernels that call it."""

    def share(function: _Function) -> _Function:
        return compiled_form(function, **options)(function)

    return share
