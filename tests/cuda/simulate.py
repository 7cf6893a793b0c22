"""Runs functions as generated CUDA on the simulator: a schedule's groups, printed for a GPU."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from maxlab.compiler.axes import shape_of
from maxlab.compiler.codegen import cuda
from maxlab.compiler.lower import Lowered, Lowering
from maxlab.compiler.passes import PIPELINE
from maxlab.compiler.passes import run as run_passes
from maxlab.compiler.schedule import Group, Schedule
from maxlab.driver.sim import SimModule
from maxlab.dtype import DType
from maxlab.ir import Function, Value
from maxlab.ir.poly import ONE, ZERO, Poly
from maxlab.toolchain import kernels_dir

Array = np.ndarray[Any, Any]
BITS = {1: np.uint8, 2: np.uint16}


@dataclass
class Launch:
    """One kernel of a program, the values of its pointers, and the output it copies to, if any."""

    printed: cuda.CudaPrinted
    values: list[Value]
    written: list[bool]
    items: Poly
    columns: Poly
    output: int = -1


@dataclass
class Program:
    """A function as a list of launches."""

    function: Function
    schedule: Schedule
    launches: list[Launch] = field(default_factory=list)

    def __init__(self, function: Function) -> None:
        work = function.clone()
        run_passes(work, PIPELINE)
        self.function = work
        self.schedule = Schedule(work)
        self.launches = []
        for group in self.schedule.groups:
            self._add(group)

    def _add(self, group: Group) -> None:
        lowering = Lowering(self.schedule, group)
        if group.kind in ("col", "contract"):
            made = lowering.columns(group.main if group.kind == "contract" else None)
            items = made.kernel.inner.extent
            for axis in made.kernel.rows:
                items = items * axis.extent
            self._launch(group, made, cuda.print_columns(made.kernel), items)
        elif group.kind == "concat":
            assert group.main is not None
            offset, axis = ZERO, group.main.attrs["axis"] % len(group.domain)
            for operand in group.main.operands:
                part = Lowering(self.schedule, group).part(operand, axis, offset)
                self._rows(group, part)
                offset = offset + shape_of(operand)[axis]
        else:
            self._rows(group, lowering.rows())

    def _rows(self, group: Group, made: Lowered) -> None:
        printed = cuda.print_rows(made.kernel, made.kept)
        items = made.kernel.inner.extent if printed.flat else ONE
        for axis in made.kernel.rows:
            items = items * axis.extent
        self._launch(group, made, printed, items)

    def _launch(self, group: Group, made: Lowered, printed: cuda.CudaPrinted, items: Poly) -> None:
        written = [b.written for b in made.kernel.buffers]
        self.launches.append(
            Launch(printed, made.values, written, items, made.kernel.inner.extent, group.output)
        )

    # ------------------------------------------------------------ running
    def run(self, module: SimModule, inputs: Sequence[Array], env: dict[str, int]) -> list[Array]:
        """The outputs for ``inputs``; every launch is checked to report nothing."""
        memory: dict[Value, Array] = {}
        copies: dict[int, Array] = {}
        given = dict(zip(self.function.inputs, inputs, strict=True))
        for launch in self.launches:
            arrays = []
            for value, is_written in zip(launch.values, launch.written, strict=True):
                if is_written and launch.output >= 0:
                    made = self._allocate(value, env)
                    copies[launch.output] = made
                    arrays.append(made)
                    continue
                if value not in memory:
                    memory[value] = self._initial(value, given, env)
                arrays.append(memory[value])
            self._start(module, launch, arrays, env)
        output = self.function.output
        assert output is not None
        results = []
        for number, (value, direct) in enumerate(self.schedule.outputs):
            typed = output.operands[number].tensor_type
            shape = tuple(d.evaluate(env) for d in typed.shape)
            raw = memory[value] if direct else copies[number]
            results.append(raw.view(typed.dtype.ml_numpy).reshape(shape))
        return results

    def _start(
        self, module: SimModule, launch: Launch, arrays: list[Array], env: dict[str, int]
    ) -> None:
        items = launch.items.evaluate(env)
        if not items:
            return
        printed = launch.printed
        sizes = [env[name] for name in printed.symbols]
        fault = np.zeros(4, np.int64)
        shared = printed.kept * (-(-launch.columns.evaluate(env) * 8 // 128) * 128)
        grid = -(-items // cuda.THREADS) if printed.flat else items
        threads = cuda.THREADS if printed.flat else 64
        given: list[Any] = [*arrays, *sizes, items]
        # a kernel takes a null pointer where its rows fit into shared memory
        reports = module.launch(
            printed.symbol, min(grid, 64), threads, [*given, None, fault], shared
        )
        assert not reports, "\n".join(map(str, reports))
        if fault[0]:
            raise IndexError(f"check {fault[1]}: index {fault[2]} of {fault[3]}")

    def _allocate(self, value: Value, env: dict[str, int]) -> Array:
        count = 1
        for poly in shape_of(value):
            count *= poly.evaluate(env)
        dtype = value.tensor_type.dtype
        return _stored(np.zeros(max(count, 1), dtype.ml_numpy), dtype)[:count]

    def _initial(self, value: Value, given: dict[Value, Array], env: dict[str, int]) -> Array:
        dtype = value.tensor_type.dtype
        if value in given:
            return _stored(np.ascontiguousarray(given[value]).ravel(), dtype)
        if (
            value.op is not None
            and value.op.name == "mo.constant"
            and value not in self.schedule.laid_out
        ):
            return _stored(np.array(value.op.attrs["value"].array).ravel(), dtype)
        return self._allocate(value, env)


def _stored(array: Array, dtype: DType) -> Array:
    """``array`` as the elements that a kernel sees: halves and bools are integers."""
    if dtype in (DType.bool, DType.bfloat16, DType.float16):
        return array.view(BITS[array.itemsize])
    return array


def module_of(programs: Sequence[Program], *, check: bool = False) -> SimModule:
    """One module with the kernels of all ``programs``."""
    texts = {launch.printed.symbol: launch.printed.text for p in programs for launch in p.launches}
    prelude = (Path(kernels_dir()) / "cuda" / "prelude.cuh").read_text()
    return SimModule("\n".join([prelude, *texts.values()]), check=check)
