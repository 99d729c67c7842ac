"""`privquant policy`: look at the campaign of an invite, and write the policy that allows it and nothing else."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from privquant.cli._options import Yes, option
from privquant.cli._out import check_out
from privquant.cli.answer import device_needed, said_no
from privquant.errors import InvalidInput

if TYPE_CHECKING:
    from privquant.device import Rule
    from privquant.wire import Manifest

MOST_EPSILON = 2.0  # beyond, a bit tells more than seven to one
MOST_DELTA = 1e-6
MOST_LOCAL_EPSILON = 8.0  # what is left if the shuffler is not honest: a bit that a coin turns once in 3000 times


def policy(
    invite: Annotated[str, typer.Argument(help="The invite: a link with a token, or an open link.")],
    out: Path = option("The file to write (TOML); one that is there is never overwritten.", Path("policy.toml")),
    allow_epsilon: float = option(
        "The most an answer may reveal; a campaign that asks for more is refused.", MOST_EPSILON
    ),
    allow_delta: float = option("Of a shuffled campaign: the most its delta may be.", MOST_DELTA),
    allow_local_epsilon: float = option(
        "Of a shuffled campaign: the most that is revealed if shuffler and issuer work together.",
        MOST_LOCAL_EPSILON,
    ),
    yes: Yes = False,
    patience: float = option("Seconds to go on trying before giving up for now.", 60.0),
) -> None:
    """Show what an invite asks and write, if you agree, the policy that allows one answer to it and nothing else.

    The campaign is fetched and checked against the invite as `privquant answer` does it; nothing about you is sent.

    Exit codes: 0 written, 1 not wanted, 2 wrong use, 3 refused, 4 not now, try again later.
    """
    with device_needed():
        from privquant.device import Patience, Rule, ShuffleRule, spending
        from privquant.device.consent import policy_of
        from privquant.device.invited import look_at
        from privquant.device.refusals import NotAnswered

    spending.limit(allow_epsilon, "--allow-epsilon")
    trusted = ShuffleRule(allow_local_epsilon, allow_delta)
    if out.suffix == ".json":
        raise InvalidInput(
            f"the policy is written as TOML, which is not read from a file that ends in .json: {out}"
        )
    if os.path.lexists(out):
        raise _there(out)
    check_out(out)
    try:
        manifest = look_at(invite, Patience(total=patience, request=min(10.0, patience)))
        _check(manifest, Rule(manifest.domain, allow_epsilon, shuffle=trusted))
    except NotAnswered as refusal:
        raise said_no(refusal) from None
    text = policy_of(manifest)
    typer.echo(_shown(manifest))
    if not yes:
        typer.confirm(f"Write this to {out}?", abort=True)
    _write(out, text)
    typer.echo(f"{out} is written; now: privquant answer INVITE VALUE --policy {out}", err=True)


def _check(manifest: Manifest, allowed: Rule) -> None:
    """That a campaign is within what may be revealed, and that every round of a shuffled one keeps its promise."""
    from privquant.device import limits, spending
    from privquant.device.refusals import PolicyRefused
    from privquant.device.trust_models import model_of

    model = model_of(manifest)
    try:
        model.check_limits(allowed)
    except PolicyRefused as refusal:
        costs = model.most_spent()
        option = {
            "epsilon-per-answer": f"--allow-epsilon {manifest.epsilon!r}",
            "delta-per-answer": f"--allow-delta {spending.shown_delta(costs.delta)}",
            "local-epsilon-per-answer": f"--allow-local-epsilon {spending.shown(costs.local)}",
        }[refusal.reason]
        raise PolicyRefused(refusal.reason, f"{refusal.text}; to allow it all the same, say {option}") from None
    model.check_rounds(limits.shuffle_rule(allowed).share)


def _shown(manifest: Manifest) -> str:
    """What the policy allows, in words."""
    from privquant.device.consent import quantiles_wanted, values_asked
    from privquant.device.trust_models import model_of
    from privquant.wire import fingerprint

    return (
        f"The campaign asks: {manifest.question}\n"
        f"About {manifest.measurement}: {values_asked(manifest.domain)}. Out of the bits of "
        f"{manifest.planned_users:,} people the issuer estimates {quantiles_wanted(manifest)}.\n\n"
        "The policy allows\n"
        f"{model_of(manifest).in_words()}"
        f"- to the issuer with the key {fingerprint(manifest.issuer)} and no other;\n"
        "- and nothing else.\n"
    )


def _write(out: Path, text: str) -> None:
    """All of it or nothing, and never over a file that came to be there meanwhile."""
    try:
        with out.open("x", encoding="utf-8") as file:
            try:
                file.write(text)
                file.flush()
            except OSError:
                with contextlib.suppress(OSError):
                    out.unlink()
                raise
    except FileExistsError:
        raise _there(out) from None
    except OSError as error:
        raise InvalidInput(f"{out} cannot be written: {error.strerror or error}") from error


def _there(out: Path) -> InvalidInput:
    return InvalidInput(
        f"{out} is there already and is never overwritten; give another file with --out, and copy its rule into "
        f"{out} if one policy is to allow both"
    )
