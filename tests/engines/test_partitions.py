"""Users in partitions: nobody is asked twice, a round is answered once, and only coins decide what leaves."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
import scipy.stats

import privquant as pq
from privquant.device.policy import Rule
from privquant.engines import Answered, KeptPartition, PartitionedPopulation, ray_population
from privquant.engines.kept_partition import draws
from privquant.engines.partitions import PartitionRefused
from privquant.errors import InvalidInput
from privquant.lab.schedule import Schedule
from privquant.messages import Query, TreeReport
from privquant.privacy.coin import Coin
from privquant.protocols.tree.encodings import rows, sign_bit

DOMAIN = pq.Integers(0, 9999)
RULE = Rule(DOMAIN, 1.0)
COIN = Coin.of(1.0).threshold


def written(folder: Path, sizes: list[int], seed: int = 5) -> list[Path]:
    """Files whose users differ from file to file, each sorted: an order of rows must not matter."""
    rng = np.random.default_rng(seed)
    paths = []
    for k, size in enumerate(sizes):
        values = np.sort(np.clip(rng.lognormal(6.0 + 0.4 * k, 1.0, size), 0, 9999).astype(np.int64))
        paths.append(folder / f"part{k}.parquet")
        parquet.write_table(pa.table({"ms": values}), paths[-1])
        fix_secret(paths[-1])
    return paths


def fix_secret(path: Path) -> None:
    """A secret of the test's own, so that its coins fall the same way each time."""
    folder = path.with_name(path.name + ".privquant")
    folder.mkdir()
    (folder / "secret").write_bytes(hashlib.sha256(path.name.encode()).digest())
    (folder / "secret").chmod(0o600)


def opened(paths: list[Path], rule: Rule = RULE) -> list[KeptPartition]:
    return [KeptPartition.of_file(path, "ms", rule) for path in paths]


def ranked(paths: list[Path], value: float) -> float:
    values = np.concatenate([parquet.read_table(path)["ms"].to_numpy() for path in paths])
    return float((values <= value).mean())


@pytest.mark.parametrize(
    ("name", "options", "schedule", "alpha"),
    [
        ("isotonic", {"spread": 0.25}, Schedule.growing(0.2), 0.03),
        ("naive", {}, None, 0.06),
        ("hierarchical", {"encoding": "hadamard"}, None, 0.25),
    ],
)
def test_every_protocol_that_asks_in_batches_runs_on_partitions(tmp_path, name, options, schedule, alpha) -> None:
    # alpha is above the largest of 400 errors of the lab's own runs of this size for each of the three.
    paths = written(tmp_path, [9000, 3000, 20000])
    population = PartitionedPopulation(opened(paths), campaign=name)
    assert population.users == 32000
    protocol = pq.protocol(name, DOMAIN, users=30000, epsilon=1.0, **options)
    found = pq.run(protocol, population, schedule=schedule)
    assert found.users == 30000
    assert protocol.given_up == 0
    assert abs(ranked(paths, found.value) - 0.5) < alpha
    assert population.users == 2000


def test_protocols_that_ask_one_user_at_a_time_are_refused_with_the_reason(tmp_path) -> None:
    population = PartitionedPopulation(opened(written(tmp_path, [500])), campaign="a")
    with pytest.raises(InvalidInput, match="one user at a time"):
        pq.run(pq.protocol("bayeslearn", DOMAIN, users=100, epsilon=1.0), population)
    with pytest.raises(InvalidInput, match="hadamard"):
        pq.run(pq.protocol("hierarchical", DOMAIN, users=100, epsilon=1.0, encoding="oue"), population)
    with pytest.raises(InvalidInput, match="in rounds"):
        pq.run(pq.protocol("isotonic", DOMAIN, users=100, epsilon=1.0), population, in_flight=10)
    with pytest.raises(InvalidInput, match="have 500 who were not asked"):
        pq.run(pq.protocol("isotonic", DOMAIN, users=501, epsilon=1.0), population)


def test_nobody_is_asked_twice_by_any_number_of_campaigns(tmp_path) -> None:
    paths = written(tmp_path, [3000, 1000])
    for campaign in ("first", "second", "third"):
        population = PartitionedPopulation(opened(paths), campaign=campaign)
        users = min(1700, population.users)
        pq.run(pq.protocol("naive", DOMAIN, users=users, epsilon=1.0), population)
    spans = [(entry["start"], entry["stop"]) for part in opened(paths) for entry in part.kept()]
    for part in opened(paths):
        places = Counter(p for entry in part.kept() for p in range(entry["start"], entry["stop"]))
        assert max(places.values()) == 1
    assert sum(stop - start for start, stop in spans) == 4000
    with pytest.raises(InvalidInput, match="nobody left to ask"):
        PartitionedPopulation(opened(paths), campaign="fourth")


def test_a_driver_that_starts_again_is_given_the_same_answers(tmp_path) -> None:
    paths = written(tmp_path, [4000, 2500])

    def run() -> tuple[object, list[object]]:
        population = PartitionedPopulation(opened(paths), campaign="same")
        protocol = pq.protocol("isotonic", DOMAIN, users=6000, epsilon=1.0, spread=0.25)
        pq.run(protocol, population, schedule=Schedule.growing(0.2))
        return protocol.state(), [part.kept() for part in opened(paths)]

    assert run() == run()


def test_other_questions_under_a_known_round_are_refused(tmp_path) -> None:
    [part] = opened(written(tmp_path, [100]))
    part.open("c")
    first = part.answer("c", 1, ((Query(500, COIN), 40),))
    assert part.answer("c", 1, ((Query(500, COIN), 40),)) == first
    for other in (
        ((Query(501, COIN), 40),),
        ((Query(500, COIN), 41),),
        ((Query(500, COIN), 20), (Query(7, COIN), 20)),
    ):
        with pytest.raises(PartitionRefused, match="other questions"):
            part.answer("c", 1, other)
    assert len(part.kept()) == 1
    with pytest.raises(PartitionRefused, match="not opened"):
        part.answer("d", 1, ((Query(500, COIN), 1),))


def test_a_question_its_owner_does_not_allow_is_refused_before_it_is_written_down(tmp_path) -> None:
    [part] = opened(written(tmp_path, [100]))
    part.open("c")
    with pytest.raises(PartitionRefused, match=r"allows 1$"):
        part.answer("c", 1, ((Query(500, Coin.of(1.01).threshold), 10),))
    with pytest.raises(PartitionRefused, match="threshold"):
        part.answer("c", 1, ((Query(9999, COIN), 10),))
    assert part.kept() == []


def test_those_who_are_not_there_any_more_count_as_not_answering(tmp_path) -> None:
    [part] = opened(written(tmp_path, [100]))
    part.open("c")
    [reply] = part.answer("c", 1, ((Query(500, COIN), 130),))
    assert (reply.asked, reply.answered) == (130, 100)
    protocol = pq.protocol("naive", DOMAIN, users=1000, epsilon=1.0)
    [(query, _)] = protocol.ask_counts(130)
    Answered(query, 130, 100, 50).tell(protocol)
    assert (protocol.heard, protocol.given_up, protocol.in_flight) == (100, 30, 0)


def test_changed_data_is_refused(tmp_path) -> None:
    [path] = written(tmp_path, [100])
    opened([path])[0].open("c")
    parquet.write_table(pa.table({"ms": np.arange(100)}), path)
    with pytest.raises(PartitionRefused, match="the data changed"):
        opened([path])[0].open("c")


def test_a_line_that_was_half_written_is_as_if_it_never_was(tmp_path) -> None:
    [path] = written(tmp_path, [100])
    [part] = opened([path])
    part.open("c")
    part.answer("c", 1, ((Query(500, COIN), 30),))
    ledger = path.with_name(path.name + ".privquant") / "ms.ledger"
    with ledger.open("ab") as file:
        file.write(b'{"campaign":"c","round":2,"asked":[[{"thr')
    [again] = opened([path])
    again.answer("c", 2, ((Query(600, COIN), 20),))
    assert [(entry["round"], entry["start"], entry["stop"]) for entry in again.kept()] == [(1, 0, 30), (2, 30, 50)]
    assert all(json.loads(line) for line in ledger.read_bytes().splitlines())
    ledger.write_bytes(b"what is this\n")
    with pytest.raises(PartitionRefused, match="cannot be understood"):
        opened([path])[0].open("c")


def test_the_secret_stays_in_its_folder(tmp_path) -> None:
    [path] = written(tmp_path, [100])
    [part] = opened([path])
    part.open("c")
    replies = part.answer("c", 1, ((Query(500, COIN), 30),))
    folder = path.with_name(path.name + ".privquant")
    secret = (folder / "secret").read_bytes()
    assert (folder / "secret").stat().st_mode & 0o077 == 0
    assert (folder / "ms.ledger").stat().st_mode & 0o077 == 0
    said = repr(replies) + repr(part.kept()) + (folder / "ms.ledger").read_text()
    assert secret.hex() not in said
    assert repr(secret) not in said


def test_draws_are_the_stream_of_the_cipher_wherever_they_are_read() -> None:
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

    key = bytes(range(32))
    block = Cipher(algorithms.AES(key), modes.ECB()).encryptor()
    blocks = [block.update(k.to_bytes(16, "big")) for k in range(10)]
    slow = [int.from_bytes(raw[8 * half : 8 * half + 8], "big") for raw in blocks for half in (0, 1)]
    for start in range(8):
        for stop in range(start, 20):
            assert draws(key, start, stop).tolist() == slow[start:stop]


def test_a_round_is_what_each_user_alone_would_have_said(tmp_path) -> None:
    """The slow twin: user by user, the draws one at a time, in whole numbers."""
    [part] = opened(written(tmp_path, [400]))
    part.open("c")
    users = [int(v) for v in part._users]
    query, tree = (
        Query(700, COIN),
        pq.protocol("hierarchical", DOMAIN, users=9, epsilon=1.0, encoding="hadamard").query,
    )
    answered, signs = part.answer("c", 1, ((query, 150), (tree, 250)))

    def draw(asked: object, use: str, place: int) -> int:
        return int(part._draws("c", asked, use, place, place + 1)[0])  # type: ignore[arg-type]

    assert answered.ones == sum((v <= 700) ^ (draw(query, "coin", i) < COIN) for i, v in enumerate(users[:150]))
    told = pq.protocol("hierarchical", DOMAIN, users=250, epsilon=1.0, encoding="hadamard")
    told.tell(reports_of(users, tree, draw))
    summed = pq.protocol("hierarchical", DOMAIN, users=250, epsilon=1.0, encoding="hadamard")
    signs.tell(summed)
    assert summed.state() == told.state()
    assert answered.ones != sum(v <= 700 for v in users[:150])


def reports_of(users, tree, draw):
    for i in range(150, 400):
        level = 1 + ((draw(tree, "level", i) >> 6) * tree.height >> 58)
        node = users[i] // tree.branching ** (tree.height - level)
        row = draw(tree, "row", i) % rows(tree, level)
        yield TreeReport(tree, level, index=row, bit=sign_bit(row, node) ^ (draw(tree, "coin", i) < tree.coin))


def counted(part: KeptPartition, rounds: int, users: int) -> int:
    part.open("c")
    return sum(part.answer("c", k, ((Query(4999, COIN), users),))[0].ones for k in range(rounds))


def test_the_coin_of_a_partition_is_the_coin_it_was_asked_for(tmp_path) -> None:
    # Two-sided binomial test at 10^-6 a side; the twin throws no coin at all.
    flip = Coin(COIN).flip
    for value, rate in ((0, 1.0 - flip), (9999, flip)):
        path = tmp_path / f"{value}.parquet"
        parquet.write_table(pa.table({"ms": np.full(200_000, value)}), path)
        fix_secret(path)
        [part] = opened([path])
        ones = counted(part, 50, 4000)
        low, high = scipy.stats.binom.ppf([1e-6, 1 - 1e-6], 200_000, rate)
        assert low <= ones <= high
        assert not low <= 200_000 * (value == 0) <= high


def test_users_are_taken_in_an_order_their_values_have_no_part_in(tmp_path) -> None:
    # The first half of a sorted file's users: how many are in its lower half is hypergeometric. False alarm 10^-6.
    path = tmp_path / "sorted.parquet"
    parquet.write_table(pa.table({"ms": np.arange(10_000)}), path)
    fix_secret(path)
    [part] = opened([path])
    lower = int((part._users[:5000] < 5000).sum())
    low, high = scipy.stats.hypergeom.ppf([1e-6, 1 - 1e-6], 10_000, 5000, 5000)
    assert low <= lower <= high
    assert not low <= int((np.arange(10_000)[:5000] < 5000).sum()) <= high  # the twin: rows as they lie
    assert sorted(part._users.tolist()) == list(range(10_000))


def test_a_round_is_divided_as_if_its_users_were_drawn_from_all(tmp_path) -> None:
    # Chi-square over 400 rounds of 10 users from 3 partitions; false alarm 10^-6. The twin takes equal parts.
    paths = written(tmp_path, [2000, 4000, 14000])
    population = PartitionedPopulation(opened(paths), campaign="c")
    for _ in range(400):
        population.answer_round([(Query(500, COIN), 10)])
    taken = [sum(entry["stop"] - entry["start"] for entry in part.kept()) for part in opened(paths)]
    expected = np.array([0.1, 0.2, 0.7]) * 4000
    assert scipy.stats.chisquare(taken, expected).pvalue > 1e-6
    assert scipy.stats.chisquare([1333, 1333, 1334], expected).pvalue < 1e-6


CHILD = """
import os, signal, sys
import privquant as pq
from privquant.device.policy import Rule
from privquant.engines import KeptPartition, kept_partition
from privquant.messages import Query
path, when, coin = sys.argv[1], sys.argv[2], int(sys.argv[3])
part = KeptPartition.of_file(path, "ms", Rule(pq.Integers(0, 9999), 1.0))
part.open("c")
def dies(*args):
    os.kill(os.getpid(), signal.SIGKILL)
if when == "before":
    os.pwrite = dies
elif when == "synced":
    os.fsync = dies
elif when == "drawn":
    kept_partition.draws = dies
print(part.answer("c", 1, ((Query(500, coin), 60),)))
"""


@pytest.mark.parametrize("when", ["before", "synced", "drawn"])
def test_a_holder_killed_anywhere_throws_no_second_coin(tmp_path, when) -> None:
    [path] = written(tmp_path, [100])
    ended = subprocess.run(
        [sys.executable, "-c", CHILD, path, when, str(COIN)], capture_output=True, env=os.environ
    )
    assert ended.returncode == -signal.SIGKILL
    [part] = opened([path])
    asked = ((Query(500, COIN), 60),)
    first = part.answer("c", 1, asked)
    [twin] = opened([path])
    assert twin.answer("c", 1, asked) == first
    [entry] = twin.kept()
    assert (entry["start"], entry["stop"]) == (0, 60)


def test_a_block_of_a_dataset_answers_about_its_own_domain(tmp_path, monkeypatch) -> None:
    """A domain that does not start at 0: an index is not a value. The coin is all but honest (epsilon 20)."""
    monkeypatch.setattr(ray_population, "ray_module", lambda: SimpleNamespace(get=lambda block: block))
    table = pa.table({"ms": np.full(200, 5500)})
    rule = Rule(pq.Integers(5000, 6000), 20.0)
    part = ray_population._of_block(table, tmp_path, "ms", rule, "refuse")
    assert part.open("c") == 200
    coin = Coin.of(20.0).threshold
    below, above = part.answer("c", 0, ((Query(499, coin), 100), (Query(500, coin), 100)))
    assert (below.ones, above.ones) == (0, 100)
