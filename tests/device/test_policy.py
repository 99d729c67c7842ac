"""A policy is read exactly or not at all."""

import json
from decimal import Decimal

import pytest

from privquant.device import Policy, Rule, load_policy, policy_from_dict
from privquant.device.policy import covers
from privquant.domain import Grid, Integers, LogGrid
from privquant.errors import InvalidInput

TOML = """
version = 1
ledger = "some/ledger"
allow_http = true

[measurements.steps]
domain = {kind = "integers", low = 0, high = 100}
max_epsilon = 0.1
lifetime_epsilon = 0.3
answers = 3
issuer_key = "%s"

[measurements.weight]
domain = {kind = "grid", edges = [50.5, 70, 90]}
max_epsilon = 1
"""

LOG = {"kind": "log", "low": 1, "high": 9, "bins": 2}


@pytest.fixture
def form():
    return {
        "version": 1,
        "measurements": {"steps": {"domain": {"kind": "integers", "low": 0, "high": 100}, "max_epsilon": 1}},
    }


def test_toml_and_json_say_the_same(tmp_path):
    toml, as_json = tmp_path / "p.toml", tmp_path / "p.json"
    toml.write_text(TOML % ("ab" * 32))
    import tomllib

    as_json.write_text(json.dumps(tomllib.loads(TOML % ("ab" * 32))))
    for policy in (load_policy(toml), load_policy(as_json)):
        assert policy.allow_http is True
        assert policy.ledger == tmp_path / "some" / "ledger"
        steps = policy.measurements["steps"]
        assert steps == Rule(Integers(0, 100), Decimal("0.1"), Decimal("0.3"), 3, "ab" * 32)
        assert (steps.max_units, steps.lifetime_units) == (10**11, 3 * 10**11)
        assert policy.measurements["weight"] == Rule(Grid([50.5, 70, 90]), 1)


def test_lifetime_is_one_answer_unless_it_is_said(form):
    rule = policy_from_dict(form).measurements["steps"]
    assert (rule.answers, rule.lifetime_units) == (1, rule.max_units)


def test_default_ledger_is_in_the_state_directory(form, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert policy_from_dict(form).ledger == tmp_path / "privquant" / "ledger"


@pytest.mark.parametrize("home", ["", "state", "./state"])
def test_a_state_directory_that_depends_on_where_one_stands_is_not_used(form, monkeypatch, tmp_path, home):
    monkeypatch.setenv("XDG_STATE_HOME", home)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert policy_from_dict(form).ledger == tmp_path / ".local" / "state" / "privquant" / "ledger"


def test_a_ledger_is_found_beside_its_policy_from_anywhere(tmp_path, monkeypatch):
    (tmp_path / "p.toml").write_text(TOML % ("ab" * 32))
    monkeypatch.chdir(tmp_path)
    here = load_policy("p.toml").ledger
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert load_policy("../p.toml").ledger.resolve() == here.resolve() == tmp_path / "some" / "ledger"


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("version",), 2, "version must be 1"),
        (("version",), True, "version must be 1"),
        (("verson",), 1, "unknown field verson"),
        (("measurements",), {}, "at least one measurement"),
        (("measurements",), [], "table of rules"),
        (("measurements", "steps", "max_epsilon"), 0, "max_epsilon must be"),
        (("measurements", "steps", "max_epsilon"), float("nan"), "max_epsilon must be"),
        (("measurements", "steps", "lifetime_epsilon"), "x", "lifetime_epsilon must be"),
        (("measurements", "steps", "lifetime"), 1, "unknown field lifetime"),
        (("measurements", "steps", "answers"), 0, "answers must be at least 1"),
        (("measurements", "steps", "answers"), 1.5, "answers must be a whole number"),
        (("measurements", "steps", "issuer_key"), "AB" * 32, "issuer_key must be"),
        (("measurements", "steps", "domain"), {"kind": "circle"}, "not a domain"),
        (("measurements", "steps", "domain"), {"kind": "log", "low": 1, "high": 9}, "low, high and bins"),
        (("measurements", "steps", "domain"), LOG | {"low": "x"}, "low must be a number"),
        (("measurements", "steps", "domain"), LOG | {"high": True}, "high must be a number"),
        (("measurements", "steps", "domain"), LOG | {"low": 0}, "0 < low < high"),
        (("measurements", "steps", "domain"), LOG | {"bins": 2.0}, "bins must be a whole number"),
        (("measurements", "steps", "domain"), 7, "domain must be a table"),
        (("measurements", "steps"), 7, "a table is needed"),
        (
            ("measurements", ""),
            {"domain": {"kind": "integers", "low": 0, "high": 1}, "max_epsilon": 1},
            "not empty",
        ),
        (("allow_http",), "yes", "allow_http must be"),
        (("ledger",), 7, "ledger must be a path"),
    ],
)
def test_a_mistake_is_refused_and_named(form, path, value, message):
    place = form
    for name in path[:-1]:
        place = place[name]
    place[path[-1]] = value
    with pytest.raises(InvalidInput, match=message):
        policy_from_dict(form)


@pytest.mark.parametrize("missing", ["version", "measurements"])
def test_a_missing_field_is_named(form, missing):
    del form[missing]
    with pytest.raises(InvalidInput, match=f"{missing} missing"):
        policy_from_dict(form)


@pytest.mark.parametrize(
    ("name", "raw"),
    [
        ("p.json", b'{"version": 1, "version": 1}'),
        ("p.json", b"[" * 100_000),
        ("p.json", b"\xff"),
        ("p.toml", b"version = "),
        ("p.toml", b"x" * ((1 << 20) + 1)),
    ],
)
def test_a_file_that_is_no_policy_is_refused_in_one_line(tmp_path, name, raw):
    (tmp_path / name).write_bytes(raw)
    with pytest.raises(InvalidInput, match=name):
        load_policy(tmp_path / name)


def test_a_file_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(InvalidInput, match="cannot be read"):
        load_policy(tmp_path / "p.toml")


def test_a_rule_that_is_no_rule_is_refused():
    with pytest.raises(InvalidInput, match="must be a Rule"):
        Policy({"steps": {"max_epsilon": 1}})


def test_a_log_grid_may_be_written_by_its_ends(tmp_path):
    domain = '{kind = "log", low = 0.1, high = 1e6, bins = 70}'
    (tmp_path / "p.toml").write_text(f"version = 1\n[measurements.pay]\nmax_epsilon = 1\ndomain = {domain}\n")
    assert load_policy(tmp_path / "p.toml").measurements["pay"].domain == LogGrid(0.1, 1e6, 70)


@pytest.mark.parametrize(
    ("by", "same"), [(0, True), (9e-13, True), (-9e-13, True), (1.2e-12, False), (-1e-9, False)]
)
@pytest.mark.parametrize("place", [0, 7, 70])
def test_edges_agree_with_a_log_grid_to_the_last_digits(by, same, place):
    ours = LogGrid(1e-3, 1e6, 70)
    edges = [edge * (1 + by) if k == place else edge for k, edge in enumerate(ours.edges)]
    assert covers(ours, Grid(edges)) is same
    assert covers(Grid(ours.edges), Grid(edges)) is (by == 0)  # edges that are written out are meant exactly


def test_a_log_grid_is_no_other_domain():
    ours = LogGrid(1, 1000, 3)
    for other in (LogGrid(1, 1000, 4), LogGrid(1, 1001, 3), Grid([1]), Integers(1, 1000), Integers(0, 4)):
        assert not covers(ours, other)


SHUFFLE = {"max_local_epsilon": 6, "max_delta": 1e-6}


def test_a_table_about_shuffling(form):
    assert policy_from_dict(form).measurements["steps"].shuffle is None
    form["measurements"]["steps"]["shuffle"] = SHUFFLE
    rule = policy_from_dict(form).measurements["steps"].shuffle
    assert (rule.max_local_units, rule.lifetime_local_units) == (6 * 10**12, 6 * 10**12)
    assert (rule.max_delta_units, rule.lifetime_delta_units, rule.share) == (10**12, 10**12, 0.0)
    more = {"lifetime_local_epsilon": "7.5", "lifetime_delta": Decimal("1e-5"), "colluding": "0.1",
            "shuffler_key": "ab" * 16}  # fmt: skip
    form["measurements"]["steps"]["shuffle"] = SHUFFLE | more
    rule = policy_from_dict(form).measurements["steps"].shuffle
    assert (rule.lifetime_local_units, rule.lifetime_delta_units, rule.share) == (75 * 10**11, 10**13, 0.1)


@pytest.mark.parametrize(
    "table",
    [
        {}, {"max_delta": 1e-6}, {"max_local_epsilon": 6}, SHUFFLE | {"more": 1}, SHUFFLE | {"max_delta": 0},
        SHUFFLE | {"max_delta": 1}, SHUFFLE | {"max_delta": "x"}, SHUFFLE | {"max_delta": True},
        SHUFFLE | {"max_delta": 1e-19}, SHUFFLE | {"max_local_epsilon": 0}, SHUFFLE | {"colluding": 1},
        SHUFFLE | {"colluding": -0.1}, SHUFFLE | {"colluding": True}, SHUFFLE | {"colluding": "x"},
        SHUFFLE | {"shuffler_key": "AB"}, True, "yes", [],
    ],
)  # fmt: skip
def test_a_table_about_shuffling_is_read_strictly(form, table):
    form["measurements"]["steps"]["shuffle"] = table
    with pytest.raises(InvalidInput, match="shuffle|steps"):
        policy_from_dict(form)
