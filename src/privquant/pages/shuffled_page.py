"""What a browser shows of a shuffled campaign: at the shuffler what an invite is, at the aggregator where to go.

At the shuffler it is whole without a script, and where scripts run it becomes the form of the join page. Every text
of the campaign is escaped. The secret of an invite stands after the # of its address, which no browser sends.
"""

from __future__ import annotations

from html import escape

from privquant.pages.bare_page import PAGE, SCRIPT, STYLE
from privquant.pages.page_files import head_of
from privquant.wire import Manifest, terms_of
from privquant.wire.shuffle_promise import promise

_STYLED = f'<link rel="stylesheet" href="../assets/{STYLE}">'

_INVITE = """<div id="own">
<p>You are invited to answer this with <b>one bit</b>, about <b>{measurement}</b>: your device gets one
question of the form <i>is your value at most c?</i>, throws a biased coin, seals the result and sends it here. This
server, the shuffler, cannot read it. It mixes it with those of others and passes the whole round on to who asks,
who cannot tell which was yours. Your value stays on your device.</p>
<p>{promise}</p>
<p>The coin has to be thrown by a program of yours. With Python 3.11 or later:</p>
<pre>pip install 'privquant[cli,device]'
privquant policy '{address}#...'
privquant answer '{address}#...' VALUE --policy policy.toml</pre>
<p>Between the quotes belongs the whole address of this page as your browser shows it; what follows the # is your
invite, and is not sent to this server. The first command checks the campaign, shows what it asks, and writes down
that it may be answered once.</p></div>"""

_ELSEWHERE = """<p>This campaign is answered through its shuffler, at <b>{address}</b>, and not here: ask there for
an invite.</p>
<p>{promise}</p>"""


def shuffled_page(manifest: Manifest, *, at_shuffler: bool) -> str:
    """The page of a campaign, as one of its two servers shows it."""
    terms = terms_of(manifest)
    body = (_INVITE if at_shuffler else _ELSEWHERE).format(
        measurement=escape(manifest.measurement),
        promise=escape(str(promise(manifest))),
        address=escape(f"{terms.address}/c/{manifest.id}" if at_shuffler else terms.address),
    )
    head = head_of(SCRIPT, "../", STYLE) if at_shuffler else _STYLED
    return PAGE.format(title=escape(manifest.question), head=head, mark="", body=body)
