"""Tasks on the workers of a cluster: a few at a time, with results in the order of the tasks."""

from __future__ import annotations

import queue
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from maxlab import progress
from maxlab.errors import ExecutionError, MaxlabError
from maxlab.interfaces import fields
from maxlab.interfaces.needing import needed_by

AHEAD = 2
"""Tasks that are sent for each thread of the cluster: the next one is there when one is done."""


@dataclass
class Placing:
    """Where tasks may run, and how often they are sent again.

    Attributes:
        workers: The addresses of workers, or their hosts; None for all.
        resources: What a task takes of the resources that workers were started with.
        retries: How often a task is sent again whose workers, or the model of one, died.
    """

    workers: list[str] | None = None
    resources: dict[str, float] | None = None
    retries: int = 3


@dataclass
class _Sent:
    """A task that was sent.

    Attributes:
        arguments: Its arguments.
        size: How many of the whole it is.
        future: What it becomes.
        tries: How often it was sent.
    """

    arguments: tuple[Any, ...]
    size: int
    future: Any = None
    tries: int = 0
    is_done: bool = False
    result: Any = field(default=None, repr=False)


def require_client(client: Any) -> None:
    """Raises unless ``client`` is one that waits.

    Args:
        client: What is given as a client.

    Raises:
        MissingPackageError: ML979, Dask is not installed (an ImportError).
        InputTypeError: ML980, it is no `distributed.Client` (a TypeError).
        InputError: ML981, it is one for coroutines (a ValueError).
    """
    with needed_by("maxlab.dask", "distributed", "dask"):
        import distributed
    fields.instance(distributed.Client)("client", client)
    if client.asynchronous:
        raise fields.out_of_range(
            "client", client, "a Client that waits, made without asynchronous=True,"
        )


def thread_count(client: Any) -> int:
    """The number of threads of all workers of a cluster; 0 while there is no worker.

    Args:
        client: The client.

    Raises:
        ExecutionError: ML870 (a RuntimeError), its scheduler cannot be asked.
    """
    with _asking(client):
        return int(sum(client.nthreads().values()))


def in_order(
    client: Any,
    function: Callable[..., Any],
    tasks: Iterable[tuple[int, tuple[Any, ...]]],
    placing: Placing,
    title: str,
    total: int = 0,
) -> Iterator[Any]:
    """The results of tasks in the order of these, each as soon as it and those before it are there.

    Tasks are taken as the cluster gets through them. Those that are not done are called off when
    the iterator is closed, or when one raises.

    Args:
        client: The client.
        function: Is called with the arguments of each task.
        tasks: For each task, how many of the whole it is, and its arguments.
        placing: Where they may run.
        title: What progress is told of.
        total: How many all tasks are together; 0 where nobody knows.

    Raises:
        ExecutionError: ML870 (a RuntimeError), workers died of a task, or the scheduler is gone.
        MaxlabError: What a task raised.
    """
    running = _Running(client, function, placing)
    left = iter(tasks)
    try:
        while running.fill(left) or running.sent:
            with progress.working(title):
                running.await_first(title, total)
            one = running.sent.popleft()
            running.given += one.size
            yield one.result
    finally:
        running.call_off()


class _Running:
    """The tasks that were sent and not given.

    Args:
        client: The client.
        function: Is called with the arguments of each task.
        placing: Where they may run.
    """

    def __init__(self, client: Any, function: Callable[..., Any], placing: Placing) -> None:
        self._client, self._function, self._placing = client, function, placing
        self._ended: queue.SimpleQueue[_Sent] = queue.SimpleQueue()
        self._workers = 0
        self.sent: deque[_Sent] = deque()
        self.given = 0

    def fill(self, tasks: Iterator[tuple[int, tuple[Any, ...]]]) -> bool:
        """Sends tasks until there are enough for all workers; whether it sent any."""
        with _asking(self._client):
            threads = self._client.nthreads()
        self._workers = len(threads)
        most = max(AHEAD * sum(threads.values()), 2)
        before = len(self.sent)
        while len(self.sent) < most and (task := next(tasks, None)) is not None:
            size, arguments = task
            one = _Sent(arguments, size)
            self.sent.append(one)
            self._send(one)
        return len(self.sent) > before

    def _send(self, one: _Sent) -> None:
        one.tries += 1
        with _asking(self._client):
            one.future = self._client.submit(
                self._function,
                *one.arguments,
                pure=False,
                workers=self._placing.workers,
                resources=self._placing.resources,
            )
        self._listen(one)

    def _listen(self, one: _Sent) -> None:
        one.future.add_done_callback(lambda _: self._ended.put(one))

    def await_first(self, title: str, total: int) -> None:
        """Returns when the first task is done."""
        while not self.sent[0].is_done:
            done = self.given + sum(one.size for one in self.sent if one.is_done)
            where = f"{self._workers} workers" if self._workers else "no worker yet"
            progress.step(title, done, total, where)
            try:
                self._take(self._ended.get(timeout=progress.PERIOD_S))
            except queue.Empty:
                continue

    def _take(self, one: _Sent) -> None:
        """Takes a task that has ended, or sends it again."""
        future, status = one.future, one.future.status
        if status not in ("finished", "error", "cancelled"):
            self._listen(one)  # the worker that had the result died, and another one computes it
            return
        error = future.exception() if status == "error" else None
        if status == "finished":
            try:
                one.result, one.is_done = future.result(), True
            except Exception as raised:  # the same, and computing it again failed
                error = raised
            else:
                one.future = None  # the cluster keeps it no longer
                return
        if _is_death(error) and one.tries <= self._placing.retries:
            self._send(one)
            return
        raise _told(error, status, one.tries)

    def call_off(self) -> None:
        """Calls off the tasks that are not done."""
        left = [one.future for one in self.sent if one.future is not None and not one.is_done]
        self.sent.clear()
        if left and self._client.status == "running":
            self._client.cancel(left, force=True)


@contextmanager
def _asking(client: Any) -> Iterator[None]:
    """Raises ML870 where the scheduler of a client cannot be asked."""
    try:
        if client.status in ("closing", "closed"):
            raise ConnectionError("the Client is closed")
        yield
    except (OSError, RuntimeError) as error:  # of a connection, or of a client that is closed
        raise ExecutionError(
            "ML870",
            f"the scheduler of the cluster cannot be asked: {error}",
            fix="see whether it runs, connect a new Client, and ask again",
        ) from error


def _is_death(error: BaseException | None) -> bool:
    """Whether an error is about a process that ended, and not about the task."""
    from distributed.scheduler import KilledWorker

    return isinstance(error, KilledWorker) or getattr(error, "code", None) == "ML142"


def _told(error: BaseException | None, status: str, tries: int) -> Exception:
    """The error that is raised for a task."""
    if isinstance(error, MaxlabError) and not _is_death(error):
        return error
    if error is None:
        return ExecutionError(
            "ML870",
            f"a task of the cluster is {status}: its scheduler has ended, or somebody called it "
            "off",
            fix="connect a new Client, and ask again",
        )
    if _is_death(error):
        return ExecutionError(
            "ML870",
            f"all workers that began a task died; it was sent {tries} times",
            why=[str(error).partition(" Inspecting")[0]],
            fix="see the output of the workers; where memory ran out, give each more, or pass a "
            "smaller max_batch_size or max_length",
        )
    return ExecutionError(
        "ML871",
        f"a worker of the cluster cannot begin a task: {type(error).__name__}: {error}",
        fix="install the same maxlab, and the modules of your functions, on all machines",
    )


__all__ = ["AHEAD", "Placing", "in_order", "require_client", "thread_count"]
