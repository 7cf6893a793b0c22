"""Ops that have one element for each element that is not zero.

They take two walks. The first counts in chunks of ``CHUNK`` elements and adds the counts up, so
that in the second every chunk knows where it writes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

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
from maxlab.opset.kernel_files import OwnKernel
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


def _kernel(
    at: Site, name: str, counted: TensorType, texts: Mapping[str, str] | None = None
) -> None:
    """Write the op ``name`` of ``dynamic.cu``, which goes along ``counted`` in chunks."""
    OwnKernel(
        at, "dynamic.cu", name, dims={"SIZE": elements(counted), "CHUNKS": _chunks(counted)},
        texts=texts, CHUNK=CHUNK, EACH=EACH, ROOM=THREADS * 8,
    ).write()  # fmt: skip


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
    kernel=lambda at: _kernel(at, "count_chunks", at.operands[0].type),
    cost=lambda operands, results, attrs: Cost(elements(operands[0])),
    samples=_count_samples,
)


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
    x, y = at.operands[0], at.results[0]
    rank = len(x.type.sizes)
    if not rank:  # no axes, so that there is nothing to write
        at.part(f"(void){y.name};", ONE)
        return
    note = y.store("at", "j")
    if rank > 1:
        # Divisions of 32 bits take a fraction of the time of those of 64.
        narrow = f"if ({at.size(elements(x.type))} < 0x7fffffffll)"
        note = f"{narrow} {{ {_divided(at, 'u32')} }} else {{ {_divided(at, 'i64')} }}"
    _kernel(at, "nonzero", x.type, {"NOTE": note})


def _divided(at: Site, kind: str) -> str:
    """Statements that store the indices of the element ``j``."""
    y, sizes = at.results[0], at.operands[0].type.sizes
    rank = len(sizes)
    lines = [f"{kind} rest = ({kind})j;"]
    for axis in reversed(range(1, rank)):
        size = f"({kind}){at.size(sizes[axis])}"
        lines.append(y.store(f"at * {rank} + {axis}", f"(i64)(rest % {size})"))
        lines.append(f"rest /= {size};")
    return " ".join([*lines, y.store(f"at * {rank}", "(i64)rest")])


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
    kernel=lambda at: _kernel(at, "masked_scatter", at.operands[1].type),
    takes_float8=True,
    cost=lambda operands, results, attrs: Cost(elements(operands[0])),
    samples=_masked_samples,
)
