"""The tree's local randomizers: exact laws, exact privacy, and draws that follow the laws."""

import itertools
import math
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from privquant.errors import InvalidInput
from privquant.messages import TreeQuery, TreeReport
from privquant.privacy.coin import DRAW, Coin
from privquant.protocols.tree import encodings
from privquant.protocols.tree.encodings import (
    ENCODINGS,
    bit_law,
    encode,
    encoding_coin,
    node_count,
    rows,
    sign_bit,
)

EPSILONS = (1e-6, 0.1, 1.0, 2.5, 10.0, 60.0)


def query(encoding, epsilon, branching=3, height=2):
    return TreeQuery(branching, height, encoding, encoding_coin(encoding, epsilon).threshold)


def report_law(query: TreeQuery, report: TreeReport, node: int) -> Fraction:
    """The exact probability that a user in `node` of the report's level, having drawn that level, sends it."""
    nodes = node_count(query, report.level)
    if query.encoding == "hadamard":
        assert report.index is not None
        assert report.bit is not None
        flip = Fraction(query.coin, DRAW)
        kept = report.bit == sign_bit(report.index, node)
        return Fraction(1, rows(query, report.level)) * (1 - flip if kept else flip)
    assert report.bits is not None
    bits = np.unpackbits(np.frombuffer(report.bits, np.uint8), count=nodes)
    own, other = bit_law(query.encoding, query.coin)
    elsewhere = int(bits.sum()) - int(bits[node])
    found = own if bits[node] else 1 - own
    return found * other**elsewhere * (1 - other) ** (nodes - 1 - elsewhere)


def worst_ratio(encoding: str, coin: int) -> Fraction:
    """The largest ratio of a report's probabilities between two nodes of a level, over all reports.

    Unary laws differ in the two nodes' bits only, and the ratio is largest where the one is set and the other is
    not; a Hadamard report's probabilities differ by the coin alone.
    """
    flip = Fraction(coin, DRAW)
    if encoding == "hadamard":
        return (1 - flip) / flip
    own, other = bit_law(encoding, coin)
    return own / other * (1 - other) / (1 - own)


def outputs(asked, level):
    """Every report a level can send."""
    if asked.encoding == "hadamard":
        for row, bit in itertools.product(range(rows(asked, level)), (0, 1)):
            yield TreeReport(asked, level, index=row, bit=bit)
    else:
        for bits in itertools.product((0, 1), repeat=node_count(asked, level)):
            yield TreeReport(asked, level, bits=np.packbits(np.array(bits, np.uint8)).tobytes())


def e_to_the(epsilon):
    """e^epsilon from below, to 50 digits."""
    with localcontext() as context:
        context.prec = 50
        return Fraction(Decimal(epsilon).exp().next_minus())


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("encoding", ENCODINGS)
def test_the_law_is_the_definition_and_keeps_epsilon_for_all_pairs_of_inputs(encoding, epsilon):
    """Exact fractions: probabilities sum to one, and no output tells two nodes apart by more than e^epsilon."""
    asked = query(encoding, epsilon)
    for level in (1, 2):
        nodes = range(node_count(asked, level))
        worst = Fraction(0)
        totals = dict.fromkeys(nodes, Fraction(0))
        for report in outputs(asked, level):
            law = [report_law(asked, report, node) for node in nodes]
            worst = max(worst, max(law) / min(law))
            for node in nodes:
                totals[node] += law[node]
        assert set(totals.values()) == {Fraction(1)}
        assert worst == worst_ratio(encoding, asked.coin)
        assert worst <= e_to_the(epsilon)


def test_unary_laws_are_those_of_the_literature():
    half, zero = bit_law("oue", Coin.of(1.0).threshold)
    assert half == Fraction(1, 2)
    assert float(zero) == pytest.approx(1 / (math.e + 1), rel=1e-15)
    own, other = bit_law("sue", Coin.of(0.5).threshold)
    assert own + other == 1
    assert float(own) == pytest.approx(math.exp(0.5) / (math.exp(0.5) + 1), rel=1e-15)


@pytest.mark.parametrize("encoding", ["sue", "oue"])
def test_a_coin_for_the_wrong_epsilon_breaks_the_bound(encoding):
    """The check can fail: the symmetric encoding with the whole epsilon a bit, the optimized one with twice it."""
    coin = Coin.of(1.0 if encoding == "sue" else 2.0).threshold
    assert worst_ratio(encoding, coin) > e_to_the(1.0) * Fraction(11, 10)


def test_the_hadamard_matrix_has_orthogonal_columns():
    matrix = np.array([[1 - 2 * sign_bit(row, node) for node in range(16)] for row in range(16)])
    assert (matrix.T @ matrix == 16 * np.eye(16, dtype=int)).all()


def test_rows_cover_the_nodes_and_stay_within_64_bits():
    assert rows(TreeQuery(3, 40, "hadamard", 1), 2) == 16
    assert rows(TreeQuery(4, 32, "hadamard", 1), 32) == 2**63
    assert rows(TreeQuery(4, 31, "hadamard", 1), 31) == 2**62


def drawn(asked, index, count, seed):
    rng = np.random.default_rng(seed)
    return [encode(asked, index, rng) for _ in range(count)]


def law_p_value(reports, asked, index, level, law=report_law):
    """Chi-square of one level's reports against its law."""
    node = index // asked.branching ** (asked.height - level)
    seen = [(r.bits, r.index, r.bit) for r in reports if r.level == level]
    every = list(outputs(asked, level))
    expected = np.array([float(law(asked, r, node)) for r in every]) * len(seen)
    counts = np.array([seen.count((r.bits, r.index, r.bit)) for r in every])
    common = expected >= 5
    observed = np.append(counts[common], counts[~common].sum())
    wanted = np.append(expected[common], expected[~common].sum())
    if wanted[-1] < 5:
        observed, wanted = observed[:-1], wanted[:-1] * observed[:-1].sum() / wanted[:-1].sum()
    return stats.chisquare(observed, wanted).pvalue


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_draws_follow_the_law(encoding):
    """Chi-square on 6000 reports, levels 1 and 2 of a tree of 4: false-alarm rate 1e-4 each, fixed seed."""
    asked = TreeQuery(2, 2, encoding, encoding_coin(encoding, 1.0).threshold)
    reports = drawn(asked, 2, 6000, seed=5)
    levels = [r.level for r in reports]
    assert stats.binomtest(levels.count(1), 6000, 0.5).pvalue > 1e-4, "each level with the same chance"
    for level in (1, 2):
        assert law_p_value(reports, asked, 2, level) > 1e-4


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_the_same_check_notices_a_coin_that_is_a_little_off(encoding):
    wrong = TreeQuery(2, 2, encoding, encoding_coin(encoding, 1.25).threshold)
    right = TreeQuery(2, 2, encoding, encoding_coin(encoding, 1.0).threshold)
    reports = drawn(wrong, 2, 6000, seed=5)
    assert min(law_p_value(reports, right, 2, level) for level in (1, 2)) < 1e-4


def test_reports_nobody_could_send_are_refused_with_the_way_out():
    asked = TreeQuery(4, 11, "oue", Coin.of(1.0).threshold)
    with pytest.raises(InvalidInput, match=r"2\^20 nodes a level.*4194304.*hadamard"):
        encode(asked, 0, np.random.default_rng(0))
    report = encode(TreeQuery(4, 31, "hadamard", asked.coin), 4**31 - 1, np.random.default_rng(0))
    assert report.bits is None
    assert 0 <= report.index < 2**63


def variance(encoding: str, coin: Coin) -> float:
    """Of n times a node's estimate when no user is in it, divided by n."""
    if encoding == "hadamard":
        return 1.0 / coin.kappa**2
    return coin.flip * (1.0 - coin.flip) / encodings.gap(encoding, coin) ** 2


def test_variances_are_those_of_the_literature():
    for epsilon in (0.5, 1.0, 3.0):
        e = math.exp(epsilon)
        assert variance("oue", Coin.of(epsilon)) == pytest.approx(4 * e / (e - 1) ** 2)
        root = math.exp(epsilon / 2)
        assert variance("sue", Coin.of(epsilon / 2)) == pytest.approx(root / (root - 1) ** 2)
        assert variance("hadamard", Coin.of(epsilon)) == pytest.approx(((e + 1) / (e - 1)) ** 2)
