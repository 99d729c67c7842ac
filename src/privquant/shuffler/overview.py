"""What a shuffler's operator is told about a campaign: every round with its state, its number and its batch's id.

The books of a shuffler: reports acknowledged to devices = held in the open round + forwarded + in rounds shown as
dropped. An aggregator's `verify` lists the same batches by the same ids.
"""

from __future__ import annotations

import json
import sqlite3
import time
from typing import Any

from privquant.shuffler.database import DROPPED, FORWARDED, OVER
from privquant.shuffler.invites import Joined
from privquant.wire.shuffle_promise import promise


def shown(db: sqlite3.Connection, campaign: Joined) -> dict[str, Any]:
    """One campaign as JSON."""
    rows = db.execute(
        "SELECT round, state, held, extended, batch, closes FROM round WHERE campaign = ? ORDER BY round",
        (campaign.no,),
    ).fetchall()
    rounds = [
        {
            "round": number,
            "state": state,
            "reports": held,
            "needed": campaign.manifest.rounds[number].batch,
            "extended": bool(extended),
            "batch": batch,
            "closes": None if state in OVER else closes,
        }
        for number, state, held, extended, batch, closes in rows
    ]
    incidents = db.execute(
        "SELECT round, what, evidence FROM incident WHERE campaign = ? ORDER BY no", (campaign.no,)
    ).fetchall()
    (issued,) = db.execute("SELECT count(*) FROM token WHERE campaign = ?", (campaign.no,)).fetchone()
    (spent,) = db.execute("SELECT count(*) FROM spent WHERE campaign = ?", (campaign.no,)).fetchone()
    link = db.execute("SELECT places, taken FROM link WHERE campaign = ?", (campaign.no,)).fetchone()
    return {
        "id": campaign.id,
        "measurement": campaign.manifest.measurement,
        "question": campaign.manifest.question,
        "state": state_of(campaign),
        "aggregator": campaign.aggregator,
        "tokens": issued,
        "acknowledged": spent,
        "forwarded": sum(row["reports"] for row in rounds if row["state"] == FORWARDED),
        "dropped": sum(row["reports"] for row in rounds if row["state"] == DROPPED),
        "waiting": sum(row["reports"] for row in rounds if row["state"] not in OVER),
        "open_link": None if link is None else {"places": link[0], "taken": link[1]},
        "planned_rounds": len(campaign.manifest.rounds),
        "rounds": rounds,
        "incidents": [
            {"round": number, "what": what, "evidence": None if evidence is None else json.loads(evidence)}
            for number, what, evidence in incidents
        ],
        "privacy": str(promise(campaign.manifest)),
    }


def state_of(campaign: Joined) -> str:
    """As an operator sees it: past its deadline a campaign that is not closed yet is over."""
    return "over" if campaign.state == "open" and time.time() >= campaign.manifest.deadline else campaign.state
