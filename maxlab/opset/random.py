"""Random numbers that depend on their place only, so that every target makes the same ones.

The integers are those of Philox 4x32 with 10 rounds: J. Salmon, M. Moraes, R. Dror and D. Shaw,
"Parallel random numbers: as easy as 1, 2, 3", SC11. Its key is the seed; its counter is the number
of a block of four words, and which random op of the graph it is for.

Floats are the same to the last bit as well, in C, in CUDA and in NumPy. Their formulas are made of
operations that IEEE 754 rounds in one way, and no product is added to anything except in ``fma``: a
compiler that fuses products and sums finds nothing to fuse. Only ``accuracy="fast"`` may change the
last bit of a normal number: it divides in another way.

Elements are numbered in chunks of ``LANES`` blocks: the words of one block are ``LANES`` elements
apart, so that neighbours, vector lanes or threads, write neighbours.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from maxlab.dtype import DType
from maxlab.errors import ArgumentError, DTypeError, ShapeError
from maxlab.ir import DeviceRef, Poly, TensorType, Type
from maxlab.opset.attributes import DEVICE, DIMS, DTYPE, INT, TEXT, Attribute
from maxlab.opset.core import Array, Attrs, Call, Cost, Sample, define, elements
from maxlab.opset.kernel import Buffer, Site
from maxlab.opset.rules import require_dtype, same_device

MULTIPLIERS = 0xD2511F53, 0xCD9E8D57
WEYL = 0x9E3779B9, 0xBB67AE85
ROUNDS = 10
LANES = 64
FLOATS = DType.float16, DType.bfloat16, DType.float32, DType.float64

LOG_TERMS = {"f32": 4, "f64": 11}  # of 2/3 z, 2/5 z^2, ...: |z| < 0.0295
SIN_TERMS = {"f32": 4, "f64": 8}  # behind x, |x| <= pi/4
COS_TERMS = {"f32": 5, "f64": 8}  # behind 1
LN2 = {"f32": (0.693145752, 1.42860677e-06), "f64": (0.693147180369123816490, 1.90821492927e-10)}
SIN = [(-1) ** k / math.factorial(2 * k + 1) for k in range(1, 9)]
COS = [(-1) ** k / math.factorial(2 * k) for k in range(1, 9)]
LOG = [2 / (2 * k + 1) for k in range(1, 12)]


# ---------------------------------------------------------------- the type
def _infer(types: Sequence[TensorType], attrs: Attrs) -> list[Type]:
    dtype: DType = attrs["dtype"]
    how = attrs["distribution"]
    what = f"random.{how}"
    if how not in ("uniform", "gaussian") and (how, dtype) != ("bits", DType.uint32):
        raise ArgumentError(
            "ML378",
            f"random: there is no distribution {how!r} of {dtype.name}",
            fix='use "uniform" or "gaussian" with floats, or "bits" with uint32',
        )
    if how != "bits" and dtype not in FLOATS:
        raise DTypeError(
            "ML107",
            f"{what} makes float16, bfloat16, float32 and float64, not {dtype.name}",
            fix="make float32 and cast it: ops.cast(x, dtype)",
        )
    result = TensorType(dtype, attrs["shape"], attrs["device"])
    for seed in types:
        require_dtype(f"{what}: the seed", seed, DType.int64)
        if seed.rank:
            raise ShapeError(
                "ML209",
                f"{what}: the seed is a tensor of rank 0, got rank {seed.rank}",
                fix="index it, or pass an int",
            )
        same_device(what, [seed, result])
    return [result]


# ---------------------------------------------------------------- NumPy
def philox(counter: Sequence[Array], key: tuple[int, int]) -> list[Array]:
    """The four words of each of many blocks.

    Args:
        counter: Four uint32 arrays that broadcast.
        key: Two words.
    """
    c0, c1, c2, c3 = (np.asarray(c, np.uint64) for c in counter)
    low, shift = np.uint64(0xFFFFFFFF), np.uint64(32)
    for number in range(ROUNDS):
        k0, k1 = round_key(key, number)
        p, q = np.uint64(MULTIPLIERS[0]) * c0, np.uint64(MULTIPLIERS[1]) * c2
        c0, c1, c2, c3 = (
            (q >> shift) ^ c1 ^ np.uint64(k0),
            q & low,
            (p >> shift) ^ c3 ^ np.uint64(k1),
            p & low,
        )
    return [c.astype(np.uint32) for c in (c0, c1, c2, c3)]


def round_key(key: tuple[int, int], number: int) -> tuple[int, int]:
    """The key of a round."""
    return (key[0] + number * WEYL[0]) % 2**32, (key[1] + number * WEYL[1]) % 2**32


def _two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    """The rounded sum and what rounding took away."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def _odd_sum(a: Array, b: Array) -> Array:
    """``a + b`` rounded to odd: a second rounding then gives what one would have given."""
    total, rest = _two_sum(a, b)
    odd = np.ascontiguousarray(total).view(np.int64) & 1 == 1
    return np.where(odd | (rest == 0), total, np.nextafter(total, np.copysign(np.inf, rest)))


def fma(a: Any, b: Any, c: Any) -> Array:
    """``a * b + c`` rounded once, in the dtype of the array ``a``.

    For float64 as in S. Boldo and G. Melquiond, "Emulation of a FMA and correctly rounded sums:
    proved algorithms using rounding to odd", IEEE Transactions on Computers 57 (2008).
    """
    dtype = np.asarray(a).dtype
    x, y, z = np.broadcast_arrays(*(np.asarray(v, dtype).astype(np.float64) for v in (a, b, c)))
    if dtype == np.float32:
        return _odd_sum(x * y, z).astype(np.float32)  # a product of two float32 is exact

    def halves(v: Array) -> tuple[Array, Array]:
        big = v * 134217729.0
        high = big - (big - v)
        return high, v - high

    product = x * y
    (xh, xl), (yh, yl) = halves(x), halves(y)
    error = ((xh * yh - product) + xh * yl + xl * yh) + xl * yl
    high, low = _two_sum(z, error)
    total, rest = _two_sum(product, high)
    return np.asarray(total + _odd_sum(low, rest))


def _horner(x: Array, terms: Sequence[float]) -> Array:
    total = np.full_like(x, terms[-1])
    for term in reversed(terms[:-1]):
        total = fma(total, x, term)
    return total


def _normals(a: Array, b: Array, kind: str) -> tuple[Array, Array]:
    """Two normally distributed numbers for each two words, after G. Box and M. Muller."""
    wide = kind == "f64"
    real, whole = (np.float64, np.int64) if wide else (np.float32, np.int32)
    bits, mantissa = (64, 52) if wide else (32, 23)
    half = 0x3FE6A09E667F3BCD if wide else 0x3F3504F3  # sqrt(1/2)
    fine = (a >> np.uint64(11)).astype(real) if wide else a.astype(real)
    u = fma(fine, 2.0 ** -(53 if wide else 32), 2.0 ** -(54 if wide else 33))
    lifted: Array = u.view(whole) - np.asarray(half, whole)
    e = (lifted >> mantissa).astype(real)
    one: Array = ((lifted & whole(2**mantissa - 1)) + whole(half)).view(real)
    f: Array = np.subtract(one, real(1))
    s = f / (real(2) + f)
    z = s * s
    high, low = LN2[kind]
    tail = fma(s * z, _horner(z, LOG[: LOG_TERMS[kind]]), s + s)
    log = fma(e, high, fma(e, low, tail))
    r = np.sqrt(real(-2) * log)
    quarter = (b + b.dtype.type(2 ** (bits - 3))) >> b.dtype.type(bits - 2)
    x = (b - (quarter << b.dtype.type(bits - 2))).view(whole).astype(real)
    x = x * real(math.pi / 2 ** (bits - 1))
    t = x * x
    sine = fma(x * t, _horner(t, SIN[: SIN_TERMS[kind]]), x)
    cosine = fma(t, _horner(t, COS[: COS_TERMS[kind]]), real(1))
    odd = quarter & b.dtype.type(1) == 1
    first, second = np.where(odd, sine, cosine), np.where(odd, cosine, sine)
    first = np.where((quarter + b.dtype.type(1)) & b.dtype.type(2) == 2, -first, first)
    second = np.where(quarter & b.dtype.type(2) == 2, -second, second)
    return r * first, r * second


def _blocks(call: Call, count: int, per: int, seed: int) -> list[Array]:
    """The words of all blocks, each of shape ``[chunks, LANES]``."""
    chunks = -(-count // (LANES * per))
    at = np.arange(chunks * LANES, dtype=np.uint64).reshape(chunks, LANES)
    low = np.uint64(0xFFFFFFFF)
    stream = np.asarray(call.attrs["stream"])
    counter: list[Array] = [at & low, at >> np.uint64(32), stream, np.zeros_like(stream)]
    return philox(counter, (seed % 2**32, (seed >> 32) % 2**32))


def _reference(call: Call, *seeds: Array) -> Array:
    (shape,), (dtype,) = call.shapes, call.dtypes
    count = math.prod(shape)
    kind, per = _kind(dtype)
    words = _blocks(call, count, per, int(seeds[0]) if seeds else call.attrs["seed"])
    how = call.attrs["distribution"]
    lanes: list[Array] = list(words)
    if kind == "f64":
        lanes = [words[i].astype(np.uint64) << np.uint64(32) | words[i + 1] for i in (0, 2)]
    if how == "gaussian":
        pairs = [_normals(lanes[i], lanes[i + 1], kind) for i in range(0, per, 2)]
        mean, std = call.attrs["parameters"]
        lanes = [fma(x, std, mean) for pair in pairs for x in pair]
    elif how == "uniform":
        low, high = call.attrs["parameters"]
        width, start, least, most = limits(low, high, dtype)
        real, bits = (np.float64, 53) if kind == "f64" else (np.float32, 24)
        whole = lanes[0].dtype.type
        shift = whole(lanes[0].dtype.itemsize * 8 - bits)
        units = [(x >> shift).astype(real) * real(2.0**-bits) for x in lanes]
        lanes = [np.clip(fma(x, width, start), real(least), real(most)) for x in units]
    made = np.stack(lanes, 1) if count else np.zeros(0, dtype.ml_numpy)
    return made.reshape(-1)[:count].astype(dtype.ml_numpy).reshape(shape)


def limits(low: float, high: float, dtype: DType) -> tuple[float, float, float, float]:
    """The numbers with which ``low <= x < high`` is computed in ``dtype``: ``high - low`` and
    ``low``, then the least and the most number that ``dtype`` has there.
    """
    kind = dtype.ml_numpy
    wide = np.float64 if dtype is DType.float64 else np.float32
    with np.errstate(over="ignore"):
        ends = np.array([low, high], np.float64).astype(kind)
        least, most = float(ends[0]), float(ends[1])
        if least < low:
            least = float(np.nextafter(ends[0], kind.type(np.inf)))
        if most >= high:
            most = float(np.nextafter(ends[1], kind.type(-np.inf)))
        return float(wide(high - low)), float(wide(low)), least, most


# ---------------------------------------------------------------- kernels
def _kind(dtype: DType) -> tuple[str, int]:
    """The type in which a number is computed, and how many of them a block of four words makes."""
    if dtype is DType.float64:
        return "f64", 2
    return ("u32" if dtype is DType.uint32 else "f32"), 4


def _philox_text(at: Site) -> list[str]:
    """Statements that make ``c0`` to ``c3`` from the number ``block`` and the seed."""
    stream = at.attrs["stream"]
    lines = [f"u32 c0 = (u32)block, c1 = (u32)(block >> 32), c2 = {stream}u, c3 = 0u;"]
    seed = at.attrs["seed"]
    for number in range(ROUNDS):
        if at.operands:
            offsets = (number * WEYL[0] % 2**32, number * WEYL[1] % 2**32)
            keys = [f"(seed{i} + {offset}u)" for i, offset in enumerate(offsets)]
        else:
            keys = [f"{k}u" for k in round_key((seed % 2**32, (seed >> 32) % 2**32), number)]
        lines.append(
            f"const u64 p{number} = {MULTIPLIERS[0]}ull * c0, q{number} = {MULTIPLIERS[1]}ull * c2;"
        )
        lines.append(
            f"c0 = (u32)(q{number} >> 32) ^ c1 ^ {keys[0]}; "
            f"c2 = (u32)(p{number} >> 32) ^ c3 ^ {keys[1]}; "
            f"c1 = (u32)q{number}; c3 = (u32)p{number};"
        )
    return lines


class _Words:
    """Writes numbers of the type ``kind`` for one target."""

    def __init__(self, at: Site, kind: str) -> None:
        self.at = at
        self.kind = kind
        self.dtype = DType.float64 if kind == "f64" else DType.float32
        short = kind == "f32"
        self.to_bits, self.of_bits = f"mx_bits_{kind}", f"mx_{kind}_bits"
        if at.target == "cuda" and not short:
            self.to_bits, self.of_bits = "(u64)__double_as_longlong", "__longlong_as_double"
        self.called = ("__builtin_fma" if at.target == "c" else "fma") + ("f" if short else "")

    def number(self, value: float) -> str:
        return self.at.literal(value, self.dtype)

    def fma(self, a: str, b: str, c: str) -> str:
        return f"{self.called}({a}, {b}, {c})"

    def horner(self, x: str, terms: Sequence[float]) -> str:
        total = self.number(terms[-1])
        for term in reversed(terms[:-1]):
            total = self.fma(total, x, self.number(term))
        return total

    def normals(self, a: str, b: str, n: int) -> list[str]:
        """Statements that make ``v{n}`` and ``v{n + 1}`` of the words ``a`` and ``b``."""
        kind, number, fma = self.kind, self.number, self.fma
        wide = kind == "f64"
        word, whole, bits, cut = ("u64", "i64", 64, 52) if wide else ("u32", "i32", 32, 23)
        tail = "ull" if wide else "u"
        half = f"0x3fe6a09e667f3bcd{tail}" if wide else f"0x3f3504f3{tail}"
        fine = f"(f64)({a} >> 11)" if wide else f"(f32){a}"
        scale, centre = (2.0**-53, 2.0**-54) if wide else (2.0**-32, 2.0**-33)
        high, low = LN2[kind]
        log = self.horner(f"z{n}", LOG[: LOG_TERMS[kind]])
        sine = self.horner(f"t{n}", SIN[: SIN_TERMS[kind]])
        cosine = self.horner(f"t{n}", COS[: COS_TERMS[kind]])
        body = f"(h{n} & {2**cut - 1:#x}{tail}) + {half}"
        inner = fma(f"ratio{n} * z{n}", log, f"ratio{n} + ratio{n}")
        return [
            f"const {kind} u{n} = {fma(fine, number(scale), number(centre))};",
            f"const {word} h{n} = {self.to_bits}(u{n}) - {half};",
            f"const {kind} e{n} = ({kind})({whole})(({whole})h{n} >> {cut});",
            f"const {kind} f{n} = {self.of_bits}({body}) - {number(1.0)};",
            f"const {kind} ratio{n} = f{n} / ({number(2.0)} + f{n}), z{n} = ratio{n} * ratio{n};",
            f"const {kind} l{n} = {inner};",
            f"const {kind} m{n} = {fma(f'e{n}', number(low), f'l{n}')};",
            f"const {kind} g{n} = {fma(f'e{n}', number(high), f'm{n}')};",
            f"const {kind} r{n} = mx_sqrt_{kind}({number(-2.0)} * g{n});",
            f"const {word} o{n} = ({b} + {2 ** (bits - 3)}{tail}) >> {bits - 2};",
            f"const {kind} a{n} = ({kind})({whole})({b} - (o{n} << {bits - 2}));",
            f"const {kind} d{n} = a{n} * {number(math.pi / 2 ** (bits - 1))}, t{n} = d{n} * d{n};",
            f"const {kind} i{n} = {fma(f'd{n} * t{n}', sine, f'd{n}')};",
            f"const {kind} k{n} = {fma(f't{n}', cosine, number(1.0))};",
            f"const {kind} w{n} = o{n} & 1 ? i{n} : k{n}, x{n} = o{n} & 1 ? k{n} : i{n};",
            f"const {kind} v{n} = r{n} * ((o{n} + 1) & 2 ? -w{n} : w{n});",
            f"const {kind} v{n + 1} = r{n} * (o{n} & 2 ? -x{n} : x{n});",
        ]

    def uniform(self, word: str, n: int) -> list[str]:
        """Statements that make ``v{n}`` of ``word``: the low bound, or above, by 24 or 53 bits."""
        kind = self.kind
        low, high = self.at.attrs["parameters"]
        width, start, least, most = limits(low, high, self.at.results[0].dtype)
        shift, bits = (11, 53) if kind == "f64" else (8, 24)
        unit = f"({kind})({word} >> {shift}) * {self.number(2.0**-bits)}"
        made = self.fma(unit, self.number(width), self.number(start))
        first, last = self.number(least), self.number(most)
        return [
            f"const {kind} b{n} = {made};",
            f"const {kind} v{n} = b{n} < {first} ? {first} : b{n} > {last} ? {last} : b{n};",
        ]


def _number_text(at: Site, kind: str, per: int) -> list[str]:
    """Statements that make ``v0``, … of ``c0`` to ``c3``."""
    how = at.attrs["distribution"]
    if how == "bits":
        return [f"const u32 v{n} = c{n};" for n in range(4)]
    lines, words = [], ["c0", "c1", "c2", "c3"]
    if kind == "f64":
        words = ["j0", "j1"]
        lines += [f"const u64 j{n} = (u64)c{2 * n} << 32 | c{2 * n + 1};" for n in range(2)]
    write = _Words(at, kind)
    if how == "uniform":
        for n, word in enumerate(words):
            lines += write.uniform(word, n)
        return lines
    mean, std = at.attrs["parameters"]
    for n in range(0, per, 2):
        lines += write.normals(words[n], words[n + 1], n)
    scaled = [write.fma(f"v{n}", write.number(std), write.number(mean)) for n in range(per)]
    return [*lines, *(f"const {kind} n{n} = {text};" for n, text in enumerate(scaled))]


def _kernel(at: Site) -> None:
    result: Buffer = at.results[0]
    kind, per = _kind(result.dtype)
    count = elements(result.type)
    step = LANES * per
    chunks = (count + Poly.constant(step - 1)).floordiv(Poly.constant(step))
    total = at.size(count)
    seed = ""
    if at.operands:
        seed = f"const u64 seed = (u64){at.operands[0].load('0')};\n"
        seed += "const u32 seed0 = (u32)seed, seed1 = (u32)(seed >> 32);"
    name = "n" if at.attrs["distribution"] == "gaussian" else "v"
    made = "\n".join([*_philox_text(at), *_number_text(at, kind, per)])
    work = Poly.constant(step * (20 if name == "n" else 8))
    if at.target == "cuda":
        places = [f"base + {n * LANES}" for n in range(per)]
        stores = "\n".join(
            f"if ({place} < {total}) {{ {result.store(place, f'{name}{n}')} }}"
            for n, place in enumerate(places)
        )
        text = f"""\
const u64 block = (u64)i;
const i64 base = i / {LANES} * {step} + i % {LANES};
{made}
{stores}"""
        at.part(text, chunks * Poly.constant(LANES), before=seed)
        return
    # Numbers go through memory of the thread: both loops are vector code, whatever is left over.
    keep = " ".join(f"made[k + {n * LANES}] = {name}{n};" for n in range(per))
    text = f"""\
{kind} *const made = ({kind} *){at.scratch};
#pragma omp simd
for (i64 k = 0; k < {LANES}; k++) {{
const u64 block = (u64)(i * {LANES} + k);
{made}
{keep}
}}
const i64 base = i * {step}, left = {total} - base < {step} ? {total} - base : {step};
#pragma omp simd
for (i64 k = 0; k < left; k++) {{ {result.store("base + k", "made[k]")} }}"""
    at.part(text, chunks, before=seed, work=work, scratch=step * (8 if kind == "f64" else 4))


def _samples() -> list[Sample]:
    def sample(how: str, dtype: DType, shape: Any, a: float, b: float, **more: Any) -> Sample:
        attrs = {
            "distribution": how,
            "dtype": dtype,
            "shape": shape,
            "device": DeviceRef.CPU(),
            "seed": more.get("seed", 1234567890123),
            "stream": more.get("stream", 3),
            "parameters": (a, b),
        }
        label = f"{how} {more.get('label', dtype.name)}"
        return Sample(more.get("arrays", ()), attrs, more.get("shapes"), label)

    found = [
        sample("bits", DType.uint32, (1000,), 0.0, 0.0),
        sample("bits", DType.uint32, ("n", 7), 0.0, 0.0, shapes=(), label="symbolic"),
        sample("bits", DType.uint32, (5,), 0.0, 0.0, seed=2**64 - 1, stream=0, label="seed"),
        sample("gaussian", DType.float32, ("n", 130), 0.0, 1.0, shapes=(), label="symbolic"),
        sample("gaussian", DType.float32, (0, 3), 0.0, 1.0, label="empty"),
        sample("uniform", DType.float32, (), 0.0, 1.0, label="scalar"),
        sample("uniform", DType.float32, (300,), 0.1, 0.1000001, label="narrow"),
    ]
    for dtype in FLOATS:
        found.append(sample("gaussian", dtype, (7, 300), -0.3, 2.5))
        found.append(sample("uniform", dtype, (7, 300), -0.3, 2.5))
    for number in (7, -1):
        seed = np.array(number, np.int64)
        found.append(
            sample(
                "gaussian",
                DType.float32,
                (40,),
                0.0,
                1.0,
                arrays=(seed,),
                label=f"seed {number}",
            )
        )
    return found


def _cost(operands: Sequence[TensorType], results: Sequence[Type], attrs: Attrs) -> Cost:
    each = 60 if attrs["distribution"] == "gaussian" else 20
    return Cost(elements(results[0]) * Poly.constant(each))


define(
    "random",
    "kernel",
    "random",
    "Random numbers of a distribution, by Philox 4x32-10; the same on every target, in every run.",
    attrs={
        "distribution": TEXT,
        "dtype": DTYPE,
        "shape": DIMS,
        "device": DEVICE,
        "seed": INT,
        "stream": INT,
        "parameters": Attribute("floats"),
    },
    infer=_infer,
    reference=_reference,
    kernel=_kernel,
    cost=_cost,
    samples=_samples,
)
