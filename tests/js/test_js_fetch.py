"""The transport of browsers, over Node's own fetch, against the same hostile servers.

What a browser does not tell it cannot say: floods of headers, what is no HTTP at all and wrong certificates are
"unreachable" there, which is why those tests are not repeated here.
"""

import pytest
import test_hostile_wire
from nodejs import Worker
from test_hostile_wire import *  # noqa: F403

from privquant.device import TransportRefused, TryLater

del test_what_is_not_http_is_refused  # noqa: F821
del test_a_huge_answer_is_cut_off  # noqa: F821


@pytest.fixture(scope="module")
def fetching():
    running = Worker("fetch")
    yield running
    running.close()


@pytest.fixture
def worker(fetching):
    return fetching


@pytest.mark.parametrize("how", ["length", "endless", "chunks"])
@pytest.mark.parametrize("what", ["manifest", "query", "reports"])
def test_a_huge_body_is_cut_off(server, refused, what, how):
    server.on[what] = test_hostile_wire.HUGE[how]
    refused(TransportRefused, "too-large", drawn=what == "reports")


def test_a_length_that_is_claimed_and_not_sent_is_over_when_the_server_closes(server, refused):
    """No byte too many is taken. It is tried again until the device's patience ends, which takes its 5 seconds."""
    server.on["reports"] = test_hostile_wire.HUGE["claimed"]
    refused(TryLater, "unreachable or deadline", drawn=True)
