"""Weights as GPTQ stores them: what a config may say, the order of rows, products, and words and
scales as one tensor of bytes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np

from maxlab.dtype import DType
from maxlab.errors import ModuleError
from maxlab.graph import TensorValue, ops
from maxlab.graph.quantization import QuantizationConfig, QuantizationEncoding

BITS = (2, 4, 8)
"""The numbers of bits that words hold without a rest."""


def refuse(what: str, why: str, fix: str) -> NoReturn:
    """Raises the error that ``what`` cannot have weights as GPTQ stores them.

    Raises:
        ModuleError: ML799, always.
    """
    raise ModuleError("ML799", f"{what}: {why}", fix=fix)


def check_config(what: str, encoding: Any, config: Any) -> QuantizationConfig:
    """``config``, when it says how symmetric numbers are packed by GPTQ.

    Raises:
        ModuleError: ML799, it does not, or ``encoding`` is another one.
    """
    if encoding not in (None, QuantizationEncoding.GPTQ):
        refuse(
            what,
            f"quantization_encoding={encoding!r} is not that of GPTQ",
            "pass QuantizationEncoding.GPTQ, or use nn.Linear for the encodings of GGUF files",
        )
    if not isinstance(config, QuantizationConfig) or config.quant_method != "gptq":
        refuse(
            what,
            f"quantization_config={config!r} does not say how GPTQ packed the weights",
            'pass QuantizationConfig("gptq", bits=4, group_size=128, sym=True), as the checkpoint '
            "says",
        )
    if config.bits not in BITS:
        refuse(what, f"{config.bits} bits are not supported", "use a checkpoint of 4 bits or 8")
    if not config.sym:
        refuse(
            what,
            "the weights are not symmetric (sym=False), and zero points of groups are not "
            "supported",
            "use a checkpoint with sym=True, whose zero point is the middle of the range",
        )
    return config


def words_and_groups(what: str, config: QuantizationConfig, in_dim: int) -> tuple[int, int]:
    """The words and the groups of a column of ``in_dim`` numbers; a group size of -1 is all.

    Raises:
        ModuleError: ML799, groups are not of whole words, or do not divide the column.
    """
    per = 32 // config.bits
    size = in_dim if config.group_size == -1 else config.group_size
    if size < 1 or in_dim % size or size % per:
        refuse(
            what,
            f"in_dim={in_dim} cannot be cut into groups of {config.group_size} numbers, which "
            f"lie {per} in a word",
            f"use a group size that divides in_dim, and that {per} divides, or -1 for one group",
        )
    return in_dim // per, in_dim // size


def sorted_by_group(
    qweight: np.ndarray[Any, Any], g_idx: np.ndarray[Any, Any], bits: int = 4
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """The words of a checkpoint with ``desc_act`` as ``GPTQLinear`` takes them, and ``perm_idx``.

    In such a checkpoint row k of the weight is of the group ``g_idx[k]``. The words returned have
    the rows of one group behind each other, and ``perm_idx`` says which row is where.

    Args:
        qweight: ``[in_dim * bits / 32, out_dim]`` of int32, as the checkpoint has it.
        g_idx: ``[in_dim]`` of integers, as the checkpoint has it.
        bits: The bits of a number.

    Raises:
        ModuleError: ML799, a ``g_idx`` of another length.

    Example:
        >>> import numpy as np
        >>> from maxlab.nn.gptq import sorted_by_group
        >>> words = np.array([[0x76543210]], np.int32)
        >>> made, order = sorted_by_group(words, np.array([1, 0, 1, 0, 1, 0, 1, 0]))
        >>> hex(int(made[0, 0]) & 0xFFFFFFFF), order.tolist()
        ('0x64207531', [1, 3, 5, 7, 0, 2, 4, 6])
    """
    per = 32 // bits
    if g_idx.shape != (len(qweight) * per,):
        refuse(
            "sorted_by_group",
            f"g_idx has the shape {list(g_idx.shape)}, expected [{len(qweight) * per}]",
            "pass g_idx and qweight of one layer",
        )
    order = np.argsort(g_idx, kind="stable").astype(np.int32)
    shifts = np.arange(0, 32, bits, dtype=np.uint32)[:, None]
    words = np.ascontiguousarray(qweight).view(np.uint32)
    numbers = words[:, None, :] >> shifts & np.uint32(2**bits - 1)
    rows = numbers.reshape(-1, qweight.shape[1])[order].reshape(numbers.shape)
    made = np.bitwise_or.reduce(rows << shifts, axis=1)
    return np.ascontiguousarray(made).view(np.int32), order


def product(
    x: TensorValue, words: TensorValue, scales: TensorValue, perm: TensorValue | None, bits: int
) -> TensorValue:
    """The product of ``x``, its last axis in the order ``perm``, with the matrix of ``words`` and
    ``scales``; of the dtype of ``x``."""
    wide = ops.cast(x, DType.float32)
    if perm is not None:
        wide = ops.gather(wide, perm, axis=-1)
    return ops.cast(ops.matmul_groups(wide, words, scales, bits), x.dtype)


def stacked(words: Sequence[TensorValue], scales: Sequence[TensorValue]) -> TensorValue:
    """The bytes of several weights beside each other, uint8 ``[bytes of words + of scales, n]``.

    Rows of ``words``, int32, come first, each as 4 rows of ``n`` bytes; then those of ``scales``,
    of 16 bits, each as 2 rows.
    """
    parts = []
    for each in (words, scales):
        joined = ops.concat(list(each), axis=1)
        count, columns = joined.shape
        made = ops.bitcast(joined, DType.uint8)
        parts.append(ops.reshape(made, [count * joined.dtype.size_in_bytes, columns]))
    return ops.concat(parts, axis=0)


def unstacked(packed: TensorValue, words: int, groups: int) -> tuple[TensorValue, TensorValue]:
    """The words, int32 ``[words, n]``, and the scales, float16 ``[groups, n]``, of ``stacked``."""
    columns = int(packed.shape[1])
    first, rest = packed[: 4 * words], packed[4 * words :]
    return (
        ops.bitcast(ops.reshape(first, [words, 4 * columns]), DType.int32),
        ops.bitcast(ops.reshape(rest, [groups, 2 * columns]), DType.float16),
    )


__all__ = [
    "BITS",
    "check_config",
    "product",
    "refuse",
    "sorted_by_group",
    "stacked",
    "unstacked",
    "words_and_groups",
]
