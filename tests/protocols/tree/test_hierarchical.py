"""The hierarchical mechanism as a protocol: any tree, any encoding, the whole CDF, domains of 2^63 values."""

import json

import numpy as np
import pytest

from privquant.domain import Integers
from privquant.errors import InvalidInput, ProtocolError
from privquant.lab.populations import Users
from privquant.lab.run import run
from privquant.lab.sample import Sample
from privquant.messages import TreeReport, report_from_dict, report_to_dict
from privquant.protocols.registry import from_state
from privquant.protocols.tree.encodings import ENCODINGS, sign_bit
from privquant.protocols.tree.hierarchical import Hierarchical
from privquant.protocols.tree.nodes import prefixes


def make(size=64, users=400, epsilon=2.0, **options):
    return Hierarchical(Integers(0, size - 1), users=users, epsilon=epsilon, **options)


def heard(protocol, values, seed=0):
    users = Users(Sample(np.asarray(values), protocol.domain.size), np.random.default_rng(seed))
    reports = users.answer(protocol.ask(protocol.users))
    protocol.tell(reports)
    return reports


def slow_estimate(protocol, reports, level, node):
    """A node's estimate from the definition: the mean of a de-biased term of each report."""
    terms = []
    for r in (r for r in reports if r.level == level):
        if protocol.encoding == "hadamard":
            terms.append((1 - 2 * r.bit) * (1 - 2 * sign_bit(r.index, node)) / protocol.coin.kappa)
        else:
            bit = int(np.unpackbits(np.frombuffer(r.bits, np.uint8))[node])
            own = 0.5 if protocol.encoding == "oue" else 1 - protocol.coin.flip
            terms.append((bit - protocol.coin.flip) / (own - protocol.coin.flip))
    return float(np.mean(terms))


@pytest.mark.parametrize(("size", "branching"), [(64, 4), (50, 3), (10, 4), (33, 2)])
@pytest.mark.parametrize("encoding", ENCODINGS)
def test_estimates_are_the_definition(encoding, size, branching):
    protocol = make(size, encoding=encoding, branching=branching)
    reports = heard(protocol, np.random.default_rng(1).integers(0, size, 400))
    whole = protocol.level_estimates()
    for level in range(1, protocol.tree.height + 1):
        nodes = protocol.tree.nodes(level)
        wanted = [slow_estimate(protocol, reports, level, node) for node in range(nodes)]
        assert protocol.node_estimates(level, 0, nodes) == pytest.approx(wanted)
        assert whole[level - 1] == pytest.approx(wanted)
    thresholds = range(size)
    below = prefixes(protocol.tree, whole)
    assert protocol.cdf(thresholds) == pytest.approx([*below[1:], 1.0])


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_the_cdf_is_unbiased(encoding):
    """Mean of 200 runs at 3 thresholds against the truth: 5 standard errors, false-alarm rate 2e-6, fixed seed."""
    values = np.random.default_rng(2).integers(0, 27, 200) // 2
    runs = []
    for seed in range(200):
        protocol = make(27, users=200, branching=3, encoding=encoding)
        heard(protocol, values, seed)
        runs.append(protocol.cdf([2, 8, 13]))
    truth = Sample(values, 27).at_most(np.array([2, 8, 13])) / 200
    error = np.std(runs, axis=0) / 200**0.5
    assert (np.abs(np.mean(runs, axis=0) - truth) < 5 * error).all()
    assert (np.abs(np.mean(runs, axis=0) - truth - 0.2) > 5 * error).all(), "a bias of 0.2 would be noticed"


def test_many_quantiles_come_from_the_same_reports():
    protocol = make(256, users=20_000, epsilon=6.0, quantile=[0.1, 0.5, 0.9], encoding="hadamard")
    values = np.random.default_rng(3).integers(0, 256, 20_000)
    heard(protocol, values)
    found = [e.value for e in protocol.estimates()]
    assert found == pytest.approx([25.6, 128, 230.4], abs=12)
    assert [e.quantile for e in protocol.estimates()] == [0.1, 0.5, 0.9]
    assert protocol.heard == 20_000


def test_4_to_the_31_values_by_descent():
    size = 4**31
    protocol = make(size, users=30_000, epsilon=6.0)
    assert protocol.encoding == "hadamard"
    values = np.random.default_rng(4).integers(0, size, 30_000)
    heard(protocol, values)
    assert protocol.estimate().value / size == pytest.approx(0.5, abs=0.12)
    assert protocol.cdf([size // 4, size - 1]) == pytest.approx([0.25, 1.0], abs=0.2)


def test_order_and_state_do_not_matter():
    for encoding in ENCODINGS:
        protocol = make(encoding=encoding)
        reports = heard(protocol, np.arange(400) % 64)
        other = protocol.fresh()
        order = np.random.default_rng(5).permutation(400)
        other.tell([report_from_dict(json.loads(json.dumps(report_to_dict(reports[k])))) for k in order[:200]])
        other = from_state(json.loads(json.dumps(other.state())))
        other.tell([reports[k] for k in order[200:]])
        assert other.state() == protocol.state()
        assert other.estimates() == protocol.estimates()


def test_consistency_brings_the_cdf_closer():
    """12 runs each: the largest error of the CDF, averaged. What is gained is several times its standard error."""
    errors = {True: [], False: []}
    values = np.random.default_rng(6).integers(0, 256, 1500)
    truth = Sample(values, 256).at_most(np.arange(256)) / 1500
    for consistency in errors:
        for seed in range(12):
            protocol = make(256, users=1500, epsilon=1.0, branching=2, consistency=consistency)
            heard(protocol, values, seed)
            errors[consistency].append(np.abs(protocol.cdf(range(256)) - truth).max())
    gain = np.array(errors[False]) - np.array(errors[True])
    assert gain.mean() > 4 * gain.std() / 12**0.5


def test_consistent_children_sum_to_their_parent():
    protocol = make(50, branching=3, consistency=True)
    heard(protocol, np.arange(400) % 50)
    levels = protocol.level_estimates()
    assert levels[0].sum() == pytest.approx(1)
    for level in range(1, protocol.tree.height):
        sums = np.add.reduceat(levels[level], np.arange(0, levels[level].size, 3))
        assert levels[level - 1] == pytest.approx(sums)


def test_the_symmetric_encoding_spends_half_a_bit_and_says_what_is_spent():
    for encoding in ENCODINGS:
        protocol = make(encoding=encoding, epsilon=1.0)
        assert protocol.guarantee.epsilon <= 1.0
        assert protocol.guarantee.epsilon == pytest.approx(1.0)


def test_unary_beyond_a_million_nodes_is_refused_and_hadamard_is_named():
    protocol = make(2**21, encoding="oue")
    with pytest.raises(InvalidInput, match="hadamard"):
        protocol.ask(1)
    assert protocol.asked == 0
    assert make(2**20).encoding == "oue"
    assert make(2**21).encoding == "hadamard"


def test_what_needs_the_whole_tree_is_refused_on_huge_domains():
    for options in ({"answer": "argmin"}, {"consistency": True}):
        with pytest.raises(InvalidInput, match=r"whole tree, of at most 2\^22 values"):
            make(2**40, **options)


def test_reports_of_the_wrong_shape_are_refused():
    unary, hadamard = make(size=9, branching=3, encoding="oue"), make(size=9, branching=3, encoding="hadamard")
    bad = [
        TreeReport(unary.query, 1, bits=b""),
        TreeReport(unary.query, 2, bits=b"\0"),
        TreeReport(unary.query, 1, bits=b"\x01"),
        TreeReport(unary.query, 1, index=0, bit=0),
        TreeReport(unary.query, 3, bits=b"\0"),
    ]
    for report in bad:
        with pytest.raises(ProtocolError):
            unary.tell([report])
    for index, bit in ((16, 0), (-1, 0), (0, 2), (None, 0)):
        with pytest.raises(ProtocolError):
            hadamard.tell([TreeReport(hadamard.query, 2, index=index, bit=bit)])
    assert unary.heard == hadamard.heard == 0


def test_bad_options_are_refused():
    with pytest.raises(InvalidInput, match="branching must be at least 2"):
        make(branching=1)
    with pytest.raises(InvalidInput, match="encoding must be one of"):
        make(encoding="rappor")
    with pytest.raises(InvalidInput, match="answer must be one of"):
        make(answer="mean")


def test_the_driver_holds_few_unary_reports_at_once():
    assert make(4**9, users=10**6).batch_size() == 1024
    assert make(64, users=500).batch_size() == 500
    values = np.arange(300) % 64
    estimate = run(make(64, users=300), Users(Sample(values, 64), np.random.default_rng(0)))
    assert estimate.users == 300


@pytest.mark.parametrize("value", ["false", 1, None])
def test_consistency_is_true_or_false(value):
    with pytest.raises(InvalidInput, match="consistency must be True or False"):
        make(50, consistency=value)
