"""Several aggregators of one campaign, added up: their exports hold counts per question, and counts add.

Each aggregator has the same manifest and key, a store of its own and invites of its own, and searches for itself.
What is answered from the sum is what one aggregator would have answered that had heard all of the reports. It
speaks of all the people only if each aggregator's are a random part of them: one that serves a region asks where
the region's answer is, so its thresholds and its people go together, and the sum belongs to no population at all.
`differ` looks for that.
"""

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

from privquant.aggregator.campaign.protocol import estimates_of
from privquant.aggregator.campaign.states import State
from privquant.aggregator.store.base import Counts
from privquant.error_words import Typical
from privquant.errors import InvalidInput
from privquant.messages import Estimate, Query
from privquant.wire import Manifest, WireError, canonical, fingerprint, open_issued

_CLEAR = 0.3


def merged_counts(exports: Sequence[Mapping[str, Any]]) -> tuple[Manifest, list[Counts]]:
    """The campaign's manifest, and the sum of the counts that `campaign export` gave for it."""
    if not exports:
        raise InvalidInput("there is nothing to merge: give the exports of at least one aggregator")
    manifests = [_manifest(form, place) for place, form in enumerate(exports, 1)]
    for place, manifest in enumerate(manifests[1:], 2):
        if manifest.id != manifests[0].id:
            raise InvalidInput(
                f"export {place} is of campaign {manifest.id}, the first of {manifests[0].id}: only counts of one "
                "campaign, with one manifest, can be added"
            )
    if manifests[0].rounds:
        raise InvalidInput(
            f"campaign {manifests[0].id} is shuffled, and such a campaign has one aggregator: its shuffler opens a "
            "round for one announcement and sends one batch of it, so there are no parts to add; its one export "
            "has the whole answer"
        )
    sums: dict[Query, list[int]] = {}
    for place, form in enumerate(exports, 1):
        if form.get("state") != State.CLOSED:
            raise InvalidInput(
                f"export {place} is of a campaign that is {form.get('state')!r}: close it first; what is shown of "
                "one that runs lags behind on purpose"
            )
        for row in form["counts"]:
            query = Query(int(row["threshold"]), int(row["coin"]), int(row["phase"]), int(row["arm"]))
            entry = sums.setdefault(query, [0, 0])
            entry[0] += int(row["answered"])
            entry[1] += int(row["ones"])
    return manifests[0], [Counts(query, answered, ones) for query, (answered, ones) in sums.items()]


def merged_estimates(exports: Sequence[Mapping[str, Any]]) -> list[Estimate]:
    """What the reports of all aggregators together say."""
    manifest, counts = merged_counts(exports)
    return estimates_of(manifest, counts)


def differ(alone: Sequence[Sequence[Estimate]]) -> bool:
    """Whether the aggregators' people are seen to differ, from what each says alone.

    Typical ranges that are apart by `_CLEAR` of their half-widths taken together: of alike parts of 300 users one
    pair in fifty, of larger ones none of 800 (docs/scale.md). Where the data are lumpy nothing is typical, and
    nothing is seen.
    """
    for same_quantile in zip(*alone, strict=True):
        ranges = [e.typical for e in same_quantile if isinstance(e.typical, Typical)]
        for one, two in combinations(sorted(ranges, key=lambda found: found.low), 2):
            if two.low - one.high > _CLEAR * (one.high - one.low + two.high - two.low) / 2:
                return True
    return False


def _manifest(form: Mapping[str, Any], place: int) -> Manifest:
    try:
        envelope = form["envelope"]
        issuer = fingerprint(str(envelope["manifest"]["issuer"]))
        return open_issued(canonical(envelope), campaign_id=str(form["campaign"]), key_fingerprint=issuer)
    except (KeyError, TypeError, ValueError, WireError) as error:
        raise InvalidInput(
            f"export {place} is not what `privquant campaign export` writes, or was changed: {error}"
        ) from error
