"""The join page without any campaign's text: for shufflers, and for people who serve the page themselves.

The page fetches what it shows, and checks that against the invite.
"""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from privquant.pages.page_files import PREFIX, head_of, serve_file
from privquant.server.replies import Scope

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


def bare_page() -> str:
    """The page of any invite, for people who serve it themselves; no text of a campaign is in it."""
    return PAGE.format(title="Answer with one bit", head=head_of(SCRIPT, "../", STYLE), mark="", body=_BARE.strip())


def missing_page(up: str) -> str:
    """up: the way from the page's address to the server's root."""
    style = f'<link rel="stylesheet" href="{up}assets/{STYLE}">'
    return PAGE.format(title="There is no such campaign", head=style, mark="", body=_MISSING)


def file_reply(scope: Scope) -> Response | None:
    """A file of the page; None for any other request."""
    path: str = scope["path"]
    if scope["method"] not in ("GET", "HEAD") or not path.startswith(PREFIX):
        return None
    return serve_file(path.removeprefix(PREFIX), Request(scope))
