"""The thread that owns a device: it alone makes, uses and frees what belongs to it.

CUDA's context is current to a thread, and PyCUDA's objects are tied to the thread that made them,
so work comes to the owner as functions. Handing one over costs two switches of threads; give
larger pieces where that matters.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, TypeVar

from maxlab.driver.cuda.faults import closed, forked

T = TypeVar("T")


class _Job:
    """A function on its way to the owner, and on its way back what it returned or raised."""

    __slots__ = ("done", "error", "result", "work")

    def __init__(self, work: Callable[[], Any]) -> None:
        self.work: Callable[[], Any] | None = work
        self.result: Any = None
        self.error: BaseException | None = None
        self.done = threading.Lock()
        self.done.acquire()

    def run(self) -> None:
        assert self.work is not None, "a job runs once"
        try:
            self.result = self.work()
        except BaseException as error:
            self.error = error
        # The caller may drop what the function holds, and in its own thread.
        self.work = None
        self.done.release()


class Owner:
    """A daemon thread that runs functions in the order in which they are given.

    Args:
        id: the number of the device, for its name and for messages.
    """

    def __init__(self, id: int) -> None:
        self._id = id
        self._process = os.getpid()
        self._jobs: SimpleQueue[_Job | Callable[[], object] | None] = SimpleQueue()
        self._closed = False
        # Reentrant: a finalizer may call `later` in the middle of `call`.
        self._lock = threading.RLock()
        self._thread = threading.Thread(target=self._run, name=f"maxlab-gpu:{id}", daemon=True)
        self._thread.start()

    @property
    def inside(self) -> bool:
        """Whether the calling thread is the owner."""
        return threading.get_ident() == self._thread.ident

    def call(self, work: Callable[[], T]) -> T:
        """The result of ``work()``; its exceptions are raised here, with their traceback.

        A call by the owner itself runs directly.

        Raises:
            DeviceError: ML444, this process is a fork, or the interpreter is ending.
        """
        if threading.get_ident() == self._thread.ident:
            return work()
        job = _Job(work)
        if os.getpid() != self._process:
            raise forked(self._id)
        with self._lock:
            if self._closed:
                raise closed(self._id)
            self._jobs.put(job)
        try:
            job.done.acquire()
        except BaseException:
            # Ctrl-C: the job may be using the caller's memory, so the caller has to stay.
            job.done.acquire()
            raise
        if job.error is not None:
            try:
                raise job.error
            finally:
                del job  # it holds the error, whose traceback holds this frame
        return job.result  # type: ignore[no-any-return]

    def later(self, work: Callable[[], object]) -> None:
        """Run ``work`` when the owner comes to it; what it raises is lost. Never raises."""
        if self._closed or os.getpid() != self._process:
            return
        self._jobs.put(work)

    def close(self, last: Callable[[], object]) -> None:
        """Run ``last`` after all that was given, and end the thread. If ``last`` raises, the
        thread stays asleep: PyCUDA ends a process one of whose threads ends with a context.
        """
        with self._lock:
            if self._closed:
                return
            job = _Job(last)
            self._jobs.put(job)
            self._closed = True
        job.done.acquire()
        if job.error is None:
            self._jobs.put(None)
            self._thread.join()

    def _run(self) -> None:
        get = self._jobs.get
        while True:
            job = get()
            if job is None:
                return
            if isinstance(job, _Job):
                job.run()
            else:
                try:
                    job()
                except Exception:
                    pass  # a finalizer has nobody to tell; a lost device says so to the next call
            del job  # while it waits, the thread keeps nothing alive
