"""Runs of a compiled graph: inputs in, outputs out. `Runner`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

from maxlab.driver import Accelerator, Tensor
from maxlab.driver.tensor import host_tensor
from maxlab.engine.arguments import Arguments
from maxlab.engine.executable import Executable
from maxlab.engine.into import is_apart, require_fitting
from maxlab.engine.made_objects import some_run
from maxlab.engine.observing import Observer, Observers
from maxlab.engine.program import Program
from maxlab.engine.programs import Programs
from maxlab.engine.running import execute
from maxlab.engine.whole import Outputs
from maxlab.ir import DeviceRef
from maxlab.opset.silence import silent

Run: TypeAlias = Callable[[Sequence[Any]], list[Tensor]]
"""The outputs for inputs."""


class Runner:
    """Runs what a model has loaded. It is no part of the model because nothing is looked up as fast
    as the attributes of an object with slots: a model answers for names that it does not have.

    Attributes:
        executable: What is run; a model exchanges it as a whole with `adopt`.
        arguments: What looks at the inputs.
        programs: By the shapes of the inputs, what runs.
        instead: What runs in the place of the model, while somebody looks into each run.
        last: The sizes of the last run that did not come to its program directly.
    """

    __slots__ = ("arguments", "executable", "instead", "last", "programs")

    def __init__(self, executable: Executable, arguments: Arguments) -> None:
        self.arguments = arguments
        self.instead: Run | None = None
        self.last: dict[str, int] = {}
        self.adopt(executable)

    def adopt(self, executable: Executable) -> None:
        """Run ``executable`` from now on, for which nothing is bound yet. Runs that are going on
        end as they began."""
        self.executable = executable
        self.programs = Programs(executable)

    def run(self, args: Sequence[Any]) -> list[Tensor]:
        """The outputs for the inputs ``args``, whatever they are; `dispatching` is for those that
        are as usual.

        Raises:
            InputError: Inputs that the model does not take.
            ExecutionError: Something was found wrong while it ran.
        """
        if self.instead is not None:
            return self.instead(args)
        tensors, shapes = self.arguments.accepted(args)
        program = self.programs[shapes]
        direct = program.direct
        if direct is None:
            return self._execute(program, tensors, ())[0]
        try:
            frame = program.free.pop()
        except IndexError:
            frame = program.new_frame()
        addresses = frame.addresses
        for x, slot in zip(tensors, program.inputs, strict=True):
            addresses[slot] = x.address
        outputs = Outputs()
        for slot, dtype, shape, nbytes in program.rows:
            made = host_tensor(dtype, shape, nbytes)
            addresses[slot] = made.address
            outputs.append(made)
        code = direct(frame.call)
        if code:
            program.settle(code, frame, [x.address for x in tensors])
        program.free.append(frame)
        return program.with_buffers(tensors, outputs) if program.has_buffers else outputs

    def run_into(self, into: Sequence[Tensor], args: Sequence[Any]) -> None:
        """Let the outputs for the inputs ``args`` be in the memory of ``into``.

        Kernels write them there themselves, unless that memory is also read as an input, or the
        model runs in stages or on a device: then they are copied.

        Raises:
            InputError: ML889, another number of outputs, or one of another dtype, shape or layout;
                and as `run`.
        """
        tensors, shapes = self.arguments.accepted(args)
        program = self.programs[shapes]
        rows, direct = program.rows, program.direct
        watched = self.instead is not None or program.has_buffers
        if direct is None or watched or not is_apart(into, tensors):
            made = self.run(args)
            require_fitting(self.name, into, [(x.dtype, x.shape) for x in made])
            for x, y in zip(into, made, strict=True):
                x.inplace_copy_from(y)
            return
        require_fitting(self.name, into, [(dtype, shape) for _, dtype, shape, _ in rows])
        try:
            frame = program.free.pop()
        except IndexError:
            frame = program.new_frame()
        addresses = frame.addresses
        for x, slot in zip(tensors, program.inputs, strict=True):
            addresses[slot] = x.address
        for (slot, _, _, _), x in zip(rows, into, strict=True):
            addresses[slot] = x.address
        code = direct(frame.call)
        if code:
            program.settle(code, frame, [x.address for x in tensors])
        program.free.append(frame)

    def run_observed(self, args: Sequence[Any], *observers: Observer) -> list[Tensor]:
        """The outputs; ``observers`` see every step."""
        tensors, shapes = self.arguments.accepted(args)
        return self._execute(self.programs[shapes], tensors, observers)[0]

    def programs_for(self, inputs: Sequence[Tensor]) -> list[Program]:
        """The programs of a run on ``inputs``, which is made when there are several."""
        program = self.programs[tuple(x.shape for x in inputs)]
        if program.is_last:
            return [program]
        with silent():  # the caller's buffers stay as they are
            return self._execute(program, self.arguments.copies(inputs), ())[1]

    def _execute(
        self, program: Program, tensors: Sequence[Tensor], observers: Observers
    ) -> tuple[Outputs, list[Program]]:
        """The outputs, and the programs that made them."""
        handles = program.executable.handles
        if handles is None:
            outputs, programs = execute(program, tensors, observers)
        else:
            with some_run(program.executable.runtime):
                outputs, programs = execute(program, tensors, observers)
                outputs = Outputs(handles.given(tensors, outputs))
        self.last = programs[-1].env
        return outputs, programs

    @contextmanager
    def replaced(self, run: Run) -> Iterator[None]:
        """Let every run be ``run(inputs)``, which gives outputs, while the ``with`` block lasts;
        but for runs that are observed."""
        before, self.instead = self.instead, run
        try:
            yield
        finally:
            self.instead = before

    # ------------------------------------------------------------ as observers see it
    @property
    def name(self) -> str:
        """The name of the graph."""
        return self.arguments.name

    @property
    def compiled(self) -> Any:
        """The graph, its kernels and its plan."""
        return self.executable.compiled

    @property
    def devices(self) -> dict[DeviceRef, Accelerator]:
        """The accelerators that it runs on, by the names that its graph has for them."""
        return self.executable.devices

    def wait(self) -> None:
        """Return when the devices have done all that they were given.

        Raises:
            ExecutionError: A kernel found something wrong in an earlier call.
        """
        self.executable.wait()


__all__ = ["Run", "Runner"]
