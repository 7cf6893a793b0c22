"""``Monitor``: starts, finds and ends the process that records this machine for one session."""

from __future__ import annotations

import math
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from maxlab.diagnostics.gpu.recorder import DEFAULT_PERIOD_S, MIN_PERIOD_S
from maxlab.diagnostics.monitor import _launch
from maxlab.diagnostics.monitor._place import (
    Identity,
    base_folder,
    make_private,
    remove_dead,
    session_folder,
    session_owner,
)
from maxlab.diagnostics.monitor._segments import segments
from maxlab.errors import ArgumentTypeError, DeviceError

if TYPE_CHECKING:
    from maxlab.diagnostics.monitor.recording import Recording

MAX_BYTES = 64 << 20
"""Bytes of samples that are kept; at one a second of a machine with one GPU about two days."""


class Monitor(AbstractContextManager["Monitor"]):
    """The recording of this session: a Jupyter server and its kernels, else this program.

    ``Monitor.start()`` starts a process of its own that samples CPU, memory, and each GPU, and
    writes them to files. It goes on until ``stop()``, whatever becomes of the kernel that started
    it, of pages and of views, and ends by itself when the Jupyter server (or, outside of Jupyter,
    this program) is gone. What was recorded stays for the session: a new kernel finds it again.
    Nothing samples before ``start()`` or after ``stop()``.

    While a kernel has a monitor, its cells and the runs of its models are marked on the time axis.

    As the last expression of a cell a monitor is its live dashboard. As a context manager it stops
    when the block is left.

    Example:
        >>> import time
        >>> from maxlab.diagnostics import Monitor
        >>> with Monitor.start(period_s=0.05) as monitor:
        ...     time.sleep(0.2)  # the work to watch
        >>> monitor.is_running
        False
        >>> recording = monitor.recording()
        >>> len(recording) >= 1 and "cpu" in [column.key for column in recording.columns]
        True
    """

    def __init__(self, owner: Identity | None = None) -> None:
        """The recording of this session, whether or not it is running.

        Args:
            owner: the process that the session belongs to; by default the one that this process
                belongs to.
        """
        self._owner = owner or session_owner()
        self._folder = session_folder(self._owner)

    @classmethod
    def start(
        cls,
        period_s: float = DEFAULT_PERIOD_S,
        *,
        label: str = "",
        max_bytes: int = MAX_BYTES,
    ) -> Monitor:
        """The monitor of this session, recording. Takes over one that runs already; when that one
        has another period or label, the recording goes on with the new ones.

        Args:
            period_s: seconds from one sample to the next, 0.01 or more. Vendors average utilisation
                over up to a second; PCIe traffic that is not counted by the GPU itself takes 40 ms
                to read, and is left out below 0.5 s.
            label: shown with the recording.
            max_bytes: samples of this session that are kept, in bytes, 65536 or more; the oldest
                go.

        Raises:
            DeviceError: ML431 (a ValueError), a period that is not a finite number of 0.01 or more,
                or ``max_bytes`` too small; ML831 (a RuntimeError), the process did not start;
                ML832, there is no place for the recording.
            ArgumentTypeError: ML431 (a TypeError), a period that is not a number.
        """
        from maxlab.diagnostics.monitor import marks

        monitor = cls()
        monitor.begin(period_s, label=label, max_bytes=max_bytes)
        marks.attach(monitor._folder, in_cell=True)
        return monitor

    def begin(
        self,
        period_s: float = DEFAULT_PERIOD_S,
        *,
        label: str = "",
        max_bytes: int = MAX_BYTES,
    ) -> bool:
        """Record from now on, and mark nothing of this process; False when it was recording so
        already. The arguments and errors are those of :meth:`start`."""
        period_ns = _checked_ns(period_s)
        if max_bytes < 65536:
            raise DeviceError(
                "ML431",
                f"max_bytes must be 65536 or more, got {max_bytes}",
                fix="leave it out for 64 MiB",
            )
        base = base_folder()
        make_private(base)
        make_private(self._folder)
        remove_dead(base)
        _, is_new = _launch.start(self._folder, self._owner, period_ns, label, max_bytes)
        return is_new

    @classmethod
    def current(cls) -> Monitor | None:
        """The monitor of this session when it has recorded anything, running or not; else None."""
        monitor = cls()
        return monitor if monitor.has_recorded else None

    def stop(self) -> None:
        """End the recording, and return when its process is gone. What was recorded stays. Does
        nothing when it is not running."""
        if self._folder.is_dir():
            _launch.stop(self._folder)

    @property
    def is_running(self) -> bool:
        """Whether a process records now."""
        return _launch.running(self._folder) is not None

    @property
    def has_recorded(self) -> bool:
        """Whether there is anything to show."""
        return bool(segments(self._folder, "samples"))

    @property
    def pid(self) -> int | None:
        """The number of the process that records; None when none does."""
        found = _launch.running(self._folder)
        return found.process.pid if found else None

    @property
    def period_s(self) -> float | None:
        """Seconds from one sample to the next; None when it is not running."""
        found = _launch.running(self._folder)
        return found.period_ns / 1e9 if found else None

    @property
    def folder(self) -> Path:
        """Where the files of the recording lie. Only their own user can read them."""
        return self._folder

    def read_bytes(self) -> bytes:
        """The recording so far, in the form of a ``.mlrec`` file."""
        pieces = []
        for prefix in ("samples", "marks-*"):
            for path in segments(self._folder, prefix):
                try:
                    raw = path.read_bytes()
                except FileNotFoundError:  # the ring has moved on
                    continue
                # A writer that was killed leaves half a line, which must not touch the next one.
                pieces.append(raw if raw.endswith(b"\n") or not raw else raw + b"\n")
        return b"".join(pieces)

    def recording(self) -> Recording:
        """What was recorded so far, as arrays.

        Raises:
            DocumentError: ML830, nothing was recorded.
        """
        from maxlab.diagnostics.monitor import marks
        from maxlab.diagnostics.monitor.recording import Recording

        marks.flush()
        return Recording.from_bytes(self.read_bytes())

    def save(self, path: str | Path) -> Path:
        """``path``, written: a copy of the recording so far, for ``maxlab.dashboard(replay=path)``.

        Raises:
            DocumentError: ML830, nothing was recorded.
            OSError: ``path`` cannot be written.
        """
        self.recording()
        target = Path(path)
        target.write_bytes(self.read_bytes())
        return target

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        """Stop; exceptions of the block go on."""
        self.stop()

    def __repr__(self) -> str:
        if (period_s := self.period_s) is not None:
            return f"Monitor(recording every {period_s:g} s)"
        return f"Monitor({'stopped' if self.has_recorded else 'never started'})"

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> Any:
        from maxlab import trace

        return trace.mimebundle(self, include, exclude)


def _checked_ns(period_s: float) -> int:
    if isinstance(period_s, bool) or not isinstance(period_s, int | float):
        raise ArgumentTypeError(
            "ML431",
            f"period_s must be a number of seconds, got {type(period_s).__name__}",
            fix="write period_s=0.1 for ten samples a second",
        )
    if not math.isfinite(period_s) or period_s < MIN_PERIOD_S:
        raise DeviceError(
            "ML431",
            f"period_s must be {MIN_PERIOD_S} s or more, got {period_s}",
            fix="write period_s=0.1 for ten samples a second",
        )
    return round(period_s * 1e9)
