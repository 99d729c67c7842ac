"""What an operator is told about liars: how far a few can move the answer, and when the reports cannot be honest.

Two signs. Rates: honest devices report a one with probability between (1 - kappa)/2 and (1 + kappa)/2, whatever
their values and whatever they are asked. So does any mixture of them: neighbouring thresholds are looked at
together, because a single one has too few reports to tell. Time: devices that come together and lie contradict
those of the rest of the run, even where every rate is one that honest devices could have
(`protocols.isotonic.contradiction`).
"""

from collections.abc import Sequence

import numpy as np

from privquant.aggregator.campaign.protocol import build_protocol
from privquant.aggregator.store.base import Counts
from privquant.planning.statement import liars_in_a_run
from privquant.privacy.coin import real_epsilon
from privquant.privacy.poisoning import impossible_rate
from privquant.protocols.isotonic.contradiction import HONEST_RUNS, Judgement, judgement
from privquant.protocols.isotonic.epochs import new_arrivals, with_rows
from privquant.protocols.isotonic.protocol import Isotonic
from privquant.wire import Manifest

BLOCK = 200
"""Reports that are looked at together, at least."""
FALSE_ALARM = 1e-6
"""Probability that an honest campaign is ever alarmed about, at one look."""
EXAMPLE = 0.01


def poisoning(manifest: Manifest) -> str:
    """What one liar in a hundred, answering at a time it did not choose, can do to each quantile."""
    return liars(manifest, EXAMPLE, guarded=_epochs_of(manifest) > 0)


def liars(manifest: Manifest, share: float, *, guarded: bool = False) -> str:
    """What a share of liars can do; in a shuffled campaign where the coin flips most: there they weigh most."""
    return liars_in_a_run(
        share, epsilon=real_epsilon(max(manifest.coins)), quantiles=manifest.quantiles, guarded=guarded
    )


def _epochs_of(manifest: Manifest) -> int:
    """Into how many parts the run is cut to be guarded."""
    protocol = build_protocol(manifest)
    return protocol.run_plan.epochs if isinstance(protocol, Isotonic) else 0


def alarms(manifest: Manifest, counts: Sequence[Counts]) -> list[str]:
    """A sentence for everything in the reports that honest devices alone cannot have brought about.

    Rounds of a shuffled campaign are no parts of a guarded run: of their counts `impossible_rates` is all there is.
    """
    impossible, found = impossible_rates(manifest, counts), judged(manifest, counts)
    if found is None or not found[0].alarm:
        return impossible
    said, parts = found
    where = ", ".join(str(epoch + 1) for epoch in said.dropped)
    left_out = (
        f"part {where} of {parts} of the run is left out of the answer"
        if said.dropped
        else "the parts are so many that none is left out, and the answer cannot be relied on"
    )
    return [
        *impossible,
        f"reports to questions handed out in one part of the run contradict those of the others; {left_out}. "
        "Devices that lie together look like this, and so does a real change in who answers. None of "
        f"{HONEST_RUNS:,} simulated honest runs raised this alarm",
    ]


def judged(manifest: Manifest, counts: Sequence[Counts]) -> tuple[Judgement, int] | None:
    """What the reports say about the epochs of their run, and how many it has; None where it is not guarded."""
    parts = _epochs_of(manifest)
    if parts == 0:
        return None
    rows = [(row.query.threshold, row.query.phase, row.answered, row.ones) for row in counts]
    found = with_rows(new_arrivals(0, parts, len(manifest.quantiles)), np.array(rows, np.int64).reshape(-1, 4))
    return judgement(found), parts


def impossible_rates(manifest: Manifest, counts: Sequence[Counts]) -> list[str]:
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
