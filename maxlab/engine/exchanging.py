"""Memory that the steps of a loop exchange, where devices work in it: what the executor does for
loops of the host alone (``MX_EXCHANGE``, ``mx_k_settle``), for slots of any device.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Protocol

from maxlab.compiler import Compiled
from maxlab.compiler.plan import Step
from maxlab.driver import Accelerator
from maxlab.driver.gpu_memory import DeviceBlock
from maxlab.engine.binding import allocate
from maxlab.engine.observing import Observer
from maxlab.ir import DeviceRef
from maxlab.toolchain.cffi_abi import ffi


class Places(Protocol):
    """Where the slots of one execution are, as a frame says it.

    Attributes:
        addresses: The address of each slot.
        homes: By the number of a step that settles: the own addresses of the slots that it brings
            home.
    """

    addresses: list[int]
    homes: dict[int, dict[int, int]]


class Bound(Protocol):
    """A plan bound to sizes and devices, as far as moving memory needs it."""

    @property
    def compiled(self) -> Compiled: ...
    @property
    def env(self) -> Mapping[str, int]: ...
    @property
    def devices(self) -> Mapping[DeviceRef, Accelerator]: ...
    @property
    def runtime(self) -> Any: ...


def exchange(step: Step, frame: Places) -> None:
    """Let slots of ``frame`` have the memory that ``step`` gives them from here on."""
    assert step.exchange is not None
    addresses = frame.addresses
    if all(slot == source for slot, source in step.exchange.moves):  # a loop begins
        homes = {slot: addresses[slot] for slot, _ in step.exchange.moves}
        for at in step.exchange.settling:
            frame.homes[step.number + at] = homes
        return
    made = [(slot, addresses[source]) for slot, source in step.exchange.moves]
    for slot, address in made:
        addresses[slot] = address


def settle(step: Step, binding: Bound, frame: Places, observer: Observer | None) -> None:
    """Bring what a loop has carried home, and let its slots have their own memory again."""
    assert step.exchange is not None
    slots = binding.compiled.plan.slots
    first = step.pointers[0]
    nbytes = slots[first].nbytes.evaluate(binding.env)
    device = binding.devices.get(slots[first].device)
    living = step.pointers[: len(step.pointers) // 2]
    homes = frame.homes[step.number]
    copies = in_turn({homes[n]: frame.addresses[n] for n in living})
    if copies and nbytes:
        if device is None:
            begin_ns = time.monotonic_ns()
            spare = allocate(binding.runtime, nbytes)
            for target, source in copies:
                to, at = (spare if a is None else ffi.cast("char *", a) for a in (target, source))
                ffi.memmove(to, at, nbytes)
            if observer is not None:
                observer.host(step, begin_ns, time.monotonic_ns())
        else:
            _on_device(step, device, copies, nbytes, observer)
    for slot, _ in step.exchange.moves:
        frame.addresses[slot] = homes[slot]


def _on_device(
    step: Step,
    device: Accelerator,
    copies: list[tuple[int | None, int | None]],
    nbytes: int,
    observer: Observer | None,
) -> None:
    context, queue = device.context, device.default_stream.queue
    needed = any(target is None for target, _ in copies)
    spare = DeviceBlock(device.pool, device.default_stream, nbytes) if needed else None

    def work() -> None:
        if observer is not None:
            observer.begin(step, context, queue, ())
        for target, source in copies:
            address = spare.address if spare is not None else 0
            to, at = (address if a is None else a for a in (target, source))
            context.copy(queue, to, at, nbytes)
        if observer is not None:
            observer.end(step, context, queue)

    context.call(work)


def in_turn(sources: dict[int, int]) -> list[tuple[int | None, int | None]]:
    """The copies (target, source), one after another, that bring to each place of ``sources`` what
    is at another one now. None is a place for one of them beside all others.

    Example:
        >>> in_turn({1: 2, 2: 3, 4: 4})
        [(1, 2), (2, 3)]
        >>> in_turn({1: 2, 2: 1})
        [(None, 1), (1, 2), (2, None)]
    """
    left: dict[int, int | None] = {to: at for to, at in sources.items() if to != at}
    found: list[tuple[int | None, int | None]] = []
    while left:
        needed = set(left.values())
        free = next((to for to in left if to not in needed), None)
        if free is None:  # only rings are left: one place of a ring is emptied
            free = next(iter(left))
            found.append((None, free))
            left = {to: None if at == free else at for to, at in left.items()}
        found.append((free, left.pop(free)))
    return found


__all__ = ["exchange", "in_turn", "settle"]
