"""Ops whose results have sizes that only a run tells, and the op that binds such a dim.

``mo.bind_dim`` takes a number that was computed and makes it the size of a dim: a name that nobody
has bound before is *defined* by it, for every op that names it; a number, an expression or a name
that is bound already is *asserted*. A plan is cut behind such ops; the engine reads the numbers
there and goes on with the sizes that they give.

Whatever has one element for each element that is not zero takes two walks. The first counts in
chunks of ``CHUNK`` elements and adds the counts up, so that in the second every chunk knows where
it writes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from maxlab.dtype import DType
from maxlab.errors import ArgumentError, DTypeError, ExecutionError, ShapeError
from maxlab.ir import Block, Dim, DimLike, Function, Op, SymbolicDim, TensorType, Type
from maxlab.ir.dims import from_poly
from maxlab.ir.poly import ONE, Poly
from maxlab.ir.types import _Typed
from maxlab.opset.core import (
    OPSET,
    Array,
    Attrs,
    Call,
    Check,
    Cost,
    Sample,
    define,
    elements,
)
from maxlab.opset.kernel import Site
from maxlab.opset.rules import require_dtype, require_integral, same_device, same_dtype

BIND = "mo.bind_dim"
CHUNK = 1024
"""Elements that are counted together: a block's on a GPU, a part of a thread's on the CPU."""
THREADS = 256
EACH = CHUNK // THREADS


# ---------------------------------------------------------------- which dims a run defines
def plain_symbol(check: Check) -> str | None:
    """The name that ``check`` says something is equal to; None when it is no name alone."""
    poly = check.right
    names = poly.symbols()
    if check.relation == "==" and len(names) == 1 and str(poly) == names[0]:
        return names[0]
    return None


def definitions(function: Function) -> dict[str, tuple[Op, Poly | None]]:
    """By the name of each dim that no input has: the op that defines it, a rebind of something of
    that size or, without a size, a ``bind_dim``. The first to name a dim defines it.
    """
    return _defined(function.block, ())


def _defined(block: Block, outside: Iterable[str]) -> dict[str, tuple[Op, Poly | None]]:
    known = set(outside)
    for value in block.args:
        if isinstance(value.type, _Typed):
            known.update(d.name for d in value.type.shape if isinstance(d, SymbolicDim))
    found: dict[str, tuple[Op, Poly | None]] = {}
    for op in block.ops:
        if op.name == BIND:
            dim = op.attrs["dim"]
            if isinstance(dim, SymbolicDim) and dim.name not in known:
                known.add(dim.name)
                found[dim.name] = op, None
        elif op.name == "mo.rebind":
            checks = OPSET[op.name].checks
            assert checks is not None
            types = [v.type for v in op.operands if isinstance(v.type, TensorType)]
            for check in checks(types, [r.type for r in op.results], op.attrs):
                name = plain_symbol(check)
                if name is not None and name not in known:
                    known.add(name)
                    found[name] = op, check.left
    return found


def region_definitions(region: Block, outside: Iterable[str]) -> dict[str, Poly]:
    """The sizes of the dims that a region names for itself, by their names, where ``outside`` are
    the names that its graph has."""
    found: dict[str, Poly] = {}
    for name, (_, size) in _defined(region, outside).items():
        if size is not None:
            found[name] = size.substitute(found)
    return found


def late_dims(function: Function) -> dict[str, frozenset[Op]]:
    """By the name of each dim that only a run tells: the ``bind_dim`` ops that must have run."""
    if not any(op.name == BIND for op in function.ops):
        return {}
    found: dict[str, frozenset[Op]] = {}
    for name, (op, size) in definitions(function).items():
        if size is None:
            found[name] = frozenset((op,))
        else:
            behind = [found[s] for s in size.symbols() if s in found]
            if behind:
                found[name] = frozenset().union(*behind)
    return found


def named_dims(op: Op) -> set[str]:
    """The names of dims in the types and attributes of ``op``, without those of its operands; of an
    op with regions, also those that these name."""
    found: set[str] = set()
    for region in op.regions:
        for inner in region.ops:
            found.update(named_dims(inner))
    for result in op.results:
        if isinstance(result.type, _Typed):
            found.update(name for size in result.type.sizes for name in size.symbols())
    for attr in op.attrs.values():
        found.update(_names(attr))
    return found


def _names(attr: object) -> list[str]:
    if isinstance(attr, Dim):
        return list(attr.poly.symbols())
    if isinstance(attr, (list, tuple)):
        return [name for one in attr for name in _names(one)]
    return []


# ---------------------------------------------------------------- binding
def _require_count(what: str, type: TensorType) -> None:
    if type.dtype is not DType.int64 or type.rank:
        raise DTypeError(
            "ML109",
            f"{what} must be one int64, got {type}",
            fix="cast it: ops.cast(x, DType.int64)",
        )


def _bind_infer(types: Sequence[TensorType], attrs: Attrs) -> list[Type]:
    (size,) = types
    _require_count("bind_dim: the size", size)
    Dim(attrs["dim"])
    return [size]


def _bind_kernel(at: Site) -> None:
    x, y = at.operands[0], at.results[0]
    at.part(y.store("i", x.load("i")), ONE)


define(
    "bind_dim",
    "kernel",
    "index",
    "The operand, which becomes, or must be, the size of a dim.",
    infer=_bind_infer,
    reference=lambda call, x: x,
    kernel=_bind_kernel,
    asserts=True,
    cost=lambda operands, results, attrs: Cost(Poly.constant(0)),
    samples=lambda: [
        Sample((np.array(7, np.int64),), {"dim": Dim(7), "what": "test", "negative": ""})
    ],
)


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


def _bounds(first: str, each: str, size: str) -> str:
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
            f"{_bounds(f'i * {CHUNK}', str(CHUNK), n)}\ni32 mine = 0;\n"
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
        f"{_bounds(f'i * {CHUNK} + threadIdx.x * {EACH}', str(EACH), n)}\ni64 mine = 0;\n"
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
        f"{_bounds('threadIdx.x * each', 'each', chunks)}\ni64 mine = 0;\n"
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
{_bounds(f"i * {CHUNK}", str(CHUNK), size)}
{each}i32 hits[{CHUNK}];
i64 many = 0, at = {starts.load("i")};
for (i64 j = first; j < last; j++) {{ hits[many] = (i32)(j - first); many += {x}; }}
for (i64 k = 0; k < many; k++) {{ const i64 j = first + hits[k]; {hit} at++; }}"""
        at.part(text, _chunks(counted.type), work=work)
        return
    text = f"""\
{_bounds(f"i * {CHUNK} + threadIdx.x * {EACH}", str(EACH), size)}
{each}i64 mine = 0;
for (i64 j = first; j < last; j++) mine += {x};
{_SCAN.format(shared=at.shared)}
i64 at = {starts.load("i")} + before;
for (i64 j = first; j < last; j++) if ({x}) {{ {hit} at++; }}"""
    at.part(text, _chunks(counted.type), block=True, threads=THREADS, shared=THREADS * 8, work=work)


# ---------------------------------------------------------------- nonzero
def _require_starts(what: str, starts: TensorType, total: TensorType) -> None:
    if starts.dtype is not DType.int64 or starts.rank != 1:
        raise DTypeError(
            "ML109",
            f"{what}: the starts of the chunks must be int64 of rank 1, got {starts}",
            fix="use ops.nonzero, which counts",
        )
    _require_count(f"{what}: the count", total)


def _nonzero_infer(types: Sequence[TensorType], attrs: Attrs) -> list[Type]:
    x, starts, total = types
    same_device("nonzero", types)
    _require_starts("nonzero", starts, total)
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
    _require_starts("masked_scatter", starts, total)
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
    infer=_masked_infer,
    reference=_masked,
    kernel=_masked_kernel,
    cost=lambda operands, results, attrs: Cost(elements(operands[0])),
    samples=_masked_samples,
)


# ---------------------------------------------------------------- repeat_interleave
def _repeat_infer(types: Sequence[TensorType], attrs: Attrs) -> list[Type]:
    ends, total = types
    same_device("repeat_interleave", types)
    _require_starts("repeat_interleave", ends, total)
    return [TensorType(DType.int64, [Dim(attrs["out_dim"])], ends.device)]


def _repeat(call: Call, ends: Array, total: Array) -> Array:
    return np.searchsorted(ends, np.arange(call.shapes[0][0]), side="right")


def _repeat_kernel(at: Site) -> None:
    ends, y = at.operands[0], at.results[0]
    n, count = at.size(ends.type.sizes[0]), at.size(y.type.sizes[0])
    search = f"""\
i64 low = 0, high = {n};
while (low < high) {{
  const i64 middle = low + (high - low) / 2;
  if ({ends.load("middle")} <= FIRST) low = middle + 1; else high = middle;
}}
"""
    if at.target == "cuda":
        text = search.replace("FIRST", "i") + y.store("i", "low")
        at.part(text, y.type.sizes[0], work=Poly.constant(32))
        return
    text = f"""\
{_bounds(f"i * {CHUNK}", str(CHUNK), count)}
{search.replace("FIRST", "first")}for (i64 j = first; j < last; j++) {{
  while (low < {n} && {ends.load("low")} <= j) low++;
  {y.store("j", "low")}
}}"""
    chunks = (y.type.sizes[0] + Poly.constant(CHUNK - 1)).floordiv(Poly.constant(CHUNK))
    at.part(text, chunks, work=Poly.constant(2 * CHUNK))


def _repeat_sample(counts: Sequence[int], label: str) -> Sample:
    ends = np.cumsum(np.array(counts, np.int64), dtype=np.int64)
    total = int(ends[-1]) if len(ends) else 0
    return Sample((ends, np.array(total)), {"out_dim": Dim(total)}, (("n",), ()), label)


define(
    "repeat.index",
    "kernel",
    "index",
    "For each element of the result of repeat_interleave, which element it repeats.",
    infer=_repeat_infer,
    reference=_repeat,
    kernel=_repeat_kernel,
    cost=lambda operands, results, attrs: Cost(Dim(attrs["out_dim"]).poly),
    samples=lambda: [
        _repeat_sample((2, 0, 3, 0, 1), "some"),
        _repeat_sample((), "empty"),
        _repeat_sample((0, 0), "none"),
        _repeat_sample(tuple(n % 7 for n in range(2000)), "long"),
    ],
)


# ---------------------------------------------------------------- range
def _range_size_infer(types: Sequence[TensorType], attrs: Attrs) -> list[Type]:
    same_dtype("range", types)
    same_device("range", types)
    for type in types:
        if type.rank:
            raise ShapeError(
                "ML209",
                f"range: bounds are rank 0, got rank {type.rank}",
                fix="pass a number, or a tensor of rank 0",
            )
        if type.dtype is DType.bool:
            raise DTypeError("ML106", "range needs numbers, got bool", fix="cast the bounds")
    return [TensorType(DType.int64, [], types[0].device)]


def _range_size(call: Call, *bounds: Array) -> Array:
    plain = int if bounds[0].dtype.kind in "iu" else float
    start, stop, step = (plain(x) for x in bounds)
    distance = stop - start
    if not step or distance * step < 0 or not np.isfinite(distance) or not np.isfinite(step):
        return np.asarray(-1)
    if plain is int:
        return np.asarray(-(-abs(distance) // abs(step)))
    return np.asarray(int(np.ceil(distance / step)))


def _range_size_kernel(at: Site) -> None:
    start, stop, step = at.operands
    y = at.results[0]
    whole = start.compute not in ("f32", "f64")
    kind = "i64" if whole else "f64"
    head = (
        f"const {kind} by = ({kind}){step.load('0')}, "
        f"d = ({kind}){stop.load('0')} - ({kind}){start.load('0')};\n"
    )
    if whole:
        text = (
            "const i64 size = by == 0 || (d != 0 && (d > 0) != (by > 0)) ? -1 : by > 0 "
            "? d / by + (d % by != 0) : -d / -by + (-d % -by != 0);\n"
        )
    else:
        # What is no number, and what no memory holds, has no size.
        text = (
            "const f64 q = d / by;\n"
            "i64 size = -1;\n"
            "if (by != 0 && q >= 0 && q < 9e15) { size = (i64)q; size += (f64)size < q; }\n"
            "if (by - by != 0) size = -1;\n"
        )
    at.part(f"{head}{text}{y.store('i', 'size')}", ONE)


def _range_size_samples() -> list[Sample]:
    rows = [(0, 10, 3), (10, 0, -3), (5, 5, 1), (0, 10, 0), (0, 10, -1), (3, -3, -2), (-1, 0, 3)]
    found = []
    for row in rows:
        for dtype in (np.int64, np.int32, np.float32, np.float64):
            label = f"{np.dtype(dtype).name} {row}"
            found.append(Sample(tuple(np.array(x, dtype) for x in row), {}, label=label))
    odd = [(0, np.inf, 1), (0, np.nan, 1), (0.5, 2.1, 0.5), (0, 10, np.inf)]
    for number, floats in enumerate(odd):
        arrays = tuple(np.array(x, np.float32) for x in floats)
        found.append(Sample(arrays, {}, label=f"odd {number}"))
    return found


define(
    "range.size",
    "kernel",
    "index",
    "The size of a range whose bounds are computed; -1 where the step does not lead to stop.",
    infer=_range_size_infer,
    reference=_range_size,
    kernel=_range_size_kernel,
    cost=lambda operands, results, attrs: Cost(ONE),
    samples=_range_size_samples,
)


# ---------------------------------------------------------------- slices
def _slice_infer(types: Sequence[TensorType], attrs: Attrs) -> list[Type]:
    same_device("slice_tensor", types)
    for type in types:
        require_integral("slice_tensor: a bound", type)
        _require_count("slice_tensor: a bound", type)
    if not attrs["step"]:
        raise ArgumentError("ML345", "the step of a slice is 0", fix="use 1 or -1")
    Dim(attrs["size"])
    scalar = TensorType(DType.int64, [], types[0].device)
    return [scalar, scalar]


def _slice_bounds(call: Call, start: Array, stop: Array) -> tuple[Array, Array]:
    size, step = call.size(call.attrs["size"]), call.attrs["step"]
    low, high = (-size - 1, size - 1) if step < 0 else (-size, size)
    bounds = []
    for bound, raw in zip((int(start), int(stop)), call.attrs["raw"], strict=True):
        if raw and not low <= bound <= high:
            raise ArgumentError("ML652", f"the bound {bound} is out of range for a size of {size}")
        bounds.append(bound + size if raw and bound < 0 else bound)
    count = max(-(-(bounds[1] - bounds[0]) // step), 0)
    return np.asarray(bounds[0]), np.asarray(count)


def _slice_kernel(at: Site) -> None:
    step, size = int(at.attrs["step"]), at.size(Dim(at.attrs["size"]).poly)
    low, high = (f"(-{size} - 1)", f"({size} - 1)") if step < 0 else (f"-{size}", size)
    lines = []
    for name, bound, raw in zip(("start", "stop"), at.operands, at.attrs["raw"], strict=True):
        lines.append(f"i64 {name} = {bound.load('0')};")
        if raw:
            stop = at.fault(name, size)
            again = f"{{ {stop} {name} = 0; }}" if at.target == "cuda" else stop
            lines.append(f"if ({name} < {low} || {name} > {high}) {again}")
            lines.append(f"if ({name} < 0) {name} += {size};")
    distance = "stop - start" if step > 0 else "start - stop"
    lines.append(f"const i64 d = {distance};")
    first, count = at.results
    lines.append(first.store("i", "start"))
    lines.append(count.store("i", f"d > 0 ? (d + {abs(step) - 1}) / {abs(step)} : 0"))
    at.part("\n".join(lines), ONE)


def _slice_samples() -> list[Sample]:
    found = []
    for start, stop, step in (
        (1, 4, 1),
        (0, 5, 2),
        (-4, -1, 1),
        (4, 1, 1),
        (4, -6, -1),
        (-1, 0, -2),
    ):
        attrs = {"size": Dim(5), "step": step, "raw": (True, True)}
        arrays = (np.array(start), np.array(stop))
        found.append(Sample(arrays, attrs, label=f"{start} {stop} {step}"))
    arrays = (np.array(4), np.array(-1))
    found.append(
        Sample(arrays, {"size": Dim(5), "step": -1, "raw": (True, False)}, label="to the front")
    )
    return found


def _slice_fault(op: Op, bound: int, size: int) -> ExecutionError:
    low, high = (-size - 1, size - 1) if op.attrs["step"] < 0 else (-size, size)
    return ExecutionError(
        "ML652",
        f"slice_tensor: the bound {bound} is out of range for a dim of size {size}",
        at=op.loc,
        fix=f"bounds go from {low} to {high}; they are not clamped",
    )


define(
    "slice.bounds",
    "kernel",
    "index",
    "Where a slice whose bounds are computed begins, and how many elements it has.",
    infer=_slice_infer,
    reference=_slice_bounds,
    kernel=_slice_kernel,
    fault=_slice_fault,
    cost=lambda operands, results, attrs: Cost(ONE),
    samples=_slice_samples,
)


def out_dim_of(dim: DimLike) -> Dim:
    """``dim`` as a dim; a static one is not negative.

    Raises:
        ArgumentError: ML728, it is negative.
    """
    made = Dim(dim)
    if made.poly.is_constant and made.poly.evaluate({}) < 0:
        raise ArgumentError(
            "ML728", f"out_dim is {made}, and no dim is negative", fix="pass a name, or 0 or more"
        )
    return made


__all__ = [
    "BIND",
    "definitions",
    "late_dims",
    "named_dims",
    "out_dim_of",
    "plain_symbol",
]
