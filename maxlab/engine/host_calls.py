"""Functions of Python as steps of a plan: what the C executor calls for ``mo.host``.

The executor calls them on the thread that runs the model, which then takes the interpreter's lock
for as long as the function runs. What the function raises is kept for that thread: C code is on the
way, and only a number can pass it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

from maxlab.compiler.facts import Facts
from maxlab.compiler.plan import Step
from maxlab.errors import ExecutionError

FAILED = 1000
"""The value that a step returns to the executor when its function raised; kernels never return it.
"""
GUARD_FAILED = 1001
"""The value that a guarded step returns to the executor when it has raised; kernels never return
it.
"""


class HostCalls:
    """The C functions for the steps of one model that call Python.

    Args:
        steps: All steps of the plan.
        ffi: Of the runtime.
        before: What is called in front of each function.

    Attributes:
        addresses: The address of each, by the symbol of its step.
    """

    def __init__(
        self, steps: Sequence[Step], ffi: Any, before: Callable[[], None] | None = None
    ) -> None:
        self._before = before
        self._raised = threading.local()
        self._keep: list[Any] = []
        self.addresses: dict[str, int] = {}
        for step in steps:
            if step.call is not None:
                entry = self._entry(step, ffi)
                self._keep.append(entry)
                self.addresses[step.builtin] = int(ffi.cast("uintptr_t", entry))

    def _entry(self, step: Step, ffi: Any) -> Any:
        call, ranks = step.call, step.ranks
        assert call is not None
        run, raised, before = call.run, self._raised, self._before
        pointers, sizes = len(step.pointers), len(step.sizes)

        def enter(b: Any, d: Any, lo: int, hi: int, ctx: Any) -> int:
            try:
                dims = iter(ffi.unpack(d, sizes))
                shapes = [tuple(next(dims) for _ in range(rank)) for rank in ranks]
                if before is not None:
                    before()
                run(ffi.unpack(ffi.cast("uintptr_t *", b), pointers), shapes)
            except BaseException as error:  # an interrupt too: C cannot pass it on
                raised.error = error
                return FAILED
            return 0

        return ffi.callback("mx_fn", enter, error=FAILED)

    def failure(self, step: Step, facts: Facts) -> BaseException:
        """The exception to raise on the thread on which the function of ``step`` raised."""
        assert step.call is not None
        error: BaseException | None = getattr(self._raised, "error", None)
        self._raised.error = None
        if error is not None and not isinstance(error, Exception):
            return error  # the user pressed Ctrl-C
        ops = (facts.ops.get(node) for node in step.nodes)
        at = next((op.at for op in ops if op is not None and op.at is not None), None)
        made = ExecutionError(
            "ML685",
            f"{step.call.name} failed, which {step.call.kind} runs: {error}",
            at=at,
            fix="run the module itself on the same inputs; it fails there too, or please report it",
        )
        made.__cause__ = error
        return made
