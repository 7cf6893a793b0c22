"""Weights as AutoGPTQ writes them, and the numbers that they stand for."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def checkpoint(
    bits: int, k: int, n: int, size: int, act_order: bool, seed: int | None = None
) -> dict[str, Array]:
    """What AutoGPTQ writes for a symmetric weight: words, zero points less 1, scales, groups."""
    rng = np.random.default_rng(bits if seed is None else seed)
    per, middle = 32 // bits, 2 ** (bits - 1)
    zeros = np.zeros((k // size, n // per), np.uint32)
    for e in range(per):
        zeros |= np.uint32(middle - 1) << np.uint32(bits * e)
    groups = np.arange(k) // size
    return {
        "qweight": rng.integers(-(2**31), 2**31, (k // per, n)).astype(np.int32),
        "qzeros": zeros.view(np.int32),
        "scales": rng.uniform(0.01, 0.1, (k // size, n)).astype(np.float16),
        "g_idx": (rng.permutation(groups) if act_order else groups).astype(np.int32),
    }


def numbers(found: dict[str, Array], bits: int) -> Array:
    """The weight ``[k, n]``: AutoGPTQ's ``scales[g_idx] * (q - (zeros + 1)[g_idx])``."""
    per, most = 32 // bits, 2**bits - 1
    k, n = len(found["qweight"]) * per, found["qweight"].shape[1]
    q = np.empty((k, n), np.float32)
    zeros = np.empty((len(found["scales"]), n), np.float32)
    for e in range(per):
        q[e::per] = found["qweight"].view(np.uint32) >> bits * e & most
        zeros[:, e::per] = found["qzeros"].view(np.uint32) >> bits * e & most
    g = found["g_idx"]
    made: Array = found["scales"].astype(np.float32)[g] * (q - (zeros + 1)[g])
    return made


__all__ = ["checkpoint", "numbers"]
