"""A recorder that samples the GPUs from a process of its own while a ``with`` block runs.

The process is a fresh interpreter, never a fork: it inherits no CUDA context, no thread, no lock
and nothing of a notebook's kernel, it does not import the program's main module, and a program
that holds the interpreter's lock delays no sample. It writes into an anonymous file that the
program opened, so that nothing has to be drained while the program runs, and so that whatever
happens to the recorder, the samples taken so far are there.
"""

from __future__ import annotations

import json
import math
import os
import select
import signal
import subprocess
import sys
import time
import weakref
from contextlib import AbstractContextManager
from types import TracebackType
from typing import BinaryIO, Self

from maxlab import trace
from maxlab.diagnostics.gpu import _wire
from maxlab.diagnostics.gpu._sampler import EXIT_STUCK, READY, STUCK_S
from maxlab.diagnostics.gpu.stats import GPUStats
from maxlab.errors import ArgumentTypeError, DeviceError

DEFAULT_PERIOD_S = 1.0
MIN_PERIOD_S = 0.01
# Thirty years: a sum of it and the time since the machine's start still fits every clock.
MAX_PERIOD_S = 1e9
# NVML may need seconds to wake the GPUs of a large machine.
START_TIMEOUT_S = 60.0
# Longer than the recorder gives itself, so that it is killed only when it cannot even end itself.
STOP_TIMEOUT_S = STUCK_S + 0.5

# Standard input carries the setup, then nothing but the word to stop. `raw` reads no further than
# the line, so that the lifeline is not emptied by the way.
_BOOT = """\
import json, sys
setup = json.loads(sys.stdin.buffer.raw.readline())
sys.path[:] = setup["path"]
from maxlab.diagnostics.gpu._sampler import main
main(setup)
"""


def checked_period_ns(period_s: float) -> int:
    """Nanoseconds of ``period_s``, the seconds from one sample to the next.

    Raises:
        DeviceError: ML431 (a ValueError), it is below 0.01 or above 1e9.
        ArgumentTypeError: ML431 (a TypeError), it is not a number.
    """
    fix = "write period_s=0.1 for ten samples a second"
    if isinstance(period_s, bool) or not isinstance(period_s, int | float):
        raise ArgumentTypeError(
            "ML431",
            f"period_s must be a number of seconds, got {type(period_s).__name__}",
            fix=fix,
        )
    if not MIN_PERIOD_S <= period_s <= MAX_PERIOD_S:  # NaN is neither
        most = "more" if period_s < MIN_PERIOD_S else f"more, and {MAX_PERIOD_S:g} s or less"
        raise DeviceError(
            "ML431",
            f"period_s must be {MIN_PERIOD_S} s or {most}, got {shown(period_s)}",
            fix=fix,
        )
    return round(period_s * 1e9)


def shown(value: object) -> str:
    """``value`` in few words, for messages."""
    try:
        text = repr(value)
    except ValueError:  # Python writes no number of thousands of digits
        return "a number of thousands of digits"
    return text if len(text) <= 60 else f"{text[:57]}…"


class BackgroundRecorder(AbstractContextManager["BackgroundRecorder"]):
    """A context manager that records all GPUs of this machine while its block runs.

    A process of its own takes one sample on entry and one every ``period_s`` after that, without
    holding up the program. Leaving the block stops it within about a second; the samples are then
    in :attr:`stats`, and when they were taken in :attr:`times_ns`. On a machine without GPUs every
    sample is ``{}``.

    Recorders are independent: several may run at once, one inside another too. One recorder runs
    once at a time, and may be entered again after it was left; the samples of the new block then
    take the place of the old ones. A program that dies takes its recorders with it.

    Args:
        period_s: seconds from one sample to the next, 0.01 or more. The vendors average their
            utilisation over up to a second, so finer periods show more of memory than of
            utilisation.

    Raises:
        DeviceError: ML431 (a ValueError), a period below 0.01 or above 1e9 seconds.
        ArgumentTypeError: ML431 (a TypeError), a period that is not a number.

    Example:
        >>> from maxlab.diagnostics.gpu import BackgroundRecorder
        >>> with BackgroundRecorder(period_s=0.05) as recorder:
        ...     answer = sum(range(1_000_000))  # the work to watch
        >>> len(recorder.stats) == len(recorder.times_ns) >= 1
        True
        >>> peak = max((gpu.memory.used_bytes for s in recorder.stats for gpu in s.values()),
        ...            default=0)
        >>> peak >= 0
        True
    """

    def __init__(self, *, period_s: float = DEFAULT_PERIOD_S) -> None:
        self._period_ns = checked_period_ns(period_s)
        self._running: _Process | None = None
        self._finalizer: weakref.finalize[..., BackgroundRecorder] | None = None
        self._raw: bytes | None = None
        self._recording: _wire.Recording | None = None

    def __enter__(self) -> Self:
        """This recorder, its process running and its first sample taken.

        Raises:
            DeviceError: ML430 (a RuntimeError), it is recording already; ML432 (a RuntimeError),
                its process did not start, and why.
        """
        if self._running is not None:
            raise DeviceError(
                "ML430",
                "this BackgroundRecorder is recording already",
                fix="make a second BackgroundRecorder(); any number may record at once",
            )
        self._raw = self._recording = None
        process = _Process(self._period_ns)
        # A recorder that nobody leaves is stopped when it is dropped, or when the program ends.
        try:
            self._finalizer = weakref.finalize(self, process.stop)
        except BaseException:
            process.stop()
            raise
        self._running = process
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        """Stop the process and keep its samples; exceptions of the block go on.

        Raises:
            DeviceError: ML432 (a RuntimeError), the process died before its time, or hung. The
                samples it took are in :attr:`stats` all the same. When the block raised, its own
                exception goes on with this added as a note.
        """
        process = self._running
        if process is None:
            raise DeviceError(
                "ML430",
                "a BackgroundRecorder was left that is not recording",
                fix="use it as `with BackgroundRecorder() as recorder:`",
            )
        self._running = None
        if self._finalizer is not None:
            self._finalizer.detach()
        if process.owner != os.getpid():
            # A fork of the program leaves the block; the recorder belongs to the program.
            process.close()
            return
        try:
            process.stop()
        except MemoryError as failure:
            raise DeviceError(
                "ML432",
                "the samples of the GPU recorder cannot be read: there is too little memory",
                fix="free some memory, or record for a shorter time",
            ) from failure
        finally:  # also when Ctrl-C comes while it waits
            self._raw = process.raw
        error = process.failure(self._period_ns)
        if error is None:
            return
        if exc is None:
            raise error
        exc.add_note(str(error))

    @property
    def stats(self) -> list[dict[str, GPUStats]]:
        """The samples of the last block, oldest first: GPU identifier to statistics, each.

        Raises:
            DeviceError: ML430 (a RuntimeError), the block has not been left yet, or never entered.
        """
        return self._finished("stats").stats

    @property
    def times_ns(self) -> list[int]:
        """When each sample of :attr:`stats` was taken, in ns of ``time.monotonic_ns``.

        Strictly increasing, and on the clock of the event stream (``maxlab.trace``).

        Raises:
            DeviceError: ML430 (a RuntimeError), the block has not been left yet, or never entered.
        """
        return self._finished("times_ns").times_ns

    @property
    def problems(self) -> dict[str, str]:
        """Statistics that could not be read during the last block, and why, as of
        ``GPUDiagContext.problems``.

        Of several problems of one GPU, the last.

        Raises:
            DeviceError: ML430 (a RuntimeError), the block has not been left yet, or never entered.
        """
        return self._finished("problems").problems

    def _finished(self, what: str) -> _wire.Recording:
        if self._recording is None:
            if self._raw is None:
                state = "is still recording" if self._running else "has not recorded anything"
                raise DeviceError(
                    "ML430",
                    f"{what} was asked of a BackgroundRecorder that {state}",
                    fix=f"read {what} after the block of `with BackgroundRecorder() as recorder:`",
                )
            self._recording = _wire.decode(self._raw)
            self._raw = b""
            for gpu_id, reason in self._recording.problems.items():
                trace.emit("warning", "gpu", gpu=gpu_id, message=reason)
        return self._recording


class _Process:
    """A running recorder process, as the program sees it.

    Attributes:
        owner: the process that started it, which alone may stop it.
        raw: all that it wrote, once it is stopped.
    """

    def __init__(self, period_ns: int) -> None:
        self.owner = os.getpid()
        self.raw = b""
        self._last_words: list[str] = []
        self._stuck = False
        try:
            self._samples = _anonymous_file()
            self._errors = _anonymous_file()
        except (OSError, MemoryError) as error:
            raise _not_started(f"a file for its samples cannot be made: {reason(error)}") from error
        setup = {
            "path": [os.path.abspath(entry) for entry in sys.path],
            "samples": self._samples.fileno(),
            "period_ns": period_ns,
            "parent": self.owner,
        }
        # -P: the current directory must not shadow what the boot text imports.
        command = [_python(), "-P", "-c", _BOOT, "maxlab-gpu-recorder"]
        try:
            self._child = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                bufsize=0,
                pass_fds=(self._samples.fileno(),),
                # Signals for the program's terminal or kernel do not reach the recorder.
                start_new_session=True,
            )
        except UNABLE as error:
            self._samples.close()
            self._errors.close()
            raise _not_started(f"{command[0]} cannot be run: {reason(error)}") from error
        try:
            self._await_first_sample(json.dumps(setup).encode() + b"\n")
        except BaseException as error:
            self._kill()
            self.close()
            if isinstance(error, UNABLE) and not isinstance(error, DeviceError):
                raise _not_started(reason(error)) from error
            raise

    def _await_first_sample(self, setup: bytes) -> None:
        to_child, from_child = self._child.stdin, self._child.stdout
        assert to_child is not None, "it is a pipe"
        assert from_child is not None, "it is a pipe"
        try:
            while setup:
                setup = setup[to_child.write(setup) :]
        except BrokenPipeError:
            pass  # it died; what it said on the way is told below
        poller = select.poll()
        poller.register(from_child, select.POLLIN)
        if not poller.poll(START_TIMEOUT_S * 1000):
            raise _not_started(
                f"no sample within {START_TIMEOUT_S:.0f} s; does nvidia-smi or amd-smi answer?"
            )
        if from_child.read(len(READY)) != READY:
            self.stop()
            raise _not_started(f"it {_how_it_ended(self._child.returncode)}", *self._last_words)

    def stop(self) -> None:
        """End the process, reap it, and return within about a second. Safe to call twice."""
        if os.getpid() != self.owner or self._samples.closed:
            return
        try:
            self._tell_to_stop()
            self._child.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._stuck = True
            self._kill()
        finally:
            self.raw = _content(self._samples)
            said = _content(self._errors).decode(errors="replace").strip().splitlines()
            self._last_words = [f"it said: {line.strip():.200}" for line in said[-1:]]
            self.close()

    def close(self) -> None:
        """Let go of the process without a word to it."""
        for file in (self._child.stdin, self._child.stdout, self._samples, self._errors):
            if file is not None:
                file.close()

    def _tell_to_stop(self) -> None:
        assert self._child.stdin is not None, "it is a pipe"
        try:
            # Closing it would not do: a fork of the program may hold the other copy.
            self._child.stdin.write(b"s")
        except OSError:
            pass  # it is gone already

    def _kill(self) -> None:
        self._child.kill()
        try:
            self._child.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            pass  # inside the driver, where no signal arrives; it ends when the driver lets go

    def failure(self, period_ns: int) -> DeviceError | None:
        """The error that tells the user how the process ended; None when all is well."""
        if _wire.is_complete(self.raw):
            return None
        count, last_ns = _wire.summary(self.raw)
        age_s = (time.monotonic_ns() - last_ns) / 1e9 if last_ns is not None else math.inf
        kept = f"the {count} samples until then are kept in stats"
        if self._stuck or self._child.returncode == EXIT_STUCK:
            if age_s < period_ns / 1e9 + 2 * STOP_TIMEOUT_S:
                # The last reading alone was slow; no sample that was due is missing.
                trace.emit("warning", "gpu", message="the GPU recorder was slow to stop")
                return None
            return DeviceError(
                "ML432",
                f"the GPU recorder hung: its last sample was taken {age_s:.1f} s before the end",
                why=[kept, "a reading of the GPUs did not come back"],
                fix="see whether nvidia-smi or amd-smi answers, and what `dmesg` says of the GPU",
            )
        return DeviceError(
            "ML432",
            f"the GPU recorder's process {_how_it_ended(self._child.returncode)} before the end "
            "of the block",
            why=[kept, *self._last_words],
            fix="find what ended it; signal 9 often is the system, out of memory (see `dmesg`)",
        )


# What the system says when it has no memory, thread, file or process to give.
UNABLE = (OSError, MemoryError, RuntimeError, subprocess.SubprocessError)


def reason(error: BaseException) -> str:
    """``error`` in words."""
    if isinstance(error, MemoryError):
        return "there is too little memory"
    return str(error) or type(error).__name__


def _python() -> str:
    """The interpreter to start: this one, or what an embedding program named to multiprocessing."""
    from multiprocessing import spawn

    found: str | bytes | None = spawn.get_executable()
    if not found:
        raise _not_started("this program does not know its Python interpreter (sys.executable)")
    return os.fsdecode(found)


def _anonymous_file() -> BinaryIO:
    """A file without a name, which is gone when the last process that has it open is."""
    try:
        return open(os.memfd_create("maxlab-gpu-recorder"), "r+b", buffering=0)
    except (AttributeError, OSError):  # not Linux, or not allowed in this sandbox
        import tempfile

        return tempfile.TemporaryFile(buffering=0)


def _content(file: BinaryIO) -> bytes:
    """All of ``file``, read beside its position, which belongs to the process that writes it."""
    pieces = []
    offset = 0
    while piece := os.pread(file.fileno(), 1 << 24, offset):
        pieces.append(piece)
        offset += len(piece)
    return b"".join(pieces)


def _how_it_ended(code: int | None) -> str:
    if code is not None and code < 0:
        try:
            return f"was killed by {signal.Signals(-code).name} ({-code})"
        except ValueError:  # a real-time signal, which has no name
            return f"was killed by signal {-code}"
    return f"ended with status {code}"


def _not_started(*why: str) -> DeviceError:
    return DeviceError(
        "ML432",
        "the GPU recorder's process did not start",
        why=why,
        fix="mend what it names, or read the GPUs in this process with GPUDiagContext",
    )
