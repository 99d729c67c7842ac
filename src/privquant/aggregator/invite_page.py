"""What a browser shows of an invite: what is asked, what one bit tells, and how a device answers it.

One static page: no script, nothing fetched from anywhere, every text of the campaign escaped. The secret of the
invite stands after the # of its address, which a browser does not send; so the page cannot know it, and asks the
reader to copy the address.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import time
from decimal import ROUND_CEILING, Decimal
from html import escape

from privquant.domain import Grid
from privquant.messages import Guarantee
from privquant.privacy.coin import Coin
from privquant.wire import Manifest

_STYLE = """
body { max-width: 42rem; margin: 2rem auto; padding: 0 1rem; font: 1rem/1.5 system-ui, sans-serif; }
body { color: #222; background: #fff; }
h1 { font-size: 1.4rem; overflow-wrap: anywhere; }
h2 { font-size: 1.05rem; margin-top: 1.6rem; }
pre { padding: .7rem; white-space: pre-wrap; overflow-wrap: anywhere; background: #f2f2f2; }
@media (prefers-color-scheme: dark) { body { color: #ddd; background: #181818; } pre { background: #2a2a2a; } }
"""
_STYLE_HASH = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()

HEADERS = {
    "cache-control": "no-store",
    "content-security-policy": (
        f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}
"""Of the page: whatever came to stand in it, no browser would run it or fetch it."""

_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="robots" content="noindex">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<h1>{title}</h1>
{body}
</body>
</html>
"""

_INVITE = """
<p>You are invited to answer this with <b>one bit</b>. {state}</p>

<h2>What is asked</h2>
<p>About <b>{measurement}</b>, {values}: your device gets one question of the form <i>is your value at most c?</i>
and answers it with yes or no. Your value stays on your device. Out of the bits of {users:,} people the issuer
estimates {wanted}.</p>

<h2>What the bit tells about you</h2>
<p>Your device throws a biased coin first: with a chance of {flip:.3g} % it sends the opposite of the truth. So
whichever bit arrives, no value explains it more than {odds:.3g} times as well as another. {guarantee}
(epsilon = {epsilon:.4g}; smaller is more private.)</p>

<h2>How to answer</h2>
<p>Not in the browser: the coin has to be thrown by a program of yours. With Python 3.11 or later, install the
privquant device:</p>
<pre>pip install 'privquant[cli,device]'</pre>
<p>Write down in <code>policy.toml</code> what your device may be asked. This allows this question once, and nothing
else:</p>
<pre>{policy}</pre>
<p>Then run this, with your number for VALUE, and between the quotes the whole address of this page as your browser
shows it. What follows the # is your invite. Your browser does not send it to this server, so it cannot be shown
here.</p>
<pre>{command}</pre>
<p>The device checks that the campaign is the one of your invite, and refuses what your policy does not allow. It is
safe to run it again after a failure: the coin is thrown once.</p>
"""

_MISSING = "<p>The address may be incomplete, or the campaign was deleted.</p>"
_MOST_EDGES = 200


def invite_page(manifest: Manifest, state: str, address: str) -> str:
    """The page of a campaign that is reached at `address` (without what follows the #)."""
    coin = Coin(manifest.flip_threshold)
    body = _INVITE.format(
        state=_state(manifest, state),
        measurement=escape(manifest.measurement),
        values=_values(manifest),
        users=manifest.planned_users,
        wanted=_wanted(manifest),
        flip=100 * coin.flip,
        odds=math.exp(coin.epsilon),
        guarantee=escape(str(Guarantee("local", coin.epsilon))),
        epsilon=manifest.epsilon,
        policy=escape(policy_of(manifest)),
        command=escape(f"privquant answer '{address}#...' VALUE --policy policy.toml"),
    )
    return _PAGE.format(title=escape(manifest.question), style=_STYLE, body=body.strip())


def missing_page() -> str:
    return _PAGE.format(title="There is no such campaign", style=_STYLE, body=_MISSING)


def policy_of(manifest: Manifest) -> str:
    """A device's policy, in TOML, that allows this campaign and no more."""
    form = manifest.domain.to_dict()
    edges = len(form.get("edges", ()))
    if edges <= _MOST_EDGES:
        text = f"{{{', '.join(f'{name} = {json.dumps(value)}' for name, value in form.items())}}}"
    else:
        text = f'{{kind = "grid", edges = [...]}}  # the {edges} edges of the campaign\'s manifest'
    # A policy counts in units of 10^-12 and rounds down.
    most = Decimal(repr(manifest.epsilon)).quantize(Decimal("1e-12"), ROUND_CEILING).normalize()
    return f'version = 1\n\n[measurements."{manifest.measurement}"]\ndomain = {text}\nmax_epsilon = {most:f}\n'


def _state(manifest: Manifest, state: str) -> str:
    now = time.time()
    if state == "closed":
        return "The campaign is <b>closed</b>; no more answers are counted."
    if now >= manifest.deadline:
        return f"The campaign's deadline, {_day(manifest.deadline)}, has <b>passed</b>."
    if now < manifest.opens:
        return f"The campaign opens {_day(manifest.opens)}."
    paused = " It is paused at the moment; your device can try again later." if state == "paused" else ""
    return f"The campaign is open until {_day(manifest.deadline)}.{paused}"


def _day(moment: int) -> str:
    try:
        return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(moment))
    except (OverflowError, ValueError, OSError):  # a deadline may lie beyond all calendars
        return f"{moment} seconds after 1970"


def _values(manifest: Manifest) -> str:
    domain = manifest.domain
    if isinstance(domain, Grid):
        return (
            f"a number, taken as one of {domain.size:,} ranges split at {domain.edges[0]:g} to {domain.edges[-1]:g}"
        )
    form = domain.to_dict()
    return f"a whole number from {form['low']:,} to {form['high']:,}"


def _wanted(manifest: Manifest) -> str:
    names = ["the median" if q == 0.5 else f"the {q:g} quantile" for q in manifest.quantiles]
    return f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else names[0]
