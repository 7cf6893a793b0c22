"""Handlers of the Jupyter server for the dashboard's tab."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import psutil
from jupyter_server.auth.decorator import authorized
from tornado import web

from maxlab.diagnostics.gpu import GPUDiagContext, GPUStats
from maxlab.diagnostics.monitor import Monitor
from maxlab.diagnostics.monitor.places import me
from maxlab.errors import MaxlabError
from maxlab.lab.dashboard.store import Detail, Frame, Store
from maxlab.lab.protocol.dashboard import MachineNow
from maxlab.lab.server.base import Handler, T, add_handlers
from maxlab.lab.server.comparing import add_comparing
from maxlab.lab.server.files import add_files
from maxlab.lab.server.gallery import add_gallery
from maxlab.lab.server.pages import add_pages

# Who may see and change what a machine does: whoever may run programs on it.
RESOURCE = "kernels"

FORGET_S = 120.0
"""Seconds after the last request in which what was read of the recording is let go of."""


class Service:
    """The monitor of this server's session, and what was read of its recording."""

    def __init__(self) -> None:
        # The server owns the session, also when it was itself started by a kernel's program.
        self.monitor = Monitor(me())
        self._lock = threading.Lock()
        self._store: Store | None = None
        self._used_s = 0.0
        self._is_first_look = True
        # Opened when the status bar first asks, and kept: vendors' libraries take long to start.
        self._gpus: GPUDiagContext | None = None

    def frame(self, cursor: str) -> Frame:
        """The data that a page lacks which has seen all up to ``cursor``."""
        with self._lock:
            self._used_s = time.monotonic()
            if self._store is None:
                self._store = Store(self.monitor)
            self._store.read()
            body, raw = self._store.frame(cursor)
        body["continues"] = None if body["reset"] else cursor
        return body, raw

    def detail(self, start_s: float, end_s: float) -> Detail:
        """All samples of a stretch of time."""
        with self._lock:
            self._used_s = time.monotonic()
            store = self._store or Store(self.monitor)
        return store.detail(start_s, end_s)

    def now(self) -> MachineNow:
        """How busy the machine is since the call before."""
        with self._lock:
            cpu = psutil.cpu_percent(None)
            # The first call begins the window.
            is_first, self._is_first_look = self._is_first_look, False
            memory = psutil.virtual_memory()
            return {
                "cpu": None if is_first else cpu,
                "memory": memory.total - memory.available,
                "memory_total": memory.total,
                "gpus": [
                    {
                        "id": gpu,
                        "percent": float(stats.utilization.gpu_usage_percent),
                        "used": stats.memory.used_bytes,
                        "total": stats.memory.total_bytes,
                    }
                    for gpu, stats in self._read_gpus().items()
                ],
                "recording": self.monitor.is_running,
            }

    def _read_gpus(self) -> dict[str, GPUStats]:
        if self._gpus is None:
            self._gpus = GPUDiagContext().__enter__()
        return self._gpus.get_stats()

    def forget(self) -> None:
        """Let go of the recording when nobody has asked for a while."""
        with self._lock:
            if self._store is not None and time.monotonic() - self._used_s > FORGET_S:
                self._store = None


class _Handler(Handler):
    auth_resource = RESOURCE

    def initialize(self, service: Service) -> None:
        """Take the ``service`` that all handlers share."""
        self.service = service

    async def away(self, work: Callable[[], T]) -> T:
        """The result of ``work``, done beside the server's loop: files and processes take time.

        Raises:
            HTTPError: 400, what was asked for is not possible; the reason is for the user.
        """
        try:
            return await super().away(work)
        except MaxlabError as error:
            # A status line holds one line of ASCII.
            reason = " ".join(error.what.encode("ascii", "replace").decode().split())
            raise web.HTTPError(400, "%s", error, reason=reason) from error


class FrameHandler(_Handler):
    """``GET frame?cursor=…``"""

    @web.authenticated
    @authorized
    async def get(self) -> None:
        """Samples, marks and state that are newer than the cursor."""
        cursor = self.get_query_argument("cursor", "")
        self.finish_frame(await self.away(partial(self.service.frame, cursor)))


class DetailHandler(_Handler):
    """``GET detail?start=…&end=…``, in seconds since the first sample"""

    @web.authenticated
    @authorized
    async def get(self) -> None:
        """All samples between two times."""
        work = partial(self.service.detail, self.number("start"), self.number("end"))
        self.finish_frame(await self.away(work))


class NowHandler(_Handler):
    """``GET now``"""

    @web.authenticated
    @authorized
    async def get(self) -> None:
        """CPU, memory and GPUs at this moment."""
        self.finish_json(await self.away(self.service.now))


class RecordingHandler(_Handler):
    """``GET recording``"""

    @web.authenticated
    @authorized
    async def get(self) -> None:
        """The recording as a file."""
        raw = await self.away(self.service.monitor.read_bytes)
        self.set_header("Content-Type", "application/octet-stream")
        self.set_header("Content-Disposition", 'attachment; filename="session.mlrec"')
        self.set_header("Cache-Control", "no-store")
        self.finish(raw)


class StartHandler(_Handler):
    """``POST start`` with ``{"period": seconds}``"""

    @web.authenticated
    @authorized
    async def post(self) -> None:
        """Start the monitor."""
        body: Any = self.get_json_body() or {}
        period: Any = body.get("period", 1.0) if isinstance(body, dict) else None
        await self.away(partial(self.service.monitor.begin, period))
        self.set_status(204)
        self.finish()


class StopHandler(_Handler):
    """``POST stop``"""

    @web.authenticated
    @authorized
    async def post(self) -> None:
        """Stop the monitor. What was recorded stays."""
        await self.away(self.service.monitor.stop)
        self.set_status(204)
        self.finish()


HANDLERS: dict[str, type[_Handler]] = {
    "frame": FrameHandler,
    "detail": DetailHandler,
    "recording": RecordingHandler,
    "now": NowHandler,
    "start": StartHandler,
    "stop": StopHandler,
}


def add_to(server: Any) -> None:
    """Add the handlers to ``server``, a ``jupyter_server.serverapp.ServerApp``."""
    from tornado.ioloop import PeriodicCallback

    service = Service()
    add_handlers(server, "monitor", HANDLERS, service=service)
    PeriodicCallback(service.forget, FORGET_S * 500).start()
    add_files(server)
    add_gallery(server)
    add_comparing(server)
    add_pages(server)
