"""SQL that both databases run alike, written once.

Parameters are ?1, ?2, ..., which is SQLite's own spelling; `for_postgres` and `for_sqlalchemy` give the others.
Fresh reports lie in the tail until they are sealed, so whatever is counted is counted in two tables at once.
"""

import re
from functools import cache

from privquant.aggregator.campaign.states import State
from privquant.messages import Query

_SEALED = {
    "count": "SELECT phase, arm, coin, threshold, answered, ones FROM count WHERE campaign = ?1",
    "log": "SELECT phase, arm, coin, threshold, 1 AS answered, bit AS ones FROM log WHERE campaign = ?1",
}
_COUNTS = """
SELECT phase, arm, coin, threshold, CAST(sum(answered) AS bigint), CAST(sum(ones) AS bigint) FROM (
  {sealed}
  UNION ALL SELECT phase, arm, coin, threshold, 1, bit FROM tail WHERE campaign = ?1
) AS both_tables GROUP BY phase, arm, coin, threshold
"""
COUNTS = _COUNTS.format(sealed=_SEALED["count"])
"""Answered and ones for each query of a campaign."""
COUNTS_FROM_LOG = _COUNTS.format(sealed=_SEALED["log"])
"""The same, with the sealed reports counted anew."""

_HEARD = """
  (SELECT CAST(coalesce(sum(answered), 0) AS bigint) FROM count WHERE campaign = {campaign})
  + (SELECT count(*) FROM tail WHERE campaign = {campaign})"""
CAMPAIGNS = f"""
SELECT c.no, c.id, c.state, c.envelope, c.pace, {_HEARD.format(campaign="c.no")}
FROM campaign c WHERE (CAST(?1 AS text) IS NULL OR id = ?1) AND (NOT CAST(?2 AS bool) OR state <> '{State.CLOSED}')
ORDER BY c.no
"""
TAKEN = f"""
SELECT {_HEARD.format(campaign="?1")} + (SELECT count(*) FROM pin WHERE campaign = ?1 AND lease >= ?2)
"""
IN_FLIGHT = f"""
SELECT {_HEARD.format(campaign="?1")}, (SELECT count(*) FROM flight WHERE campaign = ?1)
"""
GroupTraffic = dict[int, list[int]]
"""Of each campaign whose slots a group needs: reports counted, and queries in flight, which the group adds to."""
TRAFFIC = f"{IN_FLIGHT}, coalesce((SELECT heard FROM published WHERE campaign = ?1 ORDER BY place LIMIT 1), 0)"
LINK_SECRET = "SELECT secret FROM link WHERE campaign = ?1"

PUBLISHED = "SELECT threshold, coin, phase, arm, users, heard FROM published WHERE campaign = ?1 ORDER BY place"
UNPUBLISH = "DELETE FROM published WHERE campaign = ?1"
PUBLISH = """
INSERT INTO published (campaign, place, threshold, coin, phase, arm, users, heard)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
"""

FRESH = 2
"""The age of a row that was just written; every tick takes one from it, and a row that has none left is deleted."""
TICK_DUE = """
SELECT EXISTS (SELECT 1 FROM flight) OR EXISTS (SELECT 1 FROM token WHERE claim > 0 AND claim < ?1)
"""

WAITING = f"""
SELECT count(*), EXISTS (
  SELECT 1 FROM tail t JOIN campaign c ON c.no = t.campaign WHERE c.state = '{State.CLOSED}'
) FROM tail
"""
LOG_TAIL = """
INSERT INTO log (campaign, phase, arm, coin, threshold, bit)
SELECT campaign, phase, arm, coin, threshold, bit FROM tail ORDER BY {random}
"""
COUNT_TAIL = """
INSERT INTO count AS c (campaign, phase, arm, coin, threshold, answered, ones)
SELECT campaign, phase, arm, coin, threshold, count(*), sum(bit) FROM tail
WHERE true GROUP BY campaign, phase, arm, coin, threshold
ON CONFLICT (campaign, phase, arm, coin, threshold)
DO UPDATE SET answered = c.answered + excluded.answered, ones = c.ones + excluded.ones
"""


def published_rows(campaign: int, queries: list[tuple[Query, int]], known: int) -> list[tuple[int, ...]]:
    """What the statement PUBLISH takes."""
    return [
        (campaign, place, q.threshold, q.coin, q.phase, q.arm, users, known)
        for place, (q, users) in enumerate(queries)
    ]


@cache
def for_postgres(statement: str) -> str:
    return re.sub(r"\?(\d)", r"$\1", statement)


@cache
def for_sqlalchemy(statement: str) -> str:
    """For `text()`: ?1 is :p1."""
    return re.sub(r"\?(\d)", r":p\1", statement)
