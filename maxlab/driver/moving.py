"""Moving bytes between the memory of two devices, in the order of the streams of both."""

from __future__ import annotations

from functools import partial

from maxlab.driver.backend import Watcher
from maxlab.driver.device import CPU, DeviceStream
from maxlab.driver.gpu_stream import AcceleratorStream
from maxlab.driver.memory import Block

_HOST = CPU().default_stream


def move_bytes(
    to: DeviceStream,
    target: int,
    start: DeviceStream,
    source: int,
    nbytes: int,
    watcher: Watcher | None = None,
) -> bool:
    """Whether the host has waited for the ``nbytes`` that were copied: it has when they are on the
    host now.

    Args:
        to: A stream of the device that they come to.
        target: Their address there.
        start: A stream of the device that they come from; one of both is an accelerator.
        source: Their address there.
        nbytes: How many.
        watcher: What sees the copy.
    """
    if not isinstance(to, AcceleratorStream):
        assert isinstance(start, AcceleratorStream), "one of both is an accelerator"
        context, queue = start.context, start.queue
        download = partial(context.download, queue, target, source, nbytes)
        start.give(download if nbytes else _nothing, watcher)
        return True
    context, queue = to.context, to.queue
    if not isinstance(start, AcceleratorStream):
        upload = partial(context.upload, queue, target, source, nbytes)
        to.give(upload if nbytes else _nothing, watcher)
        return False
    to.wait_for(start)
    if to.device.can_access(start.device):
        copy = partial(context.copy, queue, target, source, nbytes)
        to.give(copy if nbytes else _nothing, watcher)
    else:
        staged = Block(nbytes)  # of this call alone: other threads may make the same copy
        move_bytes(_HOST, staged.address, start, source, nbytes)
        move_bytes(to, target, _HOST, staged.address, nbytes, watcher)
    start.wait_for(to)  # what was read may be written again only when the copy is done
    return False


def _nothing() -> None:
    """A copy of no bytes, which is seen like any other."""


__all__ = ["move_bytes"]
