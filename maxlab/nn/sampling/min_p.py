"""Tokens that are not much less probable than the most probable one."""

from __future__ import annotations

from collections.abc import Iterable

from maxlab.dtype import DType
from maxlab.errors import ArgumentError, DTypeError, ShapeError
from maxlab.graph import DeviceRef, TensorValue, TensorValueLike, ops
from maxlab.ir import Dim, DimLike, Shape, StaticDim
from maxlab.nn.kernels.given import require_rank
from maxlab.nn.kernels.sampling import row_floats, row_integers
from maxlab.nn.module import Module

_SEEDS = 1 << 64


class MinPSampler(Module):
    """A sampler of tokens that have ``min_p`` times the probability of the most probable one.

    See N. N. Minh et al., "Turning up the heat: min-p sampling for creative and coherent LLM
    outputs" (2024).

    Args:
        dtype: The dtype of the tokens that are returned. A float dtype is the one of the logits
            too, and must hold each token exactly.
        shape: The shape of the logits, [batch, tokens].
        temperature: What logits are divided by; 0 takes the most probable token.

    Raises:
        ShapeError: ML659, a shape of another rank (a ValueError).
        DTypeError: ML666, a dtype that does not hold all tokens (a ValueError).
        ArgumentError: ML678, a temperature below 0 (a ValueError).

    Attributes:
        dtype: The dtype of the tokens.
        min_p: What a call without ``min_p`` uses: 0, which leaves all tokens.
        shape: The shape of the logits.
        temperature: What logits are divided by.

    Example:
        >>> import numpy as np
        >>> from maxlab.engine import InferenceSession
        >>> from maxlab.graph import Graph, TensorType
        >>> logits = TensorType(DType.float32, [2, 3], DeviceRef.CPU())
        >>> with Graph("draw", input_types=[logits]) as graph:
        ...     sampler = MinPSampler(DType.int64, logits.shape)
        ...     graph.output(sampler(graph.inputs[0].tensor, 0.9))
        >>> rows = np.array([[5, 0, 1], [1, 0, 5]], np.float32)
        >>> InferenceSession().load(graph)(rows)[0].to_numpy().tolist()
        [[0], [2]]
    """

    dtype: DType
    min_p: float = 0.0
    shape: Shape
    temperature: float

    def __init__(self, dtype: DType, shape: Iterable[DimLike], temperature: float = 1) -> None:
        self.dtype, self.shape = dtype, Shape(shape)
        if self.shape.rank != 2:
            raise ShapeError(
                "ML659",
                f"MinPSampler: the shape must be [batch, tokens], got {self.shape}",
                fix="reshape the logits to rank 2",
            )
        if not (isinstance(temperature, (int, float)) and 0 <= temperature < float("inf")):
            raise ArgumentError(
                "ML678",
                f"MinPSampler: temperature must be finite and 0 or more, got {temperature!r}",
                fix="pass 1.0, or 0 for the most probable token",
            )
        self.temperature = float(temperature)
        _require_room(dtype, self.shape[1])

    def __call__(
        self,
        input: TensorValue,
        min_p: TensorValueLike | None = None,
        seed: TensorValueLike | None = None,
    ) -> TensorValue:
        """A token of each row, [batch, 1].

        Args:
            input: The logits, floats of the shape of the sampler.
            min_p: A number in [0, 1], or floats [batch]; the attribute by default.
            seed: An int in [0, 2**64), or integers [batch]; the number of the row by default. The
                same seed draws the same token, whatever rows are beside it.

        Raises:
            ShapeError: ML659, logits of another shape (a ValueError).
            DTypeError: ML666, logits that are no floats, or not of a float dtype of the sampler (a
                ValueError).
            ArgumentError: ML678, a number out of its range (a ValueError).
        """
        what = "MinPSampler"
        logits = require_rank(what, "the logits", input, 2)
        if any(_differ(a, b) for a, b in zip(logits.shape, self.shape, strict=True)):
            raise ShapeError(
                "ML659",
                f"{what}: the sampler is for {self.shape}, the logits are {logits.type}",
                fix="make the sampler with the shape of the logits",
            )
        if not logits.dtype.is_float() or (self.dtype.is_float() and self.dtype != logits.dtype):
            raise DTypeError(
                "ML666",
                f"{what}: the sampler is for {self.dtype.name}, the logits are {logits.type}",
                fix="cast the logits, or make the sampler with an integer dtype",
            )
        rows, device = logits.shape[0], logits.device
        part = self.min_p if min_p is None else min_p
        uniform = ops.squeeze(ops.sample_uniform(_seeds(what, seed, rows, device)), 1)
        tokens = ops.sample_token(
            logits,
            row_integers(what, "top_k", -1, rows, device, -1, 0),
            row_floats(what, "temperature", self.temperature, rows, device),
            row_floats(what, "top_p", 1, rows, device),
            row_floats(what, "min_p", part, rows, device, 1),
            uniform,
        )
        return ops.unsqueeze(ops.cast(tokens, self.dtype), -1)


def _differ(a: Dim, b: Dim) -> bool:
    """Whether two dims are numbers that differ; a name stands for any number."""
    return isinstance(a, StaticDim) and isinstance(b, StaticDim) and a != b


def _seeds(what: str, seed: TensorValueLike | None, rows: Dim, device: DeviceRef) -> TensorValue:
    """The seed of each row, uint64 [rows]."""
    if seed is not None:
        return row_integers(what, "seed", seed, rows, device, 0, _SEEDS, DType.uint64)
    return ops.range(0, rows, 1, out_dim=rows, dtype=DType.uint64, device=device)


def _require_room(dtype: DType, tokens: Dim) -> None:
    """Raises unless ``dtype`` holds each of ``tokens`` tokens exactly."""
    bits = {DType.float16: 11, DType.bfloat16: 8, DType.float32: 24, DType.float64: 53}.get(dtype)
    if bits is None and dtype.is_integral():
        bits = dtype.size_in_bits - dtype.is_signed_integral()
    most = None if bits is None else (1 << bits) + dtype.is_float()
    if most is None or (isinstance(tokens, StaticDim) and int(tokens) > most):
        raise DTypeError(
            "ML666",
            f"MinPSampler: {dtype.name} does not hold each of {tokens} tokens",
            fix="use DType.int64",
        )


__all__ = ["MinPSampler"]
