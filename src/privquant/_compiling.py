"""Says once that numba compiles, and nothing where it finds its cache warm.

numba tells when it compiles a function that it did not find in its cache, wherever that cache is and whatever made
it stale; so nothing here guesses by the names of files. Whoever talks to a person (`privquant.cli`, the server's
log) calls `announce`; otherwise it is a warning of the logger "privquant", once a process.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable

COMPILING = "compiling the kernels, once: up to a minute"

_say: Callable[[str], None] | None = None
_word = -1  # a pipe with one byte in it
_logged = False


def announce(say: Callable[[str], None]) -> None:
    """From now on, give `say` the line when the first function is compiled here or in a forked process."""
    global _say, _word
    if _word >= 0:
        os.close(_word)
    _say = say
    _word, sink = os.pipe()
    os.write(sink, b"1")
    os.close(sink)


def compiling() -> None:
    """A function is being compiled: called by `privquant._numba`, and by who runs another process that says so."""
    global _say, _logged
    if _say is None:
        if _word < 0 and not _logged:
            _logged = True
            logging.getLogger("privquant").warning(COMPILING)
        return
    say, _say = _say, None
    # The workers of a pool compile at the same moment: the one that gets the byte speaks for all.
    if os.read(_word, 1):
        say(COMPILING)
