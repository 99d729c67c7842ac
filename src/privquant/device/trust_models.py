"""What a device does differently in the two trust models: the checks, the cost, the question, the policy.

In the local model a device trusts nobody with its bit, and the coin alone protects it: the question is a threshold
with a ticket. In the shuffled model the bit is sealed to the aggregator and mixed by a shuffler: the question is a
round that the issuer announced. `model_of` says which model a campaign has, and nothing else of a device asks.

A question is checked before the value takes part in anything. It is the pair of what the ledger keeps of a zero and
of a one. Both are made before the coin is thrown, so that a key which cannot seal is found out in time; one of them
is ever used. Both bits take the same way.
"""

import math

from privquant import wire
from privquant.device import limits, spending
from privquant.device.ledger import Ledger
from privquant.device.ledger_format import Answer, Shuffled
from privquant.device.policy import Rule
from privquant.device.refusals import ManifestRefused, PolicyRefused, QuestionRefused
from privquant.device.retries import Caller, reading
from privquant.device.spending import Spent
from privquant.messages import Guarantee
from privquant.privacy.coin import Coin
from privquant.privacy.shuffle_check import keeps
from privquant.wire import Manifest, fingerprint

Question = tuple[Answer, Answer]


class LocalModel:
    """The coin alone protects the bit."""

    def __init__(self, manifest: Manifest) -> None:
        self.manifest = manifest

    def check_limits(self, rule: Rule) -> None:
        """PolicyRefused if one answer would reveal more than the rule allows, or to a party it does not trust."""
        limits.check_coin(rule, self.manifest.flip_threshold)

    def check_address(self, base: str) -> None:
        """ManifestRefused if a report must not go to this address."""

    def check_rounds(self, share: float) -> None:
        """ManifestRefused if a round does not keep what the campaign promises."""

    def most_spent(self) -> Spent:
        """What an answer costs, whichever question is asked."""
        return spending.local(self.manifest.flip_threshold)

    def ask(self, _rule: Rule, campaign: str, token: str, caller: Caller, _ledger: Ledger) -> Question:
        """The question for this token."""
        manifest = self.manifest
        response = caller.call(wire.QUERY, campaign, wire.query_request(token))
        with reading(QuestionRefused, "question-malformed", "the question cannot be read"):
            ticket = wire.Ticket.parse(response.body)
        # The last index is no threshold: everybody's value is at most the largest.
        if not 0 <= ticket.threshold <= manifest.domain.size - 2:
            raise QuestionRefused(
                "threshold",
                f"threshold {ticket.threshold} is outside the domain's 0 .. {manifest.domain.size - 2}",
            )
        asked = (manifest.measurement, campaign, manifest.flip_threshold, ticket.threshold)
        return Answer(*asked, 0, token, ticket.ticket), Answer(*asked, 1, token, ticket.ticket)

    def policy_table(self) -> str:
        """What a policy that allows this campaign needs beside the rule, in TOML."""
        return ""

    def in_words(self) -> str:
        """What such a policy allows, a line for each thing."""
        coin = Coin(self.manifest.flip_threshold)
        return (
            f"- one answer about {self.manifest.measurement}, ever: one bit, which a coin turns with a chance of "
            f"{100 * coin.flip:.3g} %;\n"
            f"- epsilon {self.manifest.epsilon:.4g}: whichever bit leaves, no value explains it more than "
            f"{math.exp(coin.epsilon):.3g} times as well as another. {Guarantee('local', coin.epsilon)}\n"
        )


class ShuffledModel:
    """A shuffler mixes the sealed bits of a round."""

    def __init__(self, manifest: Manifest) -> None:
        self.manifest = manifest
        self.terms = wire.terms_of(manifest)

    def check_limits(self, rule: Rule) -> None:
        trusted, key = limits.shuffle_rule(rule), self.terms.key
        if trusted.shuffler_key is not None and trusted.shuffler_key not in (key, fingerprint(key)):
            raise PolicyRefused("shuffler-key", f"the campaign's shuffler {key} is not the one the policy pins")
        limits.check_shuffled(rule, trusted, self.most_spent(), self.manifest.flip_threshold)

    def check_address(self, base: str) -> None:
        """A sealed report goes to the shuffler of the manifest and nowhere else."""
        if base != self.terms.address:
            raise ManifestRefused(
                "shuffler-address",
                f"the invite leads to {base}, the campaign's shuffler is at {self.terms.address}",
            )

    def check_rounds(self, share: float) -> None:
        for row in set(self.terms.rounds):
            self.check_round(self.terms.rounds.index(row), share)

    def check_round(self, round: int, share: float) -> int:
        """That a round keeps what the campaign promises; the honest reports this counts on.

        share: of the round that the owner takes for fake, if the campaign does not name a larger one itself.
        """
        manifest, terms, row = self.manifest, self.terms, self.terms.rounds[round]
        batch = max(1, row.batch - math.ceil(max(share, terms.colluding) * row.batch))
        if not keeps(epsilon=manifest.epsilon, delta=terms.delta, coin=row.coin, batch=batch):
            raise ManifestRefused(
                "accounting",
                f"{batch} reports through the coin of round {round}, shuffled, do not keep the epsilon "
                f"{manifest.epsilon!r} and delta {terms.delta!r} that the campaign promises",
            )
        return batch

    def most_spent(self) -> Spent:
        return spending.shuffled(self.manifest.epsilon, self.terms.delta, self.manifest.flip_threshold)

    def ask(self, rule: Rule, campaign: str, token: str, caller: Caller, ledger: Ledger) -> Question:
        response = caller.call(wire.ROUND_QUERY, campaign, wire.query_request(token))
        forged = "the round was not announced by the issuer like this"
        with (
            reading(QuestionRefused, "question-malformed", "the question cannot be read"),
            reading(QuestionRefused, "announcement-forged", forged, wire.SignatureError),
        ):
            found = wire.RoundAnswer.parse(response.body, self.manifest)
        round, threshold = found.announcement.round, found.announcement.threshold
        other = ledger.note_round(campaign, (*found.earlier, threshold))
        if other is not None:
            raise QuestionRefused(
                "second-announcement",
                f"the issuer has signed two thresholds for round {other} of campaign {campaign}: it cheats; please "
                "tell who runs the shuffler",
            )
        batch = self.check_round(round, limits.shuffle_rule(rule).share)
        coin = self.terms.rounds[round].coin
        costs = spending.shuffled(self.manifest.epsilon, self.terms.delta, coin)
        asked = (self.manifest.measurement, campaign, coin, threshold)
        info = wire.report_info(campaign, round, threshold, coin)
        with reading(ManifestRefused, "manifest-malformed", "nothing can be sealed to the campaign"):
            sealed = [wire.sealed_to_wire(wire.seal(bit, self.terms.seal, info)) for bit in (0, 1)]
        more = [Shuffled(round, each, self.terms.address, costs.epsilon, costs.delta, batch) for each in sealed]
        return Answer(*asked, 0, token, "", shuffled=more[0]), Answer(*asked, 1, token, "", shuffled=more[1])

    def policy_table(self) -> str:
        """It allows the shuffler, the delta, and the most honest coin if the shuffler is not honest."""
        costs = self.most_spent()
        return (
            f'\n[measurements."{self.manifest.measurement}".shuffle]\n'
            f"max_local_epsilon = {spending.shown(costs.local)}\n"
            f"max_delta = {spending.shown_delta(costs.delta)}\n"
            f'shuffler_key = "{fingerprint(self.terms.key)}"\n'
        )

    def in_words(self) -> str:
        manifest, terms, coin = self.manifest, self.terms, Coin(self.manifest.flip_threshold)
        least, most = (pick(row.batch for row in terms.rounds) for pick in (min, max))
        return (
            f"- one answer about {manifest.measurement}, ever: one bit, sealed so that the issuer alone can read "
            f"it, and mixed by the shuffler at {terms.address} with those of {least:,} to {most:,} people in a "
            "round, or withheld;\n"
            f"- epsilon {manifest.epsilon:.4g} and delta {terms.delta:.2g}, if the shuffler is honest and at most "
            f"{100 * terms.colluding:.3g} % of a round's reports are fake: what the issuer learns from a round, no "
            f"value explains more than {math.exp(manifest.epsilon):.3g} times as well as another, but for a chance "
            f"of {terms.delta:.2g};\n"
            f"- local epsilon {coin.epsilon:.4g}, if shuffler and issuer work together: then the coin alone "
            f"protects the bit, and turns it with a chance of {100 * coin.flip:.3g} %;\n"
            f"- through the shuffler with the key {fingerprint(terms.key)} and no other;\n"
        )


def model_of(manifest: Manifest) -> LocalModel | ShuffledModel:
    """The trust model of a campaign."""
    return LocalModel(manifest) if manifest.shuffle is None else ShuffledModel(manifest)
