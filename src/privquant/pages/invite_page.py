"""What a browser shows of an invite: what is asked, what one bit tells, and how to answer it.

The page is whole without a script: it says what is asked and which commands answer it. Where scripts run, those
under /assets put a form in its place that answers in the browser. Nothing is fetched from anywhere else, every text
of the campaign is escaped. The secret of the invite stands after the # of its address, which a browser does not
send; so the server cannot show it, and asks the reader to copy the address.
"""

import math
import time
from html import escape

from privquant.device.consent import policy_of, quantiles_wanted, values_asked
from privquant.messages import Guarantee
from privquant.pages.join_pages import PAGE, SCRIPT, STYLE
from privquant.pages.page_files import head_of
from privquant.privacy.coin import Coin
from privquant.wire import Manifest

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
<p>If your browser runs scripts, this page becomes a form. It does not here, and so the coin has to be thrown by a
program of yours.</p>
<div id="own">
<p>With Python 3.11 or later, install the privquant device:</p>
<pre>pip install 'privquant[cli,device]'</pre>
<p>Then write down what your device may be asked. Between the quotes belongs the whole address of this page as your
browser shows it. What follows the # is your invite. Your browser does not send it to this server, so it cannot be
shown here.</p>
<pre>{allow}</pre>
<p>It checks that the campaign is the one of your invite, shows what is asked, and asks before it writes
<code>policy.toml</code>, which allows this question once, and nothing else. {policy}
<p>Then run this, with the same address and your number for VALUE:</p>
<pre>{command}</pre>
<p>The device checks that the campaign is the one of your invite, and refuses what your policy does not allow. It is
safe to run it again after a failure: the coin is thrown once.</p>
</div>
"""

_ROOM = "<p>This page draws the code of an open link. It needs a browser that runs scripts.</p>"
_LONGEST_POLICY = 5_000  # characters: what a person may want to copy from a page


def invite_page(manifest: Manifest, state: str, address: str) -> str:
    """The page of a campaign that is reached at `address` (without what follows the #)."""
    coin = Coin(manifest.flip_threshold)
    body = _INVITE.format(
        state=_state(manifest, state),
        measurement=escape(manifest.measurement),
        values=values_asked(manifest.domain),
        users=manifest.planned_users,
        wanted=quantiles_wanted(manifest),
        flip=100 * coin.flip,
        odds=math.exp(coin.epsilon),
        guarantee=escape(str(Guarantee("local", coin.epsilon))),
        epsilon=manifest.epsilon,
        allow=escape(f"privquant policy '{address}#...'"),
        policy=_policy(manifest),
        command=escape(f"privquant answer '{address}#...' VALUE --policy policy.toml"),
    )
    return PAGE.format(
        title=escape(manifest.question),
        head=head_of(SCRIPT, "../", STYLE),
        mark=f' data-state="{escape(state)}"',
        body=body.strip(),
    )


def room_page() -> str:
    head = head_of("pages/join/room.js", "", STYLE)
    return PAGE.format(title="Answer with one bit", head=head, mark=' class="room"', body=_ROOM)


def _policy(manifest: Manifest) -> str:
    """The policy, for people who write it by hand; a domain may have too many edges for a page."""
    text = policy_of(manifest)
    if len(text) > _LONGEST_POLICY:
        return f"It lists all {manifest.domain.size - 1:,} edges of the ranges, too many for this page.</p>"
    return f"By hand it is:</p>\n<pre>{escape(text)}</pre>"


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
