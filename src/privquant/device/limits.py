"""The owner's limits against what a campaign asks: each check refuses, or the campaign passes it.

None of them knows the value. They are made before anything is asked, and those on the sums once more under the
ledger's lock, because another process may have answered meanwhile.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from privquant.device import spending
from privquant.device.ledger_format import Answer
from privquant.device.policy import Rule, covers
from privquant.device.refusals import ManifestRefused, PolicyRefused
from privquant.device.shuffle_rule import ShuffleRule
from privquant.device.spending import Spent, shown, shown_delta
from privquant.privacy.shuffle_check import keeps
from privquant.wire import Manifest, Shuffle, fingerprint


def check_campaign(rule: Rule, manifest: Manifest) -> None:
    """Domain, issuer, and the noise of one answer."""
    if not covers(rule.domain, manifest.domain):
        raise PolicyRefused(
            "domain",
            f"the campaign asks in the domain {manifest.domain!r:.200}, the policy has {rule.domain!r:.200}",
        )
    if rule.issuer_key is not None and rule.issuer_key not in (manifest.issuer, fingerprint(manifest.issuer)):
        raise PolicyRefused("issuer-key", f"the campaign's issuer {manifest.issuer} is not the one the policy pins")
    if manifest.shuffle is None:
        check_coin(rule, manifest.flip_threshold)
        return
    trusted, key = shuffle_rule(rule), manifest.shuffle.key
    if trusted.shuffler_key is not None and trusted.shuffler_key not in (key, fingerprint(key)):
        raise PolicyRefused("shuffler-key", f"the campaign's shuffler {key} is not the one the policy pins")
    check_shuffled(rule, trusted, most_spent(manifest), manifest.flip_threshold)


def check_coin(rule: Rule, flips: int) -> None:
    if not spending.keeps(rule.max_units, flips):
        raise _too_dear(rule, spending.cost(flips))


def _too_dear(rule: Rule, units: int) -> PolicyRefused:
    text = f"an answer would cost epsilon {shown(units)}, the policy allows {shown(rule.max_units)}"
    return PolicyRefused("epsilon-per-answer", text)


def shuffle_rule(rule: Rule) -> ShuffleRule:
    if rule.shuffle is None:
        raise PolicyRefused(
            "shuffling",
            "the campaign is shuffled, and the policy trusts no shuffler: it has no table 'shuffle' for this "
            "measurement",
        )
    return rule.shuffle


def check_shuffled(rule: Rule, trusted: ShuffleRule, costs: Spent, flips: int) -> None:
    """What one shuffled answer may cost: epsilon, delta, and the coin's own epsilon."""
    if costs.epsilon > rule.max_units:
        raise _too_dear(rule, costs.epsilon)
    if costs.delta > trusted.max_delta_units:
        raise PolicyRefused(
            "delta-per-answer",
            f"an answer would cost delta {shown_delta(costs.delta)}, the policy allows "
            f"{shown_delta(trusted.max_delta_units)}",
        )
    if not spending.keeps(trusted.max_local_units, flips):
        raise PolicyRefused(
            "local-epsilon-per-answer",
            f"if shuffler and aggregator work together an answer costs epsilon {shown(costs.local)}, the policy "
            f"allows {shown(trusted.max_local_units)}",
        )


def check_address(manifest: Manifest, base: str) -> None:
    """A sealed report goes to the shuffler of the manifest and nowhere else."""
    if manifest.shuffle is not None and base != manifest.shuffle.address:
        raise ManifestRefused(
            "shuffler-address",
            f"the invite leads to {base}, the campaign's shuffler is at {manifest.shuffle.address}",
        )


def check_round(manifest: Manifest, terms: Shuffle, round: int, share: float) -> int:
    """That a round keeps what the campaign promises; the honest reports this counts on.

    share: of the round that the owner takes for fake, if the campaign does not name a larger one itself.
    """
    row = terms.rounds[round]
    batch = max(1, row.batch - math.ceil(max(share, terms.colluding) * row.batch))
    if not keeps(epsilon=manifest.epsilon, delta=terms.delta, coin=row.coin, batch=batch):
        raise ManifestRefused(
            "accounting",
            f"{batch} reports through the coin of round {round}, shuffled, do not keep the epsilon "
            f"{manifest.epsilon!r} and delta {terms.delta!r} that the campaign promises",
        )
    return batch


def most_spent(manifest: Manifest) -> Spent:
    """What an answer costs, whichever round it is asked in."""
    if manifest.shuffle is None:
        return spending.local(manifest.flip_threshold)
    return spending.shuffled(manifest.epsilon, manifest.shuffle.delta, manifest.flip_threshold)


def spent_on(answer: Answer) -> Spent:
    """What an answer of the ledger cost."""
    if answer.shuffled is None:
        return spending.local(answer.coin)
    return Spent(answer.shuffled.epsilon, answer.shuffled.delta, spending.cost(answer.coin))


def total(answers: Sequence[Answer]) -> Spent:
    return sum((spent_on(answer) for answer in answers), Spent())


def local_limit(rule: Rule) -> int:
    """Of the sum of local epsilons. A policy that trusts no shuffler counts shuffled answers like any other."""
    return rule.lifetime_units if rule.shuffle is None else rule.shuffle.lifetime_local_units


def check_budget(rule: Rule, campaign: str, name: str, costs: Spent, so_far: Sequence[Answer]) -> None:
    """Refuse what would be one answer too many, or too dear with all that were given (or may have been)."""
    others = [answer for answer in so_far if answer.campaign != campaign]
    if len(others) >= rule.answers:
        raise PolicyRefused(
            "one-answer",
            f"measurement {name!r} was answered for {len(others)} campaign(s) already and the policy allows "
            f"{rule.answers}",
        )
    spent = total(others)
    if spent.epsilon + costs.epsilon > rule.lifetime_units:
        raise PolicyRefused(
            "epsilon-lifetime",
            f"measurement {name!r} has spent epsilon {shown(spent.epsilon)} of {shown(rule.lifetime_units)}; an "
            f"answer would cost {shown(costs.epsilon)} more",
        )
    if costs.delta:
        most = shuffle_rule(rule).lifetime_delta_units
        if spent.delta + costs.delta > most:
            raise PolicyRefused(
                "delta-lifetime",
                f"measurement {name!r} has spent delta {shown_delta(spent.delta)} of {shown_delta(most)}; an "
                f"answer would cost {shown_delta(costs.delta)} more",
            )
    if spent.local + costs.local > local_limit(rule):
        raise PolicyRefused(
            "local-epsilon-lifetime",
            f"measurement {name!r} has spent epsilon {shown(spent.local)} of {shown(local_limit(rule))} counted "
            f"without a shuffler; an answer would cost {shown(costs.local)} more",
        )
