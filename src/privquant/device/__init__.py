"""The device: runs where the value lives, and decides for itself what leaves.

    from privquant.device import Device, load_policy

    receipt = Device(load_policy("policy.toml")).answer(invite, 37)

Standard library and `cryptography` only; numpy is never imported.
"""

from privquant.device.client import Device as Device
from privquant.device.ledger import Ledger as Ledger
from privquant.device.policy import Policy as Policy
from privquant.device.policy import Rule as Rule
from privquant.device.policy import ShuffleRule as ShuffleRule
from privquant.device.policy import load_policy as load_policy
from privquant.device.policy import policy_from_dict as policy_from_dict
from privquant.device.receipts import Receipt as Receipt
from privquant.device.receipts import ShuffledReceipt as ShuffledReceipt
from privquant.device.refusals import *  # noqa: F403
from privquant.device.retries import Patience as Patience
from privquant.device.transport import Transport as Transport
