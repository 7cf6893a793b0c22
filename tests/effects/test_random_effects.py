"""Random programs on buffers give what NumPy gives when their lines run in order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from maxlab import driver, engine
from maxlab.compiler import Options
from maxlab.dtype import DType
from maxlab.graph import BufferType, DeviceRef, Graph, TensorType, ops

Array = np.ndarray[Any, Any]
ROWS, COLUMNS, LINES = 6, 5, 16
KERNELS = """
// @op blend(x: float32[r, c], inout a: float32[r, c], inout b: float32[r, c]) -> (y: float32[r, c])
// @both
const f32 was = a[i];
a[i] = b[i] - x[i];
b[i] = was;
y[i] = was + x[i];
"""


class _Program:
    """A program that is written twice: as a graph, and as what NumPy computes."""

    def __init__(self, seed: int, place: DeviceRef) -> None:
        self.rng = np.random.default_rng(seed)
        self.place = place
        self.start = [self.numbers(ROWS, COLUMNS) for _ in range(3)]
        types: list[Any] = [BufferType(DType.float32, ["r", COLUMNS], place) for _ in range(2)]
        types.append(TensorType(DType.float32, ["r", COLUMNS], place))
        self.graph = Graph(f"random{seed}", input_types=types, custom_extensions=[KERNELS])

    def numbers(self, *shape: int) -> Array:
        return self.rng.integers(-8, 9, shape).astype(np.float32)

    def pick(self, count: int) -> int:
        return int(self.rng.integers(count))

    def write(self) -> None:
        """Write the graph, and what its buffers and outputs hold in the end."""
        graph, rng = self.graph, self.rng
        with graph:
            made = [graph.inputs[0].buffer, graph.inputs[1].buffer]
            made.append(ops.buffer_create(BufferType(DType.float32, made[0].shape, self.place)))
            held = [self.start[0].copy(), self.start[1].copy(), np.zeros_like(self.start[0])]
            values: list[tuple[Any, Array]] = [(graph.inputs[2].tensor, self.start[2])]
            for _ in range(LINES):
                which, kind = self.pick(3), self.pick(7)
                x, known = values[self.pick(len(values))]
                if kind == 0:
                    values.append((made[which][...], held[which].copy()))
                elif kind == 1:
                    made[which][...] = x
                    held[which][...] = known
                elif kind == 2:
                    row = self.pick(ROWS)
                    other = self.pick(ROWS)
                    made[which][row] = x[other]
                    held[which][row] = known[other]
                elif kind == 3:
                    a, b = sorted(rng.integers(0, COLUMNS + 1, 2).tolist())
                    made[which][:, a:b] = x[:, a:b] * 2
                    held[which][:, a:b] = known[:, a:b] * 2
                elif kind == 4:
                    y, also = values[self.pick(len(values))]
                    values.append(
                        (ops.max(x, axis=0) + ops.relu(y), known.max(0) + np.maximum(also, 0))
                    )
                elif kind == 5:
                    other = (which + 1) % 3
                    was = held[which].copy()
                    (y,) = ops.inplace_custom(
                        "blend", self.place, [x, made[which], made[other]], [x.type]
                    )
                    held[which][...] = held[other] - known
                    held[other][...] = was
                    values.append((y.tensor, was + known))
                else:
                    values.append((x - made[which][::-1], known - held[which][::-1]))
            self.held = held[:2]
            self.values = [known for _, known in values[-4:]] + [held[2]]
            graph.output(*[x for x, _ in values[-4:]], made[2])


@pytest.mark.parametrize("seed", range(8))
def test_lines_run_in_order(seed: int, place: DeviceRef) -> None:
    program = _Program(seed, place)
    program.write()
    devices: list[Any] = [driver.CPU()] if place.is_cpu() else [driver.Accelerator()]
    session = engine.InferenceSession(devices, num_threads=2)
    model = session.load(program.graph, options=Options(fuse=seed % 4 != 3))
    given = [driver.Tensor.from_numpy(x.copy()).to(devices[0]) for x in program.start]
    made = model(*given)
    for got, want in zip([*made, *given[:2]], [*program.values, *program.held], strict=True):
        np.testing.assert_array_equal(got.to(driver.CPU()).to_numpy(), want)
