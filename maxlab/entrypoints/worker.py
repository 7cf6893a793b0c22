"""A process with a model: it is started, sent requests, and watched."""

from __future__ import annotations

import os
import pickle
import queue
import socket
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import Future, wait
from dataclasses import replace
from itertools import count
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Protocol

from maxlab import progress
from maxlab.driver import CPU, cpu_count
from maxlab.entrypoints.messages import (
    Adapt,
    Adapted,
    Control,
    Failed,
    Phase,
    Ready,
    Requests,
    Start,
    Stepped,
)
from maxlab.errors import ExecutionError, InputError
from maxlab.interfaces import LoRARequest, RequestID, SchedulerResult, TextGenerationOutput
from maxlab.pipelines.lib.registry import PipelineFactory
from maxlab.pipelines.lib.scheduler import StepRecord
from maxlab.toolchain.child import signal_name

_numbers = count(1)
END_S = 5.0
"""Seconds that the process may take to end by itself."""
Answer = tuple[RequestID, SchedulerResult[TextGenerationOutput] | Exception]


class Inbox(Protocol):
    """Takes the outputs of requests."""

    def put(self, answer: Answer, /) -> None:
        """Takes one; it returns at once.

        Args:
            answer: The request with its output, or with the reason why there is none.
        """


class Worker:
    """A process that runs a pipeline of text with a scheduler.

    It has as many virtual CPUs as this process has when it is started. It ends with this object,
    with this process, and by `close`. Whatever becomes of it, those who
    wait for an answer get an exception at once: the socket between the two is closed then.

    Args:
        factory: Makes the pipeline.

    Raises:
        InputError: ML143 (a ValueError), a class of the pipeline is one of a notebook or script.
        ExecutionError: ML142 (a RuntimeError), the process ended before it was ready.
        MaxlabError: What making the pipeline raised there.
    """

    def __init__(self, factory: PipelineFactory) -> None:
        pickled = _pickled(factory)
        self.name = f"LLM {next(_numbers)}"
        """Tells the steps of its scheduler from those of others."""
        here, there = socket.socketpair()
        with there:
            self.process = subprocess.Popen(
                [sys.executable, "-P", "-m", "maxlab.entrypoints.worker_main", str(there.fileno())],
                pass_fds=(there.fileno(),),
                stdin=subprocess.DEVNULL,
                env=_environment(),
                start_new_session=True,
            )
        self._connection = Connection(os.dup(here.fileno()))
        self._closer = weakref.finalize(self, _end, self.process, here)
        self._sending = threading.Lock()
        self._waiting: dict[RequestID, Inbox] = {}
        self._adapting: dict[int, Future[None]] = {}
        self._lock = threading.Lock()
        self._ended: Exception | None = None
        self._is_closed = False
        try:
            cpus = cpu_count()
            limit = CPU(cpus - 1).stats["memory_limit"] if cpus > 1 else -1
            self._connection.send(Start(list(sys.path), pickled, cpus, limit))
            self._await_ready()
        except BaseException:
            self._closer()
            raise
        reader = threading.Thread(
            target=_read,
            args=(self._connection, weakref.ref(self)),
            name="maxlab-llm",
            daemon=True,
        )
        reader.start()

    def _await_ready(self) -> None:
        """Returns when the pipeline is made."""
        with progress.working("load the model"):
            while True:
                try:
                    while not self._connection.poll(progress.PERIOD_S):
                        progress.check()
                    message = self._connection.recv()
                except (EOFError, OSError):
                    raise self._end_error() from None
                if isinstance(message, Ready):
                    return
                if isinstance(message, Failed):
                    raise message.error
                if isinstance(message, Phase):
                    progress.step(message.phase, message.done, message.total, message.what)

    def _end_error(self) -> ExecutionError:
        """The error of a process that has ended by itself."""
        try:
            status = self.process.wait(END_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            status = self.process.wait()
        how = f"was ended by {signal_name(-status)}" if status < 0 else f"ended with {status}"
        return ExecutionError(
            "ML142",
            f"the process that runs the model {how}",
            why=["its messages are in the output of this program, if it wrote any"],
            fix="make a new LLM; where the system was short of memory, with a smaller max_length "
            "or max_batch_size",
        )

    # ------------------------------------------------------------ requests
    def submit(self, contexts: list[Any]) -> queue.SimpleQueue[Answer]:
        """Sends requests; the queue that their outputs come in, or the reasons why there are none.

        Args:
            contexts: The states of the requests.

        Raises:
            ExecutionError: ML142 (a RuntimeError), the process has ended.
        """
        answers: queue.SimpleQueue[Answer] = queue.SimpleQueue()
        self.submit_to(answers, contexts)
        return answers

    def submit_to(self, answers: Inbox, contexts: list[Any]) -> None:
        """Sends requests whose outputs, or the reasons why there are none, go to ``answers``.

        Args:
            answers: What takes them; the thread that reads from the process calls its ``put``.
            contexts: The states of the requests.

        Raises:
            ExecutionError: ML142 (a RuntimeError), the process has ended.
        """
        with self._lock:
            if self._ended is not None:
                raise self._ended
            for context in contexts:
                self._waiting[context.request_id] = answers
        self._send(Requests(contexts))

    def cancel(self, request_ids: list[RequestID]) -> None:
        """Calls requests off; nothing more comes of them.

        Args:
            request_ids: The requests.
        """
        with self._lock:
            for request_id in request_ids:
                self._waiting.pop(request_id, None)
        self._send(Requests(cancelled=request_ids))

    def control(self, control: Control) -> None:
        """Lets the scheduler pause, go on, or take single steps.

        Args:
            control: What it is to do.

        Raises:
            ExecutionError: ML142 (a RuntimeError), the process has ended.
        """
        if self._ended is not None:
            raise self._ended
        self._send(control)

    def adapt(self, request: LoRARequest, then: Callable[[], object]) -> None:
        """Loads or unloads an adapter, and returns when that is done.

        Args:
            request: What to do.
            then: Is called when it is done, though nobody waits any more because of an interrupt.

        Raises:
            InputError: ML537 to ML539 (a ValueError), it cannot be done.
            ExecutionError: ML142 (a RuntimeError), the process has ended.
        """
        done: Future[None] = Future()
        done.add_done_callback(lambda one: None if one.exception() else then())
        number = next(_numbers)
        with self._lock:
            if self._ended is not None:
                raise self._ended
            self._adapting[number] = done
        self._send(Adapt(number, request))
        while not wait([done], progress.PERIOD_S).done:
            progress.check()
        done.result()

    def _send(self, message: Any) -> None:
        try:
            with self._sending:
                self._connection.send(message)
        except OSError:
            pass  # it has ended, and whoever waits is told so

    def take(self, message: Any) -> None:
        """Hands a message of the process to those who wait for it.

        Args:
            message: The message.
        """
        if isinstance(message, Adapted):
            self._settle(message.number, message.error)
        if not isinstance(message, Stepped):
            return
        if message.record:
            record = StepRecord.of(message.record)
            replace(record, scheduler=self.name).tell(message.start_ns)
        with self._lock:
            for request_id, result in message.results.items():
                answers = self._waiting.get(request_id)
                if answers is None:
                    continue
                answers.put((request_id, message.errors.get(request_id, result)))
                if result.is_done:
                    del self._waiting[request_id]

    def _settle(self, number: int, error: Exception | None) -> None:
        """Tells the one who waits for an adapter how it ended."""
        with self._lock:
            done = self._adapting.pop(number, None)
        if done is not None:
            done.set_result(None) if error is None else done.set_exception(error)

    def end(self) -> None:
        """Tells those who wait that the process has ended."""
        error = self._closed_error() if self._is_closed else self._end_error()
        with self._lock:
            self._ended = error
            for request_id, answers in self._waiting.items():
                answers.put((request_id, error))
            self._waiting.clear()
        for number in list(self._adapting):
            self._settle(number, error)

    @property
    def ended(self) -> Exception | None:
        """The error that says why the process has ended; None while it runs."""
        return self._ended

    def close(self) -> None:
        """Ends the process; those who wait for answers get an error."""
        self._is_closed = True
        self._ended = self._ended or self._closed_error()
        self._closer()

    def _closed_error(self) -> ExecutionError:
        return ExecutionError("ML142", "the LLM was closed", fix="make a new LLM")


def _read(connection: Connection, owner: weakref.ref[Worker]) -> None:
    """Hands on what comes, until the process has ended or the worker is gone."""
    while True:
        try:
            message = connection.recv()
        except (EOFError, OSError):
            connection.close()
            worker = owner()
            if worker is not None:
                worker.end()
            return
        worker = owner()
        if worker is None:
            return
        worker.take(message)
        del worker


def _pickled(factory: PipelineFactory) -> bytes:
    """The factory as bytes for another process.

    Raises:
        InputError: ML143, one of its classes is in no module.
    """
    for one in (factory.pipeline_model, type(factory.tokenizer), factory.pipeline):
        if one.__module__ == "__main__" or "<locals>" in one.__qualname__:
            raise InputError(
                "ML143",
                f"the class {one.__qualname__} is defined in a notebook, a script or a function, "
                "and LLM runs the model in another process, which does not have it",
                fix="put it into a module, and name that in custom_architectures; or run the "
                "pipeline in this process: PIPELINE_REGISTRY.retrieve(config)",
            )
    return pickle.dumps(factory)


def _environment() -> dict[str, str]:
    """The environment of the process, which imports this maxlab."""
    own = str(Path(__file__).resolve().parents[2])
    paths = filter(None, [own, os.environ.get("PYTHONPATH", "")])
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}


def _end(process: subprocess.Popen[bytes], connection: socket.socket) -> None:
    """Shuts the socket, at which the process ends; one that does not is killed."""
    with connection:
        try:
            connection.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # the process has ended already
    try:
        process.wait(END_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


__all__ = ["Answer", "Inbox", "Worker"]
