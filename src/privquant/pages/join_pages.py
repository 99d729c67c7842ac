"""The join page without a campaign's text, and what a browser shows of a shuffled campaign at both its servers.

The bare page is for people who serve it themselves: it fetches what it shows, and checks that against the invite.
At the shuffler the page is whole without a script, and where scripts run it becomes the form of the join page.
Every text of a campaign is escaped. The secret of an invite stands after the # of its address, which no browser
sends.
"""

from html import escape

from starlette.requests import Request
from starlette.responses import Response

from privquant.pages.page_files import PREFIX, head_of, serve_file
from privquant.server.replies import Scope
from privquant.wire import Manifest, terms_of
from privquant.wire.shuffle_promise import promise

STYLE = "pages/shared/page.css"
SCRIPT = "pages/join/main.js"

PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="robots" content="noindex">
<title>{title}</title>
{head}
</head>
<body{mark}>
<div id="top"></div>
<main>
<div id="app" hidden></div>
<div id="plain">
<h1>{title}</h1>
{body}
</div>
</main>
</body>
</html>
"""

_BARE = """
<p>This page answers an invite. It needs a browser that runs scripts.</p>
<div id="own">
<p>The device of the privquant package answers without this page. Between the quotes belongs its whole address:</p>
<pre>pip install 'privquant[cli,device]'
privquant policy 'https://...'
privquant answer 'https://...' VALUE --policy policy.toml</pre>
</div>
"""

_MISSING = "<p>The address may be incomplete, or the campaign was deleted.</p>"

_SHUFFLED = """<div id="own">
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


def bare_page() -> str:
    """The page of any invite, for people who serve it themselves; no text of a campaign is in it."""
    return PAGE.format(title="Answer with one bit", head=head_of(SCRIPT, "../", STYLE), mark="", body=_BARE.strip())


def missing_page(up: str) -> str:
    """up: the way from the page's address to the server's root."""
    return PAGE.format(title="There is no such campaign", head=_styled(up), mark="", body=_MISSING)


def shuffled_page(manifest: Manifest, *, at_shuffler: bool) -> str:
    """The page of a campaign, as one of its two servers shows it."""
    terms = terms_of(manifest)
    body = (_SHUFFLED if at_shuffler else _ELSEWHERE).format(
        measurement=escape(manifest.measurement),
        promise=escape(str(promise(manifest))),
        address=escape(f"{terms.address}/c/{manifest.id}" if at_shuffler else terms.address),
    )
    head = head_of(SCRIPT, "../", STYLE) if at_shuffler else _styled("../")
    return PAGE.format(title=escape(manifest.question), head=head, mark="", body=body)


def _styled(up: str) -> str:
    """The head of a page without a script."""
    return f'<link rel="stylesheet" href="{up}assets/{STYLE}">'


def file_reply(scope: Scope) -> Response | None:
    """A file of the page; None for any other request."""
    path: str = scope["path"]
    if scope["method"] not in ("GET", "HEAD") or not path.startswith(PREFIX):
        return None
    return serve_file(path.removeprefix(PREFIX), Request(scope))
