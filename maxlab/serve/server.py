"""Runs an application on a socket until it is told to end."""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

import uvicorn

from maxlab.errors import ExecutionError
from maxlab.interfaces import fields as rules
from maxlab.serve.app import app
from maxlab.serve.limits import Limits, check_address
from maxlab.serve.protocol import guarded_protocol
from maxlab.serve.routes import Engine

WATCH_S = 0.5
"""Seconds between two looks at the process of the model."""


def listening(host: str, port: int) -> socket.socket:
    """A socket that listens.

    Args:
        host: A name or an address.
        port: The port; 0 for any that is free.

    Raises:
        InputError: ML981 (a ValueError), a port that there is not.
        ExecutionError: ML189 (a RuntimeError), nothing can listen there.
    """
    rules.integer(0, 65535)("port", port)
    made: socket.socket | None = None
    try:
        ((family, kind, protocol, _, address), *_) = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        made = socket.socket(family, kind, protocol)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(address)
        made.listen(2048)
    except OSError as error:
        if made is not None:
            made.close()
        raise ExecutionError(
            "ML189",
            f"the server cannot listen on port {port} of {host}: {error}",
            fix="choose another --port, or end what listens there; --port 0 takes a free one",
        ) from error
    return made


class ModelServer(uvicorn.Server):
    """A server of a model. It ends by a signal, by `stop`, or when the process of the model does.

    After that no connection is taken. Answers that are written are completed, for the seconds that
    the limits give them, and the rest is called off. The owner of the engine closes it.

    Args:
        engine: The model.
        limits: How much is taken.
        host: The address that it listens on.
        port: The port; 0 for any that is free.
        token: The token that requests have to bring; None without one.

    Raises:
        InputError: ML188, ML190 (a ValueError), the address needs a token, or the token is none.
        ExecutionError: ML189 (a RuntimeError), nothing can listen there.
    """

    def __init__(
        self,
        engine: Engine,
        limits: Limits,
        *,
        host: str = "127.0.0.1",
        port: int = 8000,
        token: str | None = None,
    ) -> None:
        check_address(host, token)
        self.engine = engine
        self.socket = listening(host, port)
        self._app = app(engine, limits, token=token)
        super().__init__(
            uvicorn.Config(
                self._app,
                http=guarded_protocol(limits),
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                timeout_graceful_shutdown=max(round(limits.shutdown_s), 1),
            )
        )

    @property
    def url(self) -> str:
        """The address of the API."""
        host, port = self.socket.getsockname()[:2]
        return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    def run_here(self) -> Exception | None:
        """Serves until it is told to end; the reason why the model ended, if it did by itself."""
        try:
            asyncio.run(self._serve_and_watch())
        finally:
            self.socket.close()
            self._app.state.steps.close()
        return self.engine.ended

    def stop(self) -> None:
        """Lets the server end. Any thread may call it."""
        self.should_exit = True

    async def _serve_and_watch(self) -> None:
        watching = asyncio.create_task(self._watch())
        try:
            await self.serve(sockets=[self.socket])
        finally:
            watching.cancel()
            with suppress(asyncio.CancelledError):
                await watching

    async def _watch(self) -> None:
        """Ends the server when the process of the model has ended."""
        while self.engine.ended is None:  # noqa: ASYNC110
            await asyncio.sleep(WATCH_S)
        self.stop()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Ends the server by SIGINT and SIGTERM, and by a second one at once.

        Other than uvicorn's own, it does not raise the signal again: the command ends with 0.
        """
        before: dict[int, Any] = {}
        try:
            for number in (signal.SIGINT, signal.SIGTERM):
                before[number] = signal.signal(number, self._told)
        except ValueError:
            pass  # in a thread there are no signals
        try:
            yield
        finally:
            for one, handler in before.items():
                signal.signal(one, handler)

    def _told(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        self.force_exit = self.should_exit
        self.should_exit = True


__all__ = ["ModelServer", "listening"]
