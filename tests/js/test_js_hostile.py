"""The hostile servers of the Python device's tests, and the same expectations, against the device in Node.

The ledgers it leaves behind are read by the Python device: both keep one format.
"""

from test_hostile import *  # noqa: F403
from test_hostile_wire import *  # noqa: F403
