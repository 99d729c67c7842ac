"""The files a page loads: read once, held in memory with their compressed form, served by their exact names only.

Under /assets/pages are the pages' own files, under /assets/js the device in JavaScript. A browser asks again for
each file with the tag of the one it has (ETag) and is told when nothing changed, so that a release is seen at once.
"""

import gzip
import hashlib
import posixpath
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from privquant.errors import PrivquantError

PREFIX = "/assets/"
_MEDIA = {
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}
_IMPORTED = re.compile(r'^(?:import|export)\b(?:[^;"]*\bfrom)?\s*"([^"]+)";', re.MULTILINE)

SECURITY = {
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
CONTENT_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""Of every page: whatever came to stand in it, no browser would run it, or fetch anything from elsewhere."""
_PACKED = {"content-encoding": "gzip"}
HEADERS = SECURITY | {"cache-control": "no-store", "content-security-policy": CONTENT_POLICY}


class FilesMissing(PrivquantError):
    """The installation lacks the files of the pages."""


@dataclass(frozen=True, slots=True)
class PageFile:
    body: bytes
    packed: bytes
    media: str
    tag: str


def device_folder() -> Path:
    """Where the device in JavaScript is: in the wheel, or beside `src` in a checkout."""
    package = Path(__file__).parents[1]
    for folder in (package / "js", package.parents[1] / "js"):
        if (folder / "src" / "browser.js").is_file():
            return folder
    raise FilesMissing(f"{package / 'js'} is not there: this installation has no device for browsers")


@cache
def page_files() -> dict[str, PageFile]:
    """Every file by its address below /assets/."""
    pages, device = Path(__file__).parent, device_folder()
    found = {f"pages/{path.relative_to(pages).as_posix()}": path for path in pages.rglob("*")}
    found |= {f"js/src/{path.name}": path for path in (device / "src").iterdir()}
    return {name: _read(path) for name, path in sorted(found.items()) if path.suffix in _MEDIA}


def _read(path: Path) -> PageFile:
    body = path.read_bytes()
    tag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
    return PageFile(body, _packed(body), _MEDIA[path.suffix], tag)


@cache
def modules_of(entry: str) -> tuple[str, ...]:
    """The modules a script comes to load at once, itself first; what it imports on demand is not among them."""
    found, todo = [], [entry]
    while todo:
        name = todo.pop(0)
        if name in found:
            continue
        found.append(name)
        folder = posixpath.dirname(name)
        for imported in _IMPORTED.findall(page_files()[name].body.decode()):
            todo.append(posixpath.normpath(posixpath.join(folder, imported)))
    return tuple(found)


def head_of(entry: str, up: str, *styles: str) -> str:
    """What a page needs in its head: styles, its script, and all its modules, so that they load side by side."""
    lines = [f'<link rel="icon" href="{up}assets/pages/shared/icon.svg">']
    lines += [f'<link rel="stylesheet" href="{up}assets/{style}">' for style in styles]
    script, *others = modules_of(entry)
    lines += [f'<link rel="modulepreload" href="{up}assets/{name}">' for name in others]
    return "\n".join([*lines, f'<script type="module" src="{up}assets/{script}"></script>'])


def serve_file(name: str, request: Request) -> Response | None:
    """The file of this name, compressed where the browser takes that; None if there is none."""
    file = page_files().get(name)
    if file is None:
        return None
    headers = SECURITY | {"cache-control": "no-cache", "etag": file.tag, "vary": "accept-encoding"}
    if file.tag in request.headers.get("if-none-match", ""):
        return Response(None, 304, headers)
    if _takes_gzip(request):
        return Response(file.packed, 200, headers | _PACKED, file.media)
    return Response(file.body, 200, headers, file.media)


def serve_page(page: str, request: Request, status: int = 200) -> Response:
    """A page, compressed where the browser takes that. It holds no secret that its length could tell."""
    headers = HEADERS | {"vary": "accept-encoding"}
    if _takes_gzip(request):
        return HTMLResponse(_packed(page.encode()), status, headers | _PACKED)
    return HTMLResponse(page, status, headers)


def _takes_gzip(request: Request) -> bool:
    return "gzip" in request.headers.get("accept-encoding", "")


def _packed(body: bytes) -> bytes:
    return gzip.compress(body, 9, mtime=0)
