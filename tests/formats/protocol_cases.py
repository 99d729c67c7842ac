"""Every registered protocol in the forms that are stored: how the files of `make.py` are made, and what they hold.

A case is written midway through a run: the state, the estimates it gives, the questions that were asked from there
on with their answers, and where that led.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import privquant as pq
from privquant.lab.populations import Users
from privquant.lab.sample import Sample
from privquant.messages import query_to_dict, report_from_dict, report_to_dict
from privquant.planning.statement import stated
from privquant.protocols.base import Protocol
from privquant.protocols.registry import from_state, protocol, shuffled_protocol

DOMAIN = pq.Integers(0, 255)
USERS = 400
AT_A_TIME = 12

LOCAL: dict[str, tuple[str, dict[str, Any]]] = {
    "naive": ("naive", {}),
    "bayess": ("bayess", {}),
    "bayess as published": ("bayess", {"behaviour": "published"}),
    "bayeslearn": ("bayeslearn", {}),
    "bayeslearn by counts": ("bayeslearn", {"update": "counts"}),
    "hierarchical": ("hierarchical", {}),
    "hierarchical, Hadamard": ("hierarchical", {"encoding": "hadamard", "consistency": True}),
    "isotonic": ("isotonic", {"guard": False}),
    "isotonic, guarded": ("isotonic", {"guard": True, "spread": 0.25}),
    "isotonic, several quantiles": ("isotonic", {"quantile": (0.1, 0.5, 0.9)}),
    "isotonic, interval": ("isotonic", {"interval": 0.95}),
}
SHUFFLED = ("naive", "isotonic")


def made() -> dict[str, Any]:
    """All cases, by their names."""
    found: dict[str, Any] = {}
    for name, (kind, options) in LOCAL.items():
        found[name] = _case(protocol(kind, DOMAIN, users=USERS, epsilon=1.0, **options))
    grid = pq.Grid([0.5, 1.0, 2.5, 10.0])
    found["isotonic, grid"] = _case(protocol("isotonic", grid, users=USERS, epsilon=2.0, quantile=0.9))
    for kind in SHUFFLED:
        search = shuffled_protocol(kind, DOMAIN, users=USERS, epsilon=2.0, delta=1e-2)
        found[f"{kind}, shuffled"] = _case(search)
    return found


def _case(search: Protocol) -> dict[str, Any]:
    rng = np.random.default_rng(7)
    people = Users(Sample(rng.integers(0, search.domain.size, USERS), search.domain.size), rng)
    while search.heard < USERS // 2:
        search.tell(people.answer(search.ask(AT_A_TIME)))
    asked = search.ask(3)  # in flight when the state is written
    case: dict[str, Any] = {"midway": standing(search), "rounds": []}
    for _ in range(3):
        reports = people.answer(asked)
        search.tell(reports)
        case["rounds"].append([report_to_dict(report) for report in reports])
        asked = search.ask(AT_A_TIME)
    return case | {"next": [query_to_dict(query) for query in asked], "end": standing(search)}


def continued(case: dict[str, Any]) -> dict[str, Any]:
    """The same case when the state of its middle is opened and goes on; it asserts that the same is asked."""
    search = from_state(case["midway"]["state"])
    again: dict[str, Any] = {"midway": standing(search), "rounds": case["rounds"]}
    for number, reports in enumerate(case["rounds"]):
        if number > 0:
            asked = [query_to_dict(query) for query in search.ask(AT_A_TIME)]
            assert asked == [form.get("query") or form["tree"] for form in reports]
        search.tell([report_from_dict(form) for form in reports])
    asked = [query_to_dict(query) for query in search.ask(AT_A_TIME)]
    return again | {"next": asked, "end": standing(search)}


def standing(search: Protocol) -> dict[str, Any]:
    """State and estimates. The sentences of an estimate are left out: they may be worded anew."""
    estimates = [stated(each, search).to_dict() | {"notes": None} for each in search.estimates()]
    return {"state": search.state(), "estimates": estimates}
