"""Every registered protocol keeps the contract; and the suite notices protocols that do not."""

import pytest

from privquant.errors import InvalidInput
from privquant.lab.populations import OutOfUsers
from privquant.protocols import registry
from privquant.protocols.base import Protocol
from privquant.protocols.registry import protocol_class, protocol_names
from privquant.testing import CHECKS, Case

CASES = [
    Case("naive"),
    Case("bayess"),
    Case("bayess", {"final": "test"}),
    Case("bayeslearn"),
    Case("bayeslearn", {"update": "counts"}),
    Case("hierarchical", {"encoding": "hadamard"}),
    Case("isotonic"),
]


def test_every_registered_protocol_is_among_the_cases():
    assert {case.name for case in CASES} == set(protocol_names())


@pytest.mark.parametrize("case", CASES, ids=lambda case: "-".join([case.name, *map(str, case.options.values())]))
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_conforms(check, case):
    check(case)


def test_a_protocol_of_your_own_is_known_by_its_name(monkeypatch):
    monkeypatch.setattr(registry, "_OWN", {})

    class Mine(protocol_class("naive")):
        name = "mine"

    assert registry.register(Mine) is Mine is protocol_class("mine")
    assert protocol_names()[-1] == "mine"
    for check in CHECKS:
        check(Case("mine"))
    assert registry.register(Mine) is Mine  # once more is no harm
    for wrong, said in (
        (protocol_class("naive"), "already"),
        (type("Other", (Mine,), {}), "already"),
        (5, "got 5"),
    ):
        with pytest.raises(InvalidInput, match=said):
            registry.register(wrong)


class Broken:
    """Ways to break a protocol, each of which one check must notice."""

    @staticmethod
    def asks_beyond_the_plan(protocol: Protocol) -> None:
        ask, last = protocol.ask, []

        def insists(k: int = 1) -> list:
            queries = ask(k) or last[:1]  # when the plan is over, the last question once more
            last[:] = queries
            return queries

        protocol.ask = insists  # type: ignore[method-assign]

    @staticmethod
    def forgets_a_report(protocol: Protocol) -> None:
        protocol.tell = lambda reports, tell=protocol.tell: tell(list(reports)[1:])  # type: ignore[method-assign]

    @staticmethod
    def believes_anything(protocol: Protocol) -> None:
        protocol._check = lambda report: None  # type: ignore[method-assign]


@pytest.mark.parametrize(
    ("fault", "notices"),
    [
        (Broken.asks_beyond_the_plan, "nobody_is_asked_twice_nor_beyond_the_plan"),
        (Broken.forgets_a_report, "reports_may_come_in_any_order"),
        (Broken.believes_anything, "foreign_reports_change_nothing"),
    ],
)
def test_the_suite_notices_a_broken_protocol(fault, notices):
    class BrokenCase(Case):
        def make(self, *args, **options):
            protocol = super().make(*args, **options)
            fault(protocol)
            return protocol

    check = next(c for c in CHECKS if c.__name__ == notices)
    # Each fault ends in a broken rule, or in a population that has nobody left to ask; no other error counts.
    with pytest.raises((AssertionError, OutOfUsers)):
        check(BrokenCase("naive"))


def test_titles_are_for_people():
    for name in protocol_names():
        assert protocol_class(name).title
