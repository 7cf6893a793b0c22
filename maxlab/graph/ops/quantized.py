"""Ops on quantised weights."""

from __future__ import annotations

from typing import Any

from maxlab.dtype import DType
from maxlab.errors import ArgumentError, ArgumentTypeError
from maxlab.graph.build import add as add_op
from maxlab.graph.build import cast, staged, tensor
from maxlab.graph.quantization import QuantizationConfig, QuantizationEncoding
from maxlab.graph.value import TensorValue, TensorValueLike
from maxlab.opset.quantized import FORMATS, PRODUCTS


def _name_of(what: str, encoding: Any, known: tuple[str, ...]) -> str:
    """The name of ``encoding``, when ``what`` knows it.

    Raises:
        ArgumentTypeError: ML742, not an encoding.
        ArgumentError: ML737, one that is not in ``known``.
    """
    if not isinstance(encoding, QuantizationEncoding):
        raise ArgumentTypeError(
            "ML742",
            f"{what}: the encoding must be a QuantizationEncoding, got {encoding!r}",
            fix="pass QuantizationEncoding.Q4_0, for example",
        )
    name = str(encoding.value)
    if name not in known:
        raise ArgumentError(
            "ML737",
            f"{what}: {name} is not supported, only {', '.join(known)}",
            fix="dequantise the weights with ops.dequantize, or in NumPy, and use ops.matmul"
            if name in FORMATS
            else "convert the weights to one of them",
        )
    return name


@staged
def dequantize(encoding: QuantizationEncoding, quantized: TensorValueLike) -> TensorValue:
    """The float32 numbers that the blocks of ``quantized`` stand for.

    Args:
        encoding: ``Q4_0``, ``Q4_K``, ``Q5_K`` or ``Q6_K``.
        quantized: A uint8 tensor of rank 1 or more, whose last dim is bytes of blocks. The result
            has its shape, with the number of elements of these blocks as its last dim.

    Raises:
        ArgumentTypeError: ML742, not an encoding; ML738, not uint8.
        ArgumentError: ML737, the encoding ``GPTQ``.
        ShapeError: ML739, rank 0; ML740, the last dim is not a multiple of the size of a block.
            Where that is known only when the model runs, the run raises an InputError.

    Example:
        >>> import numpy as np
        >>> from maxlab import engine
        >>> from maxlab.dtype import DType
        >>> from maxlab.graph import Graph, TensorType, ops
        >>> from maxlab.graph.quantization import QuantizationEncoding
        >>> with Graph("g", input_types=[TensorType(DType.uint8, ["n", 18])]) as graph:
        ...     graph.output(ops.dequantize(QuantizationEncoding.Q4_0, graph.inputs[0]))
        >>> block = np.array([[0, 0x3C] + 16 * [0x9A]], np.uint8)  # a scale of 1; 10 and 9, less 8
        >>> y = engine.InferenceSession().load(graph)(block)[0].to_numpy()
        >>> y.shape, y[0, 0], y[0, 16]
        ((1, 32), np.float32(2.0), np.float32(1.0))
    """
    name = _name_of("dequantize", encoding, tuple(FORMATS))
    return add_op("dequantize", [tensor(quantized, "dequantize: the operand")], encoding=name)


@staged
def qmatmul(
    encoding: QuantizationEncoding,
    config: QuantizationConfig | None,
    lhs: TensorValueLike,
    *rhs: TensorValueLike,
) -> TensorValue:
    """The product of ``lhs`` and the transpose of a quantised matrix, in float32.

    ``lhs`` is quantised first, to 8 bits in blocks of 32 (for ``Q4_0``) or 256, as ggml does; then
    integers are multiplied, and each block's sum is scaled. So the result differs from that of
    ``ops.matmul`` on the dequantised matrix by the rounding of ``lhs``. A NaN or an infinity in a
    row of ``lhs`` makes that row of the result NaN. The matrix stays in its few bits: one that is
    known when the model is loaded is laid out anew then, beside what the registry holds: it takes
    its memory twice. Others are read as they are.

    Args:
        encoding: ``Q4_0``, ``Q4_K`` or ``Q6_K``.
        config: None; these encodings need none, and do not read one.
        lhs: A float32 tensor ``[..., k]``.
        rhs: One uint8 tensor ``[n, bytes of k elements]``. The result is ``[..., n]``.

    Raises:
        ArgumentTypeError: ML742, not an encoding or a config; ML738, not float32 and uint8.
        ArgumentError: ML737, another encoding; ML743, not one tensor on the right; ML304, operands
            on different devices.
        ShapeError: ML739, wrong ranks; ML740, rows that are not of whole blocks; ML741, the inner
            dims differ. Where that is known only when the model runs, the run raises an InputError.

    Example:
        >>> from maxlab.dtype import DType
        >>> from maxlab.graph import Graph, TensorType, ops
        >>> from maxlab.graph.quantization import QuantizationEncoding
        >>> x = TensorType(DType.float32, ["batch", 4096])
        >>> w = TensorType(DType.uint8, [512, 4096 // 32 * 18])
        >>> with Graph("linear", input_types=[x, w]) as graph:
        ...     ops.qmatmul(QuantizationEncoding.Q4_0, None, *graph.inputs).shape
        [Dim('batch'), Dim(512)]
    """
    name = _name_of("qmatmul", encoding, PRODUCTS)
    if config is not None and not isinstance(config, QuantizationConfig):
        raise ArgumentTypeError(
            "ML742",
            f"qmatmul: the config must be a QuantizationConfig or None, got {config!r}",
            fix=f"pass None: {name} needs no config",
        )
    if len(rhs) != 1:
        raise ArgumentError(
            "ML743",
            f"qmatmul: {name} takes one tensor on the right, got {len(rhs)}",
            fix="write ops.qmatmul(encoding, None, lhs, rhs)",
        )
    operands = [tensor(lhs, "qmatmul: lhs"), tensor(rhs[0], "qmatmul: rhs")]
    return add_op("qmatmul", operands, encoding=name)


@staged
def matmul_blocks(
    encoding: QuantizationEncoding, lhs: TensorValueLike, rhs: TensorValueLike
) -> TensorValue:
    """The product of ``lhs`` and the transpose of a packed matrix, in float32.

    Unlike ``qmatmul``, it leaves ``lhs`` as it is, and takes all encodings with blocks. The numbers
    of the matrix are made as they are needed: it is never there as floats.

    Args:
        encoding: ``Q4_0``, ``Q4_K``, ``Q5_K`` or ``Q6_K``.
        lhs: A float32 tensor ``[..., k]``.
        rhs: A uint8 tensor ``[n, bytes of k elements]``. The result is ``[..., n]``.

    Raises:
        ArgumentTypeError: ML742, not an encoding; ML738, not float32 and uint8.
        ArgumentError: ML737, the encoding ``GPTQ``; ML304, operands on different devices.
        ShapeError: ML739, wrong ranks; ML740, rows that are not of whole blocks; ML741, the inner
            dims differ. Where that is known only when the model runs, the run raises an InputError.

    Example:
        >>> from maxlab.dtype import DType
        >>> from maxlab.graph import Graph, TensorType, ops
        >>> from maxlab.graph.quantization import QuantizationEncoding
        >>> x = TensorType(DType.float32, ["batch", 512])
        >>> w = TensorType(DType.uint8, [64, 512 // 256 * 176])
        >>> with Graph("linear", input_types=[x, w]) as graph:
        ...     ops.matmul_blocks(QuantizationEncoding.Q5_K, *graph.inputs).shape
        [Dim('batch'), Dim(64)]
    """
    name = _name_of("matmul_blocks", encoding, tuple(FORMATS))
    operands = [tensor(lhs, "matmul_blocks: lhs"), tensor(rhs, "matmul_blocks: rhs")]
    return add_op("matmul_blocks", operands, encoding=name)


@staged
def matmul_groups(
    lhs: TensorValueLike, words: TensorValueLike, scales: TensorValueLike, bits: int = 4
) -> TensorValue:
    """The product of ``lhs`` and a matrix of few bits whose groups of rows have scales, in float32.

    A number of the matrix is ``(q - 2 ** (bits - 1)) * scale``, where ``q`` is ``bits`` of a word,
    the first number in the lowest: as GPTQ packs symmetric weights. The numbers are made as they
    are needed: the matrix is never there as floats.

    Args:
        lhs: A float32 tensor ``[..., k]``.
        words: An int32 tensor ``[k * bits / 32, n]``. The result is ``[..., n]``.
        scales: Floats ``[k / size of a group, n]``.
        bits: 2, 4 or 8.

    Raises:
        ArgumentError: ML737, other bits; ML304, operands on different devices.
        ArgumentTypeError: ML738, wrong dtypes.
        ShapeError: ML739, wrong ranks, or words and scales whose shape is not static; ML740, groups
            that are not of whole words; ML741, sizes that do not fit. Where that is known only when
            the model runs, the run raises an InputError.

    Example:
        >>> from maxlab.dtype import DType
        >>> from maxlab.graph import Graph, TensorType, ops
        >>> x = TensorType(DType.float32, ["batch", 128])
        >>> words = TensorType(DType.int32, [128 * 4 // 32, 8])
        >>> scales = TensorType(DType.float16, [128 // 32, 8])
        >>> with Graph("linear", input_types=[x, words, scales]) as graph:
        ...     ops.matmul_groups(*graph.inputs).shape
        [Dim('batch'), Dim(8)]
    """
    if isinstance(bits, bool) or bits not in (2, 4, 8):
        raise ArgumentError(
            "ML737",
            f"matmul_groups: {bits!r} bits are not supported, only 2, 4, 8",
            fix="pack the numbers in 4 bits or 8",
        )
    operands = [
        tensor(x, f"matmul_groups: {name}")
        for x, name in ((lhs, "lhs"), (words, "words"), (scales, "scales"))
    ]
    if operands[2].dtype.is_float():
        operands[2] = cast(operands[2], DType.float32)
    return add_op("matmul_groups", operands, bits=bits)


__all__ = ["dequantize", "matmul_blocks", "matmul_groups", "qmatmul"]
