"""Ops that go along an axis and keep what they passed: running sums."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from maxlab.dtype import DType
from maxlab.errors import DTypeError
from maxlab.ir import Poly, TensorType, Type
from maxlab.ir.poly import ONE
from maxlab.opset.attributes import BOOL, INT
from maxlab.opset.core import Array, Attrs, Call, Cost, Sample, define, elements
from maxlab.opset.facts import foreign_names
from maxlab.opset.kernel import Buffer, Site
from maxlab.opset.rules import axis_of

_WRAPPING = {DType.int64: "u64", DType.uint64: "u64"}
THREADS = 256
TILE = 8 * THREADS
"""Elements that a block of a GPU takes at once."""
SIDE = 64
"""Columns that a thread of a CPU goes along side by side."""
BESIDE = 4
"""Rows of floats that it does: a sum waits for the one before, but not for those of other rows."""
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
    x = at.operands[0]
    sizes = x.type.sizes
    axis = axis_of(at.attrs["axis"], len(sizes), "cumsum")
    outer, inner, depth = ONE, ONE, sizes[axis]
    for size in sizes[:axis]:
        outer = outer * size
    for size in sizes[axis + 1 :]:
        inner = inner * size
    if inner != ONE:
        _columns(at, outer, depth, inner)
    elif at.target == "cuda":
        _rows_of_blocks(at, outer, depth)
    else:
        _rows_of_threads(at, outer, depth)


def _added(dtype: DType, kind: str, one: str, other: str) -> str:
    """The sum of two numbers of the compute type ``kind``; integers wrap."""
    if kind in ("f32", "f64"):
        return f"{one} + {other}"
    wide = _WRAPPING.get(dtype, "u32")
    return f"({kind})(({wide}){one} + ({wide}){other})"


def _step(at: Site, place: str, total: str = "a") -> str:
    """Statements that take the element ``place`` into the sum ``total``, and store one."""
    x, y = at.operands[0], at.results[0]
    added = f"{total} = {_added(x.dtype, x.compute, total, 'v')};"
    stored: str = y.store("at", total)
    then = f"{stored} {added}" if at.attrs["exclusive"] else f"{added} {stored}"
    return f"const i64 at = {place}; const {x.compute} v = {x.load('at')}; {then}"


def _columns(at: Site, outer: Poly, depth: Poly, inner: Poly) -> None:
    """A column a thread: neighbours read neighbours. A thread of a CPU takes some, side by side."""
    n, m = at.size(depth), at.size(inner)
    row = f"({n} - 1 - j)" if at.attrs["reverse"] else "j"
    if at.target == "c":
        kind = at.operands[0].compute
        step = _step(at, f"from + {row} * {m} + c", "sums[c]")
        text = f"""\
const i64 blocks = ({m} + {SIDE - 1}) / {SIDE}, from = i / blocks * {n} * {m} + i % blocks * {SIDE};
const i64 left = {m} - i % blocks * {SIDE}, many = left < {SIDE} ? left : {SIDE};
{kind} sums[{SIDE}];
for (i64 c = 0; c < {SIDE}; c++) sums[c] = 0;
{at.along("j", "0", n, strip=1 << 16)} {{
  #pragma omp simd
  for (i64 c = 0; c < many; c++) {{ {step} }}
}}"""
        items = outer * (inner + Poly.constant(SIDE - 1)).floordiv(Poly.constant(SIDE))
        at.part(text, items, work=depth * Poly.constant(SIDE // 4))
        return
    text = f"""\
const i64 base = i / {m} * {n} * {m}, c = i % {m};
{at.operands[0].compute} a = 0;
for (i64 j = 0; j < {n}; j++) {{ {_step(at, f"base + {row} * {m} + c")} }}"""
    at.part(text, outer * inner, work=depth)


def _fits(outer: Poly, depth: Poly, most: int, long: int) -> bool:
    """Whether it is known that no row is worth sharing."""
    return (depth.is_constant and depth.value < long) or (outer.is_constant and outer.value >= most)


def _piece(n: str, alone: str) -> str:
    """Statements that say which elements are those of the item ``i``: all, where ``alone``."""
    return f"""\
const i64 row = i / {PIECES}, piece = i % {PIECES}, base = row * {n};
const int alone = {alone};
if (alone && piece) continue;
const i64 each = ({n} + {PIECES - 1}) / {PIECES}, first = alone ? 0 : piece * each;
const i64 last = alone || first + each > {n} ? {n} : first + each;"""


def _sums(at: Site, outer: Poly) -> Buffer:
    """Memory for the sums of all pieces."""
    dtype = at.operands[0].dtype
    kept = DType.float32 if dtype in (DType.float16, DType.bfloat16) else dtype
    made: Buffer = at.temporary(kept, outer * Poly.constant(PIECES))
    return made


def _rows_of_threads(at: Site, outer: Poly, depth: Poly) -> None:
    """Threads take rows. Few long rows are cut into pieces: one part adds up each piece, the next
    goes along it from the sum of those before."""
    x = at.operands[0]
    kind, n = x.compute, at.size(depth)
    place = f"base + {n} - 1 - j" if at.attrs["reverse"] else "base + j"
    unrolled = '_Pragma("GCC unroll 8") '
    walk = f"{unrolled}for (i64 j = first; j < last; j++) {{ {_step(at, place)} }}"
    long_walk = f"{at.along('j', 'first', 'last', before=unrolled)} {{ {_step(at, place)} }}"
    if _fits(outer, depth, MANY_ROWS, LONG_ROW):
        if kind not in ("f32", "f64"):  # a sum of integers is there in the next cycle
            start = f"const i64 base = i * {n}, first = 0, last = {n};\n{kind} a = 0;\n"
            at.part(start + walk, outer, work=depth)
            return
        names = [f"a{row}" for row in range(BESIDE)]
        start = ", ".join(f"{name} = 0" for name in names)
        along = " ".join(
            f"{{ {_step(at, place.replace('base', f'(base + {row} * {n})'), name)} }}"
            for row, name in enumerate(names)
        )
        text = f"""\
const i64 base = i * {n};
if (i + {BESIDE} <= hi) {{
  {kind} {start};
  for (i64 j = 0; j < {n}; j++) {{ {along} }}
  i += {BESIDE - 1};
  continue;
}}
const i64 first = 0, last = {n};
{kind} a = 0;
{walk}"""
        at.part(text, outer, work=depth)
        return
    sums = _sums(at, outer)
    # Two threads together read and write memory hardly faster than one, and would read it twice.
    least = 3 if x.dtype.size_in_bytes == 8 and x.dtype.is_integral() else 2
    few = f"ctx->nthreads < {least} || {at.size(outer)} >= ctx->nthreads"
    piece = _piece(n, f"{n} < {LONG_ROW} || {few}")
    wide = kind if kind in ("f32", "f64") else _WRAPPING.get(x.dtype, "u32")
    added = f"""\
{piece}
if (alone) continue;
{wide} a = 0;
#pragma omp simd reduction(+ : a)
for (i64 j = first; j < last; j++) {{ const i64 at = {place}; a += ({wide}){x.load("at")}; }}
{sums.store("i", f"({kind})a")}"""
    items = outer * Poly.constant(PIECES)
    work = depth.floordiv(Poly.constant(PIECES))
    at.part(added, items, work=work.floordiv(Poly.constant(4)), name="sums")
    before = _added(x.dtype, kind, "a", sums.load(f"row * {PIECES} + j"))
    text = f"""\
{piece}
{kind} a = 0;
if (!alone) for (i64 j = 0; j < piece; j++) a = {before};
{long_walk}"""
    at.part(text, items, work=work)


def _rows_of_blocks(at: Site, outer: Poly, depth: Poly) -> None:
    """Blocks take rows, or pieces of long ones where there are few, as on the CPU. A block goes
    along in tiles, which pass through its shared memory: each thread adds up neighbours, but
    neighbouring threads read and write neighbours."""
    x, y = at.operands[0], at.results[0]
    kind, n = x.compute, at.size(depth)
    place = f"base + {n} - 1 - j" if at.attrs["reverse"] else "base + j"
    shared = f"""\
{kind} *const tile = ({kind} *){at.shared}, *const sums = tile + {TILE + TILE // 32};"""

    def total(a: str, b: str) -> str:
        return _added(x.dtype, kind, a, b)

    scan = f"""\
sums[threadIdx.x] = a;
__syncthreads();
for (unsigned distance = 1; distance < {THREADS}; distance *= 2) {{
  const {kind} v = threadIdx.x >= distance ? sums[threadIdx.x - distance] : ({kind})0;
  __syncthreads();
  sums[threadIdx.x] = {total("sums[threadIdx.x]", "v")};
  __syncthreads();
}}"""
    own = "t + t / 32"
    taken = f"const {kind} v = tile[{own}];"
    if at.attrs["exclusive"]:
        along = f"{taken} tile[{own}] = a; a = {total('a', 'v')};"
    else:
        along = f"{taken} a = {total('a', 'v')}; tile[{own}] = a;"
    each = TILE // THREADS
    mine = f"for (int t = threadIdx.x * {each}; t < (threadIdx.x + 1) * {each}; t++)"
    all_of = f"for (int t = threadIdx.x; t < {TILE}; t += {THREADS})"
    walk = f"""\
for (i64 start = first; start < last; start += {TILE}) {{
  {all_of} {{
    const i64 j = start + t, at = {place};
    tile[{own}] = j < last ? {x.load("at")} : ({kind})0;
  }}
  __syncthreads();
  {kind} a = 0;
  {mine} a = {total("a", f"tile[{own}]")};
  {scan}
  a = threadIdx.x ? {total("carry", "sums[threadIdx.x - 1]")} : carry;
  carry = {total("carry", f"sums[{THREADS - 1}]")};
  {mine} {{ {along} }}
  __syncthreads();
  {all_of} {{
    const i64 j = start + t, at = {place};
    if (j < last) {{ {y.store("at", f"tile[{own}]")} }}
  }}
  __syncthreads();
}}"""
    memory = (TILE + TILE // 32 + THREADS) * 8
    if _fits(outer, depth, MANY_ROWS_OF_BLOCKS, LONG_ROW):
        start = f"const i64 base = i * {n}, first = 0, last = {n};\n{kind} carry = 0;\n"
        text = f"{shared}\n{start}{walk}"
        at.part(text, outer, block=True, threads=THREADS, shared=memory, work=depth)
        return
    kept = _sums(at, outer)
    piece = _piece(n, f"{n} < {LONG_ROW} || {at.size(outer)} >= {MANY_ROWS_OF_BLOCKS}")
    added = f"""\
{shared}
{piece}
if (alone) continue;
{kind} a = 0;
for (i64 j = first + threadIdx.x; j < last; j += {THREADS}) {{
  const i64 at = {place};
  const {kind} v = {x.load("at")};
  a = {total("a", "v")};
}}
{scan}
if (threadIdx.x == 0) {{ {kept.store("i", f"sums[{THREADS - 1}]")} }}
__syncthreads();"""
    items = outer * Poly.constant(PIECES)
    at.part(added, items, block=True, threads=THREADS, shared=memory, name="sums")
    before = total("carry", kept.load(f"row * {PIECES} + j"))
    text = f"""\
{shared}
{piece}
{kind} carry = 0;
if (!alone) for (i64 j = 0; j < piece; j++) carry = {before};
{walk}"""
    at.part(text, items, block=True, threads=THREADS, shared=memory)


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
