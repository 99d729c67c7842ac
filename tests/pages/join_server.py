"""The honest server of the device's tests with the join page before it; any of its routes may be made hostile."""

from __future__ import annotations

from loopback import Request, Server
from shuffled_loopback import ShuffleServer

from privquant.pages.invite_page import invite_page
from privquant.pages.join_pages import bare_page
from privquant.pages.page_files import CONTENT_POLICY, page_files


class JoinServer(Server):
    """`on` replaces routes of the device, as in its parent; the page and its files are those of the service."""

    bare = False
    """Whether the page is the one for all campaigns, served from elsewhere."""

    def honest(self, request: Request) -> bytes:
        if request.path.startswith("/c/"):
            page = bare_page() if self.bare else invite_page(self.campaign.manifest, "open", f"{self.base}/c/x")
            return _document("text/html; charset=utf-8", page.encode())
        if request.path.startswith("/assets/"):
            file = page_files()[request.path.removeprefix("/assets/")]
            return _document(file.media, file.body)
        return super().honest(request)

    def asked(self) -> list[str]:
        """What the device asked, without the page and the files it came with."""
        return [request.what for request in self.requests if request.path.startswith("/v1/")]


class ShuffleJoinServer(JoinServer, ShuffleServer):
    """The shuffler of the device's tests with the join page before it."""


def _document(media: str, body: bytes) -> bytes:
    lines = ["HTTP/1.1 200 X", f"Content-Length: {len(body)}", f"Content-Type: {media}"]
    lines += ["Cache-Control: no-store", f"Content-Security-Policy: {CONTENT_POLICY}"]
    return "\r\n".join([*lines, "", ""]).encode() + body
