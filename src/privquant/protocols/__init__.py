"""The search itself. Pure: no I/O, no clock, no global randomness. One file a protocol, one contract in base.py."""
