"""Shared parts of the samplers of speculative decoding: tests of what is passed, and places."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from maxlab.dtype import DType
from maxlab.errors import ArgumentError, ArgumentTypeError, DTypeError, ShapeError, shown
from maxlab.graph import DeviceRef, TensorValue, TensorValueLike, ops
from maxlab.ir import Dim
from maxlab.nn.kernels.given import require_rank
from maxlab.nn.kernels.sampling import row_integers

SEEDS: Final = 1 << 64


def require_settings(
    what: str, device: Any, top_k: Any, top_p: Any, temperature: Any, seed: Any, eps: Any
) -> None:
    """Raises unless the settings of a sampler are of their types and ranges.

    Raises:
        ArgumentTypeError: ML317, ``device`` is no DeviceRef.
        ArgumentError: ML678, another one out of its range (a ValueError).
    """
    if not isinstance(device, DeviceRef):
        raise ArgumentTypeError(
            "ML317",
            f"{what}: device must be a DeviceRef, got {shown(device)}",
            fix="pass DeviceRef.CPU()",
        )
    rules = (
        ("top_k", top_k, (int, np.integer), -1, (1 << 63) - 1),
        ("top_p", top_p, (int, float), 0, 1),
        ("temperature", temperature, (int, float), 0, np.finfo(np.float64).max),
        ("seed", seed, (int, np.integer), 0, SEEDS - 1),
        ("eps", eps, (int, float), 0, 1),
    )
    for name, value, kind, low, high in rules:
        fits = isinstance(value, kind) and not isinstance(value, bool)
        if not fits or not low <= value <= high:
            raise ArgumentError(
                "ML678",
                f"{what}: {name} must be a number from {low} to {high}, got {shown(value)}",
                fix="pass a number of that range",
            )


def require_draft(
    what: str, draft_tokens: Any, draft_logits: Any, target_logits: Any, offsets: Any
) -> tuple[TensorValue, TensorValue, TensorValue, TensorValue]:
    """The four inputs of every sampler of speculative decoding.

    Raises:
        ArgumentTypeError: ML317, no tensors.
        ShapeError: ML659, other ranks or sizes (a ValueError).
        DTypeError: ML666, other dtypes (a ValueError).
    """
    tokens = require_rank(what, "draft_tokens", draft_tokens, 2)
    given = require_rank(what, "draft_logits_for_sampled_tokens", draft_logits, 2)
    logits = require_rank(what, "target_logits", target_logits, 2)
    ends = require_rank(what, "target_logit_offsets", offsets, 1)
    for name, x, fits in (
        ("draft_tokens", tokens, tokens.dtype.is_integral()),
        ("draft_logits_for_sampled_tokens", given, given.dtype.is_float()),
        ("target_logits", logits, logits.dtype.is_float()),
        ("target_logit_offsets", ends, ends.dtype.is_integral()),
    ):
        if not fits:
            raise DTypeError(
                "ML666",
                f"{what}: {name} must be {'floats' if 'logits' in name else 'integers'}, got "
                f"{x.type}",
                fix="cast it: ops.cast(x, dtype)",
            )
    if list(tokens.shape) != list(given.shape):
        raise ShapeError(
            "ML659",
            f"{what}: there are draft tokens {tokens.type} and logits of them {given.type}",
            fix="pass a logit of each draft token",
        )
    return ops.cast(tokens, DType.int64), given, logits, ops.cast(ends, DType.int64)


def seeds_of(
    what: str,
    seeds: TensorValueLike | None,
    seed: int,
    rows: Dim,
    device: DeviceRef,
    shift: int = 0,
) -> TensorValue:
    """The seed of each sequence, uint64 [rows]: its own, or ``seed`` and the number of the row.

    Args:
        what: What asks for them, for errors.
        seeds: Seeds of the sequences.
        seed: The seed of all, where they have none.
        rows: The number of sequences.
        device: Where they are to be.
        shift: Is added, so that one seed makes different numbers for different uses.
    """
    more = ops.constant((seed * (seeds is None) + shift) % SEEDS, DType.uint64, device)
    if seeds is not None:
        own = row_integers(what, "seeds", seeds, rows, device, 0, SEEDS, DType.uint64)
        return own + more
    number = ops.range(0, rows, 1, out_dim=rows, dtype=DType.uint64, device=device)
    far = ops.constant(1 << 32, DType.uint64, device)
    return number * far + more


def steps_of(size: Dim, device: DeviceRef, dtype: DType = DType.int64) -> TensorValue:
    """The numbers from 0 to ``size``, [size]."""
    return ops.range(0, size, 1, out_dim=size, dtype=dtype, device=device)


def places_of(offsets: TensorValue, rows: Dim, count: Dim) -> TensorValue:
    """The rows of the target's logits of each sequence, int64 [rows, count]."""
    first = ops.unsqueeze(ops.rebind(offsets[:-1], [rows]), 1)
    return first + ops.unsqueeze(steps_of(count, offsets.device), 0)


def accepted(keeps: TensorValue) -> TensorValue:
    """How many tokens of each row stand before the first one that is not kept, int64 [rows]."""
    wrong = ops.cast(ops.logical_not(keeps), DType.int64)
    before = ops.cast(ops.equal(ops.cumsum(wrong, axis=1), 0), DType.int64)
    return ops.squeeze(ops.sum(before, axis=1), 1)


__all__ = [
    "SEEDS",
    "accepted",
    "places_of",
    "require_draft",
    "require_settings",
    "seeds_of",
    "steps_of",
]
