"""Planning: any all-but-one of four, every way side by side, and plain words when it cannot work."""

import math

import pytest

import privquant as pq
from privquant.domain import Integers
from privquant.errors import InvalidInput
from privquant.planning import limits
from privquant.planning.calibration import calibrated
from privquant.plans import plan

DOMAIN = Integers(0, 2**20 - 1)
FULL = {"users": 5000, "alpha": 0.03, "epsilon": 1.0, "confidence": 0.9}


def solve(missing, **change):
    return plan(domain=DOMAIN, **{k: v for k, v in {**FULL, **change}.items() if k != missing})


@pytest.mark.parametrize("missing", FULL)
def test_each_of_the_four_is_solved_and_solves_back(missing):
    found = solve(missing)
    assert found.missing == missing
    assert found.value is not None
    for other in FULL:
        if other == missing:
            continue
        back = solve(other, **{missing: math.ceil(found.value) if missing == "users" else found.value})
        assert back.value == pytest.approx(FULL[other], rel=0.03), (missing, other)


def test_every_protocol_and_trust_model_stands_side_by_side():
    rows = solve("users").rows
    assert {r.trust for r in rows} == {"local", "shuffle", "central"}
    assert {r.kind for r in rows} == {"limit", "order", "sufficient", "measured"}
    measured = {name.split("/")[0] for name in calibrated()}
    assert measured == set(pq.protocol_names())


def test_nothing_measured_beats_the_limit_by_more_than_the_whole_crowd_helps():
    """All n of n users are asked, so the sampling error is missing: up to 1 - kappa^2 of the limit's variance."""
    for confidence in (0.9, 0.95):
        rows = solve("users", confidence=confidence).rows
        limit = next(r.value for r in rows if r.kind == "limit")
        kappa = math.tanh(0.5)
        for row in rows:
            if row.kind == "measured" and row.trust == "local":
                assert row.value > 0.8 * (1 - kappa**2) * limit, row


def test_the_default_needs_fewest_users_and_the_tree_most():
    rows = {r.name: r.value for r in solve("users").rows if r.kind == "measured" and r.trust == "local"}
    order = sorted(rows, key=rows.get)
    assert order[0].startswith("isotonic")
    assert order[-1].startswith("hierarchical")


def test_a_plan_that_cannot_work_is_told_plainly():
    found = plan(domain=DOMAIN, users=100, epsilon=1.0, confidence=0.9)
    assert "100 people at epsilon 1: expect an error of" in found.verdict
    assert "percentile points" in found.verdict
    assert any("will not tell much" in w for w in found.warnings)
    nowhere = plan(domain=DOMAIN, users=10, alpha=0.001, confidence=0.99)
    assert nowhere.verdict.startswith("This plan cannot work")
    doubtful = plan(domain=DOMAIN, users=200, alpha=0.02, epsilon=0.5)
    assert any("fail more often than not" in w for w in doubtful.warnings)


def test_liars_are_in_the_plan():
    assert "1.0% liars can move the answer's rank by -1.1 to +1.1" in solve("users", liars=0.01).poisoning
    assert "end of the domain" in plan(domain=DOMAIN, users=10**4, alpha=0.03, epsilon=0.1, liars=0.06).poisoning


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({}, "give all but one of users, alpha, epsilon, confidence; got none of them"),
        ({"users": 5, "alpha": 0.1}, "got users, alpha"),
        (FULL, "give all but one"),
        ({"users": 0, "alpha": 0.1, "epsilon": 1}, "users must be at least 1, got 0"),
        ({"users": 9, "alpha": 2, "epsilon": 1}, "alpha must be a number strictly between 0 and 1, got 2"),
        ({"users": 9, "alpha": 0.1, "epsilon": -1}, "epsilon must be a finite number above 0, got -1"),
        ({"users": 9, "alpha": 0.1, "epsilon": 1, "liars": 1}, "liars must be a fraction"),
    ],
)
def test_bad_plans(change, said):
    with pytest.raises(InvalidInput, match=said):
        plan(domain=DOMAIN, **change)


def test_the_information_limit_is_the_normal_one():
    """q = 1/2, eps = .879, a = .04, n = 2500: success .902 (users drawn from a distribution)."""
    for epsilon, success in ((0.569, 0.732), (0.879, 0.902), (1.357, 0.982)):
        assert limits.information_limit(alpha=0.04, epsilon=epsilon, confidence=success) == pytest.approx(
            2500, rel=0.02
        )


def test_bounds_grow_as_the_paper_says():
    base = {"alpha": 0.02, "epsilon": 0.5}
    assert limits.adaptive_lower_bound(**base, size=2**40) == pytest.approx(
        2 * limits.adaptive_lower_bound(**base, size=2**20)
    )
    assert limits.non_adaptive_lower_bound(**base, size=2**40) == pytest.approx(
        4 * limits.non_adaptive_lower_bound(**base, size=2**20)
    )
    assert limits.tree_sketch(**base, size=2**40) == pytest.approx(8 * limits.tree_sketch(**base, size=2**20))


def test_a_plan_that_counts_on_ties_says_so_and_only_then():
    """50 values must be shared; of 2^40 nobody need share one, whatever else makes a plan cheap."""
    asked = {"users": 10_000, "epsilon": 1.0, "confidence": 0.9}
    few = plan(domain=Integers(0, 49), **asked)
    (said,) = (line for line in few.details if "counts on ties" in line)
    without = plan(domain=Integers(0, 2**40), **asked)
    assert said.startswith("This counts on ties: among 50 possible values some people must share theirs.")
    assert float(said.split("alpha ")[1].split()[0]) > 100 * few.value
    assert not any("ties" in line for line in without.details)


@pytest.mark.parametrize("size", [2**14, 2**20])
def test_the_error_to_expect_is_never_below_the_limit(size):
    verdict = plan(domain=Integers(0, size - 1), users=2000, epsilon=1.0, confidence=0.95).verdict
    expected = float(verdict.split("an error of ")[1].split()[0])
    assert expected >= 1.4  # 0.674 of the standard deviation 2.15 of the coin alone, asked at the true median


def test_no_percentile_is_below_0_or_above_100():
    wide = plan(domain=Integers(0, 255), users=10, epsilon=1.0, alpha=0.25, quantile=0.3)
    assert any("from rank 5 % to 55 %" in w for w in wide.warnings)
    assert not any("rank -" in w or "0 % to 1" in w for w in wide.warnings)


def test_a_plan_shows_its_verdict():
    found = solve("users")
    assert repr(found) == f"Plan({found.verdict})"
    assert str(found).startswith(found.verdict)


def test_liars_are_a_fraction():
    with pytest.raises(InvalidInput, match="fraction in \\[0, 1\\), got 'x'"):
        plan(domain=Integers(0, 255), users=10, epsilon=1.0, alpha=0.1, liars="x")


def test_the_limit_of_the_very_people_asked_has_no_sampling_error():
    """The .93 of docs/isotonic-lab.md: 2,500 users, within 4 points, at the median."""
    settings = {"alpha": 0.04, "epsilon": 0.879, "confidence": 0.93}
    assert limits.limit_of_the_asked(**settings) == pytest.approx(2500, rel=0.02)
    assert limits.limit_of_the_asked(**settings) < 0.85 * limits.information_limit(**settings)


def test_a_plan_says_what_a_population_needs():
    """More than the people asked do, and no less than the limit: the sampling error comes on top."""
    asked = plan(domain=Integers(0, 500_000), alpha=0.02, epsilon=1.0, confidence=0.95)
    (said,) = (line for line in asked.details if line.startswith("This is about the very people asked."))
    needed = int(said.split("users ")[1].rstrip(".").replace(",", ""))
    assert max(asked.value, 0.98 * asked.rows[0].value) < needed < 1.4 * asked.value


def test_a_plan_says_typical_and_hardest():
    found = plan(domain=Integers(0, 500_000), alpha=0.02, epsilon=1.0, confidence=0.95)
    row = next(r for r in found.rows if r.kind == "measured")
    for text in (found.verdict, str(found)):
        assert f"{math.ceil(row.value):,}" in text
        assert f"{math.ceil(row.lumpy):,}" in text
        assert f"{math.ceil(row.hardest):,}" in text
    assert row.value < row.lumpy < row.hardest
    assert str(found).count("hardest: ") == 1


# -- trust ---------------------------------------------------------------------------------------------------


def test_a_plan_for_one_trust_has_its_rows_alone_and_a_verdict_about_it():
    asked = {"domain": pq.Integers(0, 2**20 - 1), "alpha": 0.02, "epsilon": 0.5, "confidence": 0.95}
    both, local = pq.plan(**asked), pq.plan(**asked, trust="local")
    shuffled = pq.plan(**asked, trust="shuffle", delta=1e-6)
    assert {row.trust for row in local.rows} == {"local"}
    assert {row.trust for row in shuffled.rows} == {"shuffle"}
    assert (local.value, local.verdict) == (both.value, both.verdict)
    assert shuffled.value < 0.2 * local.value
    assert "shuffled (delta 1e-06)" in shuffled.verdict
    assert "shuffled" not in local.verdict
    alpha = pq.plan(domain=asked["domain"], users=20_000, epsilon=0.5, confidence=0.95, trust="shuffle")
    assert alpha.verdict.startswith("20,000 people at epsilon 0.5 shuffled (delta 1e-08): expect an error of ")


def test_the_rows_in_the_shuffle_model_know_their_delta():
    asked = {"domain": pq.Integers(0, 2**20 - 1), "alpha": 0.02, "epsilon": 0.5, "confidence": 0.95}
    plain, strict = pq.plan(**asked), pq.plan(**asked, delta=1e-12)
    others = {("local", None), ("central", None)}
    assert {(row.trust, row.delta) for row in plain.rows} == others | {("shuffle", 1e-8)}
    assert {(row.trust, row.delta) for row in strict.rows} == others | {("shuffle", 1e-12)}
    assert "delta 1e-12" in str(strict)
    assert [row["delta"] for row in strict.to_dict()["rows"]] == [row.delta for row in strict.rows]
    for before, after in zip(plain.rows, strict.rows, strict=True):
        assert after.value > before.value if before.trust == "shuffle" else after.value == before.value


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"trust": "local", "delta": 1e-8}, "delta goes with trust='shuffle'"),
        ({"trust": "central"}, "trust must be one of 'local', 'shuffle'"),
        ({"delta": 2.0}, "delta must be"),
    ],
)
def test_a_trust_that_cannot_be_is_refused(change, said):
    with pytest.raises(pq.InvalidInput, match=said):
        pq.plan(domain=pq.Integers(0, 9), alpha=0.02, epsilon=0.5, confidence=0.95, **change)


def test_liars_of_a_shuffled_plan_face_the_coins_of_its_rounds():
    """They are far more honest than epsilon, so a liar does less; at epsilon itself it would be 1.1 points."""
    asked = {"domain": pq.Integers(0, 2**20 - 1), "users": 50_000, "epsilon": 1.0, "confidence": 0.95}
    said = pq.plan(**asked, trust="shuffle").poisoning
    assert float(said.split(" to +")[1].split()[0]) < 0.6
    assert "-1.1 to +1.1" in pq.plan(**asked, trust="local").poisoning


@pytest.mark.parametrize(("q", "alpha", "said"), [(0.99, 0.02, "largest"), (0.03, 0.05, "smallest")])
def test_an_error_past_the_end_is_warned_about(q, alpha, said):
    found = plan(domain=DOMAIN, alpha=alpha, epsilon=1.0, confidence=0.9, quantile=q)
    assert any("trivial" in w and f"the {said} value of all would do" in w for w in found.warnings)
    fine = plan(domain=DOMAIN, alpha=0.005, epsilon=1.0, confidence=0.9, quantile=q)
    assert fine.warnings == ()
