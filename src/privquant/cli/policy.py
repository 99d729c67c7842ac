"""`privquant policy`: look at the campaign of an invite, and write the policy that allows it and nothing else.

Exit codes: 0 written, 1 not wanted, 2 wrong use, 3 refused, 4 try again later.
"""

from __future__ import annotations

import contextlib
import math
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from privquant.cli._options import Yes
from privquant.cli._out import check_out
from privquant.cli.answer import device_needed, said_no
from privquant.errors import InvalidInput

if TYPE_CHECKING:
    from privquant.device import ShuffleRule
    from privquant.wire import Manifest, Shuffle

MOST_EPSILON = 2.0  # beyond, a bit tells more than seven to one
MOST_DELTA = 1e-6
MOST_LOCAL_EPSILON = 8.0  # what is left if the shuffler is not honest: a bit that a coin turns once in 3000 times


def policy(
    invite: Annotated[str, typer.Argument(help="The invite: a link with a token, or an open link.")],
    out: Annotated[
        Path, typer.Option(help="The file to write (TOML); one that is there is never overwritten.")
    ] = Path("policy.toml"),
    allow_epsilon: Annotated[
        float, typer.Option(help="The most an answer may reveal; a campaign that asks for more is refused.")
    ] = MOST_EPSILON,
    allow_delta: Annotated[
        float, typer.Option(help="Of a shuffled campaign: the most its delta may be.")
    ] = MOST_DELTA,
    allow_local_epsilon: Annotated[
        float,
        typer.Option(
            help="Of a shuffled campaign: the most that is revealed if shuffler and issuer work together."
        ),
    ] = MOST_LOCAL_EPSILON,
    yes: Yes = False,
    patience: Annotated[float, typer.Option(help="Seconds to go on trying before giving up for now.")] = 60.0,
) -> None:
    """Show what an invite asks and write, if you agree, the policy that allows one answer to it and nothing else.

    The campaign is fetched and checked against the invite as `privquant answer` does it; nothing about you is sent.

    Exit codes: 0 written, 1 not wanted, 2 wrong use, 3 refused, 4 not now, try again later.
    """
    with device_needed():
        from privquant.device import Patience, ShuffleRule, spending
        from privquant.device.consent import policy_of
        from privquant.device.invited import look_at
        from privquant.device.refusals import NotAnswered

    most = spending.limit(allow_epsilon, "--allow-epsilon")
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
        _check(manifest, most, trusted)
    except NotAnswered as refusal:
        raise said_no(refusal) from None
    text = policy_of(manifest)
    typer.echo(_shown(manifest))
    if not yes:
        typer.confirm(f"Write this to {out}?", abort=True)
    _write(out, text)
    typer.echo(f"{out} is written; now: privquant answer INVITE VALUE --policy {out}", err=True)


def _check(manifest: Manifest, most: int, trusted: ShuffleRule) -> None:
    """That a campaign is within what may be revealed, and that every round of a shuffled one keeps its promise."""
    from privquant.device import spending
    from privquant.device.limits import check_round, most_spent
    from privquant.device.refusals import PolicyRefused

    costs, terms = most_spent(manifest), manifest.shuffle
    within = spending.keeps(most, manifest.flip_threshold) if terms is None else costs.epsilon <= most
    if not within:
        raise PolicyRefused(
            "epsilon-per-answer",
            f"an answer would cost epsilon {spending.shown(costs.epsilon)}, and {spending.shown(most)} is allowed; "
            f"to reveal that much all the same, say --allow-epsilon {manifest.epsilon!r}",
        )
    if terms is None:
        return
    if costs.delta > trusted.max_delta_units:
        raise PolicyRefused(
            "delta-per-answer",
            f"an answer would cost delta {spending.shown_delta(costs.delta)}, and "
            f"{spending.shown_delta(trusted.max_delta_units)} is allowed; to allow it all the same, say "
            f"--allow-delta {terms.delta!r}",
        )
    if not spending.keeps(trusted.max_local_units, manifest.flip_threshold):
        raise PolicyRefused(
            "local-epsilon-per-answer",
            f"if shuffler and issuer work together an answer costs epsilon {spending.shown(costs.local)}, and "
            f"{spending.shown(trusted.max_local_units)} is allowed; to reveal that much all the same, say "
            f"--allow-local-epsilon {spending.shown(costs.local)}",
        )
    for row in set(terms.rounds):
        check_round(manifest, terms, terms.rounds.index(row), trusted.share)


def _shown(manifest: Manifest) -> str:
    """What the policy allows, in words."""
    from privquant.device.consent import quantiles_wanted, values_asked
    from privquant.wire import fingerprint

    return (
        f"The campaign asks: {manifest.question}\n"
        f"About {manifest.measurement}: {values_asked(manifest.domain)}. Out of the bits of "
        f"{manifest.planned_users:,} people the issuer estimates {quantiles_wanted(manifest)}.\n\n"
        "The policy allows\n"
        f"{_local_words(manifest) if manifest.shuffle is None else _shuffled_words(manifest, manifest.shuffle)}"
        f"- to the issuer with the key {fingerprint(manifest.issuer)} and no other;\n"
        "- and nothing else.\n"
    )


def _local_words(manifest: Manifest) -> str:
    from privquant.messages import Guarantee
    from privquant.privacy.coin import Coin

    coin = Coin(manifest.flip_threshold)
    return (
        f"- one answer about {manifest.measurement}, ever: one bit, which a coin turns with a chance of "
        f"{100 * coin.flip:.3g} %;\n"
        f"- epsilon {manifest.epsilon:.4g}: whichever bit leaves, no value explains it more than "
        f"{math.exp(coin.epsilon):.3g} times as well as another. {Guarantee('local', coin.epsilon)}\n"
    )


def _shuffled_words(manifest: Manifest, terms: Shuffle) -> str:
    from privquant.privacy.coin import Coin
    from privquant.wire import fingerprint

    coin = Coin(manifest.flip_threshold)
    least, most = (pick(row.batch for row in terms.rounds) for pick in (min, max))
    return (
        f"- one answer about {manifest.measurement}, ever: one bit, sealed so that the issuer alone can read it, "
        f"and mixed by the shuffler at {terms.address} with those of {least:,} to {most:,} people in a round, or "
        "withheld;\n"
        f"- epsilon {manifest.epsilon:.4g} and delta {terms.delta:.2g}, if the shuffler is honest and at most "
        f"{100 * terms.colluding:.3g} % of a round's reports are fake: what the issuer learns from a round, no "
        f"value explains more than {math.exp(manifest.epsilon):.3g} times as well as another, but for a chance of "
        f"{terms.delta:.2g};\n"
        f"- local epsilon {coin.epsilon:.4g}, if shuffler and issuer work together: then the coin alone protects "
        f"the bit, and turns it with a chance of {100 * coin.flip:.3g} %;\n"
        f"- through the shuffler with the key {fingerprint(terms.key)} and no other;\n"
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
