"""A hub on the loopback interface: repositories in memory, and faults that a test asks for."""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

_API = re.compile(r"/api/models/([^/]+/[^/]+)/revision/(.+)")
_FILE = re.compile(r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)")
COMMIT = "c" * 40


@dataclass
class Model:
    """A repository: its files, and what the hub tells of it besides."""

    files: dict[str, bytes]
    more: dict[str, Any] = field(default_factory=dict)
    token: str | None = None
    is_gated: bool = False
    commit: str = COMMIT


@dataclass(frozen=True)
class Fault:
    """One answer that is not the right one.

    Args:
        status: Its status; 0 ends the connection without an answer, ``cut`` after so many bytes.
        headers: Its headers.
        path: The end of the path that it is for.
        method: The method that it is for; any when it is empty.
    """

    status: int = 0
    headers: tuple[tuple[str, str], ...] = ()
    path: str = ""
    method: str = ""
    cut: int | None = None


class Hub:
    """The state of a hub, and the requests that it got as ``(method, path, Range)``."""

    def __init__(self) -> None:
        self.models: dict[str, Model] = {}
        self.faults: list[Fault] = []
        self.asked: list[tuple[str, str, str]] = []
        self.lock = threading.Lock()
        self.url = ""

    def fault_for(self, method: str, path: str) -> Fault | None:
        """The next fault for a request, which is used up."""
        with self.lock:
            for fault in self.faults:
                if path.endswith(fault.path) and fault.method in ("", method):
                    self.faults.remove(fault)
                    return fault
        return None

    def paths(self, method: str = "") -> list[str]:
        """The paths that were asked for."""
        return [path for asked, path, _ in self.asked if method in ("", asked)]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hub: Hub

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_HEAD(self) -> None:
        self._answer("HEAD")

    def do_GET(self) -> None:
        self._answer("GET")

    def _answer(self, method: str) -> None:
        path = unquote(urlsplit(self.path).path)
        if _API.fullmatch(path) or _FILE.fullmatch(
            path
        ):  # huggingface_hub has questions of its own
            with self.hub.lock:
                self.hub.asked.append((method, path, self.headers.get("Range", "")))
        fault = self.hub.fault_for(method, path)
        if fault is not None and fault.cut is None:
            if not fault.status:
                self._hang_up()
                return
            self._send(fault.status, b"", dict(fault.headers))
            return
        if match := _API.fullmatch(path):
            self._describe(match[1], match[2])
        elif match := _FILE.fullmatch(path):
            self._file(match[1], match[2], match[3], fault.cut if fault else None)
        else:
            self._send(404, b"{}", {"X-Error-Code": "RepoNotFound"})

    def _model(self, repo_id: str, revision: str) -> Model | None:
        """The repository, when it may be read; an answer is sent when not."""
        model = self.hub.models.get(repo_id)
        token = self.headers.get("Authorization", "").removeprefix("Bearer ")
        if model is None:
            self._send(404 if token else 401, b"{}", {"X-Error-Code": "RepoNotFound"})
        elif model.token not in (None, token):
            status = 403 if token else 401
            if token == "expired":
                self._send(
                    401, b"{}", {"X-Error-Message": "Invalid credentials in Authorization header"}
                )
            elif model.is_gated:
                self._send(status, b"{}", {"X-Error-Code": "GatedRepo"})
            else:
                self._send(status, b"{}", {"X-Error-Message": "no access"} if token else {})
        elif revision not in ("main", model.commit):
            self._send(404, b"{}", {"X-Error-Code": "RevisionNotFound"})
        else:
            return model
        return None

    def _describe(self, repo_id: str, revision: str) -> None:
        model = self._model(repo_id, revision)
        if model is not None:
            siblings = [
                {"rfilename": name, "size": len(data)} for name, data in model.files.items()
            ]
            told = {"id": repo_id, "sha": model.commit, "siblings": siblings, **model.more}
            self._send(200, json.dumps(told).encode(), {"Content-Type": "application/json"})

    def _file(self, repo_id: str, revision: str, name: str, cut: int | None) -> None:
        model = self._model(repo_id, revision)
        if model is None:
            return
        data = model.files.get(name)
        commit = {"X-Repo-Commit": model.commit}
        if data is None:
            self._send(404, b"", {"X-Error-Code": "EntryNotFound", **commit})
            return
        headers = {"ETag": f'"{hashlib.sha256(data).hexdigest()}"', "Accept-Ranges": "bytes"}
        status = 200
        asked = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        if asked:
            begin, end = int(asked[1]), int(asked[2] or len(data) - 1)
            headers["Content-Range"] = f"bytes {begin}-{min(end, len(data) - 1)}/{len(data)}"
            data, status = data[begin : end + 1], 206
        self._send(status, data, {**headers, **commit}, cut)

    def _send(
        self, status: int, body: bytes, headers: dict[str, str], cut: int | None = None
    ) -> None:
        self.send_response(status)
        for key, value in headers.items():
            self.send_header(key, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body if cut is None else body[:cut])
            if cut is not None:
                self._hang_up()

    def _hang_up(self) -> None:
        """End the connection in the middle."""
        self.wfile.flush()
        self.close_connection = True
        with contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_WR)


@contextlib.contextmanager
def serving() -> Iterator[Hub]:
    """A hub that answers at ``hub.url`` for the duration of the block."""
    hub = Hub()
    handler = type("Handler", (_Handler,), {"hub": hub})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    hub.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(
        target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
    )
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
