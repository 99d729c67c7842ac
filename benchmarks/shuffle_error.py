"""The error of a deployed shuffled campaign beside the lab's, the paper's shuffled naive search and local privacy.

    python benchmarks/shuffle_error.py --campaigns 40

n = 10^5 users, epsilon 1, delta 1e-8, 4^9 values, median. The campaigns are the deployed ones without the network:
the manifest that `campaign create --trust shuffle` makes, its rounds announced and folded by the aggregator's own
code, each with its own coin. "With losses" plans for 5 % drop-outs, drops one round in ten and overfills the others
by up to 3. The other columns are runs of the lab's engine.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

import numpy as np

from privquant import lab
from privquant.aggregator.campaign.campaigns import new_manifest
from privquant.aggregator.campaign.mode import Draft, ShuffleDraft
from privquant.aggregator.campaign.protocol import RoundFold
from privquant.aggregator.store.rounds import COUNTED, DROPPED, RoundRow
from privquant.domain import Integers
from privquant.lab.populations import CountUsers
from privquant.lab.sample import Sample
from privquant.lab.shapes import shape
from privquant.protocols.isotonic.shuffled import shuffled_isotonic
from privquant.protocols.naive.shuffled import shuffled_settings
from privquant.server.keys import KeyFolder
from privquant.wire import Manifest

USERS, SIZE, EPSILON, DELTA = 100_000, 4**9, 1.0, 1e-8
DOMAIN = Integers(0, SIZE - 1)


def manifest(folder: Path, protocol: str, drop_outs: float) -> Manifest:
    shuffle = ShuffleDraft(DELTA, "https://shuffle.example.org", "0" * 64, drop_outs=drop_outs)
    draft = Draft("m", "How much?", DOMAIN, EPSILON, USERS, protocol=protocol, shuffle=shuffle)
    return new_manifest(draft, KeyFolder(folder / "keys"))


def campaign(made: Manifest, sample: Sample, rng: np.random.Generator, *, losses: bool) -> float:
    """The rank error of one campaign."""
    users, fold, rows = CountUsers(sample, rng), RoundFold(made), list[RoundRow]()
    assert made.shuffle is not None
    for number, terms in enumerate(made.shuffle.rounds):
        threshold = fold.next_threshold()
        assert threshold is not None
        answered = terms.batch + (int(rng.integers(0, 4)) if losses else 0)
        dropped = losses and rng.random() < 0.1
        query = fold.protocol.query_of_round(number, threshold)
        ones = users.answer_counts(query, terms.batch // 2 if dropped else answered)
        state, counts = (DROPPED, (0, 0)) if dropped else (COUNTED, (answered, ones))
        rows.append(RoundRow(number, threshold, b"", state, True, False, None, counts[0], *counts))
        fold.update(rows)
    index = fold.protocol.estimate().index
    assert index is not None
    return float(sample.rank_error(np.array([index]), 0.5)[0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--campaigns", type=int, default=40)
    parser.add_argument("--runs", type=int, default=2_000)
    parser.add_argument("--seed", type=int, default=16)
    parser.add_argument("--shapes", nargs="*", default=["pareto", "uniform", "lognormal"])
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        whole, spare = manifest(Path(folder), "isotonic", 0.0), manifest(Path(folder), "isotonic", 0.05)
        naive = manifest(Path(folder), "naive", 0.0)
    lemma = shuffled_settings(DOMAIN, users=USERS, epsilon=EPSILON, delta=DELTA, method="lemma")
    built = shuffled_isotonic(DOMAIN, users=USERS, epsilon=EPSILON, delta=DELTA)
    rounds = {"epsilon": built.epsilon, "rounds": built.rounds}
    for name in given.shapes:
        rng = np.random.default_rng(given.seed)
        values = shape(name, USERS, SIZE, rng)
        sample = Sample(values, SIZE)
        deployed = [campaign(whole, sample, rng, losses=False) for _ in range(given.campaigns)]
        lossy = [campaign(spare, sample, rng, losses=True) for _ in range(given.campaigns)]
        paper = [campaign(naive, sample, rng, losses=False) for _ in range(given.campaigns)]
        row = {
            "data": name,
            "deployed": mean(deployed),
            "deployed, with losses": mean(lossy),
            "deployed naive": mean(paper),
        }
        for title, settings in (
            ("lab", {"protocol": "isotonic", **rounds}),
            ("naive, lemma", {"protocol": "naive", "epsilon": lemma["epsilon"]}),
            ("local isotonic", {"protocol": "isotonic", "epsilon": EPSILON}),
        ):
            found = lab.trials(values, domain=DOMAIN, trials=given.runs, seed=given.seed, **settings)
            row[title] = mean(found.rank_errors().tolist())
        print(json.dumps(row), flush=True)


def mean(errors: list[float]) -> str:
    """Mean and its standard error."""
    spread = np.std(errors, ddof=1) / len(errors) ** 0.5
    return f"{np.mean(errors):.2e} +- {spread:.0e}"


if __name__ == "__main__":
    main()
