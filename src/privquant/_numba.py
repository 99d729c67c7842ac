"""numba where it is installed, plain Python where it is not: the same functions run either way."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:  # a compiled function is called like the function it was made from
    _Function = TypeVar("_Function", bound=Callable[..., Any])
    HAVE_NUMBA: bool
    BORROWED: dict[str, Any]

    def njit(**options: Any) -> Callable[[_Function], _Function]: ...

    def compiled_form(plain: Callable[..., Any], **options: Any) -> Callable[[_Function], _Function]: ...

else:
    try:
        from numba import njit as njit

        HAVE_NUMBA = True
    except ImportError:
        HAVE_NUMBA = False
        BORROWED = {}

        def njit(*args: Any, **options: Any) -> Any:
            """A decorator that leaves the function as it is."""
            if len(args) == 1 and callable(args[0]) and not options:
                return args[0]

            def leave(function: Callable[..., Any]) -> Callable[..., Any]:
                return function

            return leave

        def compiled_form(plain: Callable[..., Any], **options: Any) -> Any:
            """A decorator that leaves the function as it is: nothing is ever compiled."""
            return lambda function: function

    else:
        from numba.core import event
        from numba.core.options import DefaultOptions
        from numba.extending import overload

        # For a kernel that makes no array: those of its caller live on, so that none need be counted, which is an
        # atomic operation a touch of an array in a tuple. The option is numba's own, not promised; without it the
        # kernels are slower, no more.
        BORROWED = {"_nrt": False} if hasattr(DefaultOptions, "_nrt") else {}

        from privquant._compiling import compiling

        class _Listener(event.Listener):
            """Hears of every function that was not found in numba's cache; those of other packages are theirs."""

            def on_start(self, event: Any) -> None:
                function = getattr(event.data.get("dispatcher"), "py_func", None)
                if getattr(function, "__module__", "").startswith("privquant."):
                    compiling()

            def on_end(self, _event: Any) -> None:
                pass

        event.register("numba:compile", _Listener())

        def compiled_form(plain: Callable[..., Any], **options: Any) -> Any:
            """Say what kernels compile where they call `plain`, which the interpreter goes on running as it is."""

            def register(function: Callable[..., Any]) -> Callable[..., Any]:
                overload(plain, jit_options=options, strict=False)(lambda *args: function)
                return function

            return register


def shared(**options: Any) -> Callable[[_Function], _Function]:
    """A function that the interpreter runs as it is, and that compiles as a part of the kernels that call it."""

    def share(function: _Function) -> _Function:
        return compiled_form(function, **options)(function)

    return share
