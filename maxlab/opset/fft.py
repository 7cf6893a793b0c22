"""Discrete Fourier transforms as text of kernels, for sizes that are known when it is written.

A size with small prime factors is transformed by the algorithm of Stockham: one pass for each
factor, from one buffer into another, which leaves the elements in order. A size with a prime factor
above ``LARGEST`` is a convolution with a chirp, which is done by transforms of a larger size with
small factors (L. Bluestein, "A linear filtering approach to the computation of discrete Fourier
transform", 1970).

Everything is computed in float64, with sines and cosines that are tables in the graph, right to a
unit in the last place. Real and imaginary parts are apart, so that neighbours are neighbours.

One text serves both targets: on the CPU a thread does a row, on a GPU the threads of a block do.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from maxlab.opset.kernel import Target

LARGEST = 61
"""The largest prime factor that has a pass of its own; they take the square of it."""
MOST = 1 << 24
"""The largest row: its tables, which are in the graph, take up to 1.3 GB."""
BLOCK = 1 << 16
"""Sines and cosines that are computed at once."""
UNROLLED = 13
"""The largest prime whose pass is written out; those of larger ones have loops."""

Array = np.ndarray[Any, Any]


def unit(numbers: Array, size: int) -> tuple[Array, Array]:
    """The cosine and sine of ``2 pi k / size`` for each k of ``numbers``, of rank 1, to 1 ulp.

    The angle is brought into the first octant by integers, before anything is rounded.
    """
    cos, sin = np.empty(len(numbers)), np.empty(len(numbers))
    for start in range(0, len(numbers), BLOCK):  # what is in between then stays small
        some = slice(start, start + BLOCK)
        cos[some], sin[some] = _unit(numbers[some], size)
    return cos, sin


def _unit(numbers: Array, size: int) -> tuple[Array, Array]:
    eighths = (numbers % size) * 8
    octant, rest = eighths // size, eighths % size
    back = octant % 2 == 1
    angle = np.where(back, size - rest, rest) * (math.pi / 4) / size
    cos, sin = np.cos(angle), np.sin(angle)
    swap = (octant % 4 == 1) | (octant % 4 == 2)
    first, second = np.where(swap, sin, cos), np.where(swap, cos, sin)
    return np.where((octant + 2) % 8 >= 4, -first, first), np.where(octant >= 4, -second, second)


def hann(length: int, period: int, dtype: np.dtype[Any]) -> Array:
    """The elements ``(1 - cos(2 pi k / period)) / 2`` of a Hann window, right to 5 ulp of float64
    before they are rounded: near 0 they are squares of sines, where the difference would cancel."""
    made = np.empty(length, dtype)
    for start in range(0, length, BLOCK):
        k = np.arange(start, min(start + BLOCK, length))
        high = 0.5 - 0.5 * unit(k, period)[0]
        made[start : start + BLOCK] = np.where(high < 0.25, unit(k, 2 * period)[1] ** 2, high)
    return made


def factors(size: int) -> list[int]:
    """The radixes of the passes of a transform of ``size``: fours, then primes."""
    found = []
    while size % 4 == 0:
        found.append(4)
        size //= 4
    prime = 2
    while size > 1:
        while size % prime == 0:
            found.append(prime)
            size //= prime
        prime += 1 if prime * prime <= size or size == 1 else size - prime
    return found


def padded(size: int) -> int:
    """The least size that has no prime factor above 5 and holds a convolution of ``size``."""
    least = 2 * size - 1
    best = 1 << (least - 1).bit_length()
    three = 1
    while three < best:
        five = three
        while five < best:
            found = five << max(0, (-(-least // five) - 1).bit_length())
            best = min(best, found)
            five *= 5
        three *= 3
    return best


@dataclass(frozen=True)
class Inverse:
    """How a real row of ``n`` elements is made of half of its spectrum.

    An even row of ``n`` is a complex one of ``n / 2``: its even elements are the real parts. An odd
    row takes a complex transform of ``n``.
    """

    n: int

    @property
    def length(self) -> int:
        """Elements of the complex transform."""
        return self.n // 2 if self.n % 2 == 0 else self.n

    @property
    def chirped(self) -> bool:
        """Whether the transform is done by a convolution."""
        return max(factors(self.length), default=1) > LARGEST

    @property
    def size(self) -> int:
        """Elements of the transforms that have passes, and of the buffers."""
        return padded(self.length) if self.chirped else self.length

    @property
    def flops(self) -> int:
        """Arithmetic of a row."""
        once = sum(self.size * (6 + 2 * r) for r in factors(self.size))
        return (2 * once + 20 * self.size if self.chirped else once) + 16 * self.length

    def offsets(self) -> dict[str, int]:
        """Where each part of the table begins; ``end`` is its size."""
        parts = [("cos", self.size), ("sin", self.size)]
        if self.n % 2 == 0:
            parts += [("half_cos", self.length), ("half_sin", self.length)]
        if self.chirped:
            parts += [("chirp_cos", self.length), ("chirp_sin", self.length)]
            parts += [("filter_re", self.size), ("filter_im", self.size)]
        found, at = {}, 0
        for name, count in parts:
            found[name] = at
            at += count
        return {**found, "end": at}

    def table(self) -> Array:
        """The numbers that the kernel reads, float64."""
        parts: list[Array] = [*unit(np.arange(self.size), self.size)]
        if self.n % 2 == 0:
            parts += unit(np.arange(self.length), self.n)
        if self.chirped:
            numbers = np.arange(self.length)
            chirp = unit(numbers * numbers % (2 * self.length), 2 * self.length)
            filter = np.zeros(self.size, np.complex128)
            filter[: self.length] = chirp[0] - 1j * chirp[1]
            filter[self.size - self.length + 1 :] = filter[1 : self.length][::-1]
            # The transform with positive exponents, and what the one back is divided by.
            spectrum = np.fft.ifft(filter)
            parts += [*chirp, spectrum.real, spectrum.imag]
        return np.concatenate(parts)


class Text:
    """Writes the statements of one row's transform.

    Args:
        plan: What is written.
        target: Who runs it.
        table: The name of the table of ``plan``.
    """

    def __init__(self, plan: Inverse, target: Target, table: str) -> None:
        self.plan = plan
        self.target = target
        self.table = table
        self.lines: list[str] = []
        self.buffers = ("a", "b")  # what holds the elements, and what is free
        self._at = plan.offsets()

    def loop(self, count: int, body: list[str], name: str = "k") -> None:
        """``body`` for each ``name`` below ``count``, in any order."""
        if self.target == "cuda":
            head = f"for (int {name} = threadIdx.x; {name} < {count}; {name} += blockDim.x) {{"
            self.lines += [head, *body, "}", "__syncthreads();"]
            return
        self.lines += ["#pragma omp simd", f"for (i64 {name} = 0; {name} < {count}; {name}++) {{"]
        self.lines += [*body, "}"]

    def entry(self, part: str, index: str) -> str:
        """The number ``index`` of a part of the table."""
        return f"{self.table}[{self._at[part]} + {index}]"

    def swap(self) -> None:
        """Let the buffer that was written be the one that is read."""
        self.buffers = (self.buffers[1], self.buffers[0])

    def transform(self) -> None:
        """All passes of a transform of ``plan.size``, with positive exponents."""
        length, stride = self.plan.size, 1
        for radix in factors(self.plan.size):
            self._pass(radix, length, stride)
            length //= radix
            stride *= radix
            self.swap()

    def _pass(self, radix: int, length: int, stride: int) -> None:
        """One pass: ``stride`` transforms of ``length``, interleaved, become ``radix`` times as
        many of a part of that length."""
        source, target = self.buffers
        rest = length // radix
        body = []
        for k in range(radix):
            place = f"q + {stride} * (p + {rest * k})"
            body.append(f"const f64 r{k} = {source}_re[{place}], i{k} = {source}_im[{place}];")
        if radix > UNROLLED:
            body = self._looped(radix, rest, stride)
        else:
            body += _butterfly(radix)
            for k in range(radix):
                place = f"q + {stride} * ({radix} * p + {k})"
                if k == 0 or rest == 1:
                    real, imaginary = f"u{k}", f"v{k}"
                else:
                    body.append(
                        f"const f64 c{k} = {self.entry('cos', f'p * {stride * k}')}, "
                        f"s{k} = {self.entry('sin', f'p * {stride * k}')};"
                    )
                    real = f"u{k} * c{k} - v{k} * s{k}"
                    imaginary = f"u{k} * s{k} + v{k} * c{k}"
                body.append(f"{target}_re[{place}] = {real}; {target}_im[{place}] = {imaginary};")
        self._points(rest, stride, body)

    def _points(self, rest: int, stride: int, body: list[str]) -> None:
        """``body`` for each ``p`` below ``rest`` and ``q`` below ``stride``."""
        if self.target == "cuda":
            where = f"const int p = k / {stride}, q = k % {stride};"
            self.loop(rest * stride, [where, *body])
            return
        outer, inner = (
            (("p", rest), ("q", stride)) if stride >= rest else (("q", stride), ("p", rest))
        )
        self.lines.append(f"for (i64 {outer[0]} = 0; {outer[0]} < {outer[1]}; {outer[0]}++) {{")
        self.loop(inner[1], body, inner[0])
        self.lines.append("}")

    def _looped(self, radix: int, rest: int, stride: int) -> list[str]:
        """The points of a large prime, two by two: k and radix - k share their products."""
        source, target = self.buffers
        half, turn = radix // 2, self.plan.size // radix
        there = f"q + {stride} * p"
        back = f"q + {stride} * ({radix} * p"

        def turned(sign: str, place: str) -> list[str]:
            cos = self.entry("cos", f"p * {place} * {stride}")
            sin = self.entry("sin", f"p * {place} * {stride}")
            real, imaginary = f"(ck {sign} si)", f"(di {'+' if sign == '-' else '-'} sr)"
            at = f"{back} + {place})"
            return [
                f"{{ const f64 c = {cos}, s = {sin}, x = {real}, y = {imaginary};",
                f"{target}_re[{at}] = x * c - y * s; {target}_im[{at}] = x * s + y * c; }}",
            ]

        return [
            f"f64 pr[{half}], pi[{half}], mr[{half}], mi[{half}];",
            f"const f64 r0 = {source}_re[{there}], i0 = {source}_im[{there}];",
            "f64 tr = r0, ti = i0;",
            f"for (int j = 0; j < {half}; j++) {{",
            f"const i64 lo = {there} + {stride * rest}ll * (j + 1);",
            f"const i64 hi = {there} + {stride * rest}ll * ({radix - 1} - j);",
            f"pr[j] = {source}_re[lo] + {source}_re[hi];",
            f"pi[j] = {source}_im[lo] + {source}_im[hi];",
            f"mr[j] = {source}_re[lo] - {source}_re[hi];",
            f"mi[j] = {source}_im[lo] - {source}_im[hi];",
            "tr += pr[j]; ti += pi[j];",
            "}",
            f"{target}_re[{back})] = tr; {target}_im[{back})] = ti;",
            f"for (int k2 = 1; k2 <= {half}; k2++) {{",
            "f64 ck = r0, di = i0, sr = 0, si = 0;",
            f"for (int j = 1; j <= {half}; j++) {{",
            f"const int n = j * k2 % {radix} * {turn};",
            f"const f64 c = {self.entry('cos', 'n')}, s = {self.entry('sin', 'n')};",
            "ck += pr[j - 1] * c; di += pi[j - 1] * c;",
            "sr += mr[j - 1] * s; si += mi[j - 1] * s;",
            "}",
            *turned("-", "k2"),
            *turned("+", f"({radix} - k2)"),
            "}",
        ]

    def convolve(self) -> None:
        """The transform of ``plan.length`` of the first elements, which are multiplied with the
        chirp already and followed by zeros, by transforms of ``plan.size``."""
        plan = self.plan
        self.transform()
        name = self.buffers[0]
        self.loop(
            plan.size,
            [
                f"const f64 x = {name}_re[k], y = {name}_im[k];",
                f"const f64 c = {self.entry('filter_re', 'k')};",
                f"const f64 s = {self.entry('filter_im', 'k')};",
                f"{name}_re[k] = x * c - y * s; {name}_im[k] = x * s + y * c;",
            ],
        )
        self.transform()  # with the other sign it would be in order: here it is from behind
        source, target = self.buffers
        self.loop(
            plan.length,
            [
                f"const i64 from = k ? {plan.size} - k : 0;",
                f"const f64 x = {source}_re[from], y = {source}_im[from];",
                f"const f64 c = {self.entry('chirp_cos', 'k')};",
                f"const f64 s = {self.entry('chirp_sin', 'k')};",
                f"{target}_re[k] = x * c - y * s; {target}_im[k] = x * s + y * c;",
            ],
        )
        self.swap()


def _number(value: float) -> str:
    return repr(value) if value >= 0 else f"({value!r})"


def _butterfly(radix: int) -> list[str]:
    """Statements that make the transform ``u``, ``v`` of the points ``r``, ``i``."""
    if radix == 2:
        return ["const f64 u0 = r0 + r1, v0 = i0 + i1, u1 = r0 - r1, v1 = i0 - i1;"]
    if radix == 4:
        return [
            "const f64 ar = r0 + r2, ai = i0 + i2, br = r0 - r2, bi = i0 - i2;",
            "const f64 cr = r1 + r3, ci = i1 + i3, dr = r1 - r3, di = i1 - i3;",
            "const f64 u0 = ar + cr, v0 = ai + ci, u2 = ar - cr, v2 = ai - ci;",
            "const f64 u1 = br - di, v1 = bi + dr, u3 = br + di, v3 = bi - dr;",
        ]
    half = radix // 2
    lines = []
    for j in range(1, half + 1):
        o = radix - j
        lines.append(f"const f64 pr{j} = r{j} + r{o}, pi{j} = i{j} + i{o};")
        lines.append(f"const f64 mr{j} = r{j} - r{o}, mi{j} = i{j} - i{o};")
    total = {part: " + ".join(f"p{part}{j}" for j in range(1, half + 1)) for part in "ri"}
    lines.append(f"const f64 u0 = r0 + ({total['r']}), v0 = i0 + ({total['i']});")
    for k in range(1, half + 1):
        cos, sin = unit(np.arange(1, half + 1) * k, radix)

        def terms(kind: str, numbers: Array) -> str:
            return " + ".join(
                f"{kind}{j} * {_number(float(x))}" for j, x in enumerate(numbers, start=1)
            )

        lines.append(f"const f64 cr{k} = r0 + {terms('pr', cos)}, ci{k} = i0 + {terms('pi', cos)};")
        lines.append(f"const f64 sr{k} = {terms('mr', sin)}, si{k} = {terms('mi', sin)};")
        lines.append(f"const f64 u{k} = cr{k} - si{k}, v{k} = ci{k} + sr{k};")
        lines.append(f"const f64 u{radix - k} = cr{k} + si{k}, v{radix - k} = ci{k} - sr{k};")
    return lines


Scaling = Literal["backward", "ortho", "forward"]


def scale_of(n: int, normalization: str) -> float:
    """The factor of the elements of an inverse transform."""
    return {"backward": 1 / n, "ortho": 1 / math.sqrt(n), "forward": 1.0}[normalization]
