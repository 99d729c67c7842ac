"""The Python device's own tests of an honest server and a bad network, against the device in Node."""

from test_device import *  # noqa: F403

# These reach into Python objects; their like for JavaScript is in test_js_ledger.
del test_a_prepared_bit_stays_here_when_the_policy_was_tightened  # noqa: F821
del test_a_device_can_be_given_its_ledger  # noqa: F821
del test_pauses_double_and_are_cut_by_chance  # noqa: F821
del test_patience_is_a_time  # noqa: F821
