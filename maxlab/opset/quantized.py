"""Numbers in blocks of few bits: what they stand for, and products with them as they are.

The layouts are those of ggml; the head of ``kernels/c/ops/quantized.h`` describes them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from maxlab.dtype import DType
from maxlab.errors import ArgumentTypeError, ShapeError
from maxlab.ir import Dim, Poly, Shape, StaticDim, TensorType, Type
from maxlab.ir.poly import ONE
from maxlab.opset.attributes import TEXT
from maxlab.opset.core import Array, Attrs, Call, Check, Cost, Sample, define, elements
from maxlab.opset.kernel import Site
from maxlab.opset.rules import same_device

HEADER = "ops/quantized.cuh"
GROUP = 16
"""Rows of weights that a thread multiplies with one left row after the other."""
LANES = 16
"""Rows of weights that lie side by side, when these are known before the model runs."""
WARPS = 4
"""Warps of a block of a product: each makes the results of one row of weights."""


@dataclass(frozen=True, slots=True)
class Blocks:
    """The blocks of a row: integers ``q``, and ``least`` where the encoding has it, as ``[...,
    blocks, elements]``; scales as ``[..., blocks]``. An element is ``d * q - dmin * least``."""

    q: Array
    d: Array
    least: Array | None = None
    dmin: Array | None = None


@dataclass(frozen=True, slots=True)
class Format:
    """An encoding: ``elements`` in ``nbytes``, and how NumPy reads them.

    ``offset`` and ``each`` say what a product keeps of its left rows: sums of ``each`` integers,
    times ``-offset``.
    """

    elements: int
    nbytes: int
    read: Callable[[Array], Blocks]
    offset: int = 0
    each: int = 32

    def blocks(self, rows: Array) -> Blocks:
        """The blocks of bytes ``[..., n * nbytes]``."""
        *lead, size = rows.shape
        return self.read(rows.reshape(*lead, size // self.nbytes, self.nbytes))


# ---------------------------------------------------------------- layouts
def _half(w: Array, at: int) -> Array:
    return np.ascontiguousarray(w[..., at : at + 2]).view(np.float16)[..., 0].astype(np.float64)


def _nibbles(w: Array, group: int) -> Array:
    """The low and then the high halves of each ``group`` bytes."""
    *lead, size = w.shape
    parts = w.reshape(*lead, size // group, 1, group)
    both = np.concatenate([parts & 15, parts >> 4], axis=-2)
    return both.reshape(*lead, 2 * size).astype(np.int64)


def _six_bits(w: Array) -> tuple[Array, Array]:
    """The scales and least values of Q4_K and Q5_K, each ``[..., 8]``."""
    a, b, c = w[..., 0:4], w[..., 4:8], w[..., 8:12]
    scales = np.concatenate([a & 63, (c & 15) | (a >> 2 & 48)], axis=-1)
    least = np.concatenate([b & 63, (c >> 4) | (b >> 2 & 48)], axis=-1)
    return scales.astype(np.int64), least.astype(np.int64)


def _q4_0(w: Array) -> Blocks:
    return Blocks(_nibbles(w[..., 2:], 16) - 8, _half(w, 0))


def _with_least(w: Array, q: Array) -> Blocks:
    scales, least = (np.repeat(x, 32, axis=-1) for x in _six_bits(w[..., 4:16]))
    return Blocks(scales * q, _half(w, 0), least, _half(w, 2))


def _q4_k(w: Array) -> Blocks:
    return _with_least(w, _nibbles(w[..., 16:], 32))


def _q5_k(w: Array) -> Blocks:
    high = w[..., 16:48][..., None, :] >> np.arange(8, dtype=np.uint8)[:, None] & 1
    q = _nibbles(w[..., 48:], 32)
    return _with_least(w, q + 16 * high.reshape(q.shape).astype(np.int64))


def _q6_k(w: Array) -> Blocks:
    q = _nibbles(w[..., :128], 64)
    high = w[..., 128:192].reshape(*w.shape[:-1], 2, 1, 32)
    high = high >> np.arange(0, 8, 2, dtype=np.uint8)[:, None] & 3
    q = q + 16 * high.reshape(q.shape).astype(np.int64) - 32
    scales = np.ascontiguousarray(w[..., 192:208]).view(np.int8).astype(np.int64)
    return Blocks(np.repeat(scales, 16, axis=-1) * q, _half(w, 208))


FORMATS = {
    "Q4_0": Format(32, 18, _q4_0, 8, 32),
    "Q4_K": Format(256, 144, _q4_k, -1, 32),
    "Q5_K": Format(256, 176, _q5_k),
    "Q6_K": Format(256, 210, _q6_k, 32, 16),
}
"""The encodings that have blocks, by name."""
PRODUCTS = ("Q4_0", "Q4_K", "Q6_K")
"""Those that products know."""


def quantized_left(x: Array, name: str) -> tuple[Array, Array]:
    """The rows ``x`` as a product with weights of the encoding ``name`` sees them: integers ``[...,
    blocks, elements]``, and their scales ``[..., blocks]``."""
    form = FORMATS[name]
    *lead, k = x.shape
    parts = x.astype(np.float32).reshape(*lead, k // form.elements, form.elements)
    with np.errstate(all="ignore"):
        sizes = np.abs(parts)
        most = np.max(sizes, axis=-1, initial=0.0)  # of NaN it is NaN
        if name == "Q4_0":
            scale = most / np.float32(127)
            inverse = np.where(scale == 0, np.float32(0), np.float32(1) / scale)
            wide = (parts * inverse[..., None]).astype(np.float64)
            q = np.copysign(np.floor(np.abs(wide) + 0.5), wide)  # halves away from zero
            d = scale.astype(np.float16).astype(np.float64)
        else:
            first = np.argmax(sizes, axis=-1)  # the first NaN, where there is one
            largest = np.take_along_axis(parts, first[..., None], axis=-1)[..., 0]
            inverse = np.where(most == 0, np.float32(0), np.float32(-127) / largest)
            q = np.rint(parts * inverse[..., None])
            d = np.where(most == 0, np.float32(0), np.float32(1) / inverse).astype(np.float64)
        return np.nan_to_num(np.clip(q, -127, 127), nan=0.0).astype(np.int64), d


# ---------------------------------------------------------------- types
def require_bytes(what: str, type: TensorType, name: str) -> None:
    """Raises unless ``type`` can be rows of blocks.

    Raises:
        ArgumentTypeError: ML738, not uint8.
        ShapeError: ML739, rank 0; ML740, a last dim that is no multiple of the size of a block.
    """
    form = FORMATS[name]
    if type.dtype is not DType.uint8:
        raise ArgumentTypeError(
            "ML738",
            f"{what}: blocks of {name} are bytes, uint8, got {type.dtype.name}",
            fix="pass the bytes as the file has them",
        )
    if not type.rank:
        raise ShapeError(
            "ML739", f"{what}: blocks of {name} need a dim to lie along, got rank 0",
            fix="pass a tensor whose last dim is in bytes",
        )  # fmt: skip
    last = type.shape[-1]
    if isinstance(last, StaticDim) and int(last) % form.nbytes:
        raise ShapeError(
            "ML740",
            f"{what}: the last dim is {last} bytes, not a multiple of the {form.nbytes} bytes of a "
            f"block of {name}",
            fix=f"the last dim is in bytes: a row of n elements has n / {form.elements} * "
            f"{form.nbytes}",
        )


def same_size(left: Poly, right: Poly, message: str) -> list[Check]:
    """The check that two sizes are equal; none where they are known to be."""
    gap = right - left
    return [] if gap.is_constant and not gap.value else [Check(left, "==", right, message)]


def whole_blocks(size: Poly, part: int, message: str) -> list[Check]:
    """The check that ``size`` is a multiple of ``part``; none where it is known to be."""
    unit = Poly.constant(part)
    return same_size(size.floordiv(unit) * unit, size, message)


# ---------------------------------------------------------------- dequantize
def _dequantize_infer(types: Sequence[TensorType], attrs: Attrs) -> list[Type]:
    (w,) = types
    name = attrs["encoding"]
    form = FORMATS[name]
    require_bytes("dequantize", w, name)
    last = w.shape[-1] // form.nbytes * form.elements
    return [TensorType(DType.float32, [*w.shape[:-1], last], w.device)]


def dequantize_reference(call: Call, w: Array) -> Array:
    """The float32 numbers of the blocks ``w``, whose last axis is bytes."""
    found = FORMATS[call.attrs["encoding"]].blocks(w)
    y = found.d[..., None] * found.q
    if found.least is not None and found.dmin is not None:
        y = y - found.dmin[..., None] * found.least
    return y.astype(np.float32).reshape(call.shapes[0])


def called(function: str, *arguments: object) -> str:
    """The statement that calls a function of a kernel's language."""
    return f"{function}({', '.join(map(str, arguments))});"


def _dequantize_kernel(at: Site) -> None:
    w, y = at.operands[0], at.results[0]
    name = at.attrs["encoding"]
    form = FORMATS[name]
    at.header(HEADER)
    count = elements(w.type).floordiv(Poly.constant(form.nbytes))
    if at.target == "c":
        text = called(
            f"mx_dequantize_{name.lower()}",
            f"y0 + i * {form.elements}",
            f"x0 + i * {form.nbytes}",
        )
        at.part(text, count, work=Poly.constant(2 * form.elements))
        return
    place = f"i / {form.elements} * {form.nbytes}, (int)(i % {form.elements})"
    at.part(f"y0[i] = mx_{name.lower()}_element(x0 + {place});", elements(y.type))


def _dequantize_checks(
    operands: Sequence[TensorType], results: Sequence[Type], attrs: Attrs
) -> list[Check]:
    form = FORMATS[attrs["encoding"]]
    message = f"dequantize: the last dim is not a multiple of {form.nbytes} bytes"
    return whole_blocks(operands[0].shape[-1].poly, form.nbytes, message)


def _dequantize_samples() -> list[Sample]:
    rng = np.random.default_rng(6)
    found = []
    for name, form in FORMATS.items():
        attrs = {"encoding": name}
        w = random_blocks(rng, name, (3, 2, 5))
        odd = random_blocks(rng, name, (4,))
        at = 208 if name == "Q6_K" else 0
        odd[at : at + 2] = np.asarray([np.inf], np.float16).view(np.uint8)
        odd[form.nbytes + at : form.nbytes + at + 2] = 255  # not a number
        found += [
            Sample((w,), attrs, (("a", 2, "b"),), name.lower()),
            Sample((odd,), attrs, label=f"{name.lower()} vector"),
            Sample((np.zeros((2, 0), np.uint8),), attrs, (("a", "b"),), f"{name.lower()} empty"),
        ]
    return found


# ---------------------------------------------------------------- qmatmul
def _qmatmul_infer(types: Sequence[TensorType], attrs: Attrs) -> list[Type]:
    x, w = types
    name = attrs["encoding"]
    form = FORMATS[name]
    if x.dtype is not DType.float32:
        raise ArgumentTypeError(
            "ML738",
            f"qmatmul: the left operand must be float32, got {x.dtype.name}",
            fix="cast it: ops.cast(x, DType.float32)",
        )
    if not x.rank or w.rank != 2:
        raise ShapeError(
            "ML739",
            f"qmatmul: operands of rank {x.rank} and {w.rank}, expected 1 or more and 2",
            fix="the right operand is a matrix [n, bytes of a row], the left one [..., k]",
        )
    require_bytes("qmatmul", w, name)
    same_device("qmatmul", types)
    k, size = x.shape[-1], w.shape[-1]
    have = size // form.nbytes * form.elements
    wrong = isinstance(k, StaticDim) and (
        int(k) % form.elements or (isinstance(have, StaticDim) and k != have)
    )
    if wrong:
        raise ShapeError(
            "ML741",
            f"qmatmul: the inner dims differ, {k} ≠ {have}: [{', '.join(map(str, x.shape))}] times "
            f"rows of {size} bytes, which are {have} elements of {name}",
            fix="the right operand is transposed, [n, bytes of a row of k elements]",
        )
    return [TensorType(DType.float32, Shape([*x.shape[:-1], w.shape[0]]), x.device)]


def _qmatmul_reference(call: Call, x: Array, w: Array) -> Array:
    name = call.attrs["encoding"]
    right = FORMATS[name].blocks(w)
    rows = int(np.prod(x.shape[:-1], dtype=np.int64))
    q, d = quantized_left(x.reshape(rows, x.shape[-1]), name)

    def sums(numbers: Array, scale: Array) -> Array:
        # The integers stay far below 2 ** 53, so float64 has them exactly.
        whole = np.einsum("mbe,nbe->mnb", q.astype(float), numbers.astype(float))
        return np.asarray((whole * (d[:, None, :] * scale)).sum(axis=-1))

    y = sums(right.q, right.d)
    if right.least is not None and right.dmin is not None:
        y = y - sums(right.least, right.dmin)
    return y.astype(np.float32).reshape(call.shapes[0])


def _laid_out(name: str, blocks: Poly, n: Poly) -> tuple[str, int, tuple[Poly, Poly], int]:
    """The arguments of ``Site.packed_blocks`` for rows of the encoding ``name``; the numbers of
    bytes are explained at the head of ``kernels/c/quantized.c``.
    """
    count = blocks.value if blocks.is_constant else 0
    pairs = -(-count // 2)
    nbytes = {"Q4_0": 576 * pairs, "Q4_K": 2368 * count, "Q6_K": 3392 * count}[name]
    return f"mx_k_pack_{name.lower()}", LANES, (blocks, n), nbytes


def _qmatmul_kernel(at: Site) -> None:
    x, w = at.operands
    name = at.attrs["encoding"]
    form = FORMATS[name]
    low = name.lower()
    size = w.type.sizes[1]
    per = Poly.constant(form.elements)
    blocks = size.floordiv(Poly.constant(form.nbytes))
    k = blocks * per
    rows, columns = ONE, w.type.sizes[0]
    for dim in x.type.sizes[:-1]:
        rows = rows * dim
    at.header(HEADER)
    n, m, count, stride = (at.size(s) for s in (columns, rows, blocks, size))
    if at.target == "cuda":
        q = at.temporary(DType.int8, rows * blocks * per)
        d = at.temporary(DType.float32, rows * blocks)
        place = f"{q.name} + i * {form.elements}, {d.name} + i, x0 + i * {form.elements}"
        at.part(called(f"mx_quantize_{form.elements}", place), rows * blocks, name="quantize")
        groups = (columns + Poly.constant(WARPS - 1)).floordiv(Poly.constant(WARPS))
        text = f"mx_qmatmul<MX_{name}>(y0, x1, {q.name}, {d.name}, i, {m}, {n}, {count}, {stride});"
        at.part(text, groups, block=True, threads=32 * WARPS, work=rows * k)
        return
    pair = Poly.constant(2 if name == "Q4_0" else 1)
    padded = (blocks + pair - ONE).floordiv(pair) * pair
    even = at.size(padded)
    q = at.temporary(DType.int8, rows * padded * per)
    work = Poly.constant(4 * form.elements)
    sums = form.elements // form.each
    s = at.temporary(DType.int32, rows * padded * Poly.constant(sums))
    d = at.temporary(DType.float32, rows * padded)
    places = f"{q.name} + i * {form.elements}, {s.name} + i * {sums}, {d.name} + i"
    source = f"x0 + i * {form.elements}"
    if name == "Q4_0":
        source = f"x0 + (row * {count} + block) * 32"
        text = f"""\
const i64 row = i / {even}, block = i % {even};
if (block < {count}) mx_q8_0({places}, {source}, {form.offset});
else mx_q8_none({places});"""
    else:
        text = f"mx_q8_k({places}, {source}, {form.offset}, {form.each});"
    at.part(text, rows * padded, work=work, name="quantize")
    # A single left row is multiplied with Q6_K as it lies in the file faster than with 16 rows at
    # once; benchmarks.ops measures both.
    alone = name == "Q6_K" and rows == ONE
    group = None if alone else at.packed_blocks(w, *_laid_out(name, blocks, columns))
    if group is not None:
        text = f"""\
if (ctx->lib->q_product({PRODUCTS.index(name)}, y0, {n}, {group.name}, {count}, {q.name}, {s.name},
  {d.name}, {m}, i, i + 4 < hi ? i + 4 : hi, ctx)) return MX_STOPPED;
i += 3;"""
        groups = (columns + Poly.constant(LANES - 1)).floordiv(Poly.constant(LANES))
        at.part(text, groups, work=rows * k * Poly.constant(4))
        return
    left = ", ".join(
        f"{buffer.name} + j * {even} * {each}"
        for buffer, each in ((q, form.elements), (s, sums), (d, 1))
    )
    # Sixteen rows of weights meet a left row while both are near; or what is left of this thread's.
    one = f"y0 + j * {n} + r, x1 + r * {stride}"
    if name == "Q4_0":
        step = f"""\
  for (i64 r = i; r < i + many;) {{
    const i64 rows = i + many - r < 4 ? 1 : 4;
    mx_q4_0_rows({one}, {stride}, {count}, {left}, rows);
    r += rows;
  }}"""
    else:
        step = f"""\
  for (i64 r = i; r < i + many; r++)
    mx_{low}_row({one}, {count}, {left});"""
    text = f"""\
const i64 many = hi - i < {GROUP} ? hi - i : {GROUP};
{at.along("j", "0", m, strip=256)}
{step}
i += many - 1;"""
    at.part(text, columns, work=rows * k)


def _qmatmul_checks(
    operands: Sequence[TensorType], results: Sequence[Type], attrs: Attrs
) -> list[Check]:
    name = attrs["encoding"]
    form = FORMATS[name]
    k, size = operands[0].shape[-1].poly, operands[1].shape[-1].poly
    message = f"qmatmul: a row of the right operand is not a multiple of {form.nbytes} bytes"
    found = whole_blocks(size, form.nbytes, message)
    have = size.floordiv(Poly.constant(form.nbytes)) * Poly.constant(form.elements)
    return found + same_size(k, have, "qmatmul: the inner dims differ")


def random_blocks(
    rng: np.random.Generator, name: str, shape: Sequence[int], *, positive: bool = False
) -> Array:
    """Bytes of the encoding ``name``: ``shape`` counts blocks in its last dim. Scales are of usual
    sizes; with ``positive`` no element stands for a number below zero."""
    form = FORMATS[name]
    w = rng.integers(0, 256, (*shape, form.nbytes), np.uint8)

    def put(at: int, low: float, high: float) -> None:
        values = rng.uniform(low, high, (*shape, 1)).astype(np.float16)
        w[..., at : at + 2] = values.view(np.uint8)

    if name == "Q4_0":
        put(0, -0.1, 0.1)
        if positive:  # nibbles from 8 with a scale above zero, up to 8 with one below
            sign = (w[..., 1:2] >> 7).astype(bool)
            low, high = w[..., 2:] & 15, w[..., 2:] >> 4
            halves = [np.where(sign, x % 9, x | 8) for x in (low, high)]
            w[..., 2:] = halves[0] | halves[1] << 4
    elif name == "Q6_K":
        put(208, 1e-4, 1e-3)
        if positive:  # every 16 numbers on the side of 32 where their scale puts them above zero
            up = rng.integers(0, 2, (*shape, 16)).astype(bool)
            w[..., 192:208] = np.where(up, w[..., 192:208] & 127, w[..., 192:208] | 128)
            sides = np.repeat(up, 16, axis=-1).reshape(*shape, 2, 4, 32)
            keep = w[..., 128:192].reshape(*shape, 2, 32)
            bits = [np.where(sides[..., i, :], 2, 0).astype(np.uint8) for i in range(4)]
            upper = [(keep >> 2 * i & 1 | bits[i]) << 2 * i for i in range(4)]
            w[..., 128:192] = np.bitwise_or.reduce(upper).reshape(*shape, 64)
    else:
        put(0, 1e-4, 2e-3)
        put(2, *((-2e-3, -1e-4) if positive else (1e-4, 2e-2)))
    return w.reshape(*shape[:-1], -1)


def _qmatmul_samples() -> list[Sample]:
    rng = np.random.default_rng(7)
    found = []
    for name in PRODUCTS:
        form = FORMATS[name]
        attrs = {"encoding": name}

        def left(*shape: int, per: int = form.elements) -> Array:
            *lead, blocks = shape
            return rng.standard_normal((*lead, blocks * per)).astype(np.float32)

        def right(*shape: int, of: str = name) -> Array:
            # Weights above zero, as sums of sizes are what the tests' bounds are made of.
            return random_blocks(rng, of, shape, positive=True)

        label = name.lower()
        zeros = left(2, 2)
        zeros[0, : form.elements] = 0
        found += [
            Sample((left(1, 3), right(9, 3)), attrs, (("m", "k"), ("n", "b")), f"{label} vector"),
            Sample(
                (left(2, 3, 2), right(7, 2)),
                attrs,
                (("a", 3, 2 * form.elements), ("n", 2 * form.nbytes)),
                f"{label} batch",
            ),
            Sample((left(1), right(5, 1)), attrs, label=f"{label} one"),
            Sample((zeros, right(4, 2)), attrs, label=f"{label} zeros"),
            Sample((left(0, 2), right(3, 2)), attrs, (("m", "k"), ("n", "b")), f"{label} no rows"),
            Sample((left(2, 0), right(3, 0)), attrs, label=f"{label} no blocks"),
        ]
    return found


define(
    "dequantize",
    "kernel",
    "quantized",
    "The float32 numbers that blocks of few bits stand for.",
    attrs={"encoding": TEXT},
    family="elementwise",
    infer=_dequantize_infer,
    reference=dequantize_reference,
    kernel=_dequantize_kernel,
    checks=_dequantize_checks,
    cost=lambda operands, results, attrs: Cost(elements(results[0]) * Poly.constant(2)),
    samples=_dequantize_samples,
)

define(
    "qmatmul",
    "kernel",
    "quantized",
    "A product with a transposed matrix in blocks of few bits; the left rows are quantised first.",
    attrs={"encoding": TEXT},
    infer=_qmatmul_infer,
    reference=_qmatmul_reference,
    kernel=_qmatmul_kernel,
    checks=_qmatmul_checks,
    cost=lambda operands, results, attrs: Cost(
        elements(results[0]) * Dim(operands[0].shape[-1]).poly * Poly.constant(2)
    ),
    samples=_qmatmul_samples,
    terms=lambda arrays, attrs: arrays[0].shape[-1],
)
