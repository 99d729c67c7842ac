"""What many devices in flight cost a campaign, with and without spread thresholds.

    python benchmarks/service/in_flight.py --campaigns 60

Simulated campaigns over the aggregator's own protocol: devices are handed the published queries until the next are
computed, which happens after a random number of them (exponential, with the mean given). Prints mean and 90 % rank
error.
"""

from __future__ import annotations

import argparse
import random
import statistics

from privquant.aggregator.campaign.protocol import CampaignProtocol
from privquant.aggregator.store.base import Counts
from privquant.demo.local import DOMAIN, people, rank_error
from privquant.messages import Query
from privquant.privacy.coin import Coin, flip_threshold
from privquant.wire import Manifest, Waves


def campaign(users: int, in_flight: int, spread: float, seed: int) -> float:
    """The rank error of one campaign at epsilon 1."""
    values, rng, flip = people(users, seed), random.Random(seed + 1), Coin.of(1.0).flip
    manifest = Manifest(
        measurement="lag",
        question="?",
        domain=DOMAIN,
        quantiles=(0.5,),
        epsilon=1.0,
        flip_threshold=flip_threshold(1.0),
        protocol="isotonic",
        options=(("spread", repr(spread)),),
        interval=None,
        planned_users=users,
        waves=Waves(),
        opens=0,
        deadline=1,
        issuer="0" * 64,
        nonce="0" * 32,
    )
    search = CampaignProtocol(manifest)
    counts: dict[Query, tuple[int, int]] = {}
    done = 0
    while done < users:
        hand = [query for query, count in search.next_queries() for _ in range(count)]
        rng.shuffle(hand)
        for place in range(min(users - done, max(1, int(rng.expovariate(1 / in_flight))))):
            query = hand[place % len(hand)]
            bit = int(values[done] <= query.threshold) ^ (rng.random() < flip)
            answered, ones = counts.get(query, (0, 0))
            counts[query] = (answered + 1, ones + bit)
            done += 1
        search.update([Counts(query, *pair) for query, pair in counts.items()])
    value = search.estimates()[0].value
    assert isinstance(value, int)
    return rank_error(values, value, 0.5)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--campaigns", type=int, default=60)
    count = parser.parse_args().campaigns
    print("users  in flight  spread 0: mean  90 %   spread 0.25: mean  90 %")
    for users in (1_000, 5_000):
        for in_flight in (10, 50, 200, 500):
            shown = []
            for spread in (0.0, 0.25):
                errors = sorted(campaign(users, in_flight, spread, seed) for seed in range(count))
                shown.append(f"{statistics.mean(errors):.4f}  {errors[int(0.9 * count)]:.4f}")
            print(f"{users:5}  {in_flight:9}  {shown[0]:>20}  {shown[1]:>22}", flush=True)


if __name__ == "__main__":
    main()
