"""The owner's limits against what a campaign asks: each check refuses, or the campaign passes it.

None of them knows the value. They are made before anything is asked, and those on the sums once more under the
ledger's lock, because another process may have answered meanwhile.
"""

from collections.abc import Sequence

from privquant.device import spending
from privquant.device.ledger_format import Answer
from privquant.device.policy import Rule, ShuffleRule, covers
from privquant.device.refusals import PolicyRefused
from privquant.device.spending import Spent, shown, shown_delta
from privquant.wire import Manifest, fingerprint


def check_campaign(rule: Rule, manifest: Manifest) -> None:
    """Domain and issuer."""
    if not covers(rule.domain, manifest.domain):
        raise PolicyRefused(
            "domain",
            f"the campaign asks in the domain {manifest.domain!r:.200}, the policy has {rule.domain!r:.200}",
        )
    if rule.issuer_key is not None and rule.issuer_key not in (manifest.issuer, fingerprint(manifest.issuer)):
        raise PolicyRefused("issuer-key", f"the campaign's issuer {manifest.issuer} is not the one the policy pins")


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
