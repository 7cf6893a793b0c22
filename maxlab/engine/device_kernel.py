"""A kernel of a GPU to look at and to take away: its CUDA, PTX and SASS, what it needs of a
multiprocessor, how it is launched, and a script that runs it alone.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from maxlab import files
from maxlab.compiler import Options
from maxlab.compiler.plan import GpuLaunch, Step
from maxlab.driver import Accelerator
from maxlab.driver.backend import DeviceSource
from maxlab.engine.kernel_view import KernelView, Shown
from maxlab.engine.launching import device_launch
from maxlab.errors import ArgumentError
from maxlab.ir import DeviceRef
from maxlab.toolchain import kernels_dir
from maxlab.toolchain.cuda import CudaFlags, CudaUnit, ResourceUsage, compile_cuda, ptx, sass

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Captured:
    """The memory of a kernel in one run: bytes of each pointer before and after it.

    ``after`` is None for pointers that the kernel only reads.
    """

    launch: GpuLaunch
    sizes: list[int]
    before: list[Array]
    after: list[Array | None]


class ShownOnDevices(Shown, Protocol):
    """A model on devices, as far as its kernels can be looked at and taken away."""

    @property
    def chosen(self) -> dict[int, int]:
        """By the number of a step, which of its kernels the last run took."""

    @property
    def devices(self) -> dict[DeviceRef, Accelerator]:
        """The accelerators that it runs on."""

    @property
    def name(self) -> str:
        """The name of its graph."""

    @property
    def options(self) -> Options:
        """The options that it was compiled with."""

    def capture(self, number: int, inputs: Sequence[Any]) -> Captured:
        """The memory of the step ``number`` in a run on ``inputs``."""


class DeviceKernelView(KernelView):
    """One kernel of a model on a GPU: ``model.kernels["k4"]``.

    A step may have several kernels, of which it takes one when the sizes are known; what is shown
    is the one of the last run, and before the first run the usual one. On a simulated device PTX,
    SASS and resources are those that the GPU it stands for would have; they need a CUDA compiler.

    Example:
        >>> from maxlab import driver, engine
        >>> from maxlab.dtype import DType
        >>> from maxlab.graph import DeviceRef, Graph, TensorType
        >>> type = TensorType(DType.float32, ["n"], DeviceRef.GPU())
        >>> with Graph("double", input_types=[type]) as graph:
        ...     graph.output(graph.inputs[0].tensor * 2)
        >>> with driver.simulated():
        ...     session = engine.InferenceSession(devices=[driver.Accelerator()])
        ...     kernel = session.load(graph).kernels["k0"]
        ...     kernel.launch(n=1_000_000).block, kernel.device
        ((256, 1, 1), 'gpu:0')
    """

    _model: ShownOnDevices

    def __init__(self, model: ShownOnDevices, step: Step) -> None:
        super().__init__(model, step)
        assert step.gpu is not None
        self._gpu = step.gpu
        self.device = str(step.device)

    @property
    def variant(self) -> int:
        """Which of the step's kernels the last run took; 0 before the first."""
        return self._model.chosen.get(self.step.number, 0)

    @property
    def cuda(self) -> str:
        """The same as ``source``, which is CUDA."""
        return self.source

    @property
    def headers(self) -> tuple[str, ...]:
        """The files of ``kernels/cuda`` that the text is read behind, ``mx_device.cuh`` first."""
        return ("mx_device.cuh", *self._gpu.printed(self.variant).headers)

    @property
    def architecture(self) -> str:
        """The architecture that it is compiled for, such as ``"sm_90a"``."""
        own = self._model.devices[self.step.device].architecture_name
        return f"{own}a" if own == "sm_90" else own

    @property
    def ptx(self) -> str:
        """The kernel as PTX, compiled now.

        Raises:
            ToolchainError: ML501, neither NVRTC nor nvcc was found.
        """
        return ptx(self._source(), self.architecture, flags=self._flags())

    @property
    def sass(self) -> str:
        """The machine instructions of the kernel.

        Raises:
            ToolchainError: ML501, no CUDA compiler, or no disassembler (cuobjdump or nvdisasm).
        """
        return sass(self._unit().cubin, self.symbol)

    @property
    def resources(self) -> ResourceUsage | None:
        """Registers of a thread, shared memory of a block and spills, as the compiler counted them;
        None if it did not say.

        Raises:
            ToolchainError: ML501, neither NVRTC nor nvcc was found.
        """
        return self._unit().usage

    def launch(self, **dims: int) -> GpuLaunch:
        """Grid, block and shared memory for these sizes of the symbolic dims.

        Raises:
            ArgumentError: ML655, the size of a dim is missing.
        """
        context = self._model.devices[self.step.device].context
        try:
            return device_launch(self._gpu.launch, dims, context.properties)
        except KeyError as error:
            raise ArgumentError(
                "ML655",
                f"the launch of {self.id} depends on the dim {error.args[0]!r}, which has no size "
                "here",
                fix=f"write kernel.launch({error.args[0]}=128)",
            ) from None

    def to_pycuda(self, path: Path | str, *inputs: Any) -> Path:
        """The path of a script that runs this kernel alone through PyCUDA, on the memory that it
        has when the model runs on ``inputs``, and compares what it writes.

        The script needs PyCUDA, NumPy and nvcc, and nothing of maxlab. The memory is in a file of
        the same name with the suffix ``.npz`` beside it. Both files are replaced whole.

        Args:
            path: Where to write it; a folder that exists.
            *inputs: As for ``Model.execute``.

        Raises:
            InputError: Inputs that the model does not take.
            FileError: ML001, one of the files is there and is no regular file; ML003, one of them
                cannot be written.
        """
        data = files.beside(path, ".npz", "the script")
        captured = self._model.capture(self.step.number, inputs)
        arrays = {f"before{n}": a for n, a in enumerate(captured.before)}
        arrays |= {f"after{n}": a for n, a in enumerate(captured.after) if a is not None}
        with files.replacing(data, "the memory of the kernel") as file:
            np.savez_compressed(file, **arrays)  # type: ignore[arg-type]  # names are arguments
        return files.write_text(path, self._script(captured, data.name), "the script")

    # ---------------------------------------------------------------- inside
    def _source(self) -> DeviceSource:
        printed = self._gpu.printed(self.variant)
        accuracy = self._model.options.accuracy
        return DeviceSource(printed.symbol, printed.text, printed.headers, accuracy)

    def _unit(self) -> CudaUnit:
        return compile_cuda([self._source()], self.architecture, flags=self._flags())[0]

    def _flags(self) -> CudaFlags:
        return CudaFlags(accuracy=self._model.options.accuracy)

    def _script(self, captured: Captured, data: str) -> str:
        folder = kernels_dir() / "cuda"
        text = "\n".join([(folder / name).read_text("utf-8") for name in self.headers])
        text = text.replace("#pragma once\n", "") + "\n" + self.source
        slots = self._model.compiled.plan.slots
        kinds = [slots[n].dtype.name for n in self.step.pointers]
        return _SCRIPT.format(
            what=quoted(f"{self.id} ({self.name}) of the graph {self._model.name}"),
            nodes=quoted(textwrap.fill(", ".join(self.nodes) or "none", 96)),
            text=quoted(text),
            symbol=self.symbol,
            data=ascii(data),
            arch=self.architecture,
            kinds=kinds,
            sizes=captured.sizes,
            grid=captured.launch.grid,
            block=captured.launch.block,
            shared=captured.launch.shared,
            spill=captured.launch.own or captured.launch.spill,
        )


def quoted(text: str) -> str:
    """``text`` as it stands between three double quotes in a script: it ends them nowhere.

    Example:
        >>> text = 'ends ' + 3 * '"' + " here"
        >>> eval(3 * '"' + quoted(text) + 3 * '"') == text
        True
    """
    text = text.replace("\\", "\\\\").replace('"""', r"\"\"\"")
    if text.endswith('"'):
        text = text[:-1] + r"\""
    return "".join(c if c in "\n\t" or c.isprintable() else ascii(c)[1:-1] for c in text)


_SCRIPT = '''\
"""Runs one kernel through PyCUDA: {what}.

Ops of the graph that it computes:
{nodes}
"""

import os

import numpy as np
import pycuda.autoprimaryctx  # makes a context
import pycuda.driver as cuda
from pycuda.compiler import SourceModule

TEXT = """
{text}
"""
SYMBOL = "{symbol}"
KINDS = {kinds}  # what each pointer holds
SIZES = {sizes}  # the other arguments: sizes, then the number of items
GRID, BLOCK, SHARED, SPILL = {grid}, {block}, {shared}, {spill}


def numbers(data: np.ndarray, kind: str) -> np.ndarray:
    """The bytes ``data`` as numbers."""
    if kind == "bfloat16":
        return (data.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
    return data.view({{"bool": np.uint8}}.get(kind, kind))


with np.load(os.path.join(os.path.dirname(os.path.abspath(__file__)), {data})) as file:
    memory = dict(file)
module = SourceModule(TEXT, arch="{arch}", no_extern_c=True)
kernel = module.get_function(SYMBOL)
if SHARED > 48 << 10:
    kernel.set_attribute(cuda.function_attribute.MAX_DYNAMIC_SHARED_SIZE_BYTES, SHARED)
pointers = []
for n in range(len(KINDS)):
    before = memory[f"before{{n}}"]
    pointers.append(cuda.mem_alloc(max(before.nbytes, 1)))
    cuda.memcpy_htod(pointers[-1], before)
spill = np.uint64(0)
if SPILL:  # what blocks count in it begins at zero
    spill = cuda.mem_alloc(SPILL)
    cuda.memset_d8(spill, 0, SPILL)
fault = cuda.mem_alloc(4096)  # what the kernel finds wrong, and a log that has no room
cuda.memset_d8(fault, 0, 4096)
arguments = [*pointers, *(np.int64(n) for n in SIZES), spill, fault]

start, end = cuda.Event(), cuda.Event()
start.record()
kernel(*arguments, block=BLOCK, grid=GRID, shared=SHARED)
end.record()
end.synchronize()
print(f"{{SYMBOL}}: {{start.time_till(end) * 1e3:.1f}} µs, the first launch included")

for n, kind in enumerate(KINDS):
    if f"after{{n}}" in memory:
        want = memory[f"after{{n}}"]
        got = np.empty_like(want)
        cuda.memcpy_dtoh(got, pointers[n])
        a, b = numbers(got, kind), numbers(want, kind)
        far = np.abs(a.astype(np.float64) - b).max(initial=0)
        print(f"pointer {{n}} ({{kind}}, {{a.size}} elements): largest difference {{far:.3g}}")
'''
