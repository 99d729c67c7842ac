"""A line between the two parties that keeps what passes, and can lose an answer at the moment it matters."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Wiretap:
    """before: sees (path, body) of a request; after: sees (path, status, answer) and says whether it is lost."""

    def __init__(self, port: int) -> None:
        self.requests: list[tuple[str, bytes, bytes]] = []  # path, head, body
        self.before: Callable[[str, bytes], None] = lambda path, body: None
        self.after: Callable[[str, int, bytes], bool] = lambda path, status, answer: False
        tap = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length", 0)))
                tap.requests.append((self.path, str(self.headers).encode(), body))
                tap.before(self.path, body)
                line = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
                try:
                    line.request(self.command, self.path, body, {"content-type": "application/json"})
                    found = line.getresponse()
                    status, answer, kind = found.status, found.read(), found.headers.get("content-type", "")
                except OSError:
                    status, answer, kind = 503, b"", "text/plain"
                finally:
                    line.close()
                self.close_connection = True
                if tap.after(self.path, status, answer):
                    return
                self.send_response(status)
                self.send_header("content-type", kind)
                self.send_header("content-length", str(len(answer)))
                self.send_header("connection", "close")
                self.end_headers()
                self.wfile.write(answer)

            do_GET = do_POST  # noqa: N815

            def log_message(self, *_: object) -> None:
                return

            def handle(self) -> None:
                try:
                    super().handle()
                except ConnectionError:
                    return  # who asked was killed meanwhile

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
