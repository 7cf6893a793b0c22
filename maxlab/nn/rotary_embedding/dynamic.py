"""``DynamicRotaryEmbedding``: frequencies that follow the length of the sequence."""

from __future__ import annotations

from typing import Any

import numpy as np

from maxlab.dtype import DType
from maxlab.errors import ArgumentError, DTypeError, shown
from maxlab.graph import TensorValue, TensorValueLike, Value, ops
from maxlab.nn.rotary_embedding import frequencies as formulas
from maxlab.nn.rotary_embedding.frequencies import Array
from maxlab.nn.rotary_embedding.plain import CPU, RotaryEmbedding
from maxlab.nn.rotary_embedding.scaling import MOST_TOKENS, is_number
from maxlab.opset.builder import builder


class DynamicRotaryEmbedding(RotaryEmbedding):
    """A rotary embedding whose base grows with the sequence, beyond ``max_seq_len`` tokens.

    ``maybe_update_freqs`` looks at the positions of a sequence of ``n`` tokens, and where ``n`` is
    above ``max_seq_len`` multiplies ``theta`` by ``r ** (head_dim / (head_dim - 2))``, ``r`` being
    ``scaling_factor * n / max_seq_len - (scaling_factor - 1)``. Positions that are numbers decide
    while the graph is built. Positions that are a tensor of the graph decide in each run, for that
    run alone.

    Args:
        dim: The size of a token's vector, all heads together.
        n_heads: The number of attention heads.
        theta: The base of the frequencies.
        max_seq_len: The longest sequence of the training, in tokens.
        head_dim: The dimensions of each head, 4 or more; ``dim // n_heads`` when left out.
        _freqs_cis: A table to use in place of the computed one while sequences are not longer.
        interleaved: Whether a pair is two neighbours, or half of ``head_dim`` apart.
        scaling_factor: The factor above, ``factor`` of a config.json with the type ``dynamic``.

    Attributes:
        inv_freq: Radians a token of each pair, in use, float64 ``[head_dim / 2]``.
        max_seq_len_cached: The length in tokens that ``inv_freq`` is for.
        original_max_seq_len: ``max_seq_len``.

    Raises:
        ArgumentError: As for ``RotaryEmbedding``; ML688, ``head_dim`` is 2; ML689,
            ``scaling_factor`` is below 1 or huge.

    Example:
        >>> from maxlab.nn.rotary_embedding import DynamicRotaryEmbedding
        >>> rope = DynamicRotaryEmbedding(8, 2, 100.0, max_seq_len=16)
        >>> rope.maybe_update_freqs([0, 1, 63])
        >>> rope.max_seq_len_cached, rope.inv_freq
        (64, array([1.   , 0.025]))
        >>> rope.maybe_update_freqs([0, 1, 2])
        >>> rope.max_seq_len_cached, rope.inv_freq
        (16, array([1. , 0.1]))
    """

    def __init__(
        self,
        dim: int,
        n_heads: int,
        theta: float,
        max_seq_len: int,
        head_dim: int | None = None,
        _freqs_cis: TensorValueLike | None = None,
        interleaved: bool = True,
        *,
        scaling_factor: float = 1.0,
    ) -> None:
        super().__init__(dim, n_heads, theta, max_seq_len, head_dim, _freqs_cis, interleaved)
        if self.head_dim < 4:
            raise ArgumentError(
                "ML688",
                f"DynamicRotaryEmbedding: head_dim must be 4 or more, got {self.head_dim}",
                fix="use RotaryEmbedding: the one pair of such heads always turns 1 radian a token",
            )
        if not is_number(scaling_factor) or not 1 <= scaling_factor <= MOST_TOKENS:
            raise ArgumentError(
                "ML689",
                "DynamicRotaryEmbedding: scaling_factor must be a number from 1 to "
                f"{MOST_TOKENS}, got "
                f"{shown(scaling_factor)}",
                fix="pass factor of rope_scaling in the model's config.json",
            )
        self.scaling_factor = float(scaling_factor)
        self.original_max_seq_len = max_seq_len
        self.max_seq_len_cached = max_seq_len
        self.inv_freq: Array = super().inverse_frequencies()

    def inverse_frequencies(self) -> Array:
        """Radians a token of each pair, in use, float64 ``[head_dim / 2]``."""
        return self.inv_freq

    def _grown(self, length: int) -> Array:
        """The frequencies for a sequence of ``length`` tokens."""
        ratio = formulas.dynamic_ratio(
            float(length), self.original_max_seq_len, self.scaling_factor
        )
        plain = formulas.plain(self.head_dim, self.theta)
        made: Array = plain * ratio ** formulas.dynamic_exponents(self.head_dim)
        return made

    def _rows(self) -> int:
        return max(2 * self.original_max_seq_len, self.max_seq_len_cached)

    # ------------------------------------------------------------ updates
    def maybe_update_freqs(self, position_ids: TensorValueLike) -> None:
        """Fits the frequencies to a sequence: grows them where it is longer than those in use are
        for, and puts the original ones back where it is shorter than ``max_seq_len``.

        Args:
            position_ids: The positions of the sequence, integers of any shape, one at least.
                Numbers and arrays change ``inv_freq`` now. A tensor of the graph being built
                makes each run of it choose the frequencies by its own longest position, and
                compute the table; nothing is kept from run to run.

        Raises:
            DTypeError: ML109, the positions are not integers.
            ArgumentError: ML688, there is no position.
        """
        if isinstance(position_ids, Value):
            value = TensorValue(position_ids)
            if not value.dtype.is_integral():
                raise _no_integers(value.dtype.name)
            length = ops.max(ops.reshape(ops.cast(value, DType.int64), [-1]), axis=0)[0]
            # The layer is kept with it, so that no other one gets its id meanwhile.
            builder().state[self._key()] = (self, (length + 1).to(CPU))
            return
        found = np.asarray(position_ids)
        if found.size == 0:
            raise ArgumentError(
                "ML688",
                "DynamicRotaryEmbedding: position_ids is empty",
                fix="pass the position of each token of the sequence",
            )
        if found.dtype.kind not in "iu":
            raise _no_integers(found.dtype.name)
        self._fit(int(found.max()) + 1)

    def _fit(self, length: int) -> None:
        """Grows or resets the frequencies for ``length`` tokens."""
        if length > self.max_seq_len_cached:
            self.inv_freq = self._grown(length)
            self.max_seq_len_cached = length
        elif length < self.original_max_seq_len < self.max_seq_len_cached:
            self.inv_freq = formulas.plain(self.head_dim, self.theta)
            self.max_seq_len_cached = self.original_max_seq_len

    def _key(self) -> str:
        return f"the length of sequences of the rotary embedding {id(self)}"

    # ------------------------------------------------------------ tables
    def freqs_cis_base(self) -> TensorValue:
        """The cosine and sine of each pair at each position with the frequencies in use, float32
        ``[rows, head_dim / 2, 2]`` on the CPU.

        There are ``2 * max_seq_len`` rows, or one for each token of the sequence that
        ``maybe_update_freqs`` saw where that is more.

        Raises:
            NoGraphError: ML313, no graph is being built.
            ShapeError: ML692, the table that was given has other dims.
        """
        graph = builder(what="a table of rotary frequencies")
        kept: tuple[object, TensorValue] | None = graph.state.get(self._key())
        if kept is not None:
            return self._of_run(kept[1])
        if self.max_seq_len_cached == self.original_max_seq_len:
            return super().freqs_cis_base()
        return self._computed()

    def _of_run(self, length: TensorValue) -> TensorValue:
        """The table for the length that a run finds, int64 of rank 0."""
        original = self.original_max_seq_len
        least = ops.cast(ops.max(length, ops.constant(original, DType.int64, CPU)), DType.float64)
        ratio = formulas.dynamic_ratio(least, original, self.scaling_factor)
        exponents = ops.constant(formulas.dynamic_exponents(self.head_dim), DType.float64, CPU)
        plain = ops.constant(formulas.plain(self.head_dim, self.theta), DType.float64, CPU)
        rows = ops.max(length, ops.constant(2 * original, DType.int64, CPU))
        positions = ops.range(0, rows, 1, _fresh("rope_rows"), dtype=DType.int64, device=CPU)
        frequencies: TensorValue = plain * ops.pow(ratio, exponents)
        angles = ops.outer(ops.cast(positions, DType.float64), frequencies)
        return ops.stack(
            [ops.cast(part, DType.float32) for part in (ops.cos(angles), ops.sin(angles))], axis=-1
        )


def _fresh(stem: str) -> str:
    """A name of a dim that the graph being built has not yet."""
    taken: Any = builder().dim_names()
    number = 0
    while f"{stem}{number}" in taken:
        number += 1
    return f"{stem}{number}"


def _no_integers(dtype: str) -> DTypeError:
    return DTypeError(
        "ML109",
        f"DynamicRotaryEmbedding: position_ids must be integers, got {dtype}",
        fix="pass int32 or int64 positions",
    )


__all__ = ["DynamicRotaryEmbedding"]
