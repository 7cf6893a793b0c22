"""Which kernels ``top_k`` and ``argsort`` have: the texts are ``sorting.c``, ``sorting.cu`` and
``keys.c`` of ``kernels/ops``.
"""

from __future__ import annotations

from typing import Any

from maxlab.dtype import DType
from maxlab.ir.poly import ONE, Poly
from maxlab.opset.kernel import Buffer, Site
from maxlab.opset.kernel_files import OwnKernel


def _power(count: int) -> int:
    """The smallest power of two that is not below ``count``."""
    return 1 << max(count - 1, 0).bit_length()


# ---------------------------------------------------------------- top_k
HEAP = 128
"""The largest k for which the CPU keeps the best in a heap; beyond, it finds the k-th first."""


SMALL = 8
"""The largest k whose heap takes every element as fast as the k-th is found."""


def _bits(x: Buffer) -> int:
    """Of the key of an element."""
    return 8 if x.dtype is DType.bool else x.dtype.size_in_bits


def _key(x: Buffer) -> DType:
    """The type of keys."""
    return DType.uint64 if _bits(x) == 64 else DType.uint32


def top_kernel(at: Site) -> None:
    """Write the kernels of ``top_k``."""
    x = at.operands[0]
    *lead, n = x.type.sizes
    rows = ONE
    for size in lead:
        rows = rows * size
    k = at.attrs["k"]
    if not k:  # nothing is written, but a step is needed
        at.part("", rows)
    elif at.old_top_k:
        _whole_rows(at, rows, n, k)
    elif at.target == "c":
        _top_c(at, rows, n, k)
    else:
        _top_cuda(at, rows, n, k)


def _whole_rows(at: Site, rows: Poly, n: Poly, k: int) -> None:
    x, dims = at.operands[0], {"rows": rows, "N": n}
    if at.target == "c":
        kernel = OwnKernel(at, "sorting.c", "whole_rows", dims=dims, K=k, DOWN=True)
        kernel.write(scratch=n * Poly.constant(32 if _bits(x) == 64 else 16))
        return
    name = "whole_rows_gpu"
    OwnKernel(at, "sorting.cu", name, dims=dims, K=k, DOWN=True, KEY=_key(x)).write()


def _top_c(at: Site, rows: Poly, n: Poly, k: int) -> None:
    bits = _bits(at.operands[0])
    scratch = Poly.constant((2 * k + 2) * (16 if bits == 64 else 8))
    kernel = OwnKernel(
        at, "sorting.c", "top_k", dims={"rows": rows, "N": n}, K=k, TWICE=2 * k, SLACK=4 * k,
        BITS=bits, DOWN=True, HEAP=k <= HEAP, SMALL=k <= SMALL,
    )  # fmt: skip
    kernel.write(scratch=scratch + n * Poly.constant(8 if bits == 64 else 4))


_THREADS = 256
_SHARED = 32_768
"""Bytes of records that a block sorts in shared memory."""


def _top_cuda(at: Site, rows: Poly, n: Poly, k: int) -> None:
    x = at.operands[0]
    bits, many = _bits(x), _power(k)
    size = 12 if bits == 64 else 8
    head, fits = 2048 + 64, many * size <= _SHARED
    kernel = OwnKernel(
        at, "sorting.cu", "top_k_gpu", dims={"rows": rows, "N": n}, K=k, MANY=many,
        HALF=many // 2, HEAD=head, ROOM=many * (size - 4), BITS=bits, TOP=bits - 8, FITS=fits,
        DOWN=True, KEY=_key(x),
    )  # fmt: skip
    kernel.write(shared=head + many * size if fits else head)


# ---------------------------------------------------------------- argsort
PARTS = 16
"""Parts in which the CPU sorts a long row."""
SHORT = 32_768
"""Elements that the CPU sorts in one go."""
BUCKETS = 2048
COUNTED = 1024
"""Elements below which each thread of a GPU counts those before its own."""
_ITEMS = 8
_TILE = _THREADS * _ITEMS


def argsort_kernel(at: Site) -> None:
    """Write the kernels of ``argsort``."""
    (n,) = at.operands[0].type.sizes
    if at.target == "c":
        _argsort_c(at, n)
    elif n.is_constant and n.value <= COUNTED:
        down = not at.attrs["ascending"]
        OwnKernel(at, "sorting.cu", "argsort_few", dims={"N": n}, DOWN=down).write()
    else:
        _argsort_cuda(at, n)


def _argsort_c(at: Site, n: Poly) -> None:
    bits, down = _bits(at.operands[0]), not at.attrs["ascending"]
    wide = bits == 64
    small = n.is_constant and n.value <= SHORT
    scratch = 2 * max(n.value if small else SHORT, 1) * (16 if wide else 8)
    if small:
        kernel = OwnKernel(at, "sorting.c", "argsort_short", dims={"N": n}, DOWN=down)
        kernel.write(scratch=scratch)
        return
    passes = 3 if wide else -(-bits // 11)
    step = 11 if wide else -(-bits // passes)
    low = 0 if wide else 32
    kernel = OwnKernel(
        at, "sorting.c", "argsort", dims={"N": n}, DOWN=down, SHORT=SHORT, PARTS=PARTS,
        BUCKETS=BUCKETS, PER=2 if wide else 1, MASK=(1 << step) - 1, USED=1 << step,
        BYTES=4 << step, OFFSET=low,
    )  # fmt: skip
    kernel.part("records", scratch=scratch)
    for number in range(passes):
        place: dict[str, Any] = {"OFFSET": low + number * step, "ODD": number % 2 == 1}
        if number or wide:
            kernel.part("count", name=f"count{number}", **place)
        final = number + 1 == passes and not wide
        kernel.part("move", name=f"move{number}", FINAL=final, **place)
    if wide:
        kernel.part("finish")


def _argsort_cuda(at: Site, n: Poly) -> None:
    x = at.operands[0]
    tiles = (n + Poly.constant(_TILE - 1)).floordiv(Poly.constant(_TILE))
    kernel = OwnKernel(
        at, "sorting.cu", "argsort_gpu", dims={"N": n, "TILES": tiles}, KEY=_key(x),
        DOWN=not at.attrs["ascending"], THREADS=_THREADS, ITEMS=_ITEMS, TILE=_TILE,
    )  # fmt: skip
    passes = _bits(x) // 8
    for number in range(passes):
        place: dict[str, Any] = {
            "SHIFT": number * 8, "FIRST": number == 0, "ODD": number % 2 == 1,
        }  # fmt: skip
        kernel.part("count", name=f"count{number}", **place)
        kernel.part("add", name=f"add{number}")
        kernel.part("move", name=f"move{number}", LAST=number + 1 == passes, **place)
