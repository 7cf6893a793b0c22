"""Rotary frequencies and rotations as loops over Python floats, apart from maxlab's."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def plain(dim: int, theta: float) -> list[float]:
    return [1 / theta ** (2 * i / dim) for i in range(dim // 2)]


def llama3(dim: int, theta: float, factor: float, low: float, high: float, n: int) -> list[float]:
    found = []
    for f in plain(dim, theta):
        wave = 2 * math.pi / f
        if wave < n / high:
            found.append(f)
        elif wave > n / low:
            found.append(f / factor)
        else:
            smooth = (n / wave - low) / (high - low)
            found.append((1 - smooth) * f / factor + smooth * f)
    return found


def yarn(
    dim: int, theta: float, factor: float, fast: float, slow: float, n: int, truncate: bool
) -> list[float]:
    bounds = [
        dim * math.log(n / (beta * 2 * math.pi)) / (2 * math.log(theta)) for beta in (fast, slow)
    ]
    if truncate:
        bounds = [math.floor(bounds[0]), math.ceil(bounds[1])]
    low, high = max(bounds[0], 0), min(bounds[1], dim - 1)
    high += 0.001 if low == high else 0
    found = []
    for i, f in enumerate(plain(dim, theta)):
        ramp = min(max((i - low) / (high - low), 0), 1)
        found.append(f / factor * ramp + f * (1 - ramp))
    return found


def table(frequencies: list[float], positions: Any, scale: float = 1.0) -> Array:
    """Cosines and sines, ``[positions, pairs, 2]``."""
    return np.array(
        [
            [[math.cos(p * f) * scale, math.sin(p * f) * scale] for f in frequencies]
            for p in positions
        ]
    )


def turned(x: Array, cos_sin: Array, interleaved: bool) -> Array:
    """``x``, ``[tokens, heads, dim]``, each pair a complex number times another."""
    made = x.astype(np.float64)
    half = x.shape[-1] // 2
    for token, head, pair in np.ndindex(*x.shape[:2], half):
        a, b = (2 * pair, 2 * pair + 1) if interleaved else (pair, pair + half)
        z = complex(*x[token, head, [a, b]]) * complex(*cos_sin[token, pair])
        made[token, head, a], made[token, head, b] = z.real, z.imag
    return made


__all__ = ["llama3", "plain", "table", "turned", "yarn"]
