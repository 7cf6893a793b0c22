"""Faults that kernels and host steps found, and the errors for them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from maxlab.compiler import Compiled
from maxlab.compiler.plan import Plan, Step
from maxlab.driver import Accelerator
from maxlab.driver.gpu_memory import PinnedDeviceBlock
from maxlab.engine.kernel_log import (
    ROOM,
    WORDS,
    assertion_error,
    nan_error,
    out_of_range,
    place_of,
    tell,
)
from maxlab.errors import ExecutionError
from maxlab.toolchain.cffi_abi import ffi

FAULT_BYTES = 32
LOG_BYTES = WORDS * 8


class Faults:
    """Where kernels of one frame and device say what they found wrong, and write messages.

    It is pinned host memory: a kernel writes to it only when something is wrong, and the host can
    look whenever the device has come by, without another copy.
    """

    def __init__(self, device: Accelerator, steps: list[Step], compiled: Compiled) -> None:
        self.steps = steps
        self._stream = device.default_stream
        self._compiled = compiled
        sizes = [FAULT_BYTES + LOG_BYTES * step_logs(step) for step in steps]
        starts = [0, *itertools.accumulate(sizes)]
        self._block = PinnedDeviceBlock(device.context, starts[-1])
        self.addresses = {
            step.number: self._block.address + start
            for step, start in zip(steps, starts, strict=False)
        }
        buffer = ffi.buffer(ffi.cast("char *", self._block.address), starts[-1])
        self._words = np.frombuffer(buffer, np.int64)
        self._words[:] = 0
        self._starts = [start // 8 for start in starts[:-1]]
        self._logs = {
            n: self._words[first + FAULT_BYTES // 8 : first + sizes[n] // 8]
            for n, first in enumerate(self._starts)
            if step_logs(steps[n])
        }
        for log in self._logs.values():
            log[1] = ROOM

    def raise_later(self) -> None:
        """Let whoever next waits for the device raise what its kernels found."""
        self._stream.add_check(self.check)

    def tell(self) -> None:
        """Tell the messages of kernels that have ended."""
        for n, log in self._logs.items():
            tell(log, self.steps[n], self._compiled)

    @property
    def writes_messages(self) -> bool:
        """Whether any of its kernels does."""
        return bool(self._logs)

    def take(self) -> tuple[Step, list[int]] | None:
        """The first step that found something wrong, and its words: what kind of thing, which
        check or note, an index or item, and a size. None when all was well. It is forgotten then.
        """
        words, found = self._words, None
        for step, first in zip(self.steps, self._starts, strict=True):
            if words[first] and found is None:
                found = step, [int(word) for word in words[first : first + 4]]
            words[first : first + 4] = 0
        return found

    def check(self) -> None:
        """Raise what kernels that have ended found.

        Raises:
            ExecutionError: ML652, an index was out of range; ML791, an assertion does not hold;
                ML792, a result is NaN.
        """
        if not any(self._words[first] for first in self._starts):
            return
        context, queue = self._stream.context, self._stream.queue
        context.call(queue.synchronize)  # a later kernel may be writing down its own
        found = self.take()
        if found is None:  # another thread has told
            return
        step, (kind, number, index, size) = found
        assert step.printed is not None
        if kind == 2:
            raise assertion_error(number, index, place_of(self._compiled.plan, step))
        if kind == 3:
            raise nan_error(self._compiled.plan, step, number, index)
        node = next(iter(step.nodes_of(step.printed.checked[number])), "")
        raise out_of_range(self._compiled.plan, node, index, size)


def step_logs(step: Step) -> bool:
    """Whether a kernel of ``step`` writes messages."""
    return step.gpu is not None and step.gpu.printed().logs


def failed_step(plan: Plan, step: Step, found: Sequence[int]) -> ExecutionError:
    """The error for a step of the host that failed with ``found``: the code of its kernel, an index
    or item, a size, and the number of a check."""
    code, value, limit, number = found[:4]
    if code == 2:
        return assertion_error(value, limit, place_of(plan, step))
    if code == 3:
        return nan_error(plan, step, number, value)
    if code == 1:
        checked = step.printed.checked if step.printed is not None else []
        node = checked[number] if number < len(checked) else ""
        return out_of_range(plan, next(iter(step.nodes_of(node)), ""), value, limit)
    return ExecutionError(
        "ML651",
        f"the kernel {step.id} ({step.name}) failed with code {code}",
        fix="please report it with this message",
    )


__all__ = ["Faults", "failed_step", "step_logs"]
