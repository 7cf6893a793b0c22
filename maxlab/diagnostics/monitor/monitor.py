"""``Monitor``: starts, finds and ends the process that records this machine for one session."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from maxlab import files
from maxlab.diagnostics.gpu.recorder import DEFAULT_PERIOD_S, UNABLE, checked_period_ns, reason
from maxlab.diagnostics.monitor import launching, line_format
from maxlab.diagnostics.monitor._settings import checked_bytes, checked_label
from maxlab.diagnostics.monitor.places import (
    Identity,
    make_base,
    make_session,
    no_place,
    remove_dead,
    session_folder,
    session_owner,
)
from maxlab.diagnostics.monitor.segments import content, segments
from maxlab.errors import MaxlabError

if TYPE_CHECKING:
    from maxlab.diagnostics.monitor.recording import Recording

MAX_BYTES = 64 << 20
"""Bytes of samples that are kept; at one a second of a machine with one GPU about a day."""


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

        Raises:
            DeviceError: ML832, ``MAXLAB_MONITOR_DIR`` begins with the home of a user who is not
                there, or with a current folder that was removed.
        """
        self._owner = owner or session_owner()
        self._folder = session_folder(self._owner)

    @classmethod
    def start(
        cls,
        period_s: float = DEFAULT_PERIOD_S,
        *,
        label: str = "",
        max_bytes: int | str = MAX_BYTES,
    ) -> Monitor:
        """The monitor of this session, recording. Takes over one that runs already; when that one
        has another period or label, the recording goes on with the new ones.

        Args:
            period_s: seconds from one sample to the next, 0.01 or more. Vendors average utilisation
                over up to a second; PCIe traffic that is not counted by the GPU itself takes 40 ms
                to read, and is left out below 0.5 s.
            label: shown with the recording, 1000 characters at most.
            max_bytes: samples of this session that are kept, in bytes, 65536 or more; the oldest
                go. A text may have a unit: ``"64 MiB"``, ``"100MB"``.

        Raises:
            DeviceError: ML431 (a ValueError), a period below 0.01 or above 1e9 seconds; ML831 (a
                RuntimeError), the process did not start; ML832, there is no place for the
                recording; ML835 (a ValueError), ``max_bytes`` is no number of bytes, or too small;
                ML836 (a RuntimeError), a monitor at another pace could not be ended.
            ArgumentTypeError: ML431 or ML835 (a TypeError), an argument of the wrong type.
        """
        from maxlab.diagnostics.monitor import marks

        monitor = cls()
        is_new = monitor.begin(period_s, label=label, max_bytes=max_bytes)
        try:
            marks.attach(monitor._folder, in_cell=True)
        except BaseException as error:
            if is_new:  # nobody would have what could stop it
                monitor.stop()
            if isinstance(error, UNABLE) and not isinstance(error, MaxlabError):
                why = f"what this program does cannot be marked: {reason(error)}"
                raise launching.not_started(monitor._folder, why) from error
            raise
        return monitor

    def begin(
        self,
        period_s: float = DEFAULT_PERIOD_S,
        *,
        label: str = "",
        max_bytes: int | str = MAX_BYTES,
    ) -> bool:
        """Record from now on, and mark nothing of this process; False when it was recording so
        already. The arguments and errors are those of :meth:`start`."""
        period_ns = checked_period_ns(period_s)
        label, most = checked_label(label), checked_bytes(max_bytes)
        try:
            # Not the setting anew: it may have changed, and this recording lies where it lies.
            base = make_base(self._folder.parent)
            make_session(self._folder)
            remove_dead(base)
            _, is_new = launching.start(self._folder, self._owner, period_ns, label, most)
        except MaxlabError:
            raise
        except OSError as error:
            raise no_place(self._folder, error) from error
        except UNABLE as error:
            raise launching.not_started(self._folder, reason(error)) from error
        return is_new

    @classmethod
    def current(cls) -> Monitor | None:
        """The monitor of this session when it has recorded anything, running or not; else None."""
        monitor = cls()
        return monitor if monitor.has_recorded else None

    def stop(self) -> None:
        """End the recording, and return when its process is gone. What was recorded stays. Does
        nothing when it is not running.

        Raises:
            DeviceError: ML836 (a RuntimeError), the process could not be ended; it goes on.
        """
        launching.stop(self._folder)

    @property
    def is_running(self) -> bool:
        """Whether a process records now."""
        return launching.running(self._folder) is not None

    @property
    def has_recorded(self) -> bool:
        """Whether there is anything to show."""
        return bool(segments(self._folder, "samples"))

    @property
    def pid(self) -> int | None:
        """The number of the process that records; None when none does."""
        found = launching.running(self._folder)
        return found.process.pid if found else None

    @property
    def period_s(self) -> float | None:
        """Seconds from one sample to the next; None when it is not running, or does not say."""
        found = launching.running(self._folder)
        return None if found is None or found.period_ns is None else found.period_ns / 1e9

    @property
    def folder(self) -> Path:
        """Where the files of the recording lie. Only their own user can read them."""
        return self._folder

    def read_bytes(self, *, cells: bool = False) -> bytes:
        """The recording so far, in the form of a ``.mlrec`` file.

        Args:
            cells: with the first line of each cell, which is code of the user's.
        """
        pieces = []
        for prefix in ("samples", "marks-*"):
            for path in segments(self._folder, prefix):
                try:
                    raw = content(path)
                except FileNotFoundError:  # the ring has moved on
                    continue
                # A writer that was killed leaves half a line, which must not touch the next one.
                raw = raw if raw.endswith(b"\n") or not raw else raw + b"\n"
                pieces.append(raw if cells else line_format.without(raw, "n"))
        return b"".join(pieces)

    def recording(self) -> Recording:
        """The recording so far, as arrays.

        Raises:
            DocumentError: ML830, nothing was recorded.
        """
        from maxlab.diagnostics.monitor import marks
        from maxlab.diagnostics.monitor.recording import Recording

        marks.flush()
        return Recording.from_bytes(self.read_bytes(cells=True))

    def save(self, path: str | Path, *, cells: bool = False) -> Path:
        """``path``, written: a copy of the recording so far, for ``maxlab.dashboard(replay=path)``.

        Args:
            path: where to; a file that is there is replaced when the new one is complete.
            cells: keep the first line of each cell, too: it is code, and left out of a file that
                may be sent.

        Raises:
            DocumentError: ML830, nothing was recorded.
            FileError: ML001 or ML003 (an OSError), ``path`` is no regular file, or cannot be
                written; it is as it was before.
        """
        from maxlab.diagnostics.monitor import marks
        from maxlab.diagnostics.monitor.recording import Recording

        marks.flush()
        raw = self.read_bytes(cells=cells)
        Recording.from_bytes(raw)
        return files.write_bytes(path, raw, "the recording")

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        """Stop; exceptions of the block go on."""
        self.stop()

    def __repr__(self) -> str:
        if self.is_running:
            period_s = self.period_s
            return f"Monitor(recording{'' if period_s is None else f' every {period_s:g} s'})"
        return f"Monitor({'stopped' if self.has_recorded else 'never started'})"

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> Any:
        from maxlab import trace

        return trace.mimebundle(self, include, exclude)
