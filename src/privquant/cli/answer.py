"""`privquant answer`: answer one question about one value, from a shell or from cron."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from privquant.cli._options import AsJson, option
from privquant.domain import Domain, Integers
from privquant.errors import InvalidInput, MissingDependency

if TYPE_CHECKING:
    from privquant.device import NotAnswered, Receipt

REFUSED = 3
TRY_LATER = 4

# A value is one number; more than this on standard input is a mistake.
LONGEST_VALUE = 1000

# Without this, click would take the value -5 for an option.
CONTEXT = {"ignore_unknown_options": True}


def answer(
    invite: str = typer.Argument(help="The invite: a link with a token, or an open link."),
    value: str | None = typer.Argument(None, help="The number. Left out or '-': read from standard input."),
    policy: Path = option(
        "What this device may be asked (TOML or JSON).", Path("policy.toml"), envvar="PRIVQUANT_POLICY"
    ),
    ledger: Path | None = option(
        "Where answers are kept, if not where the policy says.", envvar="PRIVQUANT_LEDGER"
    ),
    code: str | None = option("The code of an open link that needs one."),
    patience: float = option("Seconds to go on trying before giving up for now.", 60.0),
    as_json: AsJson = False,
) -> None:
    """Answer the question of an invite with one bit, through a biased coin, if the policy allows it.

    The value stays here. Once drawn, the bit is in the ledger and only ever resent, so it is safe to run this again
    after any failure; from cron, run it until it exits with 0 or 3.

    Exit codes: 0 answered (now or before), 2 wrong use, 3 refused for good, 4 not now, try again later.
    """
    with device_needed():
        from privquant.device import Device, Patience, load_policy
        from privquant.device.refusals import NotAnswered

    rules = load_policy(policy)
    number = _number(sys.stdin.read(LONGEST_VALUE + 1) if value in (None, "-") else str(value))
    waits = Patience(total=patience, request=min(10.0, patience))
    try:
        receipt = Device(rules, ledger=ledger, patience=waits).answer(invite, number, code=code)
    except NotAnswered as refusal:
        raise said_no(refusal, as_json) from None
    if receipt.sent_now:
        _say_if_clamped(number, rules.measurements[receipt.measurement].domain)
    typer.echo(json.dumps({"answered": True, **receipt.to_dict()}) if as_json else _sentence(receipt))


@contextmanager
def device_needed() -> Iterator[None]:
    """What imports the device says in one line which extra is missing."""
    try:
        yield
    except ImportError as error:
        if (error.name or "").partition(".")[0] != "cryptography":
            raise
        raise MissingDependency("the device", "cryptography", "device") from error


def said_no(refusal: NotAnswered, as_json: bool = False) -> typer.Exit:
    """Say why the device did not, and give the exit code."""
    from privquant.device import TryLater

    later = isinstance(refusal, TryLater)
    if as_json:
        form = {"answered": False, "final": not later, "reason": refusal.reason, "text": refusal.text}
        more = {"retry_after": refusal.retry_after} if isinstance(refusal, TryLater) else {}
        typer.echo(json.dumps(form | more))
    else:
        typer.echo(f"privquant: {'try later' if later else 'refused'} ({refusal.reason}): {refusal.text}", err=True)
    return typer.Exit(TRY_LATER if later else REFUSED)


def _number(text: str) -> int | float:
    """A whole number exactly, whatever its size; anything else as a float."""
    word = text.strip()
    if len(word) <= LONGEST_VALUE:
        for kind in (int, float):
            try:
                return kind(word)
            except ValueError:
                continue
    raise InvalidInput(f"the value must be one number, got {word[:60]!r}")


def _say_if_clamped(number: float, domain: Domain) -> None:
    if isinstance(domain, Integers) and not domain.low <= number <= domain.high:
        end = domain.low if number < domain.low else domain.high
        typer.echo(
            f"privquant: {number} lies outside {domain.low} .. {domain.high} and was taken as {end}", err=True
        )


def _sentence(receipt: Receipt) -> str:
    how = "Answered" if receipt.sent_now else "Answered before, and no further bit leaves"
    more = receipt.shuffled
    sealed = "" if more is None else f", sealed to the issuer, in round {more.round}"
    sums = f"{receipt.spent} of {receipt.lifetime}"
    if more is not None:
        sums = (
            f"epsilon {sums}, delta {more.spent_delta} of {more.lifetime_delta}, local epsilon "
            f"{more.spent_local_epsilon} of {more.lifetime_local_epsilon}"
        )
    return (
        f"{how}: is {receipt.measurement} at most {receipt.asked}? "
        f"The one bit that left this device{sealed} is {receipt.bit}. {receipt.guarantee} "
        f"Spent so far on this measurement: {sums}."
    )
