"""Queues between the processes of one machine, over ZeroMQ: ``ipc://`` and loopback ``tcp://``.

One end binds to an endpoint, the other connects to it, in whichever order. Messages of one push end
come in the order they were put in.
"""

from __future__ import annotations

import queue
import re
import threading
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from maxlab.errors import DeviceError, InputError, shown
from maxlab.interfaces import fields
from maxlab.interfaces.needing import needed_by
from maxlab.interfaces.shared import remove_orphans, taken_back_on_errors
from maxlab.interfaces.wire import (
    MsgpackNumpyEncoder,
    msgpack_numpy_decoder,
    msgpack_numpy_encoder,
)

Item = TypeVar("Item")

_LONGEST_PATH = 107
"""Bytes that a path of a socket of Linux may have."""
_TCP = re.compile(r"tcp://(127(?:\.\d{1,3}){3}|localhost|\[::1\]):(\*|\d{1,5})")
_FIX = "ipc:///tmp/some.path, tcp://127.0.0.1:5555, or, to bind to a free port, tcp://127.0.0.1:*"


def check_endpoint(endpoint: object, *, bind: bool) -> str:
    """``endpoint``, which can be bound or connected to.

    Args:
        endpoint: ``ipc://`` with a path of at most 107 bytes, or ``tcp://`` with an address of
            this machine and a port.
        bind: Whether it is to be bound: only then the port may be ``*``, any that is free.

    Raises:
        InputTypeError: It is no string.
        InputError: It is neither of the two (a ValueError).

    Example:
        >>> check_endpoint("tcp://127.0.0.1:5555", bind=False)
        'tcp://127.0.0.1:5555'
    """
    fields.text("endpoint", endpoint)
    text = str(endpoint)
    path = text.removeprefix("ipc://")
    if path != text and 0 < len(path.encode("utf-8", "replace")) <= _LONGEST_PATH:
        if "\0" not in path:
            return text
    if found := _TCP.fullmatch(text):
        port = found[2]
        if bind if port == "*" else 0 < int(port) < 2**16:
            return text
    raise InputError(
        "ML986", f"an endpoint on this machine expected ≠ {shown(endpoint)} given", fix=_FIX
    )


_MOST_CLOSING_MS = 1000
"""It takes a tenth of a millisecond; longer only where the machine is busy."""


class _End:
    """One end of a queue: its socket, which is made here and closed once."""

    _kind = ""

    def __init__(self, endpoint: str, *, bind: bool, most_waiting: int) -> None:
        self._socket: Any = None
        fields.flag("bind", bind)
        fields.integer(1, 10**6)("most_waiting", most_waiting)
        check_endpoint(endpoint, bind=bind)
        with needed_by("a queue between processes", "pyzmq"):
            import zmq
        self._zmq = zmq
        self._lock = threading.Lock()
        opened: Any = zmq.Context.instance().socket(getattr(zmq, self._kind))
        opened.set_hwm(most_waiting)
        try:
            (opened.bind if bind else opened.connect)(endpoint)
        except zmq.ZMQError as error:
            opened.close(0)
            raise DeviceError(
                "ML986",
                f"{endpoint} cannot be {'bound' if bind else 'connected'} to",
                why=[str(error)],
                fix="bind one end of a queue only, and to an endpoint that no other queue has",
            ) from error
        self._socket = opened
        self._is_bound = bind
        self.endpoint = opened.getsockopt(zmq.LAST_ENDPOINT).rstrip(b"\0").decode()
        """Where the other end connects to, with the port that was free."""

    def _open(self) -> Any:
        if self._socket is None:
            raise DeviceError(
                "ML987",
                f"the queue of {self.endpoint} is closed",
                fix="use it inside of its `with`, or before close()",
            )
        return self._socket

    def close(self, wait: float = 1.0) -> None:
        """Gives the socket back, and removes shared memory of ended processes.

        An endpoint that this end was bound to is free afterwards.

        Args:
            wait: The seconds, at most, that messages on their way are given.
        """
        fields.real(0, 3600)("close.wait", wait)
        with self._lock:
            opened, self._socket = self._socket, None
        if opened is not None:
            # ZeroMQ closes in a thread of its own; until it has, nobody else can bind.
            watch = opened.get_monitor_socket(self._zmq.EVENT_CLOSED) if self._is_bound else None
            opened.close(int(wait * 1000))
            if watch is not None:
                watch.poll(_MOST_CLOSING_MS)
                watch.close(0)
            remove_orphans()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class ZmqPushQueue(_End, Generic[Item]):
    """The end that items are put into; a `MAXPushQueue`.

    Args:
        endpoint: As by `check_endpoint`.
        bind: Whether this end binds and the other one connects.
        encode: What makes a message of an item.
        most_waiting: The number of items that may wait at this end until the other one has them.

    Raises:
        InputTypeError, InputError: An argument of another type, or out of its range.
        DeviceError: The endpoint is taken (a RuntimeError).
        MissingPackageError: ``pyzmq`` is not installed (an ImportError).

    Example:
        >>> from maxlab.interfaces import get_blocking
        >>> with ZmqPullQueue("tcp://127.0.0.1:*", int) as pull:
        ...     with ZmqPushQueue(pull.endpoint) as push:
        ...         push.put_nowait(7)
        ...         get_blocking(pull)
        7
    """

    _kind = "PUSH"

    def __init__(
        self,
        endpoint: str,
        *,
        bind: bool = False,
        encode: MsgpackNumpyEncoder | None = None,
        most_waiting: int = 1000,
    ) -> None:
        super().__init__(endpoint, bind=bind, most_waiting=most_waiting)
        self._encode = encode or msgpack_numpy_encoder()

    def put_nowait(self, item: Item) -> None:
        """Sends ``item`` without waiting.

        Args:
            item: What to send.

        Raises:
            queue.Full: As many items wait as may, or nobody is there to take them.
            InputTypeError: ``item`` cannot be sent; the queue is as before.
            DeviceError: The queue is closed.
        """
        with self._lock, taken_back_on_errors():
            opened = self._open()
            if not opened.getsockopt(self._zmq.EVENTS) & self._zmq.POLLOUT:
                raise queue.Full  # before arrays are copied into shared memory
            try:
                opened.send(self._encode(item), self._zmq.NOBLOCK)
            except self._zmq.Again as error:
                raise queue.Full from error


class ZmqPullQueue(_End, Generic[Item]):
    """The end that items are taken from; a `MAXPullQueue`.

    Args:
        endpoint: As by `check_endpoint`.
        type_: What a message is decoded as.
        bind: Whether this end binds and the other one connects.
        most_waiting: The number of items that may wait at this end.

    Raises:
        InputTypeError, InputError: An argument of another type, or out of its range.
        DeviceError: The endpoint is taken (a RuntimeError).
        MissingPackageError: ``pyzmq`` is not installed (an ImportError).
    """

    _kind = "PULL"

    def __init__(
        self, endpoint: str, type_: Any, *, bind: bool = True, most_waiting: int = 1000
    ) -> None:
        decode = msgpack_numpy_decoder(type_)
        super().__init__(endpoint, bind=bind, most_waiting=most_waiting)
        self._decode = decode

    def get_nowait(self) -> Item:
        """The oldest item that has come, which is taken from the queue.

        Raises:
            queue.Empty: None has come.
            DocumentError: The message is not of the type; it is dropped, and the next call gives
                the one behind it.
            DeviceError: The queue is closed.
        """
        with self._lock:
            try:
                message = self._open().recv(self._zmq.NOBLOCK)
            except self._zmq.Again as error:
                raise queue.Empty from error
        item: Item = self._decode(message)
        return item
