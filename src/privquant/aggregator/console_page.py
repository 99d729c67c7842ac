"""The console's page: an empty frame that its scripts fill."""

from __future__ import annotations

from privquant.aggregator.page_files import head_of

_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="robots" content="noindex">
<title>privquant console</title>
<script defer src="assets/pages/vendor/uplot/uPlot.iife.min.js"></script>
{head}
</head>
<body class="console">
<header id="top"></header>
<main id="app"><noscript><h1>Console</h1>
<p>The console needs a browser that runs scripts; <code>privquant campaign</code> does the same in a shell.</p>
</noscript></main>
</body>
</html>
"""


def console_page() -> str:
    styles = "pages/shared/page.css", "pages/vendor/uplot/uPlot.min.css", "pages/console/console.css"
    return _PAGE.format(head=head_of("pages/console/main.js", "", *styles))
