"""Products of floats with transposed matrices that are packed: their numbers are made as they are
needed, and the matrix is never there as floats.

``quantized`` has products whose left rows are quantised too. These here leave the left rows alone.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from maxlab.dtype import DType
from maxlab.errors import ArgumentTypeError, ShapeError
from maxlab.ir import Poly, Shape, StaticDim, TensorType, Type
from maxlab.ir.poly import ONE
from maxlab.opset.attributes import INT, TEXT
from maxlab.opset.core import Array, Attrs, Call, Check, Cost, Sample, define, elements
from maxlab.opset.kernel import Site
from maxlab.opset.quantized import (
    FORMATS,
    HEADER,
    called,
    dequantize_reference,
    random_blocks,
    require_bytes,
    same_size,
    whole_blocks,
)
from maxlab.opset.rules import same_device

COLUMNS = 16
"""Columns of a matrix of groups that a thread multiplies side by side."""
STRIP = 64
"""Left rows that meet a block while its numbers are there."""


def _require_left(what: str, x: TensorType, right: Sequence[TensorType]) -> None:
    """Raises unless ``x`` can be the left operand, and the others matrices.

    Raises:
        ArgumentTypeError: ML738, ``x`` is not float32.
        ShapeError: ML739, wrong ranks.
    """
    if x.dtype is not DType.float32:
        raise ArgumentTypeError(
            "ML738",
            f"{what}: the left operand must be float32, got {x.dtype.name}",
            fix="cast it: ops.cast(x, DType.float32)",
        )
    if not x.rank or any(w.rank != 2 for w in right):
        ranks = ", ".join(str(w.rank) for w in right)
        raise ShapeError(
            "ML739",
            f"{what}: operands of rank {x.rank}; {ranks}, expected 1 or more; 2",
            fix="the left operand is [..., k], the others are matrices",
        )


def _rows(x: TensorType) -> Poly:
    """The number of left rows."""
    rows = ONE
    for size in x.sizes[:-1]:
        rows = rows * size
    return rows


# ---------------------------------------------------------------- blocks
def _blocks_infer(types: Sequence[TensorType], attrs: Attrs) -> list[Type]:
    x, w = types
    what, name = "matmul_blocks", attrs["encoding"]
    form = FORMATS[name]
    _require_left(what, x, [w])
    require_bytes(what, w, name)
    same_device(what, types)
    k, size = x.shape[-1], w.shape[-1]
    have = size // form.nbytes * form.elements
    if isinstance(k, StaticDim) and isinstance(have, StaticDim) and k != have:
        raise ShapeError(
            "ML741",
            f"{what}: the inner dims differ, {k} ≠ {have}: rows of {size} bytes are {have} "
            f"elements of {name}",
            fix="the right operand is transposed, [n, bytes of a row of k elements]",
        )
    return [TensorType(DType.float32, Shape([*x.shape[:-1], w.shape[0]]), x.device)]


def _floats(w: Array, name: str) -> Array:
    """The numbers of the blocks ``w``."""
    form = FORMATS[name]
    shape = (*w.shape[:-1], w.shape[-1] // form.nbytes * form.elements)
    call = Call({"encoding": name}, (shape,), (DType.float32,), {})
    return dequantize_reference(call, w).astype(np.float64)


def _blocks_reference(call: Call, x: Array, w: Array) -> Array:
    made = x.astype(np.float64) @ _floats(w, call.attrs["encoding"]).T
    return made.astype(np.float32)


def _blocks_magnitude(arrays: Sequence[Array], attrs: Attrs) -> Array:
    x, w = arrays
    made: Array = np.abs(x.astype(np.float64)) @ np.abs(_floats(w, attrs["encoding"])).T
    return made


def _blocks_kernel(at: Site) -> None:
    x, w = at.operands
    name = at.attrs["encoding"]
    form = FORMATS[name]
    rows, columns, size = _rows(x.type), w.type.sizes[0], w.type.sizes[1]
    blocks = size.floordiv(Poly.constant(form.nbytes))
    k = blocks * Poly.constant(form.elements)
    at.header(HEADER)
    n, m, count, stride = (at.size(s) for s in (columns, rows, blocks, size))
    each, nbytes = form.elements, form.nbytes
    if at.target == "cuda":
        text = called(
            f"mx_matmul_blocks<mx_{name.lower()}_element>",
            "y0 + i",
            f"x0 + i / {n} * {count} * {each}",
            f"x1 + i % {n} * {stride}",
            count,
            each,
            nbytes,
        )
        at.part(text, rows * columns, work=k)
        return
    first = f"j * {STRIP}"
    text = called(
        "mx_matmul_blocks",
        f"mx_dequantize_{name.lower()}",
        each,
        nbytes,
        f"y0 + {first} * {n} + i",
        n,
        f"x1 + i * {stride}",
        count,
        f"x0 + {first} * {count} * {each}",
        f"{m} - {first} < {STRIP} ? {m} - {first} : {STRIP}",
    )
    strips = at.size((rows + Poly.constant(STRIP - 1)).floordiv(Poly.constant(STRIP)))
    text = at.along("j", "0", strips, strip=16) + " " + text
    at.part(text, columns, work=(rows + Poly.constant(2)) * k)


def _blocks_checks(
    operands: Sequence[TensorType], results: Sequence[Type], attrs: Attrs
) -> list[Check]:
    form = FORMATS[attrs["encoding"]]
    k, size = operands[0].shape[-1].poly, operands[1].shape[-1].poly
    message = f"matmul_blocks: a row of the matrix is not a multiple of {form.nbytes} bytes"
    have = size.floordiv(Poly.constant(form.nbytes)) * Poly.constant(form.elements)
    found = whole_blocks(size, form.nbytes, message)
    return found + same_size(k, have, "matmul_blocks: the inner dims differ")


def _blocks_samples() -> list[Sample]:
    rng = np.random.default_rng(8)
    found = []
    for name, form in FORMATS.items():
        attrs = {"encoding": name}

        def left(*shape: int, per: int = form.elements) -> Array:
            *lead, blocks = shape
            return rng.standard_normal((*lead, blocks * per)).astype(np.float32)

        w, label = random_blocks(rng, name, (7, 2)), name.lower()
        names = (("a", 3, "k"), ("n", "b"))
        found += [
            Sample((left(2, 3, 2), w), attrs, names, f"{label} batch"),
            Sample((left(2), w), attrs, label=f"{label} vector"),
            Sample((left(0, 2), w), attrs, (("m", "k"), ("n", "b")), f"{label} no rows"),
            Sample((left(2, 0), w[:, :0]), attrs, label=f"{label} no blocks"),
        ]
    return found


# ---------------------------------------------------------------- groups
def _group(types: Sequence[TensorType], bits: int) -> tuple[int, int, int, int]:
    """The inner size, columns, numbers of a group and numbers of a word of a matrix of groups.

    Raises:
        ShapeError: ML739, sizes that only a run knows; ML740, groups that are not of whole words,
            or a matrix without numbers; ML741, matrices that do not fit each other.
    """
    what, per = "matmul_groups", 32 // bits
    _, words, scales = types
    if not all(isinstance(dim, StaticDim) for w in (words, scales) for dim in w.shape):
        raise ShapeError(
            "ML739",
            f"{what}: the sizes of words and scales must be ints",
            fix="give the weight a shape of ints",
        )
    (packed, columns), (groups, other) = ([int(dim) for dim in w.shape] for w in (words, scales))
    k = packed * per
    if not k or not groups or k % groups or k // groups % per:
        raise ShapeError(
            "ML740",
            f"{what}: {k} numbers, {per} a word, cannot be {groups} groups of whole words",
            fix="pass scales [k / group size, n] of a group size that divides k",
        )
    if columns != other:
        raise ShapeError(
            "ML741",
            f"{what}: the words have {columns} columns, the scales {other}",
            fix="pass words [k * bits / 32, n] and scales [k / group size, n]",
        )
    return k, columns, k // groups, per


def _groups_infer(types: Sequence[TensorType], attrs: Attrs) -> list[Type]:
    x, words, scales = types
    what = "matmul_groups"
    _require_left(what, x, [words, scales])
    if words.dtype is not DType.int32 or scales.dtype is not DType.float32:
        raise ArgumentTypeError(
            "ML738",
            f"{what}: words must be int32 and scales floats, got {words.dtype.name} and "
            f"{scales.dtype.name}",
            fix="pass qweight and scales as the checkpoint has them",
        )
    same_device(what, types)
    k, columns, _, _ = _group(types, attrs["bits"])
    if isinstance(x.shape[-1], StaticDim) and int(x.shape[-1]) != k:
        raise ShapeError(
            "ML741",
            f"{what}: the inner dims differ, {x.shape[-1]} ≠ {k}",
            fix="the left operand is [..., k], the words are [k * bits / 32, n]",
        )
    return [TensorType(DType.float32, Shape([*x.shape[:-1], columns]), x.device)]


def group_floats(words: Array, scales: Array, bits: int) -> Array:
    """The numbers ``[k, n]`` of ``words``, ``[k * bits / 32, n]``, whose groups have ``scales``."""
    shifts = np.arange(0, 32, bits, dtype=np.uint32)[:, None]
    q = words.view(np.uint32)[:, None, :] >> shifts & np.uint32(2**bits - 1)
    q = q.reshape(-1, words.shape[1]).astype(np.float64) - 2 ** (bits - 1)
    made: Array = q * np.repeat(scales.astype(np.float64), len(q) // len(scales), axis=0)
    return made


def _groups_reference(call: Call, x: Array, words: Array, scales: Array) -> Array:
    made = x.astype(np.float64) @ group_floats(words, scales, call.attrs["bits"])
    return made.astype(np.float32)


def _groups_magnitude(arrays: Sequence[Array], attrs: Attrs) -> Array:
    x, words, scales = arrays
    made: Array = np.abs(x.astype(np.float64)) @ np.abs(group_floats(words, scales, attrs["bits"]))
    return made


def _groups_kernel(at: Site) -> None:
    bits = at.attrs["bits"]
    k, n, size, per = _group([o.type for o in at.operands], bits)
    rows = _rows(at.operands[0].type)
    shape = (k // size, size // per, bits)
    at.header(HEADER)
    if at.target == "cuda":
        column = f"i % {n}"
        text = called(
            "mx_matmul_groups",
            "y0 + i",
            f"x1 + {column}",
            f"x2 + {column}",
            f"x0 + i / {n} * {k}",
            n,
            *shape,
        )
        at.part(text, rows * Poly.constant(n), work=Poly.constant(k))
        return
    first = f"i * {COLUMNS}"
    text = called(
        "mx_matmul_groups",
        f"y0 + j * {n} + {first}",
        f"x1 + {first}",
        f"x2 + {first}",
        f"x0 + j * {k}",
        n,
        f"{n} - {first} < {COLUMNS} ? {n} - {first} : {COLUMNS}",
        *shape,
    )
    text = at.along("j", "0", at.size(rows), strip=16) + " " + text
    at.part(text, Poly.constant(-(-n // COLUMNS)), work=rows * Poly.constant(k * COLUMNS))


def _groups_checks(
    operands: Sequence[TensorType], results: Sequence[Type], attrs: Attrs
) -> list[Check]:
    k = Poly.constant(_group(operands, attrs["bits"])[0])
    return same_size(operands[0].shape[-1].poly, k, "matmul_groups: the inner dims differ")


def _groups_samples() -> list[Sample]:
    rng = np.random.default_rng(9)
    found = []
    for bits in (4, 8, 2):
        per, attrs = 32 // bits, {"bits": bits}
        k, n = 4 * per, 19
        words = rng.integers(-(2**31), 2**31, (k // per, n)).astype(np.int32)
        scales = rng.uniform(-0.1, 0.1, (2, n)).astype(np.float32)

        def left(*shape: int, k: int = k) -> Array:
            return rng.standard_normal((*shape, k)).astype(np.float32)

        fixed = (words.shape, scales.shape)
        found += [
            Sample((left(2, 3), words, scales), attrs, (("a", 3, "k"), *fixed), f"{bits} bits"),
            Sample((left(), words, scales), attrs, label=f"{bits} bits vector"),
            Sample((left(0), words, scales), attrs, (("m", k), *fixed), f"{bits} bits no rows"),
        ]
    return found


define(
    "matmul_blocks",
    "kernel",
    "quantized",
    "A product with a transposed matrix in blocks of few bits; the left rows stay floats.",
    attrs={"encoding": TEXT},
    infer=_blocks_infer,
    reference=_blocks_reference,
    kernel=_blocks_kernel,
    checks=_blocks_checks,
    cost=lambda operands, results, attrs: Cost(
        elements(results[0]) * operands[0].shape[-1].poly * Poly.constant(2)
    ),
    samples=_blocks_samples,
    terms=lambda arrays, attrs: arrays[0].shape[-1],
    magnitude=_blocks_magnitude,
)

define(
    "matmul_groups",
    "kernel",
    "quantized",
    "A product with a matrix of few bits, packed in words, whose groups of rows have scales.",
    attrs={"bits": INT},
    infer=_groups_infer,
    reference=_groups_reference,
    kernel=_groups_kernel,
    checks=_groups_checks,
    cost=lambda operands, results, attrs: Cost(
        elements(results[0]) * operands[0].shape[-1].poly * Poly.constant(2)
    ),
    samples=_groups_samples,
    terms=lambda arrays, attrs: arrays[0].shape[-1],
    magnitude=_groups_magnitude,
)
