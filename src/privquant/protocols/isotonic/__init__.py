"""Isotonic search: our own protocol, the default. Its state is one table of counts a threshold."""

from privquant.protocols.isotonic.protocol import Isotonic as Isotonic

__all__ = ["Isotonic"]
