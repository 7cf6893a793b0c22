"""Tokens drawn from logits, and penalties of tokens that have been there."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from maxlab.dtype import DType
from maxlab.errors import ArgumentError, DTypeError, ShapeError, shown
from maxlab.graph import BufferValue, DeviceRef, TensorValue, TensorValueLike, ops
from maxlab.graph.build import buffer, is_number, staged, tensor
from maxlab.ir import DimLike
from maxlab.nn.kernels.given import moved, require_rank

_SEEDS = 1 << 64
_MOST_K = 1 << 63


@staged
def topk_fused_sampling(
    logits: TensorValue,
    top_k: TensorValueLike,
    *,
    temperature: TensorValueLike = 1.0,
    max_k: TensorValueLike | None = None,
    min_top_p: TensorValueLike | None = None,
    top_p: TensorValueLike = 1.0,
    seed: TensorValueLike = 0,
) -> TensorValue:
    """A token of each row, int64 [batch, 1], drawn by temperature, top-k and top-p.

    The draw of a row depends on its logits, its numbers and its seed alone: it is the same in every
    batch, and on every device. Rows with equal seeds use the same uniform number, that of NumPy's
    ``Generator(Philox(key=seed)).random()``. Of equally probable tokens the one with the smaller id
    comes first. NaN or plus infinity among the logits ends the run with ML183, a row of minus
    infinity with ML185.

    Args:
        logits: Floats [batch, tokens].
        top_k: How many of the most probable tokens are drawn from, an int or integers [batch]; all
            where it is below 1.
        temperature: What logits are divided by, a number or floats [batch]; the most probable token
            is taken where it is not above 0.
        max_k: The largest ``top_k``, which bounds those above it; a tensor as ``top_k`` needs it. A
            value below 1 bounds none.
        min_top_p: The smallest ``top_p``, which bounds those below it.
        top_p: Tokens are drawn from as long as more probable ones have less than this probability
            together, a number or floats [batch].
        seed: An int in [0, 2**64), or integers [batch].

    Raises:
        ShapeError: ML659, other ranks or sizes (a ValueError).
        DTypeError: ML666, other dtypes (a ValueError).
        ArgumentError: ML678, a number out of its range, or ``top_k`` is a tensor and ``max_k`` is
            missing (a ValueError).
        ArgumentTypeError: ML317, neither a number nor a tensor.

    Example:
        >>> import numpy as np
        >>> from maxlab.dtype import DType
        >>> from maxlab.engine import InferenceSession
        >>> from maxlab.graph import DeviceRef, Graph, TensorType
        >>> logits = TensorType(DType.float32, ["batch", 4], DeviceRef.CPU())
        >>> with Graph("draw", input_types=[logits]) as graph:
        ...     x = graph.inputs[0].tensor
        ...     graph.output(topk_fused_sampling(x, 1), topk_fused_sampling(x, 3, seed=5))
        >>> rows = np.log(np.array([[1, 2, 3, 4], [4, 3, 2, 1]], np.float32))
        >>> [y.to_numpy().ravel().tolist() for y in InferenceSession().load(graph)(rows)]
        [[3, 0], [3, 1]]
    """
    what = "topk_fused_sampling"
    logits = _logits(what, logits)
    rows, device = logits.shape[0], logits.device
    if max_k is None and not _is_int(top_k):
        raise ArgumentError(
            "ML678",
            f"{what}: top_k is a tensor, and max_k is missing",
            fix="pass max_k=, the largest top_k of the batch",
        )
    k = row_integers(what, "top_k", top_k, rows, device, -1, _MOST_K)
    if max_k is not None:
        most = row_integers(what, "max_k", max_k, rows, device, -1, _MOST_K)
        k = ops.where(ops.logical_and(most > 0, k > most), most, k)
    part = row_floats(what, "top_p", top_p, rows, device, 1)
    if min_top_p is not None:
        part = ops.max(part, row_floats(what, "min_top_p", min_top_p, rows, device, 1))
    heat = row_floats(what, "temperature", temperature, rows, device)
    seeds = row_integers(what, "seed", seed, rows, device, 0, _SEEDS, DType.uint64)
    none = row_floats(what, "min_p", 0.0, rows, device)
    uniform = ops.squeeze(ops.sample_uniform(seeds), 1)
    return ops.unsqueeze(ops.sample_token(logits, k, heat, part, none, uniform), -1)


@staged
def apply_penalties_to_logits(
    logits_buffer: BufferValue,
    frequency_data: TensorValue,
    frequency_offsets: TensorValue,
    *,
    frequency_penalty: TensorValueLike = 0.0,
    presence_penalty: TensorValueLike = 0.0,
    repetition_penalty: TensorValueLike = 1.0,
) -> None:
    """Changes the logits of the tokens in ``frequency_data``.

    A positive logit is divided by the repetition penalty, a negative one multiplied; then the count
    of the token times the frequency penalty, and the presence penalty, are taken away. Tokens with
    a count of 0 keep their logits, and minus infinity stays. Offsets beyond the data, or a token
    that is not there, end the run with ML652.

    Args:
        logits_buffer: A buffer of floats [batch, tokens].
        frequency_data: Pairs of a token and how often it is there, int32 [unique tokens, 2], each
            token once a row. The token -1 is a free place, which is left out.
        frequency_offsets: Where the pairs of each row begin, and the end, uint32 [batch + 1].
        frequency_penalty: A number, or floats [batch].
        presence_penalty: A number, or floats [batch].
        repetition_penalty: A number above 0, or floats [batch].

    Raises:
        ArgumentTypeError: ML776, ``logits_buffer`` is not a buffer; ML317, no tensors.
        ShapeError: ML659, other ranks or sizes (a ValueError).
        DTypeError: ML666, other dtypes (a ValueError).
        ArgumentError: ML678, a penalty that is not finite, or a repetition penalty that is not
            above 0 (a ValueError).

    Example:
        >>> import numpy as np
        >>> from maxlab.dtype import DType
        >>> from maxlab.engine import InferenceSession
        >>> from maxlab.graph import BufferType, Graph, ops
        >>> data, offsets = np.array([[0, 2], [3, 1]], np.int32), np.array([0, 2], np.uint32)
        >>> with Graph("less", input_types=[BufferType(DType.float32, [1, 4])]) as graph:
        ...     apply_penalties_to_logits(
        ...         graph.inputs[0].buffer, data, offsets, frequency_penalty=0.5)
        ...     graph.output()
        >>> logits = np.zeros((1, 4), np.float32)
        >>> _ = InferenceSession().load(graph)(logits)
        >>> logits.tolist()
        [[-1.0, 0.0, 0.0, -0.5]]
    """
    what = "apply_penalties_to_logits"
    to = buffer(logits_buffer, f"{what}: logits_buffer")
    if to.rank != 2:
        raise ShapeError(
            "ML659",
            f"{what}: logits_buffer must be [batch, tokens], got {to.type}",
            fix="pass a buffer with a row of logits for each sequence",
        )
    rows, device = to.shape[0], to.device
    if isinstance(repetition_penalty, (int, float, np.number)) and not repetition_penalty > 0:
        raise _out_of_range(what, "repetition_penalty", repetition_penalty, "above 0")
    frequency, presence, repetition = (
        row_floats(what, name, value, rows, device, low=-math.inf)
        for name, value in (
            ("frequency_penalty", frequency_penalty),
            ("presence_penalty", presence_penalty),
            ("repetition_penalty", repetition_penalty),
        )
    )
    data = moved(require_rank(what, "frequency_data", frequency_data, 2), device)
    offsets = moved(require_rank(what, "frequency_offsets", frequency_offsets, 1), device)
    ops.sample_penalise(to, data, offsets, frequency, presence, repetition)


@staged
def update_frequency_data(
    frequency_data: BufferValue, frequency_offsets: TensorValue, tokens: TensorValue
) -> None:
    """Counts the new token of each row in ``frequency_data``.

    The count of a token that is there grows by 1; a new one takes the first free place of its row,
    a pair whose token is -1, with a count of 1. Without a free place a new token is not counted.
    Offsets beyond the data, or a negative token, end the run with ML652.

    Args:
        frequency_data: A buffer of pairs of a token and how often it is there, int32
            [unique tokens, 2].
        frequency_offsets: Where the pairs of each row begin, and the end, uint32 [batch + 1].
        tokens: A token of each row, integers [batch].

    Raises:
        ArgumentTypeError: ML776, ``frequency_data`` is not a buffer; ML317, no tensors.
        ShapeError: ML659, other ranks or sizes (a ValueError).
        DTypeError: ML666, other dtypes (a ValueError).

    Example:
        >>> import numpy as np
        >>> from maxlab.dtype import DType
        >>> from maxlab.engine import InferenceSession
        >>> from maxlab.graph import BufferType, Graph, ops
        >>> offsets = np.array([0, 2], np.uint32)
        >>> with Graph("count", input_types=[BufferType(DType.int32, [2, 2])]) as graph:
        ...     for token in (7, 7, 5):
        ...         update_frequency_data(graph.inputs[0].buffer, offsets, np.array([token]))
        ...     graph.output()
        >>> data = np.array([[5, 1], [-1, 0]], np.int32)
        >>> _ = InferenceSession().load(graph)(data)
        >>> data.tolist()
        [[5, 2], [7, 2]]
    """
    what = "update_frequency_data"
    data = buffer(frequency_data, f"{what}: frequency_data")
    offsets = moved(require_rank(what, "frequency_offsets", frequency_offsets, 1), data.device)
    drawn = _integers(what, "tokens", require_rank(what, "tokens", tokens, 1))
    ops.sample_count(data, offsets, ops.cast(moved(drawn, data.device), DType.int64))


# ---------------------------------------------------------------- numbers of rows
def row_floats(
    what: str,
    name: str,
    value: Any,
    rows: DimLike,
    device: DeviceRef,
    high: float = math.inf,
    low: float = 0,
) -> TensorValue:
    """``value`` for each row, float64 [rows]: a number, or a tensor of rank 0 or [rows].

    Args:
        what: What asks for it, for errors.
        name: What it is called.
        value: The number or the tensor.
        rows: The number of rows.
        device: Where the tensor is to be.
        high: The largest number, itself allowed if it is finite.
        low: The smallest number, itself allowed if it is finite.

    Raises:
        ArgumentError: ML678, a number that is not finite or out of its range (a ValueError).
        ShapeError: ML659, another rank (a ValueError).
        DTypeError: ML666, a tensor of bools (a ValueError).
        ArgumentTypeError: ML317, another value.
    """
    if is_number(value):
        number = float(value)
        if not (math.isfinite(number) and low <= number <= high):
            ends = (
                "finite"
                if low < 0
                else f"in [{low:g}, {high:g}]"
                if high < math.inf
                else "finite and 0 or more"
            )
            raise _out_of_range(what, name, value, ends)
        return ops.broadcast_to(ops.constant(number, DType.float64, device), [rows])
    found = tensor(value, f"{what}: {name}")
    if not (found.dtype.is_float() or found.dtype.is_integral()):
        raise _wrong_dtype(what, name, found, "numbers")
    return _of_rows(what, name, ops.cast(found, DType.float64), rows, device)


def row_integers(
    what: str,
    name: str,
    value: Any,
    rows: DimLike,
    device: DeviceRef,
    low: int,
    end: int,
    dtype: DType = DType.int64,
) -> TensorValue:
    """``value`` for each row, integers [rows]: an int, or a tensor of rank 0 or [rows].

    Args:
        what: What asks for it, for errors.
        name: What it is called.
        value: The int or the tensor.
        rows: The number of rows.
        device: Where the tensor is to be.
        low: The smallest int.
        end: What an int must be below.
        dtype: The dtype of the result.

    Raises:
        ArgumentError: ML678, a number that is no int, or out of its range (a ValueError).
        ShapeError: ML659, another rank (a ValueError).
        DTypeError: ML666, a tensor of other numbers (a ValueError).
        ArgumentTypeError: ML317, another value.
    """
    if is_number(value):
        if not _is_int(value) or not low <= int(value) < end:
            raise _out_of_range(what, name, value, f"an int in [{low}, {end})")
        return ops.broadcast_to(ops.constant(int(value), dtype, device), [rows])
    found = _integers(what, name, tensor(value, f"{what}: {name}"))
    return _of_rows(what, name, ops.cast(found, dtype), rows, device)


def _of_rows(
    what: str, name: str, found: TensorValue, rows: DimLike, device: DeviceRef
) -> TensorValue:
    found = moved(found, device)
    if found.rank == 0:
        return ops.broadcast_to(found, [rows])
    if found.rank != 1:
        raise ShapeError(
            "ML659",
            f"{what}: {name} must be a number or [batch], got {found.type}",
            fix="pass a number, or a tensor with one for each row",
        )
    return found


def _logits(what: str, logits: Any) -> TensorValue:
    found = require_rank(what, "logits", logits, 2)
    if not found.dtype.is_float():
        raise _wrong_dtype(what, "logits", found, "floats")
    return found


def _integers(what: str, name: str, found: TensorValue) -> TensorValue:
    if not found.dtype.is_integral():
        raise _wrong_dtype(what, name, found, "integers")
    return found


def _wrong_dtype(what: str, name: str, found: TensorValue, wanted: str) -> DTypeError:
    return DTypeError(
        "ML666",
        f"{what}: {name} must be {wanted}, got {found.type}",
        fix="cast it: ops.cast(x, dtype)",
    )


def _out_of_range(what: str, name: str, value: Any, wanted: str) -> ArgumentError:
    return ArgumentError(
        "ML678",
        f"{what}: {name} must be {wanted}, got {shown(value)}",
        fix="pass a number of that range, or a tensor with one for each row",
    )


def _is_int(value: Any) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


__all__ = [
    "apply_penalties_to_logits",
    "row_floats",
    "row_integers",
    "topk_fused_sampling",
    "update_frequency_data",
]
