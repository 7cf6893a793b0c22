"""Masks of attention as NumPy arrays: what kernels are checked against, and a drawing of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from maxlab.errors import ArgumentError, ArgumentTypeError, shown
from maxlab.nn.attention.drawing import Grid, page_of, text_of
from maxlab.nn.attention.mask_config import (
    AttentionMaskVariant,
    MHAMaskConfig,
    MHAMaskVariant,
    PositionalEncodingVariant,
)

Array = np.ndarray[Any, Any]
_Rule = AttentionMaskVariant

_SEES: dict[AttentionMaskVariant, Callable[[Array, Array, int], Array]] = {
    _Rule.NULL_MASK: lambda q, k, n: np.ones(np.broadcast_shapes(q.shape, k.shape), np.bool_),
    _Rule.CAUSAL_MASK: lambda q, k, n: k <= q,
    _Rule.CHUNKED_CAUSAL_MASK: lambda q, k, n: (k <= q) & (k // n == q // n),
    _Rule.SLIDING_WINDOW_CAUSAL_MASK: lambda q, k, n: (k <= q) & (k > q - n),
}
"""For each rule: the keys that queries see, from both positions and the size of window or chunk."""

_WINDOWED = (_Rule.CHUNKED_CAUSAL_MASK, _Rule.SLIDING_WINDOW_CAUSAL_MASK)


@dataclass(frozen=True, eq=False, repr=False)
class AttentionMask:
    """The keys that each new token of a sequence sees.

    Attributes:
        config: The rule, and the position that is added.
        allowed: Whether a query sees a key, bool ``[queries, keys]``.
        cached: The number of tokens that are in the cache: the position of the first query.
        window: The size of a window or chunk in tokens; None for rules without one.
        given: What an array of numbers adds to the products, float32 ``[queries, keys]``; None
            without one.
    """

    config: MHAMaskConfig
    allowed: Array
    cached: int
    window: int | None = None
    given: Array | None = None

    def bias(self, n_heads: int = 1) -> Array:
        """The values to add to the scaled products of queries and keys, float32
        ``[n_heads, queries, keys]``: minus infinity where a query does not see a key, else 0, or
        minus the distance times the head's slope with ALiBi.

        Raises:
            ArgumentError: ML693, ``n_heads`` is not a positive int.

        Example:
            >>> attention_mask(MHAMaskVariant.CAUSAL_MASK, 2).bias()
            array([[[  0., -inf],
                    [  0.,   0.]]], dtype=float32)
        """
        _size("AttentionMask.bias", "n_heads", n_heads, 1)
        shift = np.zeros((n_heads, *self.allowed.shape), np.float32)
        if self.config.positional_encoding_variant is PositionalEncodingVariant.ALIBI_POS:
            rows, columns = self.allowed.shape
            queries, keys = _positions(rows, columns, self.cached)
            shift = (alibi_slopes(n_heads)[:, None, None] * (keys - queries)).astype(np.float32)
        if self.given is not None:
            shift = shift + self.given
        made: Array = np.where(self.allowed, shift, np.float32(-np.inf))
        return made

    @property
    def says(self) -> str:
        """The rule in words."""
        rule, window = self.config.attention_mask_variant, self.window
        words = {
            _Rule.NULL_MASK: "every query sees all keys",
            _Rule.CAUSAL_MASK: "a query sees itself and all keys before it",
            _Rule.CHUNKED_CAUSAL_MASK: "a query sees itself and the keys before it in its chunk "
            f"of {window}, counted from position 0",
            _Rule.SLIDING_WINDOW_CAUSAL_MASK: f"a query sees {window} keys at most: itself and "
            "those right before it",
            _Rule.TENSOR_MASK: "an array says which keys a query sees",
        }[rule]
        if self.config.positional_encoding_variant is PositionalEncodingVariant.ALIBI_POS:
            words += "; nearer keys weigh more (ALiBi)"
        return words

    def _grid(self) -> Grid:
        return Grid(self.config.attention_mask_variant.value, self.says, self.allowed, self.cached)

    def __repr__(self) -> str:
        return text_of(self._grid())

    def _repr_html_(self) -> str:
        return page_of(self._grid())


def _size(what: str, name: str, value: object, least: int, fix: str = "") -> int:
    """``value``, an int of ``least`` at least; ``fix`` is what to pass instead.

    Raises:
        ArgumentError: ML693, it is something else.
    """
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
        raise ArgumentError(
            "ML693",
            f"{what}: {name} must be an int of {least} or more, got {shown(value)}",
            fix=fix or f"pass the number of {name.removeprefix('n_')}",
        )
    return int(value)


def _positions(queries: int, keys: int, cached: int) -> tuple[Array, Array]:
    """The positions of queries, ``[queries, 1]``, and of keys, ``[1, keys]``."""
    return cached + np.arange(queries)[:, None], np.arange(keys)[None]


def alibi_slopes(n_heads: int) -> Array:
    """The slope of each head in ALiBi [1]_, float64 ``[n_heads]``: ``2 ** (-8 * i / n)`` for a
    power of two ``n``; heads beyond the largest power take every second slope of the next one.

    Example:
        >>> alibi_slopes(2)
        array([0.0625    , 0.00390625])

    .. [1] O. Press, N. A. Smith, M. Lewis, "Train Short, Test Long: Attention with Linear Biases
       Enables Input Length Extrapolation", ICLR 2022.
    """
    power = 1 << (n_heads.bit_length() - 1)
    first = 2.0 ** (-8 * np.arange(1, power + 1) / power)
    rest = 2.0 ** (-4 * np.arange(1, 2 * (n_heads - power), 2) / power)
    return np.concatenate([first, rest])


def attention_mask(
    variant: MHAMaskVariant | MHAMaskConfig,
    queries: int,
    keys: int | None = None,
    *,
    cached: int = 0,
    local_window_size: int = -1,
    mask: Any = None,
) -> AttentionMask:
    """The keys that each of ``queries`` new tokens of one sequence sees, as a NumPy array.

    Args:
        variant: A mask of kernels, or a rule with a position.
        queries: The number of new tokens; they follow the cached ones.
        keys: The number of keys, which begin at position 0; ``cached + queries`` when left out.
        cached: The number of tokens in the cache.
        local_window_size: The size of a window or chunk in tokens, for rules that have one; a
            window counts the query itself. -1 is none.
        mask: For ``TENSOR_MASK``: bools ``[queries, keys]``, True where a query sees a key, or
            floats that are added to the products, minus infinity where it does not.

    Raises:
        ArgumentError: ML693, a number of tokens that cannot be, a window that is missing or not
            asked for; ML694, a mask of another shape or dtype, missing or not asked for.
        ArgumentTypeError: ML694, ``variant`` is something else.

    Example:
        >>> from maxlab.nn.attention import MHAMaskVariant, attention_mask
        >>> window = MHAMaskVariant.SLIDING_WINDOW_CAUSAL_MASK
        >>> attention_mask(window, 3, cached=2, local_window_size=2).allowed.astype(int)
        array([[0, 1, 1, 0, 0],
               [0, 0, 1, 1, 0],
               [0, 0, 0, 1, 1]])
    """
    what = "attention_mask"
    config = variant.config if isinstance(variant, MHAMaskVariant) else variant
    if not isinstance(config, MHAMaskConfig):
        raise ArgumentTypeError(
            "ML694",
            f"{what}: the mask must be an MHAMaskVariant or an MHAMaskConfig, got {shown(variant)}",
            fix="pass MHAMaskVariant.CAUSAL_MASK, or MHAMaskVariant('0') for its number",
        )
    queries = _size(what, "queries", queries, 1)
    cached = _size(what, "cached", cached, 0, "pass the number of cached tokens")
    keys = cached + queries if keys is None else _size(what, "keys", keys, 1)
    rule = config.attention_mask_variant
    window = _window(rule, local_window_size)
    if rule is _Rule.TENSOR_MASK:
        allowed, given = _of_array(mask, (queries, keys))
        return AttentionMask(config, allowed, cached, None, given)
    if mask is not None:
        raise ArgumentError(
            "ML694",
            f"{what}: an array is given, and the mask is {rule.value!r}",
            fix="pass MHAMaskConfig(AttentionMaskVariant.TENSOR_MASK, ...), or no array",
        )
    allowed = _SEES[rule](*_positions(queries, keys, cached), window or 0)
    return AttentionMask(config, allowed, cached, window)


def _window(rule: AttentionMaskVariant, size: int) -> int | None:
    """The size of the window or chunk of ``rule``; None for a rule without one."""
    if rule in _WINDOWED:
        fix = "pass its size in tokens: sliding_window or attention_chunk_size of config.json"
        return _size(f"attention_mask: {rule.value}", "local_window_size", size, 1, fix)
    if size != -1:
        raise ArgumentError(
            "ML693",
            f"attention_mask: the mask {rule.value!r} has no window, got local_window_size="
            f"{shown(size)}",
            fix="leave local_window_size out, or choose a chunked or sliding mask",
        )
    return None


def _of_array(mask: Any, shape: tuple[int, int]) -> tuple[Array, Array | None]:
    """Which keys are seen, and what is added, as an array says it."""
    found = None if mask is None else np.asarray(mask)
    if found is None or found.shape != shape or found.dtype.kind not in "bf":
        got = "none" if found is None else f"{found.dtype.name} {list(found.shape)}"
        raise ArgumentError(
            "ML694",
            f"attention_mask: an array of bools or floats {list(shape)} is expected, got {got}",
            fix="pass mask=, with True where a query sees a key, or with numbers to add",
        )
    if found.dtype.kind == "b":
        return found, None
    return ~np.isneginf(found), found.astype(np.float32)


__all__ = ["AttentionMask", "alibi_slopes", "attention_mask"]
