"""What other processes do in the tests: they are spawned, and import this module."""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

import numpy as np

from maxlab.interfaces import MsgpackNumpyDecoder, MsgpackNumpyEncoder, msgpack_numpy_encoder


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


if __name__ == "__main__":
    write_and_die()
