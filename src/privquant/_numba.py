"""numba where it is installed, plain Python where it is not: the same functions run either way."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:  # a compiled function is called like the function it was made from
    _Function = TypeVar("_Function", bound=Callable[..., Any])
    HAVE_NUMBA: bool

    def njit(**options: Any) -> Callable[[_Function], _Function]: ...

else:
    try:
        from numba import njit as njit

        HAVE_NUMBA = True
    except ImportError:
        HAVE_NUMBA = False

        def njit(*args: Any, **options: Any) -> Any:
            """A decorator that leaves the function as it is."""
            if len(args) == 1 and callable(args[0]) and not options:
                return args[0]

            def leave(function: Callable[..., Any]) -> Callable[..., Any]:
                return function

            return leave

    else:
        from numba.core import event

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
