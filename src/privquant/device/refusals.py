"""Why the device did not answer: every reason has a code, a class and a plain sentence.

A `Refused` is final until something changes: the device will not answer this question, or will not answer it
under this policy and ledger. A `TryLater` says that nothing is wrong with the question but it could not be
answered now; asking again is safe, because an answer that was drawn is only ever resent.

The code (`reason`) is for programs, one of the codes listed with its class; the text is for people.
"""

from typing import ClassVar

from privquant.errors import PrivquantError


class NotAnswered(PrivquantError):
    """No answer was acknowledged; `reason` says why in one word."""

    reasons: ClassVar[frozenset[str]] = frozenset()

    def __init__(self, reason: str, text: str) -> None:
        if reason not in self.reasons:
            raise AssertionError(f"{type(self).__name__} knows no reason {reason!r}")
        super().__init__(text)
        self.reason = reason
        self.text = text


class Refused(NotAnswered):
    """The device will not answer, whatever the server says."""


class InviteRefused(Refused):
    """The invite itself cannot be used."""

    reasons = frozenset({"invite-malformed"})


class ManifestRefused(Refused):
    """What the server published is not the campaign the invite promised, or not one this device knows."""

    reasons = frozenset({"manifest-malformed", "manifest-forged", "trust-model", "shuffler-address", "accounting"})


class PolicyRefused(Refused):
    """The owner's policy does not allow this answer."""

    reasons = frozenset(
        {
            "unknown-measurement",
            "domain",
            "issuer-key",
            "epsilon-per-answer",
            "epsilon-lifetime",
            "one-answer",
            "shuffling",
            "shuffler-key",
            "delta-per-answer",
            "delta-lifetime",
            "local-epsilon-per-answer",
            "local-epsilon-lifetime",
        }
    )


class QuestionRefused(Refused):
    """The question is not one about this domain, or not the one its round was announced with."""

    reasons = frozenset({"question-malformed", "threshold", "announcement-forged", "second-announcement"})


class LedgerRefused(Refused):
    """The ledger cannot be trusted or cannot be written, so nothing may leave."""

    reasons = frozenset({"ledger-unreadable", "ledger-unwritable", "ledger-corrupt", "ledger-version"})


class TransportRefused(Refused):
    """The server spoke in a way the device does not accept."""

    reasons = frozenset({"insecure", "redirect", "too-large", "not-http"})


class ServerRefused(Refused):
    """The server gave a final no: the campaign is over, or the invite is unknown or used up."""

    reasons = frozenset({"server-refused"})


class TryLater(NotAnswered):
    """Not now. `retry_after` is how many seconds to wait, where the server said so."""

    reasons = frozenset(
        {"not-yet", "unreachable", "deadline", "server-error", "bad-acknowledgement", "ledger-busy"}
    )

    def __init__(self, reason: str, text: str, retry_after: float | None = None) -> None:
        super().__init__(reason, text)
        self.retry_after = retry_after
