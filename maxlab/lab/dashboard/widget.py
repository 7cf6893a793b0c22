"""``DashboardView``: the dashboard below a cell, as an ordinary widget.

Only small state is in synced traits. Samples are sent as messages while a page says that it is
looked at, from a thread that reads the monitor's files and ends when nobody looks: it samples
nothing, and the monitor does not know of it. Requests of the page may arrive on any thread.
"""

from __future__ import annotations

import io
import threading
import time
import weakref
from pathlib import Path
from typing import Any

import anywidget
import traitlets

from maxlab import files, trace
from maxlab.diagnostics.monitor import Monitor, Recording, marks
from maxlab.lab import bundle, protocol
from maxlab.lab.dashboard.store import Store
from maxlab.lab.faults import fault_of, plain_fault
from maxlab.lab.protocol import PROTOCOL, reader
from maxlab.lab.widget import loader

LEASE_S = 30.0
"""How long a page counts as looking after it said so."""

# Faster than this nothing is sent: a page draws it no better, and a kernel has other work.
_FASTEST_S = 0.2
_SLOWEST_S = 1.0


class DashboardView(anywidget.AnyWidget):
    """The dashboard of this session, or of a recording.

    Args:
        replay: A ``.mlrec`` file, or a ``Recording``; left out, this session.
        height: In CSS pixels; 0 takes what the charts need.
        theme: ``"auto"`` follows the page; ``"light"`` or ``"dark"``.

    Attributes:
        monitor: What records this session; None for a replay.
        height: As above.
        theme: As above.

    Raises:
        DocumentError: ML830 (a ValueError), the file is not a recording; ML834, it would take more
            memory than its size allows for.
        FileError: ML001 or ML002 (an OSError), it is no regular file, or cannot be read.

    Example:
        >>> from maxlab.lab.dashboard import DashboardView
        >>> view = DashboardView(height=480)
        >>> view.monitor.is_running
        False
    """

    _esm = loader()

    kind = traitlets.Unicode("dashboard").tag(sync=True)
    height = traitlets.Int(0, min=0, max=4000).tag(sync=True)
    theme = traitlets.Enum(("auto", "light", "dark"), "auto").tag(sync=True)
    not_live = traitlets.Unicode("").tag(sync=True)

    def __init__(
        self,
        replay: str | Path | Recording | None = None,
        *,
        height: int = 0,
        theme: str = "auto",
    ) -> None:
        self.monitor: Monitor | None = None
        self._raw: bytes | None = None
        self._title = ""
        if replay is None:
            self.monitor = Monitor()
            self._store = Store(self.monitor)
            # Cells and runs are marked in a recording that goes on already, or that starts later.
            marks.attach(self.monitor.folder, in_cell=True)
        else:
            if not isinstance(replay, Recording):
                self._title = Path(replay).name
                self._raw = files.read_bytes(replay, "the recording")
                replay = Recording.read_from(io.BytesIO(self._raw), len(self._raw), str(replay))
            self._store = Store(replay, self._title)
        self._sending = threading.Lock()
        self._cursor = ""
        self._state: protocol.MonitorState | None = None
        self._watched_until = 0.0
        super().__init__(height=height, theme=theme)
        self.on_msg(self._received)

    def __repr__(self) -> str:
        if self.monitor is not None:
            return "Dashboard(live)"
        name = f" of {self._title!r}" if self._title else ""
        return f"Dashboard(replay{name}, {self._store.samples} samples)"

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None, **_: Any) -> Any:
        from maxlab.lab.dashboard.picture import bundle_of

        self._store.read()
        return bundle_of(self._store, repr(self), lambda: self, include, exclude)

    def close(self) -> None:
        """Remove the view from all pages. What records goes on."""
        self._watched_until = 0.0
        super().close()

    # ------------------------------------------------------------ messages
    def _received(self, _widget: object, content: Any, _buffers: object) -> None:
        """Answer a message of the page; called on any thread."""
        try:
            self._answer(reader.dashboard_message(content))
        except Exception as error:  # a page can only be told, and the kernel must go on
            trace.emit("warning", "dashboard", message=str(error), request=str(content)[:200])
            request = content.get("type", "") if isinstance(content, dict) else ""
            self._fail(str(request)[:40], fault_of(error))

    def _answer(self, message: protocol.DashboardClientMessage) -> None:
        if message["type"] == "need_bundle":
            self.send(*bundle.message())
        elif message["type"] == "watch":
            with self._sending:
                self._cursor = message["cursor"]
                self._state = None
                self._watched_until = time.monotonic() + LEASE_S
            self.refresh()
            if self.monitor is not None:
                _pusher.watch(self)
        elif message["type"] == "start":
            if self.monitor is not None:
                self.monitor.begin(float(message["period"]))
                marks.attach(self.monitor.folder, in_cell=False)
                self.refresh()
        elif message["type"] == "stop":
            if self.monitor is not None:
                self.monitor.stop()
                self.refresh()
        elif message["type"] == "detail":
            body, raw = self._store.detail(float(message["start"]), float(message["end"]))
            self.send(body, [raw])
        elif message["type"] == "recording":
            self._send_recording()

    def refresh(self) -> None:
        """Send what is new to the pages that show this view."""
        with self._sending:
            self._store.read()
            before = self._cursor
            body, raw = self._store.frame(before)
            # While nothing records, its own clock is all that moves.
            state: protocol.MonitorState = {**body["state"], "now": 0.0}
            if body["cursor"] == before and state == self._state:
                return
            body["continues"] = None if body["reset"] else before
            self._cursor, self._state = body["cursor"], state
            self.send(body, [raw])

    def _send_recording(self) -> None:
        message: protocol.RecordingMessage = {"type": "recording", "protocol": PROTOCOL}
        if self.monitor is not None:
            marks.flush()
            self.send(message, [self.monitor.read_bytes()])
        elif self._raw is not None:
            self.send(message, [self._raw])
        else:
            self._fail("recording", plain_fault("this recording was not read from a file"))

    def _fail(self, request: str, fault: protocol.Fault) -> None:
        message: protocol.FailedMessage = {
            "type": "failed",
            "protocol": PROTOCOL,
            "request": request,
            "fault": fault,
        }
        self.send(message)

    # ------------------------------------------------------------ for the pusher
    @property
    def is_watched(self) -> bool:
        """Whether a page has said not long ago that it looks."""
        return time.monotonic() < self._watched_until

    @property
    def pause_s(self) -> float:
        """Seconds until something new is worth sending."""
        period_s = (self.monitor.period_s if self.monitor is not None else None) or _SLOWEST_S
        return min(max(period_s, _FASTEST_S), _SLOWEST_S)


class _Pusher:
    """Sends new samples to the views that somebody looks at, and ends when there are none."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._views: weakref.WeakSet[DashboardView] = weakref.WeakSet()
        self._thread: threading.Thread | None = None

    def watch(self, view: DashboardView) -> None:
        """Keep ``view`` up to date while it is watched."""
        with self._lock:
            self._views.add(view)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="dashboard", daemon=True)
                self._thread.start()

    def _run(self) -> None:
        while True:
            with self._lock:
                views = [view for view in self._views if view.is_watched]
                if not views:
                    self._views.clear()
                    self._thread = None
                    return
            for view in views:
                try:
                    view.refresh()
                except Exception as error:  # the other views, and the kernel, must go on
                    trace.emit("warning", "dashboard", message=str(error))
            pause_s = min(view.pause_s for view in views)
            del views
            time.sleep(pause_s)


_pusher = _Pusher()
