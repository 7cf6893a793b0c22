"""Ops that go along an axis and keep what they passed: running sums."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from maxlab.dtype import DType
from maxlab.errors import DTypeError
from maxlab.ir import Poly, TensorType, Type
from maxlab.ir.poly import ONE
from maxlab.opset.attributes import BOOL, INT
from maxlab.opset.core import Array, Attrs, Call, Cost, Sample, define, elements
from maxlab.opset.facts import foreign_names
from maxlab.opset.kernel import Site
from maxlab.opset.kernel_files import OwnKernel
from maxlab.opset.rules import axis_of

THREADS = 256
TILE = 8 * THREADS
"""Elements that a block of a GPU takes at once."""
SIDE = 64
"""Columns that a thread of a CPU goes along side by side."""
PIECES = 32
"""Into how many pieces a long row is cut, where there are too few rows to share."""
LONG_ROW = 1 << 16
"""Elements of a row that is worth it."""
MANY_ROWS = 256
"""Rows of which any machine has enough; for GPUs it is blocks that go through them."""
MANY_ROWS_OF_BLOCKS = 512


def _infer(types: Sequence[TensorType], attrs: Attrs) -> list[Type]:
    (x,) = types
    axis_of(attrs["axis"], x.rank, "cumsum")
    if x.dtype is DType.bool:
        raise DTypeError(
            "ML106", "cumsum needs numbers, got bool", fix="cast it: ops.cast(x, DType.int32)"
        )
    return [x]


def _reference(call: Call, x: Array) -> Array:
    axis = call.attrs["axis"]
    wide = x.astype(np.float64) if x.dtype.kind not in "iu" else x
    if call.attrs["reverse"]:
        wide = np.flip(wide, axis)
    with np.errstate(over="ignore"):
        total = np.cumsum(wide, axis=axis, dtype=wide.dtype)
    if call.attrs["exclusive"]:
        total = np.roll(total, 1, axis)
        first = [slice(None)] * total.ndim
        first[axis] = slice(0, 1)
        total[tuple(first)] = 0
    return np.flip(total, axis) if call.attrs["reverse"] else total


def _kernel(at: Site) -> None:
    sizes = at.operands[0].type.sizes
    axis = axis_of(at.attrs["axis"], len(sizes), "cumsum")
    outer, inner, depth = ONE, ONE, sizes[axis]
    for size in sizes[:axis]:
        outer = outer * size
    for size in sizes[axis + 1 :]:
        inner = inner * size
    if inner != ONE:
        columns = {"N": depth, "M": inner, "outer": outer}
        if at.target == "cuda":
            OwnKernel(at, "scan.cu", "cumsum_columns_gpu", dims=columns, **_ways(at)).write()
        else:
            more = {"SIDE": SIDE, "LEFT": SIDE - 1, "QUARTER": SIDE // 4, **_ways(at)}
            OwnKernel(at, "scan.c", "cumsum_columns", dims=columns, **more).write()
    elif at.target == "cuda":
        _rows_of_blocks(at, {"N": depth, "rows": outer})
    else:
        _rows_of_threads(at, {"N": depth, "rows": outer})


def _ways(at: Site) -> dict[str, Any]:
    return {"EXCLUSIVE": at.attrs["exclusive"], "REVERSE": at.attrs["reverse"]}


def _fits(dims: Mapping[str, Poly], most: int, long: int) -> bool:
    """Whether it is known that no row is worth sharing."""
    outer, depth = dims["rows"], dims["N"]
    return (depth.is_constant and depth.value < long) or (outer.is_constant and outer.value >= most)


def _pieces(dtype: DType) -> dict[str, Any]:
    """How long rows are cut; halves have sums of float32."""
    kept = DType.float32 if dtype in (DType.float16, DType.bfloat16) else dtype
    return {"PIECES": PIECES, "LEFT": PIECES - 1, "LONG": LONG_ROW, "KEPT": kept}


def _rows_of_threads(at: Site, dims: Mapping[str, Poly]) -> None:
    dtype = at.operands[0].dtype
    if _fits(dims, MANY_ROWS, LONG_ROW):
        OwnKernel(at, "scan.c", "cumsum_rows", dims=dims, **_ways(at)).write()
        return
    # Two threads together read and write memory hardly faster than one, and would read it twice.
    least = 3 if dtype.size_in_bytes == 8 and dtype.is_integral() else 2
    more = {"LEAST": least, **_ways(at), **_pieces(dtype)}
    kernel = OwnKernel(at, "scan.c", "cumsum_pieces", dims=dims, **more)
    kernel.part("sums")
    kernel.part("along", name="")


def _rows_of_blocks(at: Site, dims: Mapping[str, Poly]) -> None:
    room = TILE + TILE // 32
    more = {
        "THREADS": THREADS, "TILE": TILE, "EACH": TILE // THREADS, "LAST": THREADS - 1,
        "SUMS": room, "BYTES": (room + THREADS) * 8, **_ways(at),
    }  # fmt: skip
    if _fits(dims, MANY_ROWS_OF_BLOCKS, LONG_ROW):
        OwnKernel(at, "scan.cu", "cumsum_rows_gpu", dims=dims, **more).write()
        return
    more |= {"ENOUGH": MANY_ROWS_OF_BLOCKS, **_pieces(at.operands[0].dtype)}
    kernel = OwnKernel(at, "scan.cu", "cumsum_pieces_gpu", dims=dims, **more)
    kernel.part("sums")
    kernel.part("along", name="")


def _samples() -> list[Sample]:
    rng = np.random.default_rng(5)
    x = rng.standard_normal((3, 5, 70)).astype(np.float32)
    plain = {"exclusive": False, "reverse": False}
    found = [
        Sample((x,), {"axis": -1, **plain}, (("a", "b", "c"),), "last"),
        Sample((x,), {"axis": 1, **plain}, (("a", "b", "c"),), "middle"),
        Sample((x,), {"axis": 0, "exclusive": True, "reverse": False}, label="exclusive"),
        Sample((x,), {"axis": 2, "exclusive": False, "reverse": True}, label="reverse"),
        Sample((x,), {"axis": 1, "exclusive": True, "reverse": True}, label="both"),
        Sample((x.astype(np.float64),), {"axis": -1, **plain}, label="f64"),
        Sample((x.astype(np.float16),), {"axis": -1, **plain}, label="f16"),
        Sample((x.astype(DType.bfloat16.ml_numpy),), {"axis": 0, **plain}, label="bf16"),
        Sample((np.zeros((2, 0), np.float32),), {"axis": 1, **plain}, label="empty"),
        Sample(
            (rng.standard_normal((2, 1300)).astype(np.float32),), {"axis": 1, **plain}, label="long"
        ),
    ]
    long = rng.standard_normal((1, LONG_ROW + 7)).astype(np.float32)
    for label, exclusive, reverse in (("pieces", False, False), ("pieces back", True, True)):
        attrs = {"axis": 1, "exclusive": exclusive, "reverse": reverse}
        found.append(Sample((long,), attrs, (("a", "b"),), label))
    wide = rng.integers(0, 100, (1, LONG_ROW)).astype(np.uint8)
    found.append(Sample((wide,), {"axis": 1, **plain}, label="pieces uint8"))
    for kind in ("int8", "uint8", "int16", "int32", "uint32", "int64", "uint64"):
        numbers = rng.integers(0, 100, (4, 300)).astype(kind)
        found.append(Sample((numbers,), {"axis": 1, **plain}, label=kind))
    return found


define(
    "cumsum",
    "kernel",
    "scan",
    "The running sum along an axis; integers wrap.",
    attrs={"axis": INT, "exclusive": BOOL, "reverse": BOOL},
    foreign=foreign_names("cumsum", "CumSum"),
    infer=_infer,
    reference=_reference,
    kernel=_kernel,
    cost=lambda operands, results, attrs: Cost(elements(operands[0]) * Poly.constant(1)),
    samples=_samples,
    terms=lambda arrays, attrs: arrays[0].shape[attrs["axis"]],
)
