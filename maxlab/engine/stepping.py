"""A model run one step at a time, with the memory of every step to look at: `Walk`.

It is the run that ``Model.execute`` makes, by the same kernels on the same memory; only between two
steps somebody may look. What a step has read is still there when it has ended, because the plan
gives no step memory that it reads as memory to write.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from maxlab.compiler.plan import Step
from maxlab.engine.made_objects import Made
from maxlab.engine.model import Model
from maxlab.engine.poison import poisoned
from maxlab.engine.step_calls import DeviceCall, HostCall, call_of
from maxlab.engine.walk_memory import WalkMemory


class Walk:
    """One run of ``model`` on ``inputs``, a step at a time.

    Attributes:
        model: The model.
        env: The size of every symbolic dim.
        inputs: The inputs as tensors.
        outputs: What is there of the outputs; all of them behind the last step.
        memory: The slots, as arrays.

    Raises:
        InputError: Inputs that the model does not take.

    Example:
        >>> import numpy as np
        >>> from maxlab import engine
        >>> from maxlab.dtype import DType
        >>> from maxlab.graph import Graph, TensorType
        >>> with Graph("double", input_types=[TensorType(DType.float32, ["n"])]) as graph:
        ...     graph.output(graph.inputs[0].tensor * 2)
        >>> walk = Walk(engine.InferenceSession().load(graph), [np.ones(3, np.float32)])
        >>> for step in walk:
        ...     print(step.id, [walk.memory.array(slot) for slot in step.pointers])
        k0 [array([1., 1., 1.], dtype=float32), array([2., 2., 2.], dtype=float32)]
    """

    def __init__(self, model: Model, inputs: Sequence[Any]) -> None:
        self.model = model
        self.inputs = model.inputs_of(inputs)  # refuses wrong inputs
        self._made = Made(model.runtime)  # what it makes lives as long as it is looked at
        self._programs = model.programs_for(self.inputs)
        self.env: dict[str, int] = self._programs[-1].env
        self._frames, self.outputs = poisoned(self._programs, self.inputs)
        self.memory = WalkMemory(self._programs[-1], self._frames[-1])

    def __iter__(self) -> Iterator[Step]:
        """Each step, when it has run and all of its work has ended; of an op with regions the last
        one, when all of its turns have.

        Raises:
            ExecutionError: What the step found wrong, such as an index out of range.
        """
        for program, frame in zip(self._programs, self._frames, strict=True):
            for run, step in program.pieces():
                with self._made.taken():
                    run(frame, ())
                    program.executable.wait()
                for faults in frame.fault.values():
                    faults.check()
                yield step

    def call_of(self, step: Step) -> HostCall | DeviceCall | None:
        """How ``step`` is called for these sizes; None for a transfer or a vendor's library."""
        return call_of(self._programs, step)


__all__ = ["Walk"]
