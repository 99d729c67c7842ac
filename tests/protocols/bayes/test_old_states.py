"""States that version 0.1 wrote in the middle of a run: read now, the run asks and answers as it did then."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import pytest

from privquant.messages import Query, Report
from privquant.protocols.registry import from_state

STATES = json.loads(Path(__file__).with_name("states_0_1.json").read_text(encoding="utf-8"))


def rest_of_the_run(written: dict) -> tuple[list[int], int | None]:
    """The thresholds asked from the state on and the answer, with the bits that were told then."""
    run, asked, bits, told = from_state(written["state"]), [], iter(written["bits"]), written["told"]
    while queries := run.ask(3 if told % 10 == 0 else 1):
        for query in queries:
            assert isinstance(query, Query)
            asked.append(query.threshold)
        run.tell([Report(query, next(bits)) for query in queries])
        told += len(queries)
        run = from_state(json.loads(json.dumps(run.state())))
    return asked, run.estimate().index


@pytest.mark.parametrize("written", STATES, ids=[f"{k}-{written['name']}" for k, written in enumerate(STATES)])
def test_a_run_goes_on_from_a_state_of_version_0_1(written: dict) -> None:
    assert rest_of_the_run(written) == (written["asked"], written["answer"])


def test_that_comparison_notices_another_state() -> None:
    other = copy.deepcopy(STATES[0])
    other["state"]["progress"]["posterior"]["number"][2] *= 1.1  # the unit of the left half of the open block
    assert rest_of_the_run(other) != (other["asked"], other["answer"])
