"""Recorded launches: CUDA graphs, by the driver's own functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from maxlab.driver.backend import Queue
from maxlab.driver.cuda.libcuda import CAPTURE_RELAXED, graph_functions
from maxlab.driver.cuda.opened import Opened
from maxlab.driver.cuda.queues import CudaQueue
from maxlab.toolchain.cffi_abi import ffi


class CudaRecording:
    """An instantiated graph: a launch of it costs the host what one kernel costs."""

    __slots__ = ("_context", "_executable", "_key", "_names", "_workspace")

    def __init__(self, context: Opened, executable: Any, queue: CudaQueue) -> None:
        self._context = context
        self._executable = executable
        self._names = queue.suspects()
        # The recorded work uses it for ever.
        self._workspace, queue.workspace = queue.workspace, 0
        self._key = context.next_serial()
        context.keep_executable(self._key, executable)

    def launch(self, queue: Queue) -> None:
        """Give all that was recorded to ``queue``.

        Raises:
            DeviceError: ML445, the device was lost.
        """
        assert isinstance(queue, CudaQueue), "queues of one backend are not those of another"
        functions = graph_functions()
        assert functions is not None, "a recording was made by them"
        self._context.counters.replays += 1
        status = functions.cuGraphLaunch(self._executable, queue.pointer)
        self._context.check(status, "cuGraphLaunch")
        for name in self._names:
            queue.launched(name)

    @staticmethod
    def destroy(executable: Any) -> None:
        """Give an instantiated graph back; a failure changes nothing for anybody."""
        functions = graph_functions()
        assert functions is not None, "a recording was made by them"
        functions.cuGraphExecDestroy(executable)

    def __del__(self) -> None:
        self._context.drop_executable(self._key, self._workspace)


def record(
    context: Opened, queue: CudaQueue, work: Callable[[Queue], None]
) -> CudaRecording | None:
    """The work that ``work`` gives to ``queue``, recorded instead of run; None if the driver cannot
    record.

    Raises:
        DeviceError: ML443, the work waited for something, which no recording can.
    """
    functions = graph_functions()
    if functions is None:
        return None
    status = functions.cuStreamBeginCapture_v2(queue.pointer, CAPTURE_RELAXED)
    context.check(status, "cuStreamBeginCapture")
    graph = ffi.new("void **")
    try:
        work(queue)
    except BaseException:
        functions.cuStreamEndCapture(queue.pointer, graph)
        if graph[0] != ffi.NULL:
            functions.cuGraphDestroy(graph[0])
        raise
    context.check(functions.cuStreamEndCapture(queue.pointer, graph), "cuStreamEndCapture")
    executable = ffi.new("void **")
    status = functions.cuGraphInstantiateWithFlags(executable, graph[0], 0)
    functions.cuGraphDestroy(graph[0])
    context.check(status, "cuGraphInstantiate")
    return CudaRecording(context, executable[0], queue)
