"""What travels: questions of a round and randomized counts, as JSON in one record."""

from __future__ import annotations

import json
from typing import Any

from flwr.app import ConfigRecord, RecordDict

from privquant.engines import Answered
from privquant.messages import Query, query_to_dict


def packed(form: dict[str, Any]) -> RecordDict:
    return RecordDict({"privquant": ConfigRecord({"json": json.dumps(form)})})


def unpacked(content: RecordDict) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(str(content["privquant"]["json"]))
    return found


def question_form(asked: tuple[tuple[Query, int], ...]) -> list[Any]:
    return [[query_to_dict(query), count] for query, count in asked]


def questions(form: list[Any]) -> tuple[tuple[Query, int], ...]:
    return tuple((Query(**query), int(count)) for query, count in form)


def reply_form(replies: list[Answered]) -> list[list[int]]:
    return [[reply.asked, reply.answered, reply.ones] for reply in replies]


def replies(form: list[list[int]], asked: tuple[tuple[Query, int], ...]) -> list[Answered]:
    """Read back, and held against what was asked: a node cannot answer for more users than it was given."""
    if len(form) != len(asked):
        raise ValueError(f"{len(asked)} questions were asked, {len(form)} answered")
    made = []
    for (query, count), (_, answered, ones) in zip(asked, form, strict=True):
        if not 0 <= ones <= answered <= count:
            raise ValueError(f"{count} users were asked, and {answered} are said to have answered, {ones} with one")
        made.append(Answered(query, count, answered, ones))
    return made
