"""HTTP connections of a server: those that are slow, and those that are too many, are closed."""

from __future__ import annotations

import asyncio
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from maxlab.serve.errors import SERVER, ApiError
from maxlab.serve.limits import Limits


def guarded_protocol(limits: Limits) -> type[H11Protocol]:
    """The class of connections with these limits, for uvicorn.

    Args:
        limits: How many connections there may be, and how slow.
    """

    class Connection(H11Protocol):
        """A connection that is closed when its client sends or reads too slowly."""

        _is_extra = False
        _head_timer: asyncio.TimerHandle | None = None
        _write_timer: asyncio.TimerHandle | None = None

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            count = len(self.connections)
            if count > 2 * limits.connections:
                transport.abort()
                return
            self._is_extra = count > limits.connections
            self._await_head()

        def data_received(self, data: bytes) -> None:
            if self._is_extra:  # told now: an answer to nothing is lost when the client sends
                error = ApiError(503, "too many connections", kind=SERVER, code="too_many")
                self._refuse(error)
                return
            super().data_received(data)

        def connection_lost(self, exc: Exception | None) -> None:
            self._stop(self._head_timer)
            self._stop(self._write_timer)
            super().connection_lost(exc)

        def on_response_complete(self) -> None:
            self._await_head()
            super().on_response_complete()

        # -------------------------------------------------------- clients that send slowly
        def _await_head(self) -> None:
            """Closes the connection unless a request begins in time."""
            self._stop(self._head_timer)
            self._head_timer = self.loop.call_later(limits.receive_s, self._close_idle)

        def _close_idle(self) -> None:
            # The first is None before the first request.
            if self.cycle is None or self.cycle.response_complete:
                self.transport.abort()

        # -------------------------------------------------------- clients that read slowly
        def pause_writing(self) -> None:
            super().pause_writing()
            self._stop(self._write_timer)
            self._write_timer = self.loop.call_later(limits.send_s, self.transport.abort)

        def resume_writing(self) -> None:
            self._stop(self._write_timer)
            super().resume_writing()

        @staticmethod
        def _stop(timer: asyncio.TimerHandle | None) -> None:
            if timer is not None:
                timer.cancel()

        # -------------------------------------------------------- what is no request
        def send_400_response(self, msg: str) -> None:
            self._refuse(ApiError(400, msg, code="invalid_http"))

        def _refuse(self, error: ApiError) -> None:
            """Sends an error where no request is, and closes the connection."""
            body = error.body()
            if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
                self.transport.write(
                    f"HTTP/1.1 {error.status} {error.kind}\r\n"
                    f"content-type: application/json\r\ncontent-length: {len(body)}\r\n"
                    "connection: close\r\n\r\n".encode()
                    + body
                )
            self.transport.close()

    return Connection


__all__ = ["guarded_protocol"]
