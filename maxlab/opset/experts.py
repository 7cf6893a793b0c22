"""Ops of mixtures of experts: which rows go to which expert, and the product of the rows of each
expert with the expert's matrix.

Rows of one expert lie one after the other, and are a *group*. ``starts`` ``[experts + 1]`` say
where groups begin, ``ids`` ``[experts]`` which experts they are of; groups that have rows come
first. ``usage`` ``[2]`` has the rows of the largest group and how many groups have rows. So work
and memory follow the rows, and experts that no row chose are not read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from maxlab.dtype import DType
from maxlab.errors import ArgumentError, DTypeError, ShapeError
from maxlab.ir import Poly, StaticDim, TensorType, Type
from maxlab.ir.poly import ONE
from maxlab.opset.attention import FLOATS
from maxlab.opset.attributes import INT
from maxlab.opset.convolution_products import KINDS, PANEL
from maxlab.opset.core import Array, Attrs, Call, Check, Cost, Sample, define, elements
from maxlab.opset.kernel import Buffer, Site
from maxlab.opset.kernel_files import OwnKernel
from maxlab.opset.quantized import called, same_size
from maxlab.opset.rules import same_device
from maxlab.opset.windows import ceil_div, known, number

COLUMNS = 128
"""Columns of a group's result that a thread of the CPU makes at once."""
ROWS = 64
"""Rows of it."""
WIDTH = COLUMNS + PANEL + 16
"""Floats by which rows of such a tile are apart: those of a panel more, and no power of two."""
WIDENED = 4 * (4 * PANEL * 256 + ROWS * 272) + 64
"""The most bytes that products of halves need besides (``mx_half_block_scratch``)."""
FEW = 16
"""On a GPU, groups of so many rows have tiles of their own."""
TILES = (("mx_grouped_16x64", 16, 1, FEW), ("mx_grouped_64x64", 64, FEW + 1, 2**62))
"""The tiles of the two launches of a GPU: their rows, and the least and most rows of their groups.
Both have 64 columns and 128 threads."""
_ELEMENTS = {DType.float32: "f32", DType.bfloat16: "mx_bf16", DType.float16: "mx_f16"}
_IDS = (DType.int32, DType.int64, DType.uint32)


def _wrong(what: str, why: str, fix: str) -> ShapeError:
    return ShapeError("ML659", f"{what}: {why}", fix=fix)


# ---------------------------------------------------------------- indices
def _indices_infer(types: Sequence[TensorType], attrs: Attrs) -> list[Type]:
    (ids,), what, experts = types, "expert_indices", attrs["experts"]
    if ids.dtype not in _IDS:
        raise DTypeError(
            "ML666",
            f"{what}: the experts of rows must be int32, int64 or uint32, got {ids.dtype.name}",
            fix="cast them: ops.cast(x, DType.int32)",
        )
    if ids.rank != 1:
        raise _wrong(
            what,
            f"the experts of rows must have rank 1, got {ids}",
            "reshape them: ops.reshape(x, [-1])",
        )
    if not 1 <= experts < 2**31:
        raise ArgumentError(
            "ML667",
            f"{what}: there must be 1 to {2**31 - 1} experts, got {experts}",
            fix="pass the number of experts that ids may name",
        )
    rows, place = ids.shape[0], ids.device
    u32 = DType.uint32
    return [
        TensorType(u32, [rows], place),
        TensorType(u32, [experts + 1], place),
        TensorType(u32, [rows], place),
        TensorType(DType.int32, [experts], place),
        TensorType(u32, [2], place),
    ]


def _indices_reference(call: Call, ids: Array) -> list[Array]:
    experts = call.attrs["experts"]
    if ids.size and not 0 <= int(ids.min()) <= int(ids.max()) < experts:
        raise ArgumentError("ML652", f"experts {ids} are not all below {experts}")
    order = np.argsort(ids, kind="stable")
    counts = np.bincount(ids.astype(np.int64), minlength=experts)
    (found,) = np.nonzero(counts)
    starts = np.full(experts + 1, len(ids), np.uint32)
    starts[: len(found)] = np.cumsum(counts)[found] - counts[found]
    chosen = np.full(experts, -1, np.int32)
    chosen[: len(found)] = found
    usage = np.array([counts.max(), len(found)], np.uint32)
    return [order.astype(np.uint32), starts, np.argsort(order).astype(np.uint32), chosen, usage]


def _indices_kernel(at: Site) -> None:
    tokens, groups = at.operands[0].type.sizes[0], at.results[3].type.sizes[0]
    dims = {"tokens": tokens, "groups": groups, "ends": groups + ONE}
    if at.target == "cuda":
        OwnKernel(at, "experts.cu", "expert_indices_gpu", dims=dims).write()
    else:
        OwnKernel(at, "experts.c", "expert_indices", dims=dims).write()


def _indices_samples() -> list[Sample]:
    rng = np.random.default_rng(21)
    few = np.array([4, 1, 4, 0, 4, 1], np.int32)
    return [
        Sample((few,), {"experts": 6}, (("t",),), "plain"),
        Sample((few.astype(np.int64),), {"experts": 5}, label="wide"),
        Sample((np.zeros(0, np.int32),), {"experts": 3}, (("t",),), "no rows"),
        Sample((np.zeros(3, np.uint32),), {"experts": 1}, label="one expert"),
        Sample((rng.integers(0, 70, 1000).astype(np.int32),), {"experts": 70}, label="many"),
    ]


# ---------------------------------------------------------------- product
def _product_infer(types: Sequence[TensorType], attrs: Attrs) -> list[Type]:
    what = "grouped_matmul"
    x, w, starts, ids, usage = types
    same_device(what, types)
    if x.dtype not in FLOATS or w.dtype is not x.dtype:
        raise DTypeError(
            "ML666",
            f"{what}: rows and matrices must be of one float dtype, got {x.dtype.name} and "
            f"{w.dtype.name}",
            fix="cast one of them: ops.cast(x, dtype)",
        )
    if x.rank != 2 or w.rank != 3 or _differ(x, 1, w, 2):
        raise _wrong(
            what,
            f"rows must be [rows, k] and matrices [experts, n, k], got {x} and {w}",
            "matrices are [out, in], as those of Linear",
        )
    for name, type, dtype, rank in (
        ("starts", starts, DType.uint32, 1),
        ("expert ids", ids, DType.int32, 1),
        ("usage", usage, DType.uint32, 1),
    ):
        if type.dtype is not dtype:
            raise DTypeError(
                "ML666",
                f"{what}: the {name} must be {dtype.name}, got {type.dtype.name}",
                fix=f"cast them: ops.cast(x, DType.{dtype.name})",
            )
        if type.rank != rank:
            raise _wrong(
                what, f"the {name} must have rank {rank}, got {type}", "see expert_indices"
            )
    several = isinstance(ids.shape[0], StaticDim) and isinstance(starts.shape[0], StaticDim)
    if several and int(starts.shape[0]) != int(ids.shape[0]) + 1:
        raise _wrong(
            what,
            f"there must be one more start than expert ids, got {starts} and {ids}",
            "pass what expert_indices gives",
        )
    if list(usage.shape) != [2] or 0 in (w.shape[0], ids.shape[0]):
        raise _wrong(
            what,
            f"usage must be [2], and experts and groups 1 or more, got {usage}, {w} and {ids}",
            "pass what expert_indices gives",
        )
    return [TensorType(x.dtype, [x.shape[0], w.shape[1]], x.device)]


def _differ(a: TensorType, axis: int, b: TensorType, other: int) -> bool:
    """Whether two sizes are known to differ."""
    gap = a.shape[axis].poly - b.shape[other].poly
    return gap.is_constant and bool(gap.value)


def _groups(rows: int, count: int, starts: Array, ids: Array, usage: Array) -> Iterator[slice]:
    """The rows of each group that has some."""
    most, active = (int(n) for n in usage)
    if active > len(ids) or starts[0] != 0 or starts[active] != rows:
        raise ArgumentError("ML652", f"{active} groups that begin at {starts} are not {rows} rows")
    for g in range(active):
        first, last = int(starts[g]), int(starts[g + 1])
        if not 0 <= last - first <= most or last > rows or not -1 <= ids[g] < count:
            raise ArgumentError("ML652", f"no group: rows {first} to {last} of expert {ids[g]}")
        yield slice(first, last)


def _product_reference(
    call: Call, x: Array, w: Array, starts: Array, ids: Array, usage: Array
) -> Array:
    made = np.zeros(call.shapes[0], np.float64)
    for g, rows in enumerate(_groups(len(x), len(w), starts, ids, usage)):
        if ids[g] >= 0:
            made[rows] = x[rows].astype(np.float64) @ w[ids[g]].astype(np.float64).T
    found: Array = made.astype(x.dtype)
    return found


def _product_kernel(at: Site) -> None:
    x, w, starts, ids, _ = at.operands
    (rows, k), (count, n, _), (groups,) = x.type.sizes, w.type.sizes, ids.type.sizes
    dims = {"rows": rows, "k": k, "count": count, "n": n, "groups": groups}
    dims["ends"] = starts.type.sizes[0]
    if x.dtype is DType.float64:
        OwnKernel(at, "experts.c", "grouped_dots", dims=dims).write()
    elif at.target == "cuda":
        _write_tiles(at, rows, groups, (count, n, k))
    else:
        _write_product(at, dims)


def _write_product(at: Site, dims: dict[str, Poly]) -> None:
    """The product on the CPU, by packed matrices."""
    x, w = at.operands[:2]
    n, k, count, rows = (dims[name] for name in ("n", "k", "count", "rows"))
    half = x.dtype is not DType.float32
    depth = ceil_div(k, 2) * number(2) if half else k
    packed: Buffer | None = at.packed(w, (k, count * n, ONE, k))
    columns = known(n)
    whole = packed is None or (columns is not None and columns % PANEL == 0)
    chunks = ceil_div(n, COLUMNS)
    kernel = OwnKernel(
        at, "experts.c", "grouped_product", dims=dims, sizes={"CHUNKS": chunks, "DEPTH": depth},
        buffers={} if packed is None else {"packed": packed}, PACKED=packed is not None,
        WHOLE=whole, KIND=KINDS[x.dtype], COLUMNS=COLUMNS, PANEL=PANEL, WIDTH=WIDTH, ROWS=ROWS,
        TILE=ROWS * WIDTH, WIDENED=WIDENED,
    )  # fmt: skip
    read = packed or w
    most = known(rows)
    some = count if most is None or known(count) is None else number(min(most, count.value))
    own = number(0) if packed is not None else depth * number(COLUMNS * x.dtype.size_in_bytes)
    items = dims["groups"] * chunks
    kernel.part(
        "product",
        extent=items,
        work=rows * k * number(COLUMNS // 16) + ONE,
        total=rows * k * n.floordiv(number(16)) + items,
        scratch=number(4 * ROWS * WIDTH + WIDENED + 64) + own,
        touched={read.name: some * n * k},
    )


def _write_tiles(at: Site, rows: Poly, groups: Poly, matrix: tuple[Poly, Poly, Poly]) -> None:
    """The product on a GPU: a launch for groups of few rows, and one for the others."""
    x, w, starts, ids, usage = at.operands
    y = at.results[0]
    for name in ("tiles.cuh", "split.cuh", "product.cuh", "grouped.cuh"):
        at.header(name)
    wide = ceil_div(matrix[1], 64)
    sizes = [at.size(size) for size in (rows, groups, *matrix)]
    pointers = (x.name, w.name, starts.name, ids.name, usage.name)
    for config, high, least, most in TILES:
        # Of the larger groups there are fewer than rows / FEW, each with a tile that is not full.
        tiles = groups if high == FEW else rows.floordiv(number(high)) + rows.floordiv(number(FEW))
        text = called(
            f"mx_grouped_product<{config}, {_ELEMENTS[x.dtype]}>",
            at.shared, *pointers, *sizes, f"{least}ll", f"{most}ll", "i",
            f"[=](i64 place, f32 value) {{ {y.store('place', 'value')} }}",
            f"[=](i64 value, i64 limit) {{ {at.fault('value', 'limit')} }}",
        )  # fmt: skip
        at.part(
            text,
            tiles * wide,
            work=matrix[2] * number(64),
            block=True,
            threads=128,
            shared=SHARED[config],
            name="few" if high == FEW else "many",
        )


SHARED = {"mx_grouped_16x64": 45056, "mx_grouped_64x64": 26112}
"""Bytes of shared memory of a block; ``kernels/cuda/PRODUCTS.md`` has the formula."""


def _product_checks(
    operands: Sequence[TensorType], results: Sequence[Type], attrs: Attrs
) -> list[Check]:
    x, w, starts, ids, usage = (type.shape for type in operands)
    what = "grouped_matmul"
    found = same_size(x[1].poly, w[2].poly, f"{what}: rows and matrices are not of one size")
    found += same_size(
        starts[0].poly, ids[0].poly + ONE, f"{what}: there is not one more start than expert ids"
    )
    found += same_size(usage[0].poly, number(2), f"{what}: usage is not two numbers")
    return found + [
        Check(ONE, "<=", dim.poly, f"{what}: there are no experts")
        for dim in (w[0], ids[0])
        if not dim.poly.is_constant
    ]


def _product_samples() -> list[Sample]:
    rng = np.random.default_rng(22)
    found = []
    for dtype, sizes, chosen in (
        (DType.float32, (5, 7, 6), [2, 2, 0, 4, 2]),
        (DType.float32, (3, 160, 33), [1] * 70 + [2]),
        (DType.float16, (4, 40, 9), [3, 0, 0, 3, 3, 1]),
        (DType.bfloat16, (3, 64, 16), [0] * 20 + [2] * 17),
        (DType.float64, (2, 5, 4), [1, 0, 1]),
        (DType.float32, (2, 3, 4), []),
    ):
        count, n, k = sizes
        call = Call({"experts": count}, (), (), {})
        _, starts, _, ids, usage = _indices_reference(call, np.array(chosen, np.int32))
        x, w = (
            rng.standard_normal(shape).astype(dtype.ml_numpy)
            for shape in ((len(chosen), k), (count, n, k))
        )
        names = (("t", "k"), ("e", "n", "k"), ("ends",), ("g",), (2,))
        label = f"{dtype.name} {len(chosen)} rows"
        found.append(Sample((x, w, starts, ids, usage), {}, names, label))
    return found


def _product_magnitude(arrays: Sequence[Array], attrs: Attrs) -> Array:
    x, w, *groups = arrays
    call = Call(attrs, ((len(x), w.shape[1]),), (DType.float64,), {})
    sizes = [np.abs(a.astype(np.float64)) for a in (x, w)]
    return _product_reference(call, *sizes, *groups)


define(
    "experts.indices",
    "kernel",
    "index",
    "The order of rows by the expert that each goes to, and where those of each expert begin.",
    attrs={"experts": INT},
    infer=_indices_infer,
    reference=_indices_reference,
    kernel=_indices_kernel,
    cost=lambda operands, results, attrs: Cost(Poly.constant(0)),
    samples=_indices_samples,
)

define(
    "experts.matmul",
    "kernel",
    "contract",
    "The products of the rows of each expert with the transposed matrix of that expert.",
    infer=_product_infer,
    reference=_product_reference,
    kernel=_product_kernel,
    checks=_product_checks,
    cost=lambda operands, results, attrs: Cost(
        elements(results[0]) * operands[0].shape[1].poly * Poly.constant(2)
    ),
    samples=_product_samples,
    terms=lambda arrays, attrs: arrays[0].shape[1],
    magnitude=_product_magnitude,
)
