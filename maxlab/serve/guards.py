"""The guard before the routes: it checks tokens, counts requests, and sends errors."""

from __future__ import annotations

import hmac
import logging
import time
from collections.abc import Collection

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from maxlab.serve.errors import ApiError, api_error
from maxlab.serve.limits import is_local
from maxlab.serve.metrics import Metrics

_LOG = logging.getLogger("maxlab.serve")
_OPEN_PATHS = frozenset({"/health"})
"""Paths that need no token."""


class Guard:
    """Counts requests, checks who asks, and turns errors into responses.

    Without a token, a request has to name this machine as its host: a page of another site whose
    name was made to lead here does not.

    Args:
        app: The application behind it.
        metrics: What is counted.
        token: The token that requests have to bring; None without one.
        paths: The paths that are counted by name.
    """

    def __init__(
        self, app: ASGIApp, *, metrics: Metrics, token: str | None, paths: Collection[str]
    ) -> None:
        self._app, self._metrics = app, metrics
        self._token = None if token is None else f"Bearer {token}".encode()
        self._paths = frozenset(paths)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request.

        Args:
            scope: What it asks for.
            receive: Gives its body.
            send: Takes the response.
        """
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = time.monotonic()
        status = 0

        async def counting(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            self._admit(scope)
            await self._app(scope, receive, counting)
        except Exception as error:
            if status:  # a part of the response is sent already
                _LOG.exception("a response was broken off")
                raise
            await respond(counting, api_error(error))
        finally:
            path = scope["path"] if scope["path"] in self._paths else "other"
            self._metrics.requests.add(1, path, str(status or 499))
            self._metrics.duration.add(time.monotonic() - started)

    def _admit(self, scope: Scope) -> None:
        """Raises unless the request may be answered."""
        headers = dict(scope["headers"])
        if self._token is None:
            host = headers.get(b"host", b"").decode("latin-1")
            name = host[: host.rfind("]") + 1] if host.startswith("[") else host.partition(":")[0]
            if not is_local(name.lower()):
                raise ApiError(
                    403, "without a token, this server answers its own machine alone", code="host"
                )
            return
        if scope["path"] in _OPEN_PATHS:
            return
        given = headers.get(b"authorization", b"")
        if not hmac.compare_digest(given, self._token):
            raise ApiError(
                401,
                "a token expected: Authorization: Bearer TOKEN",
                kind="authentication_error",
                code="invalid_api_key",
                headers={"WWW-Authenticate": "Bearer"},
            )


async def respond(send: Send, error: ApiError) -> None:
    """Sends an error.

    Args:
        send: Takes the response.
        error: The error.
    """
    body = error.body()
    headers = {
        "content-type": "application/json",
        "content-length": str(len(body)),
        **error.headers,
    }
    raw = [(key.lower().encode(), value.encode("latin-1")) for key, value in headers.items()]
    await send({"type": "http.response.start", "status": error.status, "headers": raw})
    await send({"type": "http.response.body", "body": body})


__all__ = ["Guard", "respond"]
