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


@pytest.mark.parametrize("how", ["length", "claimed", "endless", "chunks"])
@pytest.mark.parametrize("what", ["manifest", "query", "reports"])
def test_a_huge_body_is_cut_off(server, refused, what, how):
    server.on[what] = test_hostile_wire.HUGE[how]
    # A length that is claimed and not sent is over when the server closes; no byte too many was taken.
    kind, reason = (TryLater, "unreachable or deadline") if how == "claimed" else (TransportRefused, "too-large")
    refused(kind, reason, drawn=what == "reports")
