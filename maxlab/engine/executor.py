"""The host as a device of the engine: its queue is the C executor, which walks steps at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from maxlab import progress
from maxlab.compiler import Compiled
from maxlab.compiler.plan import Step
from maxlab.engine.faults import failed_step
from maxlab.engine.file_watch import LOST, Watch, settled
from maxlab.engine.frame import Frame
from maxlab.engine.handle_errors import failure
from maxlab.engine.handles import Handles
from maxlab.engine.host_calls import GUARD_FAILED, HostCalls
from maxlab.engine.host_steps import HostSteps
from maxlab.engine.kernel_log import log_of
from maxlab.engine.made_objects import collecting
from maxlab.engine.observing import Observers
from maxlab.errors import ExecutionError
from maxlab.opset.faults import NOTHING, SAME
from maxlab.toolchain.interrupts import STOPPED, raised

PAUSED = 4
"""The executor's code for a program that has used up its slice (mx_abi.h)."""
SLICE_NS = 50_000_000
"""How long a program runs before signals are looked at."""
REFUSED = 3
"""The code of the kernel that stands for a condition that does not hold (mx_abi.h)."""


class Executor:
    """Runs steps of the host with a team of threads.

    Args:
        watch: The mapped files that are looked at first.
        handles: The opaque handles of the graph, if it has any: objects that kernels make are
            collected.

    Attributes:
        execute: The function of C that runs what `prepared` gives.
        builtins: The addresses of functions that no kernel's text is compiled for, by their names.
    """

    def __init__(
        self,
        compiled: Compiled,
        watch: Watch | None,
        threads: int,
        runtime: Any,
        handles: Handles | None,
    ) -> None:
        self.compiled = compiled
        self.runtime = runtime
        self.threads = threads
        self.team = runtime.team(threads)
        self._watch = watch
        self._has_handles = handles is not None
        self.execute: Callable[[Any], int] = runtime.lib.mx_run
        log = log_of(compiled)
        if log is not None:
            self.execute = log.around(self.execute)
        if handles is not None:
            self.execute = collecting(self.execute, runtime)
        steps = compiled.plan.steps
        self._host_calls = HostCalls(steps, runtime.ffi, None if log is None else log.tell)
        self.builtins: Mapping[str, int] = self._host_calls.addresses | {
            step.builtin: runtime.address(step.builtin)
            for step in steps
            if step.builtin and step.call is None
        }

    def prepared(self, host: HostSteps, frame: Frame) -> Any:
        """The ``mx_call *`` with which `execute` runs all steps of ``host`` on the memory of
        ``frame``, which keeps alive all that it points to.
        """
        null = self.runtime.ffi.NULL
        fields = {
            "watch": null if self._watch is None else self._watch.address,
            "team": self.team,
            "steps": host.steps,
            "nsteps": len(host.walked),
            "argp": frame.table(host),
            "dims": host.dims,
            "patches": host.patches,
            "npatch": host.npatch,
            "io": frame.pointers,
            "scratch_bytes": host.scratch,
            "errinfo": frame.info,
            "is_program": host.is_program,
            "slice_ns": SLICE_NS,
        }
        return self.runtime.ffi.new("mx_call *", fields)

    def finished(self, code: int, call: Any) -> int:
        """The code of ``call``, for which `execute` gave ``code``, when it has come to its end.
        Where there are branches and jumps the thread comes back now and then, so that a loop that
        does not end can be interrupted."""
        while code & ~LOST == PAUSED:  # Python handles signals between two slices
            settled(code, self._watch, ())
            progress.check()
            code = self.execute(call)
        return code

    def run(
        self, host: HostSteps, first: int, count: int, frame: Frame, observers: Observers
    ) -> None:
        """Run ``count`` steps of ``host`` from ``first`` on; observers are told of all of them.

        Raises:
            ExecutionError: A step found something wrong.
        """
        times = frame.times(host, self.threads, observers)
        call = frame.calls.get(host)
        if call is None:
            call = frame.calls[host] = self.prepared(host, frame)
        call.steps = host.steps + first
        call.nsteps = count
        call.times = self.runtime.ffi.NULL if times is None else times.address
        call.is_program = host.is_program and count > 1
        code = self.finished(self.execute(call), call)
        if code:
            self.settle(code, host, frame, frame.addresses, first)
        if times is not None:
            for observer in observers:
                observer.host(times)

    def settle(
        self, code: int, host: HostSteps, frame: Frame, memory: Iterable[int], first: int = 0
    ) -> None:
        """Raises unless ``code``, which an execute gave, tells of a file that others use.

        Args:
            memory: The addresses that were used.

        Raises:
            ExecutionError: A step found something wrong.
            WeightFileError: ML639 or ML641, a file that it used has changed or lost a page.
        """
        info = list(frame.info)
        code = settled(code, self._watch, memory)
        if not code:
            return
        if code == STOPPED:
            raise raised()
        if code != 1:
            raise ExecutionError(
                "ML651",
                f"{self.compiled.plan.facts.name} could not run: the executor's code is {code}",
                fix="free some memory and try again",
            )
        raise self._failure(host.walked[first + info[0]], info[1:], host.env)

    def _failure(self, step: Step, found: list[int], env: Mapping[str, int]) -> BaseException:
        """The error for ``found``: the code of a kernel, and what it wrote down."""
        code = found[0]
        if code == GUARD_FAILED:
            error: BaseException = self.compiled.guard.failure()
            return error
        if step.call is not None:
            return self._host_calls.failure(step, self.compiled.plan.facts)
        if code in (NOTHING, SAME) and self._has_handles:
            return failure(self.compiled.plan, step, code, found[1:3])
        if code == REFUSED and step.guard is not None:
            step.guard.test(env)
        return failed_step(self.compiled.plan, step, found)


__all__ = ["Executor"]
