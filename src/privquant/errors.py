"""The one root of everything privquant raises on purpose.

A message says what was given, what is allowed and, where it helps, what to do. `InvalidInput` is the
caller's fault; `ProtocolError` is the fault of whoever sent a message (a report, a state) that does not
belong to the protocol it was handed to.
"""


class PrivquantError(Exception):
    """Root of all errors raised by privquant."""


class InvalidInput(PrivquantError, ValueError):
    """An argument, a data set or a setting that cannot be used as it was given."""


class ProtocolError(PrivquantError):
    """A report, query or state that does not belong to this protocol."""


class MissingDependency(PrivquantError, ImportError):
    """An optional part was used without the extra that brings what it needs.

    Parameters
    ----------
    what : str
        The part that was used.
    package : str
        The package it needs.
    extra : str
        The extra of privquant that brings it.
    """

    def __init__(self, what: str, package: str, extra: str) -> None:
        super().__init__(f"{what} needs {package}, which is not installed: pip install 'privquant[{extra}]'")
