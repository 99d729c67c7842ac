"""Kernels: plain functions that numba compiles where that pays, and that give the same answer either way.

A kernel called from Python runs as the interpreter runs it. A median of some thousand users takes a second, and
numba is not even imported. Inside `compiled()`, where the lab's engines are, the same call goes to numba, which
compiles the kernel with all the kernels that it calls.

numba keeps what it compiled in its cache (in `NUMBA_CACHE_DIR`, beside the package, or in the user's cache folder);
where none of them can be written, every process compiles what it needs. A process that has been in interpreted
kernels for as long as compiling takes compiles them too, so that it takes at most twice as long as if it had known.
`stay_interpreted` is for a process that must never stop to compile: the server.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from importlib.util import find_spec
from typing import Any, TypeVar, cast

_Function = TypeVar("_Function", bound=Callable[..., Any])

_PATIENCE = 20.0  # seconds of a process in interpreted kernels, about what compiling them takes
_INTERPRETED, _COMPILED = "interpreted", "compiled"
# Numbers are divided as numpy divides them; kernels are not called from C.
_OPTIONS: dict[str, Any] = {"error_model": "numpy", "no_cfunc_wrapper": True}

_mode: ContextVar[str | None] = ContextVar("privquant_kernels", default=None)
_compiling = threading.RLock()
# What numba has not been told yet: a function that kernels call, what they compile in its place, and its options.
_untold: list[tuple[Callable[..., Any], Callable[..., Any], dict[str, Any]]] = []


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
    """Kernels called in here are the compiled ones, where numba is installed. `@compiled()` decorates too."""
    token = _mode.set(_COMPILED if HAVE_NUMBA else _mode.get())
    try:
        yield
    finally:
        _mode.reset(token)


def _entry(function: Callable[..., Any], cache: bool, options: dict[str, Any]) -> Callable[..., Any]:
    """The compiled kernel that Python calls."""
    import numba
    from numba.extending import overload

    with _compiling:
        while _untold:
            called, form, its = _untold.pop()
            overload(called, jit_options={**_OPTIONS, **its}, strict=False)(lambda *_, form=form: form)
        try:
            return numba.njit(cache=cache, **_OPTIONS, **options)(function)  # type: ignore[no-any-return]
        except RuntimeError:  # no folder for a cache can be written
            return numba.njit(**_OPTIONS, **options)(function)  # type: ignore[no-any-return]


def njit(*, always: bool = False, cache: bool = False, **options: Any) -> Callable[[_Function], _Function]:
    """A decorator that makes a function a kernel.

    always:   compiled wherever it is called, for what the interpreter cannot do (words of 64 bits that wrap round).
    cache:    numba keeps what it compiled, with all that is behind it.
    options:  numba's.
    """

    def make(function: _Function) -> _Function:
        if not HAVE_NUMBA:
            return function
        entry: Callable[..., Any] | None = None

        @wraps(function)
        def call(*args: Any) -> Any:
            nonlocal entry
            mode = _mode.get()
            if mode is _INTERPRETED and not always:  # called by an interpreted kernel
                return function(*args)
            if always or mode is _COMPILED or _Spent.seconds > _Spent.patience:
                if entry is None:
                    entry = _entry(function, cache, options)
                return entry(*args)
            token = _mode.set(_INTERPRETED)
            start = time.perf_counter()
            try:
                return function(*args)
            finally:
                _mode.reset(token)
                _Spent.seconds += time.perf_counter() - start

        _untold.append((call, function, options))
        return cast(_Function, call)

    return make


def compiled_form(plain: Callable[..., Any], **options: Any) -> Callable[[_Function], _Function]:
    """Say what kernels compile where they call `plain`, which the interpreter goes on running as it is."""

    def register(function: _Function) -> _Function:
        _untold.append((plain, function, options))
        return function

    return register
