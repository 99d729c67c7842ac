"""Runs of isotonic search with liars who choose their moment, with and without epochs and anchors.

`python timed_runs.py [runs]` prints the attack table and the cost on honest data.
"""

import math
import sys

import numpy as np
from statement_runs import reported, world_of

from privquant._numba import njit
from privquant.domain import Integers
from privquant.lab.engine.crowd import fill, new_crowd
from privquant.lab.sample import Sample
from privquant.lab.shapes import shape
from privquant.protocols.isotonic.allocation import answers
from privquant.protocols.isotonic.epochs import (
    add_arrival,
    anchor,
    anchors_due,
    choose_kept,
    epoch_at,
    epochs_of,
    new_arrivals,
    rebuild,
)
from privquant.protocols.isotonic.protocol import Isotonic
from privquant.protocols.isotonic.rules import REUSE, batch_size, is_extreme, threshold_at, weigh_for_query
from privquant.protocols.isotonic.table import add_counts, clear, new_table


@njit(cache=True)
def _heard(cells, run, liars, start, threshold, count, lie, rng):
    """The ones among users start .. start + count: honest ones, and `lie` from each liar."""
    false = 0
    for user in range(start, start + count):
        false += liars[user]
    found = lie * false
    if count > false:
        found += reported(cells, run, threshold, count - false, 0, rng)
    return found


@njit(cache=True)
def _timed(table, arrivals, cells, search, course, run, liars, lie, guarded, kept, rng):
    """One run; the largest contradiction met at its end."""
    q = course.quantiles[0]
    asked = 0
    in_bulk = 0
    anchored = 0
    current = 0
    kept[:] = True
    while asked < run.users:
        count = min(batch_size(asked), run.users - asked)
        epoch = epoch_at(asked, run.users)
        if guarded and epoch != current:
            current = epoch
            believed = kept.copy()
            choose_kept(arrivals, epoch, kept)
            if (believed != kept).any():
                in_bulk = rebuild(table, search, arrivals, kept)
        bulk = in_bulk < course.bulk
        weigh_for_query(table, search, 0.5 if bulk else q, not bulk and course.bulk > 0 and is_extreme(q), 1.0)
        threshold = threshold_at(table, search, 0.5, REUSE)
        due = anchors_due(asked, count) if guarded else 0
        places = np.full(due + 1, threshold)
        for part in range(due):
            found = anchor(table, anchored + part)
            places[part] = found if found >= 0 else threshold
        anchored += due
        for part in range(due + 1):
            users = 1 if part < due else count - due
            if users > 0:
                ones = _heard(cells, run, liars, asked, places[part], users, lie, rng)
                add_arrival(arrivals, places[part], epoch, bulk, users, ones)
                add_counts(table, search, 0, -1, bulk, places[part], users, ones)
                asked += users
                if bulk:
                    in_bulk += users
    if not guarded:
        return 0.0
    evidence = choose_kept(arrivals, kept.size, kept)
    rebuild(table, search, arrivals, kept)
    return evidence


def timed(kind, share, lie, *, name, quantile, users, epsilon, guarded, runs, seed, size=10**6):
    """(rank shifts, contradictions, shares of epochs dropped), one a run."""
    rng = np.random.default_rng(seed)
    template = Isotonic(Integers(0, size - 1), users=users, epsilon=epsilon, quantile=quantile)
    room = users + 64
    table, arrivals, cells = new_table(room), new_arrivals(room), new_crowd(room)
    kept = np.ones(epochs_of(users), np.bool_)
    shifts, evidence, dropped = np.empty(runs), np.empty(runs), np.empty(runs)
    for number in range(runs):
        sample = Sample(shape(name, users, size, rng), size)
        run = world_of(template, sample)
        clear(table)
        arrivals.held[0] = 0
        fill(cells, sample.n)
        evidence[number] = _timed(
            table,
            arrivals,
            cells,
            template.search,
            template.course,
            run,
            liars_of(kind, share, users, rng),
            lie,
            guarded,
            kept,
            rng,
        )
        found = np.empty(1, np.int64)
        answers(table, template.search, template.course, found)
        shifts[number] = sample.rank_error(found, quantile)[0]
        dropped[number] = 1.0 - kept.mean() if guarded else 0.0
    return shifts, evidence, dropped


def liars_of(kind, share, users, rng):
    """Who lies, by order of arrival; "thin" is a quarter of the last users."""
    liars, count = np.zeros(users, np.int64), round(share * users)
    if kind == "first":
        liars[:count] = 1
    elif kind == "middle":
        liars[users // 2 : users // 2 + count] = 1
    elif kind == "last":
        liars[users - count :] = 1
    elif kind == "thin":
        liars[users - 4 * count + rng.permutation(4 * count)[:count]] = 1
    elif kind == "spread":
        liars[rng.permutation(users)[:count]] = 1
    return liars


ATTACKS = (
    ("last", 0.05, 0.5, 0),
    ("middle", 0.05, 0.5, 0),
    ("first", 0.02, 0.9, 0),
    ("first", 0.05, 0.9, 0),
    ("thin", 0.05, 0.5, 0),
    ("spread", 0.05, 0.5, 0),
)
HONEST = (("pareto", 0.5, 2_500), ("ties", 0.5, 2_500), ("pareto", 0.9, 2_500), ("normal", 0.5, 20_000))


def main(runs):
    kappa = math.tanh(0.5)
    print("95 % of |rank shift|, epsilon 1, worst of three shapes; before -> with epochs and anchors")
    for kind, share, q, lie in ATTACKS:
        row = [f"{kind} {share} q={q}", f"bound {share * (0.5 + kappa * (q - 0.5)) / (kappa * (1 - share)):.3f}"]
        for users in (2_000, 5_000, 50_000):
            worst = [0.0, 0.0]
            for guarded in (False, True):
                for number, name in enumerate(("pareto", "normal", "uniform")):
                    found, _, _ = timed(
                        kind,
                        share,
                        lie,
                        name=name,
                        quantile=q,
                        users=users,
                        epsilon=1.0,
                        guarded=guarded,
                        runs=runs,
                        seed=[3, number],
                    )
                    worst[guarded] = max(worst[guarded], float(np.quantile(found, 0.95)))
            row.append(f"{users}: {worst[0]:.3f} -> {worst[1]:.3f}")
        print(" | ".join(row), flush=True)
    print("honest: mean rank error before -> with; runs with a dropped epoch; largest evidence")
    for name, q, users in (
        ("pareto", 0.5, 2_500),
        ("ties", 0.5, 2_500),
        ("pareto", 0.9, 2_500),
        ("normal", 0.5, 20_000),
    ):
        both = [
            timed(
                "none", 0.0, 0, name=name, quantile=q, users=users, epsilon=0.879, guarded=g, runs=4 * runs, seed=5
            )
            for g in (False, True)
        ]
        print(
            f"{name} q={q} n={users}: {both[0][0].mean():.4f} -> {both[1][0].mean():.4f}; "
            f"dropped {np.mean(both[1][2] > 0):.4f}; largest {both[1][1].max():.1f}",
            flush=True,
        )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 60)
