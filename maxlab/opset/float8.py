"""Products with transposed matrices of 8-bit floats that have scales: one for each block of rows
and columns. Weights stay bytes in memory, and sums are float32.

``matmul_float8`` has one matrix; ``matmul_float8_ragged`` several, of which each takes some of the
left rows, as experts do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from maxlab.dtype import DType
from maxlab.errors import ArgumentError, ArgumentTypeError, ShapeError
from maxlab.ir import Dim, Poly, Shape, StaticDim, TensorType, Type
from maxlab.ir.poly import ONE
from maxlab.opset.attributes import INT
from maxlab.opset.core import Array, Attrs, Call, Check, Cost, Sample, define, elements
from maxlab.opset.kernel import Site
from maxlab.opset.kernel_files import OwnKernel
from maxlab.opset.quantized import WARPS, same_size
from maxlab.opset.rules import same_device

HEADER = "ops/float8.cuh"
CODES = {DType.float8_e4m3fn: (0, 7), DType.float8_e4m3fnuz: (1, 8)}
"""The dtypes of weights: their numbers in ``kernels/c/mx_abi.h``, and what exponents are off by."""
ROWS = 32
"""Rows of weights that a thread of the CPU takes at once: ``MX_NR``."""
SCRATCH = 4 * (2 * ROWS * 512 + 128 * ROWS)
"""Bytes that it needs then: ``mx_float8_scratch()``."""


# ---------------------------------------------------------------- rules
def _require(what: str, types: Sequence[TensorType], attrs: Attrs) -> None:
    """Raises unless ``types`` are left rows, weights ``[n, k]`` or ``[experts, n, k]`` and scales.

    Raises:
        ArgumentTypeError: ML738, other dtypes.
        ShapeError: ML739, other ranks; ML741, sizes that do not fit.
        ArgumentError: ML737, blocks of fewer than no rows; ML304, several devices.
    """
    x, w, scales = types[:3]
    same_device(what, types)
    if x.dtype is not DType.float32 or w.dtype not in CODES or scales.dtype is not DType.float32:
        raise ArgumentTypeError(
            "ML738",
            f"{what}: expected float32, {' or '.join(d.name for d in CODES)}, and float32, got "
            f"{x.dtype.name}, {w.dtype.name} and {scales.dtype.name}",
            fix="cast the left operand and the scales: ops.cast(x, DType.float32)",
        )
    if not x.rank or w.rank != scales.rank:
        raise ShapeError(
            "ML739",
            f"{what}: operands of rank {x.rank}, {w.rank} and {scales.rank}; weights and scales "
            "must have one rank",
            fix="weights are [n, k], with scales for blocks of rows and columns",
        )
    down, across = attrs["rows"], attrs["columns"]
    if down < 0 or across < 0:
        raise ArgumentError(
            "ML737",
            f"{what}: there are no blocks of {down} rows and {across} columns",
            fix="pass the size of a block, or 0 for all rows, or all columns",
        )
    wanted = [*w.shape[:-2], _count(w.shape[-2], down), _count(w.shape[-1], across)]
    pairs = [(x.shape[-1], w.shape[-1]), *zip(scales.shape, wanted, strict=True)]
    if any(isinstance(a, StaticDim) and isinstance(b, StaticDim) and a != b for a, b in pairs):
        shapes = ", ".join(f"[{', '.join(map(str, t.shape))}]" for t in (x, w, scales))
        raise ShapeError(
            "ML741",
            f"{what}: {shapes} do not fit: weights are [n, {x.shape[-1]}], their scales "
            f"[{', '.join(map(str, wanted))}]",
            fix=f"there is a scale for {down or 'all'} rows and {across or 'all'} columns",
        )


def _count(size: Dim, block: int) -> Dim:
    """How many blocks ``size`` rows or columns are; the last one may be smaller."""
    return (size + (block - 1)) // block if block else Dim(1)


def _checks(operands: Sequence[TensorType], results: Sequence[Type], attrs: Attrs) -> list[Check]:
    x, w, scales = operands[:3]
    found = same_size(x.shape[-1].poly, w.shape[-1].poly, "matmul_float8: the inner dims differ")
    wanted = (_count(w.shape[-2], attrs["rows"]), _count(w.shape[-1], attrs["columns"]))
    for have, want in zip(scales.shape[-2:], wanted, strict=True):
        text = "matmul_float8: there are not as many scales as blocks"
        found += same_size(have.poly, want.poly, text)
    if w.rank == 3:
        text = "matmul_float8_ragged: there are not as many scales as matrices"
        found += same_size(scales.shape[0].poly, w.shape[0].poly, text)
        starts, ids = operands[3].shape[0].poly, operands[4].shape[0].poly + ONE
        text = "matmul_float8_ragged: there is not one start more than groups"
        found += same_size(starts, ids, text)
    return found


def _cost(operands: Sequence[TensorType], results: Sequence[Type], attrs: Attrs) -> Cost:
    return Cost(elements(results[0]) * operands[0].shape[-1].poly * Poly.constant(2))


def _write(at: Site, name: str, dims: Mapping[str, Poly], rows: Poly) -> None:
    """Writes the kernel ``name``; ``rows`` are the left ones."""
    w, scales = at.operands[1], at.operands[2].type.sizes
    n, k = w.type.sizes[-2:]
    kind, off = CODES[w.dtype]
    blocks = (at.attrs[side] for side in ("rows", "columns"))
    down, across = (
        Poly.constant(size) if size else whole for size, whole in zip(blocks, (n, k), strict=True)
    )
    at.header(HEADER)
    OwnKernel(
        at,
        "float8.c",
        name,
        dims={"m": rows, "k": k, "n": n, "groups": scales[-2], "blocks": scales[-1], **dims},
        sizes={"DOWN": down, "ACROSS": across},
        KIND=kind,
        OFF=off,
        TILE=ROWS,
        WARPS=WARPS,
        BYTES=SCRATCH,
    ).write()


# ---------------------------------------------------------------- one matrix
def _infer(types: Sequence[TensorType], attrs: Attrs) -> list[Type]:
    x, w, _ = types
    if w.rank != 2:
        raise ShapeError(
            "ML739",
            f"matmul_float8: weights of rank {w.rank}, expected 2",
            fix="the right operand is a matrix [n, k]",
        )
    _require("matmul_float8", types, attrs)
    return [TensorType(DType.float32, Shape([*x.shape[:-1], w.shape[0]]), x.device)]


def float8_numbers(w: Array, scales: Array, rows: int, columns: int) -> Array:
    """The float64 numbers of the weights ``w``, of which each block has a scale."""
    *_, n, k = w.shape
    wide = scales.astype(np.float64)
    for axis, size, block in ((-2, n, rows), (-1, k, columns)):
        wide = np.repeat(wide, block or max(size, 1), axis)
    return np.asarray(w.astype(np.float64) * wide[..., :n, :k])


def _reference(call: Call, x: Array, w: Array, scales: Array) -> Array:
    wide = float8_numbers(w, scales, call.attrs["rows"], call.attrs["columns"])
    return np.asarray(x.astype(np.float64) @ wide.T).astype(np.float32)


def _magnitude(arrays: Sequence[Array], attrs: Attrs) -> Array:
    x, w, scales = arrays
    wide = float8_numbers(w, scales, attrs["rows"], attrs["columns"])
    return np.asarray(np.abs(x.astype(np.float64)) @ np.abs(wide).T)


def _kernel(at: Site) -> None:
    rows = ONE
    for size in at.operands[0].type.sizes[:-1]:
        rows = rows * size
    _write(at, "matmul_float8", {}, rows)


def random_float8(
    rng: np.random.Generator, shape: Sequence[int], dtype: DType = DType.float8_e4m3fn
) -> Array:
    """Numbers of any size that ``dtype`` has."""
    codes = rng.integers(0, 256, tuple(shape), np.uint8)
    none = 0x80 if dtype is DType.float8_e4m3fnuz else 0x7F
    wrong = codes == none if none == 0x80 else codes & 0x7F == none
    return np.where(wrong, np.uint8(1), codes).view(dtype.ml_numpy)


def _samples() -> list[Sample]:
    rng = np.random.default_rng(14)

    def left(*shape: int) -> Array:
        return rng.standard_normal(shape).astype(np.float32)

    def sample(
        shape: tuple[int, ...], n: int, rows: int, columns: int, label: str, names: bool = False,
        kind: DType = DType.float8_e4m3fn,
    ) -> Sample:  # fmt: skip
        k = shape[-1]
        size = -(-n // rows) if rows else 1, -(-k // columns) if columns else 1
        scales = rng.uniform(1e-3, 2e-2, size).astype(np.float32)
        attrs = {"rows": rows, "columns": columns}
        arrays = (left(*shape), random_float8(rng, (n, k), kind), scales)
        given = ((*("abc"[: len(shape) - 1]), k), (n, k), scales.shape) if names else None
        return Sample(arrays, attrs, given, label)

    fnuz = DType.float8_e4m3fnuz
    return [
        sample((1, 96), 21, 0, 0, "tensor", True),
        sample((3, 77), 5, 1, 0, "rows"),
        sample((2, 3, 200), 18, 16, 64, "blocks", True),
        sample((9, 530), 19, 4, 48, "many blocks"),
        sample((13, 64), 3, 1, 0, "many rows", True),
        sample((8, 40), 7, 0, 0, "fnuz", kind=fnuz),
        sample((40,), 2, 1, 0, "vector fnuz", kind=fnuz),
        sample((0, 32), 4, 1, 0, "no rows"),
        sample((2, 0), 4, 0, 0, "no columns"),
        sample((9, 0), 4, 0, 0, "many rows, no columns"),
    ]


# ---------------------------------------------------------------- several
def _ragged_infer(types: Sequence[TensorType], attrs: Attrs) -> list[Type]:
    what = "matmul_float8_ragged"
    x, w, _, starts, ids, active = types
    if x.rank != 2 or w.rank != 3 or [v.rank for v in (starts, ids, active)] != [1, 1, 0]:
        raise ShapeError(
            "ML739",
            f"{what}: operands of rank {[t.rank for t in types]}, expected [2, 3, 3, 1, 1, 0]",
            fix="pass rows, matrices, scales, where groups start, their matrices, how many",
        )
    _require(what, types, attrs)
    kinds = (starts.dtype, ids.dtype, active.dtype)
    if kinds != (DType.uint32, DType.int32, DType.uint32):
        raise ArgumentTypeError(
            "ML738",
            f"{what}: starts, ids and the number of groups must be uint32, int32 and uint32, got "
            f"{', '.join(kind.name for kind in kinds)}",
            fix="cast them: ops.cast(x, DType.uint32)",
        )
    return [TensorType(DType.float32, Shape([x.shape[0], w.shape[1]]), x.device)]


def _groups(starts: Array, ids: Array, active: Array, rows: int, matrices: int) -> Array:
    """The matrix of each row; -1 where it has none."""
    found = np.full(rows, -1)
    count, seen = int(active), 0
    if count > len(ids):
        raise ArgumentError("ML652", f"{count} groups, of which {len(ids)} are given")
    for group in range(count):
        first, end, number = int(starts[group]), int(starts[group + 1]), int(ids[group])
        if not seen <= first <= end <= rows or number >= matrices:
            raise ArgumentError("ML652", f"rows {first} to {end} of {rows}, matrix {number}")
        found[first:end], seen = max(number, -1), end
    return found


def _ragged_reference(
    call: Call, x: Array, w: Array, scales: Array, starts: Array, ids: Array, active: Array
) -> Array:
    wide = float8_numbers(w, scales, call.attrs["rows"], call.attrs["columns"])
    made = np.zeros(call.shapes[0], np.float64)
    of = _groups(starts, ids, active, len(x), len(w))
    for number in range(len(w)):
        made[of == number] = x[of == number].astype(np.float64) @ wide[number].T
    return made.astype(np.float32)


def _ragged_magnitude(arrays: Sequence[Array], attrs: Attrs) -> Array:
    x, w, scales, starts, ids, active = arrays
    wide = np.abs(float8_numbers(w, scales, attrs["rows"], attrs["columns"]))
    made = np.zeros((len(x), w.shape[1]), np.float64)
    of = _groups(starts, ids, active, len(x), len(w))
    for number in range(len(w)):
        made[of == number] = np.abs(x[of == number].astype(np.float64)) @ wide[number].T
    return made


def _ragged_kernel(at: Site) -> None:
    x, w, _, starts, ids, _ = (o.type.sizes for o in at.operands)
    dims = {"experts": w[0], "ends": starts[0], "most": ids[0]}
    _write(at, "matmul_float8_ragged", dims, x[0])


def _ragged_samples() -> list[Sample]:
    rng = np.random.default_rng(15)
    found = []
    for label, starts, ids, active, block, kind in (
        ("plain", [0, 3, 12], [2, 0], 2, (1, 0), DType.float8_e4m3fn),
        ("blocks", [0, 1, 1, 9, 20], [0, 2, 1, -1], 4, (16, 32), DType.float8_e4m3fn),
        ("gaps", [2, 5, 99, 7], [1, 9, 9], 1, (0, 0), DType.float8_e4m3fnuz),
        ("none", [5, 5], [7], 0, (1, 0), DType.float8_e4m3fn),
    ):
        n, k, rows = 21, 72, 20 if label == "blocks" else 12
        size = -(-n // block[0]) if block[0] else 1, -(-k // block[1]) if block[1] else 1
        arrays = (
            rng.standard_normal((rows, k)).astype(np.float32),
            random_float8(rng, (3, n, k), kind),
            rng.uniform(1e-3, 2e-2, (3, *size)).astype(np.float32),
            np.array(starts, np.uint32),
            np.array(ids, np.int32),
            np.array(active, np.uint32),
        )
        names = (("t", k), (3, n, k), (3, *size), (len(starts),), (len(ids),), ())
        attrs = {"rows": block[0], "columns": block[1]}
        found.append(Sample(arrays, attrs, names, label))
    return found


define(
    "matmul_float8",
    "kernel",
    "quantized",
    "A product with a transposed matrix of 8-bit floats whose blocks have scales.",
    attrs={"rows": INT, "columns": INT},
    infer=_infer,
    reference=_reference,
    kernel=_kernel,
    takes_float8=True,
    checks=_checks,
    cost=_cost,
    samples=_samples,
    terms=lambda arrays, attrs: arrays[0].shape[-1] + 2,
    magnitude=_magnitude,
)

define(
    "matmul_float8_ragged",
    "kernel",
    "quantized",
    "Products of groups of rows with transposed matrices of 8-bit floats; rows of no group give 0.",
    attrs={"rows": INT, "columns": INT},
    infer=_ragged_infer,
    reference=_ragged_reference,
    kernel=_ragged_kernel,
    takes_float8=True,
    checks=_checks,
    cost=_cost,
    samples=_ragged_samples,
    terms=lambda arrays, attrs: arrays[0].shape[-1] + 2,
    magnitude=_ragged_magnitude,
)

__all__ = ["CODES", "SCRATCH", "float8_numbers", "random_float8"]
