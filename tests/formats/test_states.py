"""States and estimates of protocols that an earlier release wrote are read, and their runs go on as before."""

from __future__ import annotations

import base64
import copy
import json
from pathlib import Path
from typing import Any

import protocol_cases
import pytest
from continuing import numbers

from privquant.error_words import Rank, error_statement
from privquant.messages import Guarantee
from privquant.protocols.registry import protocol_names

FILE = Path(__file__).parent / "files" / "ecfc2aa" / "protocols.json"
CASES: dict[str, Any] = json.loads(FILE.read_text())


def without_stacks(case: Any) -> Any:
    """BayesLearn wrote its stacks in blocks then, and writes plain pieces now; what follows from them is equal."""
    case = copy.deepcopy(case)
    for form in (case["midway"]["state"], case["end"]["state"]):
        if "thresholds" not in form["progress"].get("posterior", {"thresholds": ()}):
            del form["progress"]["posterior"]
    return case


@pytest.mark.parametrize("name", CASES)
def test_a_stored_state_gives_its_estimate_and_goes_on_as_it_would_have(name: str) -> None:
    again = json.loads(json.dumps(protocol_cases.continued(CASES[name])))
    assert numbers(without_stacks(again)) == numbers(without_stacks(CASES[name]))


@pytest.mark.parametrize("name", CASES)
def test_a_report_that_was_told_otherwise_leads_elsewhere(name: str) -> None:
    changed = copy.deepcopy(CASES[name])
    last = changed["rounds"][-1][-1]
    if "bits" in last:
        first, *rest = base64.b64decode(last["bits"])
        last["bits"] = base64.b64encode(bytes([first ^ 128, *rest])).decode()
    else:
        last["bit"] = 1 - last["bit"]
    assert numbers(protocol_cases.continued(changed)["end"]) != numbers(CASES[name]["end"])


def test_there_is_a_state_of_every_protocol() -> None:
    stored = {case["midway"]["state"]["protocol"] for case in CASES.values()}
    assert stored == set(protocol_names())


@pytest.mark.parametrize("name", CASES)
def test_what_an_estimate_says_is_read_back_from_its_json(name: str) -> None:
    for form in CASES[name]["end"]["estimates"]:
        assert Guarantee.from_dict(form["guarantee"]).to_dict() == form["guarantee"]
        for part in ("certain", "typical"):
            said = error_statement(form[part])
            assert (None if said is None else said.to_dict()) == form[part]
        if form["rank"] is not None:
            assert Rank(**form["rank"]).to_dict() == form["rank"]
