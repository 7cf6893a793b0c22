"""The process that runs the model of an `LLM`: ``python -m maxlab.entrypoints.worker_main FILE``.

``FILE`` is the number of an open socket, over which it gets requests and sends what they give. It
ends when the socket is closed, and so when the process at the other end is gone.
"""

from __future__ import annotations

import pickle
import sys
import threading
from multiprocessing.connection import Connection
from typing import Any

from maxlab import progress
from maxlab.driver import use_virtual_cpus
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
    portable,
)
from maxlab.errors import InputError
from maxlab.interfaces import LoRAOperation, SchedulerResult
from maxlab.pipelines.lib.scheduler import TextGenerationScheduler


def serve(connection: Connection) -> None:
    """Makes the pipeline that the first message asks for, and answers requests until the other end
    closes.

    Args:
        connection: The socket.

    Raises:
        EOFError: The other end closed.
    """
    start: Start = connection.recv()
    sys.path[:] = start.path
    if start.cpus > 1:
        use_virtual_cpus(start.cpus, memory_limit=start.cpu_memory_limit)

    def tell(work: progress.Work) -> None:
        if not work.is_over:
            connection.send(Phase(work.phase or work.title, work.done, work.total, work.what))

    try:
        with progress.working(progress.Work("load the model", tell)):
            scheduler = TextGenerationScheduler(pickle.loads(start.factory)())
    except Exception as error:
        connection.send(Failed(portable(error)))
        return
    sender = Sender(connection)
    sender.send(Ready())
    steps = 0
    while True:
        runs = scheduler.has_work and (steps or not scheduler.is_paused)
        while connection.poll(0 if runs else None):
            steps += _take(connection.recv(), sender, scheduler)
            runs = scheduler.has_work and (steps or not scheduler.is_paused)
        done = scheduler.step()
        steps = max(steps - 1, 0)
        errors = {one: portable(error) for one, error in done.errors.items()}
        sender.send(Stepped(done.record.data(), done.start_ns, done.results, errors))


class Sender:
    """Sends messages of several threads.

    Args:
        connection: The socket.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._lock = threading.Lock()
        self.adapting = threading.Lock()
        """Held while an adapter is loaded or unloaded, and told of."""

    def send(self, message: Any) -> None:
        """Sends a message as a whole.

        Args:
            message: The message.
        """
        with self._lock:
            self._connection.send(message)


def _take(message: Any, sender: Sender, scheduler: TextGenerationScheduler) -> int:
    """Does what a message asks for; the number of steps that it asks for."""
    if isinstance(message, Control):
        if message.paused is not None:
            scheduler.pause() if message.paused else scheduler.resume()
        return message.steps
    if isinstance(message, Adapt):  # reading files takes a while, and texts go on meanwhile
        threading.Thread(target=_adapt, args=(message, sender, scheduler), daemon=True).start()
        return 0
    assert isinstance(message, Requests)
    for request_id in message.cancelled:
        scheduler.cancel(request_id)
    for context in message.contexts:
        try:
            scheduler.submit(context)
        except Exception as error:
            result = {context.request_id: SchedulerResult.cancelled()}
            sender.send(Stepped({}, 0, result, {context.request_id: portable(error)}))
    return 0


def _adapt(message: Adapt, sender: Sender, scheduler: TextGenerationScheduler) -> None:
    """Loads or unloads an adapter, and tells how it ended."""
    request, manager = message.request, scheduler.pipeline.lora_manager
    error: Exception | None = None
    with sender.adapting:
        try:
            if manager is None:
                raise InputError("ML139", "this model takes no adapters", fix="ask its base alone")
            if request.operation is LoRAOperation.LOAD:
                manager.load_adapter(str(request.lora_path), request.lora_name)
            else:
                manager.unload_adapter(str(request.lora_name))
        except Exception as raised:
            error = portable(raised)
        try:
            sender.send(Adapted(message.number, error))
        except OSError:
            pass  # nobody asks any more


def main() -> None:
    """Serves the socket whose number is the argument."""
    connection = Connection(int(sys.argv[1]))
    try:
        serve(connection)
    except (EOFError, ConnectionError):
        pass  # nobody asks any more


if __name__ == "__main__":
    main()
