"""A proxy that loses things on purpose: whole requests, or only the answers to requests that got through."""

from __future__ import annotations

import asyncio
import random


class LossyProxy:
    """Forwards one request a connection. `lose`: "request" (the server never sees it) or "response"."""

    def __init__(self, port: int, lose: str, share: float, seed: int) -> None:
        assert lose in ("request", "response")
        self._target = port
        self._lose = lose
        self._share = share
        self._random = random.Random(seed)
        self.lost = 0
        self.passed = 0

    async def __aenter__(self) -> LossyProxy:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            length = next(
                int(line.split(b":")[1])
                for line in head.split(b"\r\n")
                if line.lower().startswith(b"content-length")
            )
            body = await reader.readexactly(length)
            unlucky = self._random.random() < self._share
            if unlucky and self._lose == "request":
                self.lost += 1
                return
            answer = await self._forward(head + body)
            if unlucky:
                self.lost += 1
                return
            self.passed += 1
            writer.write(answer)
            await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def _forward(self, request: bytes) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._target)
        try:
            writer.write(request)
            head = await reader.readuntil(b"\r\n\r\n")
            length = next(
                int(line.split(b":")[1])
                for line in head.split(b"\r\n")
                if line.lower().startswith(b"content-length")
            )
            # One request a connection, so that every request may meet its own fate.
            return head[:-2] + b"connection: close\r\n\r\n" + await reader.readexactly(length)
        finally:
            writer.close()


def _length(head: bytes) -> int:
    lines = head.lower().split(b"\r\n")
    return next(int(line.split(b":")[1]) for line in lines if line.startswith(b"content-length"))
