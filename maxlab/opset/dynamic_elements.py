"""Ops that have one element for each element that is not zero.

They take two walks. The first counts in chunks of ``CHUNK`` elements and adds the counts up, so
that in the second every chunk knows where it writes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from maxlab.dtype import DType
from maxlab.errors import DTypeError, ShapeError
from maxlab.ir import Dim, TensorType, Type
from maxlab.ir.dims import from_poly
from maxlab.ir.poly import ONE, Poly
from maxlab.opset.attributes import DIM
from maxlab.opset.core import Array, Attrs, Call, Cost, Sample, define, elements
from maxlab.opset.dynamic import require_count
from maxlab.opset.facts import foreign_names
from maxlab.opset.kernel import Site
from maxlab.opset.rules import require_dtype, same_device, same_dtype

CHUNK = 1024
"""Elements that are counted together: a block's on a GPU, a part of a thread's on the CPU."""
THREADS = 256
EACH = CHUNK // THREADS


# ---------------------------------------------------------------- counting what is not zero
def _chunks(type: TensorType) -> Poly:
    return (elements(type) + Poly.constant(CHUNK - 1)).floordiv(Poly.constant(CHUNK))


def _count_infer(types: Sequence[TensorType], attrs: Attrs) -> list[Type]:
    (x,) = types
    return [
        TensorType(DType.int64, [from_poly(_chunks(x))], x.device),
        TensorType(DType.int64, [], x.device),
    ]


def _count(call: Call, x: Array) -> tuple[Array, Array]:
    flat = (x != 0).reshape(-1)
    starts = range(0, flat.size, CHUNK)
    counts = np.array([np.count_nonzero(flat[s : s + CHUNK]) for s in starts], np.int64)
    return np.cumsum(counts) - counts, np.asarray(counts.sum(dtype=np.int64))


_SCAN = """\
i64 *const sums = (i64 *){shared};
sums[threadIdx.x] = mine;
__syncthreads();
for (unsigned distance = 1; distance < blockDim.x; distance *= 2) {{
  const i64 v = threadIdx.x >= distance ? sums[threadIdx.x - distance] : 0;
  __syncthreads();
  sums[threadIdx.x] += v;
  __syncthreads();
}}
const i64 before = sums[threadIdx.x] - mine, total = sums[blockDim.x - 1];
(void)before, (void)total;
__syncthreads();"""
"""In a block, from ``mine`` of each thread: the sum ``before`` it, and the ``total``."""


def items_of(first: str, each: str, size: str) -> str:
    """The declaration of the items ``first`` to ``last`` of ``size``."""
    return f"const i64 first = {first}, last = first + {each} < {size} ? first + {each} : {size};"


def _count_kernel(at: Site) -> None:
    x = at.operands[0]
    starts, total = at.results
    counts = at.temporary(DType.int64, _chunks(x.type))
    n, chunks = at.size(elements(x.type)), at.size(_chunks(x.type))
    found = f"mine += {x.load('j')} != 0;"
    if at.target == "c":
        at.part(
            f"{items_of(f'i * {CHUNK}', str(CHUNK), n)}\ni32 mine = 0;\n"
            f"for (i64 j = first; j < last; j++) {found}\n{counts.store('i', 'mine')}",
            _chunks(x.type),
            work=Poly.constant(CHUNK),
            name="chunks",
        )
        at.part(
            f"i64 sum = 0;\nfor (i64 j = 0; j < {chunks}; j++) "
            f"{{ const i64 v = {counts.load('j')}; {starts.store('j', 'sum')} sum += v; }}\n"
            f"{total.store('i', 'sum')}",
            ONE,
            work=_chunks(x.type),
            name="starts",
        )
        return
    scan = _SCAN.format(shared=at.shared)
    at.part(
        f"{items_of(f'i * {CHUNK} + threadIdx.x * {EACH}', str(EACH), n)}\ni64 mine = 0;\n"
        f"for (i64 j = first; j < last; j++) {found}\n{scan}\n"
        f"if (threadIdx.x == 0) {counts.store('i', 'total')}",
        _chunks(x.type),
        block=True,
        threads=THREADS,
        shared=THREADS * 8,
        work=Poly.constant(CHUNK),
        name="chunks",
    )
    at.part(
        f"const i64 each = ({chunks} + blockDim.x - 1) / blockDim.x;\n"
        f"{items_of('threadIdx.x * each', 'each', chunks)}\ni64 mine = 0;\n"
        f"for (i64 j = first; j < last; j++) mine += {counts.load('j')};\n{scan}\n"
        f"i64 sum = before;\nfor (i64 j = first; j < last; j++) "
        f"{{ const i64 v = {counts.load('j')}; {starts.store('j', 'sum')} sum += v; }}\n"
        f"if (threadIdx.x == 0) {total.store('i', 'total')}",
        ONE,
        block=True,
        threads=THREADS,
        shared=THREADS * 8,
        work=_chunks(x.type),
        name="starts",
    )


def _kinds() -> list[tuple[str, Array]]:
    """Operands of every kind, with zeros in them."""
    rng = np.random.default_rng(11)
    few = rng.random((3, 700)) < 0.3
    wide = np.where(few, rng.standard_normal((3, 700)), 0)
    wide[0, 1], wide[0, 2], wide[0, 3] = np.nan, -0.0, np.inf
    found: list[tuple[str, Array]] = [
        ("bool", few),
        ("f32", wide.astype(np.float32)),
        ("f64", wide),
        ("f16", wide.astype(np.float16)),
        ("bf16", wide.astype(np.float32).astype(DType.bfloat16.ml_numpy)),
        ("none", np.zeros((2, 5), np.float32)),
        ("all", np.ones((4, 3, 2), np.int32)),
        ("empty", np.zeros((3, 0), np.float32)),
        ("scalar", np.array(3, np.int32)),
        ("long", rng.integers(0, 3, 300_000).astype(np.int8)),
    ]
    kinds = ("int8", "uint8", "int16", "uint32", "int64", "uint64")
    return [*found, *((k, (few * rng.integers(1, 100, few.shape)).astype(k)) for k in kinds)]


def _count_samples() -> list[Sample]:
    names = ("a", "b", "c")
    return [
        Sample((x,), {}, (names[: x.ndim],) if label in ("bool", "f32", "empty") else None, label)
        for label, x in _kinds()
    ]


define(
    "nonzero.count",
    "kernel",
    "index",
    "How many elements before each chunk are not zero, and how many there are.",
    infer=_count_infer,
    reference=_count,
    kernel=_count_kernel,
    cost=lambda operands, results, attrs: Cost(elements(operands[0])),
    samples=_count_samples,
)


def _add_hits(at: Site, counted: Any, starts: Any, hit: str, before: str = "") -> None:
    """Add the part that does ``before`` at each element ``j`` of ``counted``, and ``hit`` at each
    that is not zero, whose number is ``at``.
    """
    x, size = f"({counted.load('j')} != 0)", at.size(elements(counted.type))
    each = f"for (i64 j = first; j < last; j++) {before}\n" if before else ""
    work = Poly.constant(CHUNK)
    if at.target == "c":
        # Where the elements are is noted without a branch, which nobody could predict.
        text = f"""\
{items_of(f"i * {CHUNK}", str(CHUNK), size)}
{each}i32 hits[{CHUNK}];
i64 many = 0, at = {starts.load("i")};
for (i64 j = first; j < last; j++) {{ hits[many] = (i32)(j - first); many += {x}; }}
for (i64 k = 0; k < many; k++) {{ const i64 j = first + hits[k]; {hit} at++; }}"""
        at.part(text, _chunks(counted.type), work=work)
        return
    text = f"""\
{items_of(f"i * {CHUNK} + threadIdx.x * {EACH}", str(EACH), size)}
{each}i64 mine = 0;
for (i64 j = first; j < last; j++) mine += {x};
{_SCAN.format(shared=at.shared)}
i64 at = {starts.load("i")} + before;
for (i64 j = first; j < last; j++) if ({x}) {{ {hit} at++; }}"""
    at.part(text, _chunks(counted.type), block=True, threads=THREADS, shared=THREADS * 8, work=work)


# ---------------------------------------------------------------- nonzero
def require_starts(what: str, starts: TensorType, total: TensorType) -> None:
    """``starts`` are numbers of chunks and ``total`` is one int64.

    Raises:
        DTypeError: ML109, they are not.
    """
    if starts.dtype is not DType.int64 or starts.rank != 1:
        raise DTypeError(
            "ML109",
            f"{what}: the starts of the chunks must be int64 of rank 1, got {starts}",
            fix="use ops.nonzero, which counts",
        )
    require_count(f"{what}: the count", total)


def _nonzero_infer(types: Sequence[TensorType], attrs: Attrs) -> list[Type]:
    x, starts, total = types
    same_device("nonzero", types)
    require_starts("nonzero", starts, total)
    return [TensorType(DType.int64, [Dim(attrs["out_dim"]), x.rank], x.device)]


def _nonzero(call: Call, x: Array, starts: Array, total: Array) -> Array:
    return np.argwhere(x != 0)


def _nonzero_kernel(at: Site) -> None:
    x, starts = at.operands[:2]
    y = at.results[0]
    sizes = x.type.sizes
    if not sizes:  # no axes, so that there is nothing to write
        at.part(f"(void){y.name};", ONE)
        return
    rank = len(sizes)
    if rank == 1:
        _add_hits(at, x, starts, y.store("at", "j"))
        return

    def divided(kind: str) -> str:
        lines = [f"{kind} rest = ({kind})j;"]
        for axis in reversed(range(1, rank)):
            size = f"({kind}){at.size(sizes[axis])}"
            lines.append(f"{y.store(f'at * {rank} + {axis}', f'(i64)(rest % {size})')}")
            lines.append(f"rest /= {size};")
        lines.append(y.store(f"at * {rank}", "(i64)rest"))
        return " ".join(lines)

    # Divisions of 32 bits take a fraction of the time of those of 64.
    narrow = f"if ({at.size(elements(x.type))} < 0x7fffffffll)"
    _add_hits(at, x, starts, f"{narrow} {{ {divided('u32')} }} else {{ {divided('i64')} }}")


def _counted(x: Array) -> tuple[Array, Array, Array]:
    call = Call({}, (), (), {})
    return (x, *_count(call, x))


define(
    "nonzero",
    "kernel",
    "index",
    "The indices of the elements that are not zero, in row-major order; they are counted before.",
    attrs={"out_dim": DIM},
    foreign=foreign_names("nonzero", "NonZero"),
    infer=_nonzero_infer,
    reference=_nonzero,
    kernel=_nonzero_kernel,
    cost=lambda operands, results, attrs: Cost(elements(operands[0])),
    samples=lambda: [
        Sample(_counted(x), {"out_dim": Dim(int(np.count_nonzero(x)))}, label=label)
        for label, x in _kinds()
    ],
)


# ---------------------------------------------------------------- masked_scatter
def _masked_infer(types: Sequence[TensorType], attrs: Attrs) -> list[Type]:
    x, mask, updates, starts, total = types
    same_device("masked_scatter", types)
    same_dtype("masked_scatter", [x, updates])
    require_dtype("masked_scatter: the mask", mask, DType.bool)
    if list(mask.shape) != list(x.shape):
        raise ShapeError(
            "ML205",
            f"masked_scatter: the mask has the shape {list(map(str, mask.shape))}, the input "
            f"{list(map(str, x.shape))}",
            fix="broadcast the mask: ops.broadcast_to(mask, input.shape)",
        )
    if updates.rank != 1:
        raise ShapeError(
            "ML205",
            f"masked_scatter: the updates are of rank 1, got rank {updates.rank}",
            fix="flatten them: ops.flatten(updates)",
        )
    require_starts("masked_scatter", starts, total)
    return [x]


def _masked(
    call: Call, x: Array, mask: Array, updates: Array, starts: Array, total: Array
) -> Array:
    made = x.copy()
    made[mask.astype(bool)] = updates
    return made


def _masked_kernel(at: Site) -> None:
    x, mask, updates, starts = at.operands[:4]
    y = at.results[0]
    _add_hits(at, mask, starts, y.store("j", updates.load("at")), y.store("j", x.load("j")))


def _masked_samples() -> list[Sample]:
    rng = np.random.default_rng(12)
    found = []
    for label, x in _kinds():
        mask = np.asarray(rng.random(x.shape) < 0.4)
        _, starts, total = _counted(mask)
        updates = rng.integers(0, 2, int(total)).astype(x.dtype)
        found.append(Sample((x, mask, updates, starts, total), {}, label=label))
    return found


define(
    "masked_scatter",
    "kernel",
    "index",
    "The operand with the updates, in row-major order, where the mask is true.",
    foreign=foreign_names("masked_scatter"),
    infer=_masked_infer,
    reference=_masked,
    kernel=_masked_kernel,
    cost=lambda operands, results, attrs: Cost(elements(operands[0])),
    samples=_masked_samples,
)
