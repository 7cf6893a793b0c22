"""What other processes do in the tests: they are spawned, and import this module."""

from __future__ import annotations

import os
import queue
import signal
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from maxlab.interfaces import MsgpackNumpyDecoder, MsgpackNumpyEncoder, msgpack_numpy_encoder
from maxlab.interfaces.zmq_queue import ZmqPushQueue


def echo(connection: Any) -> None:
    """Decodes and encodes each message with the codecs that come with it, until None comes."""
    while (message := connection.recv()) is not None:
        decode, encode, data = message
        assert isinstance(decode, MsgpackNumpyDecoder)
        assert isinstance(encode, MsgpackNumpyEncoder)
        connection.send_bytes(encode(decode(data)))


def write_and_die() -> None:
    """Puts an array into shared memory, tells the message, and is killed."""
    message = msgpack_numpy_encoder(use_shared_memory=True)({"x": np.arange(1000)})
    sys.stdout.write(message.hex())
    sys.stdout.flush()
    os.kill(os.getpid(), signal.SIGKILL)


def push(endpoint: str, count: int) -> None:
    """Puts ``count`` arrays, whose first element is their number, into the queue."""
    encode = msgpack_numpy_encoder(use_shared_memory=True, shared_memory_threshold=4000)
    with ZmqPushQueue[Any](endpoint, encode=encode) as there:
        for number in range(count):
            item = np.full(1000 if number % 10 == 0 else 3, number, np.int32)
            while True:
                try:
                    there.put_nowait(item)
                    break
                except queue.Full:
                    time.sleep(0.001)
        there.close(wait=60)
        # What is in shared memory goes with the process that wrote it.
        while list(Path("/dev/shm").glob(f"maxlab-msg-{os.getpid()}-*")):
            time.sleep(0.01)


if __name__ == "__main__":
    write_and_die()
