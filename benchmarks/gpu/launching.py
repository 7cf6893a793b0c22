"""The launches of a model, taken out of it so that they can be recorded, repeated and timed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from maxlab import engine
from maxlab.compiler.plan import GpuLaunch, LibraryCall, Step
from maxlab.driver import CPU, Accelerator, Tensor
from maxlab.driver.backend import Context, Function, Queue
from maxlab.dtype import DType
from maxlab.engine import Model
from maxlab.engine.observing import HostTimes, Observer
from maxlab.graph import Graph

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class _Kernel:
    function: Function
    launch: GpuLaunch
    call: LibraryCall | None
    words: tuple[int, ...]


class _Words(Observer):
    """Collects the words of every launch of one run."""

    def __init__(self) -> None:
        self.found: dict[int, tuple[int, ...]] = {}

    def begin(self, step: Step, context: Context, queue: Queue, words: Sequence[int]) -> None:
        """Keep the words of ``step``."""
        self.found[step.number] = tuple(words)

    def host(self, times: HostTimes) -> None:
        """Refuse: what the host does is no launch."""
        raise ValueError(f"{times.steps[0].id} runs on the host")


class Launches:
    """What a model gives to its device for some inputs: a `timing.Launch` over fixed memory.

    Args:
        model: its graph is on one device and its steps are kernels, without transfers.
        inputs: tensors there.

    Raises:
        ValueError: a step runs on the host or is a transfer.
    """

    def __init__(self, model: Model, inputs: Sequence[Tensor]) -> None:
        words = _Words()
        self.inputs = list(inputs)
        self.outputs = model.run_observed(self.inputs, words)
        model.wait()
        program = model.bind(tuple(tuple(int(d) for d in x.shape) for x in inputs))
        # Its memory for intermediate results is this run's for ever: nobody else gets the frame.
        self._frame = program.free.pop()
        if len(program.segments) != 1:
            raise ValueError("the model waits for the host or for another device")
        (device,) = model.devices.values()
        self.device: Accelerator = device
        self.context = device.context
        self.kernels = [
            _Kernel(k.function, k.launch, k.call, words.found[k.step.number])
            for k in program.segments[0].kernels
        ]

    def __len__(self) -> int:
        return len(self.kernels)

    @property
    def names(self) -> list[str]:
        """What is launched, in order."""
        return ["cuBLASLt" if k.call is not None else k.function.name for k in self.kernels]

    def __call__(self, queue: Queue) -> None:
        """Give all of it to ``queue``."""
        context = self.context
        for kernel in self.kernels:
            launch = kernel.launch
            if kernel.call is not None:
                blas = context.blas()
                assert blas is not None, "the plan chose it"
                places = zip(kernel.call.pointers, kernel.call.offsets, strict=True)
                c, a, b = (kernel.words[pointer] + offset for pointer, offset in places)
                blas.run(queue, kernel.call.product, c, a, b)
            elif 0 not in launch.grid:
                context.launch(
                    queue, kernel.function, launch.grid, launch.block, launch.shared, kernel.words
                )

    def results(self) -> list[Array]:
        """The outputs of a run over poisoned memory, so that what is not written shows."""
        queue = self.context.default_queue

        def run() -> None:
            for tensor in self.outputs:
                nbytes = tensor.num_elements * tensor.dtype.size_in_bytes
                self.context.fill(queue, tensor.address, 0xFF, nbytes)
            self(queue)
            queue.synchronize()

        self.context.call(run)
        return [down(tensor) for tensor in self.outputs]


def load(device: Accelerator, graph: Graph, weights: Any = None) -> Model:
    """The model of ``graph``, whose types name the device."""
    session = engine.InferenceSession(devices=[device])
    return session.load(graph, weights_registry=weights)


def up(device: Accelerator, array: Array) -> Tensor:
    """``array`` on the device; bfloat16 is ml_dtypes'."""
    return Tensor.from_numpy(np.ascontiguousarray(array)).to(device)


def down(tensor: Tensor) -> Array:
    """The elements of ``tensor``; bfloat16 as ml_dtypes' type."""
    here = tensor.to(CPU())
    if here.dtype is DType.bfloat16:
        return here.view(DType.uint16).to_numpy().view(here.dtype.ml_numpy)
    return here.to_numpy()
