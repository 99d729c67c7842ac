"""What an operator is told about liars: how far a few can move the answer, and when the reports cannot be honest.

Honest devices report a one with probability between (1 - kappa)/2 and (1 + kappa)/2, whatever their values and
whatever they are asked. So does any mixture of them: neighbouring thresholds are looked at together, because a
single one has too few reports to tell.
"""

from __future__ import annotations

from collections.abc import Sequence

from privquant.aggregator.store.base import Counts
from privquant.planning.statement import liars_in_a_run
from privquant.privacy.coin import real_epsilon
from privquant.privacy.poisoning import impossible_rate
from privquant.wire import Manifest

BLOCK = 200
"""Reports that are looked at together, at least."""
FALSE_ALARM = 1e-6
"""Probability that an honest campaign is ever alarmed about, at one look."""
EXAMPLE = 0.01


def poisoning(manifest: Manifest) -> str:
    """What one liar in a hundred, answering at a time it did not choose, can do to each quantile."""
    return liars_in_a_run(EXAMPLE, epsilon=real_epsilon(manifest.flip_threshold), quantiles=manifest.quantiles)


def alarms(manifest: Manifest, counts: Sequence[Counts]) -> list[str]:
    """A sentence for every stretch of thresholds whose reports cannot come from honest devices alone."""
    blocks: list[tuple[int, int, int, int]] = []
    low, answered, ones = None, 0, 0
    for row in sorted(counts, key=lambda row: row.query.threshold):
        low = row.query.threshold if low is None else low
        answered, ones = answered + row.answered, ones + row.ones
        if answered >= BLOCK:
            blocks.append((low, row.query.threshold, answered, ones))
            low, answered, ones = None, 0, 0
    epsilon = real_epsilon(manifest.flip_threshold)
    return [
        f"{ones} of {answered} reports to the thresholds {manifest.domain.value(first)} .. "
        f"{manifest.domain.value(last)} are ones, which honest devices cannot have sent"
        for first, last, answered, ones in blocks
        if impossible_rate(ones, answered, epsilon=epsilon, false_alarm=FALSE_ALARM / len(blocks))
    ]
