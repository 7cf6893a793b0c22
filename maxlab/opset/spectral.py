"""The inverse Fourier transform to real rows, and bands of matrices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from maxlab.dtype import DType
from maxlab.errors import ArgumentError, ShapeError
from maxlab.ir import Constant, Dim, Op, Poly, StaticDim, TensorType, Type, Value
from maxlab.ir.poly import ONE
from maxlab.opset.attributes import BOOL, INT, TEXT, Attribute
from maxlab.opset.builder import Ops, one
from maxlab.opset.core import Array, Attrs, Call, Cost, Sample, define, elements
from maxlab.opset.facts import foreign_names
from maxlab.opset.fft import MOST, Inverse, Text, scale_of
from maxlab.opset.kernel import Site
from maxlab.opset.rules import axis_of, require_float, same_device

NORMALIZATIONS = ("backward", "ortho", "forward")
THREADS = 256
SHARED_SIZE = 1024
"""Elements whose buffers fit into the shared memory of a block."""
MOST_BLOCKS = 1024
"""Blocks that have buffers in the memory of a GPU; more rows take turns."""


# ---------------------------------------------------------------- irfft
def _infer(types: Sequence[TensorType], attrs: Attrs) -> list[Type]:
    x = types[0]
    require_float("irfft", x)
    n = attrs["n"]
    if n < 1:
        raise ArgumentError(
            "ML387",
            f"irfft: the result has {n} elements along the axis, and must have 1 or more",
            fix="pass n, the size that the result shall have",
        )
    if n > MOST:
        raise ArgumentError(
            "ML387",
            f"irfft: the result has {n} elements along the axis, and at most {MOST} are possible: "
            "the sines and cosines of a row are kept in the graph",
            fix="transform shorter rows",
        )
    if attrs["normalization"] not in NORMALIZATIONS:
        raise ArgumentError(
            "ML387",
            f"irfft: the normalization {attrs['normalization']!r} is not one of "
            f"{', '.join(NORMALIZATIONS)}",
            fix='normalization="backward"',
        )
    if attrs["buffer_size_mb"] < 1:
        raise ArgumentError(
            "ML387",
            f"irfft: a buffer of {attrs['buffer_size_mb']} MB holds nothing",
            fix="leave buffer_size_mb out",
        )
    dims = list(x.shape)
    if attrs["complex"]:
        if not dims or dims.pop() != Dim(2):
            shape = ", ".join(map(str, x.shape))
            raise ShapeError(
                "ML388",
                f"irfft: complex numbers are pairs in a last dim of size 2, got [{shape}]",
                fix="use ops.as_interleaved_complex(x), or input_is_complex=False",
            )
    axis = axis_of(attrs["axis"], len(dims), "irfft")
    dims[axis] = Dim(n)
    return [TensorType(x.dtype, dims, x.device)]


def _reference(call: Call, x: Array, table: Array | None = None) -> Array:
    attrs = call.attrs
    wide = x.astype(np.float64)
    spectrum = wide[..., 0] + 1j * wide[..., 1] if attrs["complex"] else wide.astype(np.complex128)
    axis = axis_of(attrs["axis"], spectrum.ndim, "irfft")
    if not spectrum.size:
        return np.zeros(call.shapes[0])
    return np.fft.irfft(spectrum, n=attrs["n"], axis=axis, norm=attrs["normalization"])


def _decompose(b: Ops[Value], op: Op) -> Value:
    """The axis last, the transform of rows with its table, and the axis where it was."""
    (x,) = op.operands
    attrs = dict(op.attrs)
    type = x.tensor_type
    rank = type.rank - bool(attrs["complex"])
    axis = axis_of(attrs["axis"], rank, "irfft")
    there = [i for i in range(rank) if i != axis] + [axis]
    if axis != rank - 1:
        x = one(b, "permute", [x], dims=(*there, *range(rank, type.rank)))
    plan = Inverse(attrs["n"])
    try:
        data = Constant(plan.table())
    except MemoryError:
        raise ArgumentError(
            "ML387",
            f"irfft: there is no memory for the {plan.offsets()['end'] * 8 / 2**20:.0f} MiB of "
            f"sines and cosines of a row of {plan.n} elements",
            at=op.loc,
            fix="transform shorter rows, or rows whose size has no large prime factor",
        ) from None
    table = one(b, "constant", [], value=data, device=type.device)
    made = one(b, "irfft.rows", [x, table], **{**attrs, "axis": -1})
    if axis == rank - 1:
        return made
    return one(b, "permute", [made], dims=tuple(there.index(i) for i in range(rank)))


def _cost(operands: Sequence[TensorType], results: Sequence[Any], attrs: Attrs) -> Cost:
    (result,) = results
    rows = ONE
    axis = axis_of(attrs["axis"], len(result.shape), "irfft")
    for i, dim in enumerate(result.shape):
        rows = rows if i == axis else rows * dim.poly
    return Cost(rows * Poly.constant(Inverse(attrs["n"]).flops))


def _load(at: Site, plan: Inverse, text: Text) -> None:
    """Statements that make what is transformed of the half spectrum ``row``."""
    x = at.operands[0]
    pairs = at.attrs["complex"]
    n, length = plan.n, plan.length
    kept = n // 2 + 1

    def element(name: str, index: str) -> list[str]:
        """The complex ``name``, 0 behind the end of the row; the ends of a spectrum are real."""
        place = f"({index} < held ? {index} : 0)"
        if not pairs:
            value = x.load(f"row * width + {place}")
            return [f"const f64 {name}r = {index} < held ? (f64){value} : 0, {name}i = 0;"]
        real, imaginary = (
            x.load(f"(row * width + {place}) * 2"),
            x.load(f"(row * width + {place}) * 2 + 1"),
        )
        inner = f"{index} < held && {index} != 0" + (
            f" && {index} != {n // 2}" if n % 2 == 0 else ""
        )
        return [
            f"const f64 {name}r = {index} < held ? (f64){real} : 0;",
            f"const f64 {name}i = {inner} ? (f64){imaginary} : 0;",
        ]

    width = x.type.sizes[-2 if pairs else -1]
    text.lines.append(f"const i64 width = {at.size(width)};")
    text.lines.append(f"const i64 held = width < {kept} ? width : {kept};")
    if n % 2 == 0:
        body = [
            *element("p", "k"),
            *element("q", f"({length} - k)"),
            f"const f64 hc = {text.entry('half_cos', 'k')}, hs = {text.entry('half_sin', 'k')};",
            "const f64 mr = pr - qr, mi = pi + qi;",
            "const f64 zr = pr + qr - (mr * hs + mi * hc), zi = pi - qi + (mr * hc - mi * hs);",
        ]
    else:
        body = [
            f"const i64 at = k < {kept} ? k : {n} - k;",
            *element("p", "at"),
            f"const f64 zr = pr, zi = k < {kept} ? pi : -pi;",
        ]
    name = text.buffers[0]
    if plan.chirped:
        body += [
            f"const f64 cc = {text.entry('chirp_cos', 'k')}, cs = {text.entry('chirp_sin', 'k')};",
            f"{name}_re[k] = zr * cc - zi * cs; {name}_im[k] = zr * cs + zi * cc;",
        ]
    else:
        body.append(f"{name}_re[k] = zr; {name}_im[k] = zi;")
    if plan.size > length:
        zero = f"{name}_re[k + {length}] = 0; {name}_im[k + {length}] = 0;"
        text.loop(plan.size - length, [zero])
    text.loop(length, body)


def _kernel(at: Site) -> None:
    y = at.results[0]
    plan = Inverse(at.attrs["n"])
    n, size = plan.n, plan.size
    text = Text(plan, at.target, at.operands[1].name)
    _load(at, plan, text)
    if plan.chirped:
        text.convolve()
    else:
        text.transform()
    name, scale = text.buffers[0], at.literal(scale_of(n, at.attrs["normalization"]), DType.float64)

    def kept(index: str, part: str) -> str:
        text: str = y.store(f"row * {n} + {index}", f"({y.compute})({name}_{part}[k] * {scale})")
        return text

    if n % 2 == 0:
        text.loop(plan.length, [kept("k * 2", "re"), kept("k * 2 + 1", "im")])
    else:
        text.loop(n, [kept("k", "re")])
    rows = ONE
    for dim in y.type.sizes[:-1]:
        rows = rows * dim
    body = "\n".join(text.lines)
    named = [("a_re", 0), ("a_im", 1), ("b_re", 2), ("b_im", 3)]
    buffers = [(name, number) for name, number in named if name in body]  # one point needs two

    def pointers(memory: str) -> str:
        return "\n".join(
            f"f64 *const {RESTRICT[at.target]} {name} = (f64 *)({memory}) + {number * size};"
            for name, number in buffers
        )

    if at.target == "c":
        opened = f"const i64 row = i;\n{pointers(at.scratch)}\n"
        at.part(opened + body, rows, work=Poly.constant(plan.flops), scratch=32 * size)
        return
    if size <= SHARED_SIZE:
        opened = f"const i64 row = i;\n{pointers(at.shared)}\n"
        at.part(opened + body, rows, block=True, threads=THREADS, shared=32 * size)
        return
    slots = max(1, min(at.attrs["buffer_size_mb"] * 2**20 // (32 * size), MOST_BLOCKS))
    if rows.is_constant:
        slots = max(1, min(slots, rows.value))
    memory = at.temporary(DType.float64, Poly.constant(4 * size * slots))
    opened = f"{pointers(f'{memory.name} + i * {4 * size}')}\n"
    head = f"for (i64 row = i; row < {at.size(rows)}; row += {slots}) {{\n"
    at.part(f"{opened}{head}{body}\n}}", Poly.constant(slots), block=True, threads=THREADS)


RESTRICT = {"c": "RS", "cuda": "__restrict__"}


def _samples() -> list[Sample]:
    rng = np.random.default_rng(8)

    def sample(shape: tuple[int, ...], n: int, label: str = "", **more: Any) -> Sample:
        dtype = more.get("dtype", DType.float32)
        attrs = {
            "n": n,
            "axis": more.get("axis", -1),
            "normalization": more.get("norm", "backward"),
            "complex": more.get("pairs", True),
            "buffer_size_mb": 512,
        }
        x = rng.standard_normal(shape).astype(dtype.ml_numpy)
        return Sample((x,), attrs, more.get("shapes"), label or f"n {n}")

    found = [sample((3, n // 2 + 1, 2), n) for n in (1, 2, 3, 4, 5, 7, 8, 11, 13, 17, 30, 48, 58)]
    found += [
        sample((2, 61, 2), 120, "named", shapes=(("rows", "m", 2),)),
        sample((2, 514, 2), 2 * 512, "power of two"),
        sample((2, 501, 2), 1000, "f64", dtype=DType.float64),
        sample((2, 16, 2), 30, "f16", dtype=DType.float16),
        sample((2, 16, 2), 30, "bf16", dtype=DType.bfloat16),
        sample((2, 34, 2), 67, "chirp"),
        sample((2, 68, 2), 134, "even chirp", dtype=DType.float64),
        sample((3, 9), 16, "real", pairs=False),
        sample((3, 9), 15, "real odd", pairs=False, shapes=(("a", "b"),)),
        sample((3, 4, 2), 30, "padded"),
        sample((3, 40, 2), 30, "cut"),
        sample((3, 9, 4, 2), 16, "first axis", axis=0),
        sample((3, 9, 4, 2), 16, "middle axis", axis=-2, shapes=(("a", "b", "c", 2),)),
        sample((9, 5), 16, "columns", axis=0, pairs=False),
        sample((9, 2), 16, "one row", norm="ortho"),
        sample((9, 2), 17, "forward", norm="forward"),
        sample((0, 9, 2), 16, "no rows"),
        sample((2, 0, 2), 4, "no spectrum"),
        sample((2, 2101, 2), 4200, "long"),
    ]
    return found


def _row_samples() -> list[Sample]:
    return [
        Sample((s.arrays[0], Inverse(s.attrs["n"]).table()), s.attrs, None, s.label)
        for s in _samples()
        if s.attrs["axis"] == -1 and s.label in ("n 48", "chirp", "real", "one row")
    ]


def _rows_infer(types: Sequence[TensorType], attrs: Attrs) -> list[Type]:
    same_device("irfft.rows", types)
    return _infer(types[:1], attrs)


def _magnitude(arrays: Sequence[Array], attrs: Attrs) -> Array:
    """The sum of the sizes of all terms, which each element of a row has: a number that is not
    itself real counts twice, as its conjugate does."""
    x = np.abs(arrays[0].astype(np.float64))
    if attrs["complex"]:
        x = np.hypot(x[..., 0], x[..., 1])
    n = attrs["n"]
    scale = {"backward": 1 / n, "ortho": 1 / math.sqrt(n), "forward": 1.0}[attrs["normalization"]]
    total = 2 * scale * x[..., : n // 2 + 1].sum(axis=-1, keepdims=True)
    return np.broadcast_to(total, (*total.shape[:-1], n))


define(
    "irfft",
    "composite",
    "spectral",
    "The real row that a half spectrum is of, along an axis.",
    attrs={"n": INT, "axis": INT, "normalization": TEXT, "complex": BOOL, "buffer_size_mb": INT},
    foreign=foreign_names("fft_irfft"),
    infer=_infer,
    reference=_reference,
    decompose=_decompose,
    cost=_cost,
    samples=_samples,
)
define(
    "irfft.rows",
    "kernel",
    "spectral",
    "irfft along the last axis, with the sines and cosines that it needs.",
    attrs={"n": INT, "axis": INT, "normalization": TEXT, "complex": BOOL, "buffer_size_mb": INT},
    infer=_rows_infer,
    reference=_reference,
    kernel=_kernel,
    cost=_cost,
    terms=lambda arrays, attrs: attrs["n"],
    magnitude=_magnitude,
    samples=_row_samples,
)


# ---------------------------------------------------------------- band_part
def _band_infer(types: Sequence[TensorType], attrs: Attrs) -> list[Type]:
    (x,) = types
    if x.rank < 2:
        raise ArgumentError(
            "ML384",
            f"band_part needs matrices, got a tensor of rank {x.rank}",
            fix="reshape it to rank 2 or more",
        )
    for name, dim in (("num_lower", x.shape[-2]), ("num_upper", x.shape[-1])):
        bands = attrs[name]
        if bands is None:
            continue
        known = dim.dim if isinstance(dim, StaticDim) else math.inf
        if not 0 <= bands <= known:
            raise ArgumentError(
                "ML384",
                f"band_part: {name} is {bands}, and must be from 0 to {dim}",
                fix=f"leave {name} out to keep the whole triangle",
            )
    return [x]


def _band_reference(call: Call, x: Array) -> Array:
    lower, upper = call.attrs["num_lower"], call.attrs["num_upper"]
    rows, columns = x.shape[-2:]
    below = np.arange(rows)[:, None] - np.arange(columns)
    inside = np.ones((rows, columns), bool)
    if lower is not None:
        inside &= below <= lower
    if upper is not None:
        inside &= -below <= upper
    return np.where(inside != call.attrs["exclude"], x, np.zeros((), x.dtype))


def _band_decompose(b: Ops[Value], op: Op) -> Value:
    """A comparison of indices chooses between the operand and 0."""
    (x,) = op.operands
    type, attrs = x.tensor_type, op.attrs
    device, wide = type.device, DType.int64
    row = one(b, "iota", [], shape=(type.shape[-2], 1), axis=0, dtype=wide, device=device)
    column = one(b, "iota", [], shape=(1, type.shape[-1]), axis=1, dtype=wide, device=device)
    conditions = []
    if attrs["num_lower"] is not None:
        low = one(b, "sub", [row, b.literal(attrs["num_lower"], wide, device)])
        conditions.append(one(b, "greater_equal", [column, low]))
    if attrs["num_upper"] is not None:
        high = one(b, "add", [row, b.literal(attrs["num_upper"], wide, device)])
        conditions.append(one(b, "greater_equal", [high, column]))
    inside = conditions[0] if conditions else one(b, "greater_equal", [row, row])
    for condition in conditions[1:]:
        inside = one(b, "logical_and", [inside, condition])
    zero = b.literal(0, type.dtype, device)
    chosen = [inside, zero, x] if attrs["exclude"] else [inside, x, zero]
    return one(b, "where", chosen)


def _band_cost(operands: Sequence[TensorType], results: Sequence[Type], attrs: Attrs) -> Cost:
    (x,) = operands
    rows = x.sizes[-2]
    places = rows * x.sizes[-1]
    sides = (attrs["num_lower"] is not None) + (attrs["num_upper"] is not None)
    tests = places * Poly.constant(max(2 * sides - 1, 0)) + rows * Poly.constant(max(sides, 1))
    return Cost(elements(x) + tests)


def _band_samples() -> list[Sample]:
    rng = np.random.default_rng(9)
    x = rng.standard_normal((2, 5, 7)).astype(np.float32)

    def sample(
        array: Array, lower: int | None, upper: int | None, exclude: bool, **more: Any
    ) -> Sample:
        attrs = {"num_lower": lower, "num_upper": upper, "exclude": exclude}
        return Sample((array,), attrs, more.get("shapes"), more.get("label", ""))

    return [
        sample(x, None, 0, False, shapes=(("a", "m", "n"),), label="lower"),
        sample(x, 0, None, False, label="upper"),
        sample(x, 1, 2, False, shapes=(("a", "m", "n"),), label="band"),
        sample(x, 1, 2, True, label="exclude"),
        sample(x, None, None, False, label="all"),
        sample(x, None, None, True, label="none"),
        sample(x[0].astype(np.float16), 0, 0, False, label="f16"),
        sample(x[0].astype(DType.bfloat16.ml_numpy), 5, 7, False, label="bf16"),
        sample((x[0] * 9).astype(np.int32), 2, 0, False, label="int32"),
        sample(x[0] > 0, 2, 1, False, label="bool"),
        sample(np.full((3, 3), np.nan, np.float32), 0, 0, False, label="nan"),
        sample(np.zeros((2, 0, 3), np.float32), 0, 0, False, label="empty"),
    ]


define(
    "band_part",
    "composite",
    "elementwise",
    "Matrices with everything outside of a band about the diagonal set to 0.",
    attrs={
        "num_lower": Attribute("int", none=True),
        "num_upper": Attribute("int", none=True),
        "exclude": BOOL,
    },
    foreign=foreign_names("tril", "Trilu"),
    infer=_band_infer,
    reference=_band_reference,
    decompose=_band_decompose,
    cost=_band_cost,
    samples=_band_samples,
)
