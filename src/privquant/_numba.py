"""numba where it is installed, plain Python where it is not: the same functions run either way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

try:
    from numba import njit as njit
    from numba import prange as prange

    HAVE_NUMBA = True
except ImportError:
    HAVE_NUMBA = False
    prange = range

    def njit(*args: Any, **options: Any) -> Any:
        """A decorator that leaves the function as it is."""
        if len(args) == 1 and callable(args[0]) and not options:
            return args[0]

        def leave(function: Callable[..., Any]) -> Callable[..., Any]:
            return function

        return leave
