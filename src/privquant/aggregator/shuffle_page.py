"""What a browser shows of a shuffled campaign: at the shuffler what an invite is, at the aggregator where to go.

A static page without scripts or styles, nothing fetched from anywhere; every text of the campaign is escaped. The
secret of an invite stands after the # of its address, which a browser does not send.
"""

from __future__ import annotations

from html import escape

from privquant.aggregator.shuffle_promise import promise, terms_of
from privquant.wire import Manifest

_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="robots" content="noindex">
<meta name="referrer" content="no-referrer">
<title>{title}</title>
</head>
<body>
<main>
<h1>{title}</h1>
{body}
</main>
</body>
</html>
"""

_INVITE = """<p>You are invited to answer this with <b>one bit</b>, about <b>{measurement}</b>: your device gets one
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
that it may be answered once.</p>"""

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
    return _PAGE.format(title=escape(manifest.question), body=body)


def missing_page() -> str:
    return _PAGE.format(
        title="There is no such campaign", body="<p>The address may be incomplete, or the campaign was deleted.</p>"
    )
