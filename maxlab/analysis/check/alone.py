"""One kernel by itself: its text, and the memory and numbers it is called with: `Alone`.

A kernel that was caught in a model is run again on the memory that it had there, as it is or with
another text: with lines added that write its intermediate values down, or mended. It can be put
into a file and run where there is no graph.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from maxlab import files
from maxlab.compiler.plan import Step
from maxlab.driver import Accelerator
from maxlab.driver.backend import DeviceSource
from maxlab.driver.mapped import LOST
from maxlab.dtype import DType
from maxlab.engine.poison import POISON
from maxlab.engine.step_calls import DeviceCall, HostCall
from maxlab.engine.stepping import Walk
from maxlab.errors import ArgumentError, DocumentError
from maxlab.toolchain import Flags, KernelSource, compile_units, runtime
from maxlab.toolchain.cffi_abi import ffi
from maxlab.toolchain.interrupts import STOPPED, raised
from maxlab.zipped import Zipped, array_of

Array = np.ndarray[Any, Any]
ALIGNMENT = 64
GUARD = 64
"""Bytes kept behind each buffer that is written, to see a kernel that writes beyond its end."""
GUARD_BYTE = 0xA7


@dataclass(slots=True)
class Alone:
    """One kernel and what it is called with.

    Attributes:
        symbol: The name of its function.
        text: Its C or CUDA.
        memory: The bytes behind each of its pointers, as they were before it ran.
        written: For each pointer, whether the kernel writes to it.
        kinds: The dtype of each pointer, by its name.
        numbers: For C ``dims``, ``extent``, ``grain``, ``scratch``, ``threads`` and
            ``accuracy``; for CUDA ``tail``, ``grid``, ``block``, ``shared``, ``spill`` and
            ``own``.
        headers: Files that CUDA text is read behind; None for C.
        device: The GPU that runs it; any one when left out.
    """

    symbol: str
    text: str
    memory: list[Array]
    written: list[bool]
    kinds: list[str]
    numbers: dict[str, Any]
    headers: tuple[str, ...] | None = None
    device: Accelerator | None = field(default=None, repr=False)

    @classmethod
    def of(cls, walk: Walk, step: Step, written: set[int]) -> Alone | None:
        """``step`` of a walk, which has just run; None for transfers and kernels of a library.

        Args:
            walk: The walk.
            step: The step that ran last.
            written: The slots that it writes. Their memory is not taken: no kernel reads what it
                writes before it has written it.
        """
        printed = walk.model.printed(step)
        call = walk.call_of(step)
        if printed is None or call is None:
            return None
        slots = walk.model.compiled.plan.slots
        memory, kinds = [], []
        for number in step.pointers:
            if number in written:
                memory.append(np.full(walk.memory.nbytes(number), POISON, np.uint8))
            else:
                memory.append(np.array(walk.memory.bytes_of(number)))
            kinds.append(slots[number].dtype.name)
        marks = [number in written for number in step.pointers]
        if isinstance(call, HostCall):
            numbers: dict[str, Any] = {
                "dims": list(call.dims),
                "extent": call.extent,
                "grain": call.grain,
                "scratch": call.scratch,
                "threads": walk.model.num_threads,
                "accuracy": walk.model.options.accuracy,
            }
            return cls(printed.symbol, printed.text, memory, marks, kinds, numbers)
        return cls._of_device(printed, memory, marks, kinds, call)

    @classmethod
    def _of_device(
        cls,
        printed: Any,
        memory: list[Array],
        marks: list[bool],
        kinds: list[str],
        call: DeviceCall,
    ) -> Alone:
        launch = call.launch
        numbers = {
            "tail": list(call.tail),
            "grid": list(launch.grid),
            "block": list(launch.block),
            "shared": launch.shared,
            "spill": launch.spill,
            "own": launch.own,
        }
        return cls(
            printed.symbol,
            printed.text,
            memory,
            marks,
            kinds,
            numbers,
            printed.headers,
            call.device,
        )

    @property
    def simulated(self) -> bool:
        """Whether it ran on a GPU that is simulated."""
        return self.device is not None and self.device.simulated

    # ---------------------------------------------------------------- running
    def run(self, text: str | None = None, extra: Array | None = None) -> list[Array | None]:
        """The bytes of each pointer that the kernel writes, after it has run; None for the others.

        Args:
            text: Another text for the kernel, with the same function; its own when left out.
            extra: Memory for one more pointer: the last of ``b`` in C, the parameter behind the
                others in CUDA. It is written in place.

        Raises:
            ToolchainError: A compiler refused the text.
            ExecutionError: The kernel found something wrong, such as an index out of range, or a
                checking simulator did.
            ArgumentError: ML660, the kernel wrote beyond the end of its memory.
        """
        text = self.text if text is None else text
        return self._run_c(text, extra) if self.headers is None else self._run_cuda(text, extra)

    def _run_c(self, text: str, extra: Array | None) -> list[Array | None]:
        library = runtime()
        if "ctx->lib->" in text:
            _ = library.products  # loads what the text calls
        flags = Flags(accuracy=self.numbers.get("accuracy", "default"))
        (loaded,) = compile_units([KernelSource(self.symbol, text)], flags=flags)
        blocks = [_block(data, mark) for data, mark in zip(self.memory, self.written, strict=True)]
        table = [block.ctypes.data for block in blocks]
        if extra is not None:
            table.append(extra.ctypes.data)
        numbers = self.numbers
        step = ffi.new(
            "mx_step[]",
            [(ffi.cast("mx_fn", loaded.address), 0, 1, numbers["extent"], numbers["grain"], 0)],
        )
        pointers = ffi.new("uintptr_t[]", table or [0])
        info = ffi.new("i64[6]")
        code = library.lib.mx_execute(
            library.team(numbers["threads"]),
            step,
            1,
            ffi.cast("void **", pointers),
            ffi.new("i64[]", [0, *numbers["dims"]]),  # 0: it has no log
            ffi.NULL,
            0,
            ffi.NULL,
            max(numbers["scratch"], 64),
            ffi.NULL,
            info,
        )
        code &= ~LOST  # its memory is a copy: lost files of the process do not matter
        if code == STOPPED:
            raise raised()
        if code:
            raise ArgumentError(
                "ML660",
                f"the kernel {self.symbol} gave up with the code {int(info[1])}",
                fix="look at the indices that it reads",
            )
        return [
            self._checked(block, data.nbytes) if mark else None
            for block, data, mark in zip(blocks, self.memory, self.written, strict=True)
        ]

    def _checked(self, block: Array, nbytes: int) -> Array:
        if (block[nbytes:] != GUARD_BYTE).any():
            raise ArgumentError(
                "ML660",
                f"the kernel {self.symbol} wrote beyond the end of its memory",
                fix="look at the bounds of its loops and the indices of its stores",
            )
        return block[:nbytes]

    def _run_cuda(self, text: str, extra: Array | None) -> list[Array | None]:
        device = self.device or Accelerator()
        context, queue = device.context, device.default_stream.queue
        assert self.headers is not None
        (loaded,) = context.load([DeviceSource(self.symbol, text, self.headers)])
        numbers = self.numbers
        held: list[int] = []

        def place(nbytes: int) -> int:
            address = context.allocate(max(nbytes, 1))
            held.append(address)
            return address

        def work() -> list[Array | None]:
            try:
                words = []
                for data, mark in zip(self.memory, self.written, strict=True):
                    block = _block(data, mark)
                    words.append(place(block.nbytes))
                    context.upload(queue, words[-1], block.ctypes.data, block.nbytes)
                mine = words[: len(self.memory)]
                words += numbers["tail"]
                own = max(numbers["own"], numbers["spill"])
                words.append(place(own) if own else 0)
                if own:
                    context.fill(queue, words[-1], 0, own)
                words.append(place(4096))
                context.fill(queue, words[-1], 0, 4096)
                if extra is not None:
                    words.append(place(extra.nbytes))
                    context.upload(queue, words[-1], extra.ctypes.data, extra.nbytes)
                grid, block_ = tuple(numbers["grid"]), tuple(numbers["block"])
                if 0 not in grid:
                    context.launch(queue, loaded.function, grid, block_, numbers["shared"], words)
                queue.synchronize()
                if extra is not None:
                    context.download(queue, extra.ctypes.data, words[-1], extra.nbytes)
                found: list[Array | None] = []
                for address, data, mark in zip(mine, self.memory, self.written, strict=True):
                    made = np.empty(data.nbytes + GUARD if mark else 0, np.uint8)
                    if mark:
                        context.download(queue, made.ctypes.data, address, made.nbytes)
                    found.append(self._checked(made, data.nbytes) if mark else None)
                return found
            finally:
                for address in held:
                    context.release(address)

        return context.call(work)

    def numbers_of(self, pointer: int, data: Array) -> Array:
        """The bytes ``data`` of a pointer as numbers of its dtype, flat."""
        made: Array = data.reshape(-1).view(DType[self.kinds[pointer]].ml_numpy)
        return made

    def distance(self, pointer: int, got: Array, want: Array) -> float:
        """The largest difference of the bytes that a pointer has and should have, as numbers; NaN
        and infinities that differ are infinitely far."""
        x, y = (self.numbers_of(pointer, data).astype(np.float64) for data in (got, want))
        with np.errstate(invalid="ignore"):
            apart = np.where((x == y) | (np.isnan(x) & np.isnan(y)), 0.0, np.abs(x - y))
        return float(np.where(np.isnan(apart), np.inf, apart).max(initial=0.0))

    # ---------------------------------------------------------------- files
    def save(self, path: files.AnyPath, *, compress: bool = True, **more: Array) -> None:
        """Write the kernel's memory and numbers to the ``.npz`` file ``path``, with arrays more.

        Raises:
            FileError: ML001, ``path`` is there and is no regular file; ML003, it cannot be written.
        """
        arrays: dict[str, Any] = {f"memory{n}": a for n, a in enumerate(self.memory)}
        facts = {
            "symbol": self.symbol,
            "written": self.written,
            "kinds": self.kinds,
            "numbers": self.numbers,
            "headers": self.headers,
        }
        arrays["facts"] = np.frombuffer(json.dumps(facts).encode(), np.uint8)
        write = np.savez_compressed if compress else np.savez
        with files.replacing(path, "the memory of the kernel") as file:
            write(file, **(arrays | more))

    @classmethod
    def load(cls, path: files.AnyPath, text: str) -> Alone:
        """The kernel that `save` wrote to ``path``, with its text.

        Raises:
            FileError: ML001, ``path`` is no regular file; ML002, it cannot be read.
            DocumentError: ML853, it is none of a kernel.
        """
        with files.open_regular(path, "the memory of the kernel") as file:
            try:
                parts = Zipped(file)
                facts = json.loads(array_of("facts", parts.read("facts.npy"), "|u1").tobytes())
                names = [f"memory{n}" for n in range(len(facts["kinds"]))]
                memory = [array_of(n, parts.read(f"{n}.npy"), "|u1").reshape(-1) for n in names]
                headers = None if facts["headers"] is None else tuple(map(str, facts["headers"]))
                return cls(
                    str(facts["symbol"]),
                    text,
                    memory,
                    [bool(mark) for mark in facts["written"]],
                    [str(kind) for kind in facts["kinds"]],
                    dict(facts["numbers"]),
                    headers,
                )
            except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
                raise DocumentError(
                    "ML853",
                    f"{os.fspath(path)} is no kernel that was saved: "
                    f"{str(error) or type(error).__name__}",
                    fix="pass the .npz file that comparison.repro wrote beside its script",
                ) from error


def _block(data: Array, written: bool) -> Array:
    """A copy of ``data`` that is aligned, with a guard behind it where a kernel writes."""
    nbytes = data.nbytes + (GUARD if written else 0)
    raw = np.empty(nbytes + ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % ALIGNMENT
    block = raw[start : start + nbytes]
    block[: data.nbytes] = data.reshape(-1).view(np.uint8)
    block[data.nbytes :] = GUARD_BYTE
    return block


__all__ = ["Alone"]
