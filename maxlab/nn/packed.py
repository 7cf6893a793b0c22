"""Weights in blocks of few bits: their shapes, products with them, and rows of them."""

from __future__ import annotations

from typing import Any

from maxlab.dtype import DType
from maxlab.errors import ModuleError
from maxlab.graph import TensorValue, TensorValueLike, ops
from maxlab.graph.quantization import QuantizationEncoding
from maxlab.opset.quantized import PRODUCTS


def check_encoding(what: str, encoding: Any) -> QuantizationEncoding:
    """``encoding``, when its blocks are those of GGUF files.

    Raises:
        ModuleError: ML717, it is ``GPTQ``, or no encoding at all.
    """
    if isinstance(encoding, QuantizationEncoding) and encoding.is_gguf:
        return encoding
    gptq = encoding is QuantizationEncoding.GPTQ
    known = ", ".join(f"QuantizationEncoding.{e.value}" for e in QuantizationEncoding if e.is_gguf)
    raise ModuleError(
        "ML717",
        f"{what}: quantization_encoding={encoding!r} names no blocks of GGUF files",
        fix="use nn.GPTQLinear with its quantization_config" if gptq else f"pass {known}, or None",
    )


def packed_shape(
    what: str, encoding: QuantizationEncoding, rows: int, columns: int
) -> tuple[int, int]:
    """The shape, in bytes, of ``rows`` rows of ``columns`` numbers.

    Raises:
        ModuleError: ML717, ``encoding`` has no blocks of GGUF files; ML782, a row is not of whole
            blocks.
    """
    check_encoding(what, encoding)
    elements, size = encoding.elements_per_block, encoding.block_size
    if columns % elements:
        raise ModuleError(
            "ML782",
            f"{what}: rows of {columns} numbers are not of whole blocks of {elements}, as "
            f"{encoding.value} needs",
            fix=f"use {columns // elements * elements or elements} or another multiple of "
            f"{elements}, or an encoding of smaller blocks",
        )
    return rows, columns // elements * size


def product(x: TensorValue, weight: TensorValue, encoding: QuantizationEncoding) -> TensorValue:
    """``x @ weight.T`` in the dtype of ``x``, where ``weight`` is bytes of blocks, ``[n, bytes]``.

    Encodings that ``ops.qmatmul`` has quantise the rows of ``x`` first; of others, the numbers of
    the weight are made as they are needed.
    """
    wide = ops.cast(x, DType.float32)
    if str(encoding.value) in PRODUCTS:
        y = ops.qmatmul(encoding, None, wide, weight)
    else:
        y = ops.matmul_blocks(encoding, wide, weight)
    return ops.cast(y, x.dtype)


def rows(
    table: TensorValue, indices: TensorValueLike, encoding: QuantizationEncoding, dtype: DType
) -> TensorValue:
    """The numbers of the rows of ``table``, ``[n, bytes]``, at ``indices``; no others are read."""
    return ops.cast(ops.dequantize(encoding, ops.gather(table, indices, axis=0)), dtype)


def floats_of(dtype: DType) -> DType:
    """The dtype of numbers beside packed weights: ``dtype``, or float32 where that is of bytes."""
    return dtype if dtype.is_float() else DType.float32


__all__ = ["check_encoding", "floats_of", "packed_shape", "product", "rows"]
