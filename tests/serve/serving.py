"""Servers in threads, and clients that speak to their sockets without a library."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from maxlab.serve.server import ModelServer

PATIENCE_S = 60.0


@dataclass
class Served:
    """A server that runs in a thread."""

    server: ModelServer

    @property
    def url(self) -> str:
        """Its address."""
        return self.server.url

    @property
    def port(self) -> int:
        """Its port."""
        port: int = self.server.socket.getsockname()[1]
        return port

    def is_idle(self) -> bool:
        """Whether no answer is written or waits, in a moment."""
        return until(lambda: self.server.engine.count == 0)

    def send(self, head: bytes, body: bytes = b"") -> socket.socket:
        """A connection that these bytes were sent over."""
        made = socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE_S)
        made.sendall(head + body)
        return made

    def post(
        self, path: str, body: bytes | dict[str, Any], **headers: str
    ) -> tuple[int, dict[str, str], bytes]:
        """The status, the headers and the body that a POST of JSON gets."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        with self.send(head(path, len(data), **headers), data) as connection:
            return response(connection)

    def get(self, path: str, **headers: str) -> tuple[int, dict[str, str], bytes]:
        """The status, the headers and the body of a path."""
        lines = {"host": "127.0.0.1", "connection": "close", **_named(headers)}
        text = "".join(f"{key}: {value}\r\n" for key, value in lines.items())
        with self.send(f"GET {path} HTTP/1.1\r\n{text}\r\n".encode()) as connection:
            return response(connection)


def head(path: str, size: int, **headers: str) -> bytes:
    """The head of a POST of JSON."""
    lines = {
        "host": "127.0.0.1",
        "content-type": "application/json",
        "content-length": str(size),
        "connection": "close",
        **_named(headers),
    }
    text = "".join(f"{key}: {value}\r\n" for key, value in lines.items())
    return f"POST {path} HTTP/1.1\r\n{text}\r\n".encode("latin-1")


def _named(headers: dict[str, str]) -> dict[str, str]:
    return {key.replace("_", "-"): value for key, value in headers.items()}


def response(connection: socket.socket) -> tuple[int, dict[str, str], bytes]:
    """The status, the headers and the body of a response, read until the connection ends."""
    found = bytearray()
    while part := connection.recv(1 << 16):
        found += part
    first, _, body = bytes(found).partition(b"\r\n\r\n")
    line, *rest = first.decode("latin-1").split("\r\n")
    headers = {key.lower(): value for key, _, value in (one.partition(": ") for one in rest)}
    return int(line.split()[1]), headers, body


def error_of(body: bytes) -> dict[str, Any]:
    """The error of a body, which has OpenAI's form."""
    found: dict[str, Any] = json.loads(body)
    assert set(found) == {"error"}
    assert set(found["error"]) == {"message", "type", "param", "code"}
    return dict(found["error"])


def until(is_so: Callable[[], bool], seconds: float = PATIENCE_S) -> bool:
    """Whether something comes to be in time."""
    end = time.monotonic() + seconds
    while not is_so():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


@contextmanager
def started(server: ModelServer) -> Iterator[Served]:
    """A server that runs in a thread, and ends with the block."""
    thread = threading.Thread(target=server.run_here, name="served")
    thread.start()
    try:
        assert until(lambda: server.started), "the server has not begun"
        yield Served(server)
    finally:
        server.stop()
        thread.join(PATIENCE_S)
        assert not thread.is_alive(), "the server has not ended"
