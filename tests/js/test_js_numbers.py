"""Coin, costs and spellings: JavaScript computes in BigInt what Python computes in Decimal, and they agree."""

import json
import random
import struct
from pathlib import Path

import pytest
from nodejs import evaluate

from privquant.device import Policy, Rule, policy_from_dict, spending
from privquant.device.policy import covers
from privquant.domain import Grid, Integers, LogGrid
from privquant.errors import InvalidInput
from privquant.privacy.coin import flip_threshold, real_epsilon
from privquant.wire import real_to_wire

VECTORS = json.loads((Path(__file__).parents[2] / "docs/vectors/coin.json").read_text())


def test_every_vector_of_the_coin():
    found = evaluate(
        f"""
        const {{ Coin, flipThreshold, realEpsilon }} = await import(`${{js}}/coin.js`);
        const {{ fromHex }} = await import(`${{js}}/form.js`);
        const {{ thresholds, draws }} = {json.dumps(VECTORS)};
        console.log(JSON.stringify({{
          thresholds: thresholds.map(({{ epsilon }}) => String(flipThreshold(epsilon))),
          epsilons: thresholds.map(({{ flip_threshold: t }}) => realEpsilon(BigInt(t))),
          draws: draws.map((d) => new Coin(BigInt(d.flip_threshold)).report(d.bit, fromHex(d.draw))),
        }}));
        """
    )
    assert found["thresholds"] == [each["flip_threshold"] for each in VECTORS["thresholds"]]
    assert found["epsilons"] == [each["real_epsilon"] for each in VECTORS["thresholds"]]
    assert found["draws"] == [each["report"] for each in VECTORS["draws"]]
    assert len(found["draws"]) >= 60


def epsilons(count: int) -> list[float]:
    """Of every size there is a coin for, and those that limits are made of."""
    chance = random.Random(20260101)
    spread = [10 ** chance.uniform(-9, 1.75) for _ in range(count)]
    return [*spread, *(k / 100 for k in range(1, 200)), 1e-9, 44.36, 50.0, 50.1, 1e6]


def test_thresholds_real_epsilons_and_costs_agree_with_python():
    """No tolerance: the same integers, the same doubles, the same units."""
    asked = epsilons(2000)
    found = evaluate(
        f"""
        const {{ flipThreshold, realEpsilon }} = await import(`${{js}}/coin.js`);
        const {{ cost, keeps }} = await import(`${{js}}/spending.js`);
        const {{ limit }} = await import(`${{js}}/policy.js`);
        console.log(JSON.stringify({json.dumps(asked)}.map((epsilon) => {{
          const flips = flipThreshold(epsilon);
          const units = limit(epsilon, "limit");
          const kept = [keeps(units, flips), keeps(units, flips - 1n || 1n)];
          return [flips, realEpsilon(flips), cost(flips), units, ...kept]
            .map((each) => (typeof each === "bigint" ? String(each) : each));
        }})));
        """
    )
    for epsilon, (flips, real, cost, units, kept, more) in zip(asked, found, strict=True):
        expected = flip_threshold(epsilon)
        limit = spending.limit(epsilon, "limit")
        assert (int(flips), real, int(cost)) == (expected, real_epsilon(expected), spending.cost(expected)), epsilon
        assert int(units) == limit, epsilon
        assert kept == spending.keeps(limit, expected), epsilon
        assert more == spending.keeps(limit, expected - 1 or 1), epsilon


def test_the_outermost_coins_agree_too():
    flips = [1, 2, 3, 2**62, 2**63 - 2, 2**63 - 1]
    found = evaluate(
        f"""
        const {{ realEpsilon }} = await import(`${{js}}/coin.js`);
        const {{ cost }} = await import(`${{js}}/spending.js`);
        const flips = {json.dumps([str(each) for each in flips])}.map(BigInt);
        console.log(JSON.stringify(flips.map((each) => [realEpsilon(each), String(cost(each))])));
        """
    )
    assert found == [[real_epsilon(each), str(spending.cost(each))] for each in flips]


LIMITS = ["0.1", "1", "1e-9", "1000000", "0.1234567890129", "1E0", "1000000.0000000000001", "0", "-1", "nan", "inf",
          "", "0x1", "1e-10", "1e400", 0.5, 1, True, None, []]  # fmt: skip


@pytest.mark.parametrize("limit", LIMITS, ids=repr)
def test_limits_are_read_alike(limit):
    found = evaluate(
        f"""
        const {{ limit }} = await import(`${{js}}/policy.js`);
        const {{ InvalidInput }} = await import(`${{js}}/errors.js`);
        let found;
        try {{ found = String(limit({json.dumps(limit)}, "limit")); }}
        catch (error) {{ if (!(error instanceof InvalidInput)) throw error; found = null; }}
        console.log(JSON.stringify(found));
        """
    )
    try:
        expected = str(spending.limit(limit, "limit"))
    except InvalidInput:
        expected = None
    assert found == expected


def test_the_shortest_decimals_are_spelt_as_python_spells_them():
    chance = random.Random(20260102)
    bits = [chance.getrandbits(64) for _ in range(5000)]
    doubles = [struct.unpack("<d", struct.pack("<Q", each))[0] for each in bits]
    doubles += [chance.randrange(10 ** chance.randrange(1, 20)) / 10 ** chance.randrange(20) for _ in range(5000)]
    doubles += [0.0, -0.0, 1e16, 1e15, 123456789012345680.0, 1e-4, 1e-5, 5e-324, 1.7976931348623157e308]
    texts = [real_to_wire(each) for each in doubles if each - each == 0]
    found = evaluate(
        f"""
        const {{ realFromWire, realToWire }} = await import(`${{js}}/form.js`);
        const wrong = {json.dumps(texts)}.filter((text) => realToWire(realFromWire(text, "x")) !== text);
        console.log(JSON.stringify(wrong));
        """
    )
    assert found == []
    assert len(texts) > 9000


def test_values_meet_the_same_indices():
    """Whole numbers beyond 2^53, the edges of bins, and what is clamped."""
    whole = Integers(-(2**62), 2**62 - 1)
    grid = Grid([-1.5, 0.0, 0.1, 2.5, 1e300])
    wholes = [-(2**70), -(2**62), -(2**53) - 1, -1, 0, 2**53 + 1, 2**62 - 1, 2**80]
    reals = [-2.0, -1.5, 0.0, -0.0, 0.1, 0.1000001, 2.5, 3.0, 1e300, 1.1e300]
    found = evaluate(
        f"""
        const {{ Grid, Integers }} = await import(`${{js}}/domain.js`);
        const whole = new Integers({whole.low}n, {whole.high}n);
        const grid = new Grid({json.dumps(grid.edges)});
        console.log(JSON.stringify({{
          wholes: {json.dumps([str(each) for each in wholes])}.map((each) => String(whole.index(BigInt(each)))),
          reals: {json.dumps(reals)}.map((each) => Number(grid.index(each))),
          ends: [Infinity, -Infinity].map((each) => String(whole.index(each))),
        }}));
        """
    )
    assert found["wholes"] == [str(whole.index(each)) for each in wholes]
    assert found["reals"] == [grid.index(each) for each in reals]
    assert found["ends"] == [str(whole.size - 1), "0"]


WHOLE = {"kind": "integers", "low": 0, "high": 9}
LOG = {"kind": "log", "low": 1, "high": 1000, "bins": 12}


def policy_of(rule: dict, **more: object) -> dict:
    return {"version": 1, "measurements": {"a": rule}} | more


TRUST = {"max_local_epsilon": 6, "max_delta": 1e-6}
SHUFFLES = [
    TRUST,
    TRUST
    | {"lifetime_local_epsilon": "7.5", "lifetime_delta": "1e-5", "colluding": 0.1, "shuffler_key": "ab" * 16},
    *({**TRUST, "max_delta": delta} for delta in (0, 1, "x", True, 1e-18, "0.9e-18", "0.999999999999999999")),
    *({**TRUST, "colluding": share} for share in (1, -0.1, True, "x", "", "0.5", 0)),
    *({**TRUST, **more} for more in ({"max_local_epsilon": 0}, {"shuffler_key": "AB"}, {"more": 1})),
    *({}, {"max_delta": 1e-6}, True, "yes", [], None),
]

POLICIES = [
    policy_of({"domain": WHOLE, "max_epsilon": 1}),
    policy_of({"domain": WHOLE, "max_epsilon": 0.1, "lifetime_epsilon": 0.3, "answers": 3}),
    policy_of({"domain": {"kind": "grid", "edges": [1, 2.5]}, "max_epsilon": "0.5"}),
    policy_of({"domain": WHOLE, "max_epsilon": 1}, version=2),
    policy_of({"domain": WHOLE, "max_epsilon": 1}, version=True),
    policy_of({"domain": WHOLE, "max_epsilon": 1}, measurements={}),
    policy_of({"domain": WHOLE, "max_epsilon": 1}, allow_http="false"),
    policy_of({"domain": WHOLE, "max_epsilon": 1}, allow=True),
    policy_of({"domain": WHOLE, "max_epsilon": 0}),
    policy_of({"domain": WHOLE}),
    policy_of({"domain": WHOLE | {"high": -1}, "max_epsilon": 1}),
    policy_of({"domain": WHOLE | {"low": 0.5}, "max_epsilon": 1}),
    policy_of({"domain": WHOLE | {"step": 1}, "max_epsilon": 1}),
    policy_of({"domain": {"kind": "grid", "edges": [2, 1]}, "max_epsilon": 1}),
    policy_of({"domain": {"kind": "grid", "edges": []}, "max_epsilon": 1}),
    policy_of({"domain": {"kind": "other"}, "max_epsilon": 1}),
    policy_of({"domain": LOG, "max_epsilon": 1}),
    policy_of({"domain": LOG | {"low": 0.5, "high": 1e300}, "max_epsilon": 1}),
    policy_of({"domain": LOG | {"low": 0}, "max_epsilon": 1}),
    policy_of({"domain": LOG | {"low": True}, "max_epsilon": 1}),
    policy_of({"domain": LOG | {"high": 1}, "max_epsilon": 1}),
    policy_of({"domain": LOG | {"bins": 0}, "max_epsilon": 1}),
    policy_of({"domain": LOG | {"bins": 2.5}, "max_epsilon": 1}),
    policy_of({"domain": LOG | {"bins": 1_000_001}, "max_epsilon": 1}),
    policy_of({"domain": LOG | {"edges": [1]}, "max_epsilon": 1}),
    policy_of({"domain": {"kind": "log", "low": 1, "high": 2}, "max_epsilon": 1}),
    policy_of({"domain": "integers", "max_epsilon": 1}),
    policy_of({"domain": WHOLE, "max_epsilon": 1, "answers": 0}),
    policy_of({"domain": WHOLE, "max_epsilon": 1, "issuer_key": "x"}),
    policy_of({"domain": WHOLE, "max_epsilon": 1, "lifetime": 2}),
    {"measurements": {"a": {"domain": WHOLE, "max_epsilon": 1}}},
    [],
]


@pytest.mark.parametrize("form", POLICIES, ids=range(len(POLICIES)))
def test_policies_are_read_and_refused_alike(form):
    found = evaluate(
        f"""
        const {{ Policy, InvalidInput }} = await import(`${{js}}/public.js`);
        const bytes = new TextEncoder().encode({json.dumps(json.dumps(form))});
        let found;
        try {{
          found = [...Policy.parse(bytes).measurements.values()].map((rule) => String(rule.lifetimeUnits));
        }} catch (error) {{ if (!(error instanceof InvalidInput)) throw error; found = null; }}
        console.log(JSON.stringify(found));
        """
    )
    try:
        policy: Policy | None = policy_from_dict(form)
    except InvalidInput:
        policy = None
    rules: list[Rule] = [] if policy is None else list(policy.measurements.values())
    assert found == (None if policy is None else [str(rule.lifetime_units) for rule in rules])


def test_tables_about_shuffling_are_read_and_refused_alike():
    forms = [policy_of({"domain": WHOLE, "max_epsilon": 1, "shuffle": table}) for table in SHUFFLES]
    found = evaluate(
        f"""
        const {{ Policy, InvalidInput }} = await import(`${{js}}/public.js`);
        console.log(JSON.stringify({json.dumps([json.dumps(form) for form in forms])}.map((text) => {{
          try {{
            const {{ shuffle }} = Policy.parse(new TextEncoder().encode(text)).measurements.get("a");
            const names = ["maxLocalUnits", "lifetimeLocalUnits", "maxDeltaUnits", "lifetimeDeltaUnits"];
            return [...names.map((name) => String(shuffle[name])), shuffle.share, shuffle.shufflerKey];
          }} catch (error) {{
            if (!(error instanceof InvalidInput)) throw error;
            return null;
          }}
        }})));
        """
    )
    expected = []
    for form in forms:
        try:
            rule = policy_from_dict(form).measurements["a"].shuffle
        except InvalidInput:
            expected.append(None)
            continue
        units = (
            rule.max_local_units, rule.lifetime_local_units, rule.max_delta_units, rule.lifetime_delta_units,
        )  # fmt: skip
        expected.append([*map(str, units), rule.share, rule.shuffler_key])
    assert found == expected
    assert sum(each is not None for each in expected) >= 5
    assert sum(each is None for each in expected) >= 10


@pytest.mark.parametrize(
    ("low", "high", "bins"), [(1, 1000, 12), (1e-3, 1e6, 5000), (1e-150, 1e150, 999), (1, 2, 1)]
)
def test_a_log_grid_of_a_policy_matches_the_edges_python_published(low, high, bins):
    """Within 10^-12 of each edge, whatever the engine makes of a logarithm, and no further."""
    edges = LogGrid(low, high, bins).edges
    moved = [[*edges[:-1], edges[-1] * (1 + by)] for by in (0, 5e-13, 3e-12)]
    found = evaluate(
        f"""
        const {{ Grid, LogGrid }} = await import(`${{js}}/public.js`);
        const ours = new LogGrid({low}, {high}, {bins});
        const asked = [...{json.dumps(moved)}, [1, 2, 3]];
        console.log(JSON.stringify(asked.map((edges) => ours.equals(new Grid(edges)))));
        """
    )
    assert found == [True, True, False, False]
    assert found == [covers(LogGrid(low, high, bins), Grid(edges)) for edges in [*moved, [1, 2, 3]]]
