"""Rotary embeddings with scaled frequencies: Llama 3, YaRN, Deepseek and LongRoPE."""

from __future__ import annotations

from maxlab.errors import ArgumentError
from maxlab.graph import TensorValue, TensorValueLike
from maxlab.nn.rotary_embedding import frequencies as formulas
from maxlab.nn.rotary_embedding.frequencies import Array
from maxlab.nn.rotary_embedding.plain import RotaryEmbedding, check_scaling
from maxlab.nn.rotary_embedding.scaling import (
    DeepseekYarnRopeScalingParams,
    LinearScalingParams,
    Llama3RopeScalingParams,
    LongRoPEScalingParams,
    YarnScalingParams,
)
from maxlab.nn.rotary_embedding.shown import Frequencies


class Llama3RotaryEmbedding(RotaryEmbedding):
    """A rotary embedding whose low frequencies are scaled, for the longer contexts of Llama 3.1.

    Args:
        dim: The size of a token's vector, all heads together.
        n_heads: The number of attention heads.
        theta: The base of the frequencies.
        max_seq_len: The longest sequence, in tokens; tables have twice as many rows.
        head_dim: The dimensions of each head; ``dim // n_heads`` when left out.
        _freqs_cis: A table to use in place of the computed one.
        interleaved: Whether a pair is two neighbours, or half of ``head_dim`` apart.
        scaling_params: How frequencies are scaled; None leaves them as they are.
            ``LinearScalingParams`` divide all of them.

    Raises:
        ArgumentError: As for ``RotaryEmbedding``.
        ArgumentTypeError: ML689, ``scaling_params`` of another class.

    Example:
        >>> from maxlab.nn.rotary_embedding import Llama3RopeScalingParams, Llama3RotaryEmbedding
        >>> params = Llama3RopeScalingParams(8.0, 1.0, 4.0, orig_max_position=8192)
        >>> rope = Llama3RotaryEmbedding(4096, 32, 5e5, 131072, scaling_params=params)
        >>> scaled_by = rope.frequencies.per_token / rope.frequencies.plain
        >>> scaled_by[[0, 32, 63]].round(4)
        array([1.    , 0.3711, 0.125 ])
    """

    scaling_params: Llama3RopeScalingParams | LinearScalingParams | None = None

    def __init__(
        self,
        dim: int,
        n_heads: int,
        theta: float,
        max_seq_len: int,
        head_dim: int | None = None,
        _freqs_cis: TensorValueLike | None = None,
        interleaved: bool = True,
        scaling_params: Llama3RopeScalingParams | LinearScalingParams | None = None,
    ) -> None:
        super().__init__(dim, n_heads, theta, max_seq_len, head_dim, _freqs_cis, interleaved)
        kinds = (Llama3RopeScalingParams, LinearScalingParams)
        check_scaling(type(self).__name__, scaling_params, *kinds)
        self.scaling_params = scaling_params

    def inverse_frequencies(self) -> Array:
        """Radians a token of each pair, scaled, float64 ``[head_dim / 2]``."""
        made = super().inverse_frequencies()
        if isinstance(self.scaling_params, LinearScalingParams):
            return formulas.linear(made, self.scaling_params)
        return made if self.scaling_params is None else formulas.llama3(made, self.scaling_params)


class YarnRotaryEmbedding(RotaryEmbedding):
    """A rotary embedding with frequencies scaled by YaRN.

    Cosines and sines are multiplied by ``0.1 * ln(factor) + 1``, so that products of queries and
    keys grow by its square; ``compute_scale`` does not repeat it.

    Args:
        dim: The size of a token's vector, all heads together.
        n_heads: The number of attention heads.
        theta: The base of the frequencies, above 1.
        max_seq_len: The longest sequence, in tokens; tables have twice as many rows.
        head_dim: The dimensions of each head; ``dim // n_heads`` when left out.
        _freqs_cis: A table to use in place of the computed one.
        interleaved: Whether a pair is two neighbours, or half of ``head_dim`` apart.
        scaling_params: How frequencies are scaled; None leaves them as they are.

    Raises:
        ArgumentError: As for ``RotaryEmbedding``; ML688, ``theta`` is not above 1.
        ArgumentTypeError: ML689, ``scaling_params`` of another class.

    Example:
        >>> from maxlab.nn.rotary_embedding import YarnRotaryEmbedding, YarnScalingParams
        >>> params = YarnScalingParams(32.0, 32.0, 1.0, 4096, truncate=False)
        >>> rope = YarnRotaryEmbedding(2880, 45, 150000.0, 131072, scaling_params=params)
        >>> [float(x) for x in rope.frequencies.per_token[[0, -1]].round(9)]
        [1.0, 3.02e-07]
    """

    scaling_params: YarnScalingParams | None = None

    def __init__(
        self,
        dim: int,
        n_heads: int,
        theta: float,
        max_seq_len: int,
        head_dim: int | None = None,
        _freqs_cis: TensorValueLike | None = None,
        interleaved: bool = True,
        scaling_params: YarnScalingParams | None = None,
    ) -> None:
        super().__init__(dim, n_heads, theta, max_seq_len, head_dim, _freqs_cis, interleaved)
        check_scaling(type(self).__name__, scaling_params, YarnScalingParams)
        check_base(self, scaling_params)
        self.scaling_params = scaling_params

    def inverse_frequencies(self) -> Array:
        """Radians a token of each pair, scaled, float64 ``[head_dim / 2]``."""
        made, params = super().inverse_frequencies(), self.scaling_params
        if params is None:
            return made
        original = params.original_max_position_embeddings
        return formulas.yarn(
            made, self.theta, params.factor, params.beta_fast, params.beta_slow, original,
            params.truncate,
        )  # fmt: skip

    def _factor(self) -> float:
        return (
            1.0 if self.scaling_params is None else formulas.yarn_factor(self.scaling_params.factor)
        )

    def freqs_cis_base(self) -> TensorValue:
        """The cosine and sine of each pair at each position, times ``0.1 * ln(factor) + 1``,
        float32 ``[2 * max_seq_len, head_dim / 2, 2]`` on the CPU.

        Raises:
            NoGraphError: ML313, no graph is being built.
            ShapeError: ML692, the table that was given has other dims.
        """
        return super().freqs_cis_base()


def check_base(rope: RotaryEmbedding, params: object) -> None:
    """Raises where YaRN would divide by the logarithm of a base that is not above 1.

    Raises:
        ArgumentError: ML688, ``theta`` is 1 or less.
    """
    if params is not None and rope.theta <= 1:
        raise ArgumentError(
            "ML688",
            f"{type(rope).__name__}: theta must be above 1 to be scaled, got {rope.theta:g}",
            fix="pass rope_theta of the model's config.json, often 10000.0",
        )


class DeepseekYarnRotaryEmbedding(RotaryEmbedding):
    """Deepseek's rotary embedding: YaRN, with a scale of the attention.

    ``dim`` is the number of turned dimensions of a head (``qk_rope_head_dim``), not the size of a
    token's vector, and tables have ``max_seq_len`` rows.

    Args:
        dim: The number of dimensions that are turned in each head.
        n_heads: The number of attention heads.
        theta: The base of the frequencies, above 1.
        max_seq_len: The longest sequence, in tokens; the rows of tables.
        head_dim: The size of a query or key, whose root scales the attention
            (``qk_nope_head_dim + qk_rope_head_dim``); ``dim`` when left out.
        _freqs_cis: A table to use in place of the computed one.
        interleaved: Whether a pair is two neighbours, or half of ``dim`` apart.
        scaling_params: How frequencies and the attention are scaled; None leaves them.

    Raises:
        ArgumentError: As for ``RotaryEmbedding``; ML688, ``theta`` is not above 1.
        ArgumentTypeError: ML689, ``scaling_params`` of another class.

    Example:
        >>> from maxlab.nn.rotary_embedding import DeepseekYarnRopeScalingParams
        >>> from maxlab.nn.rotary_embedding import DeepseekYarnRotaryEmbedding
        >>> params = DeepseekYarnRopeScalingParams(40.0, 4096, 32, 1, 1.0, 1.0)
        >>> rope = DeepseekYarnRotaryEmbedding(64, 128, 10000.0, 163840, scaling_params=params)
        >>> round(rope.compute_scale(192**-0.5), 4)
        0.1352
    """

    scaling_params: DeepseekYarnRopeScalingParams | None = None

    def __init__(
        self,
        dim: int,
        n_heads: int,
        theta: float,
        max_seq_len: int,
        head_dim: int | None = None,
        _freqs_cis: TensorValueLike | None = None,
        interleaved: bool = True,
        scaling_params: DeepseekYarnRopeScalingParams | None = None,
    ) -> None:
        super().__init__(dim, n_heads, theta, max_seq_len, head_dim, _freqs_cis, interleaved)
        check_scaling(type(self).__name__, scaling_params, DeepseekYarnRopeScalingParams)
        check_base(self, scaling_params)
        self.scaling_params = scaling_params

    def _default_head_dim(self) -> int:
        return self.dim

    def _turned(self) -> int:
        return self.dim

    def _rows(self) -> int:
        return self.max_seq_len

    def inverse_frequencies(self) -> Array:
        """Radians a token of each pair, scaled, float64 ``[dim / 2]``."""
        made, params = super().inverse_frequencies(), self.scaling_params
        if params is None:
            return made
        original = params.original_max_position_embeddings
        return formulas.yarn(
            made, self.theta, params.scaling_factor, params.beta_fast, params.beta_slow, original,
            truncate=True,
        )  # fmt: skip

    def _sharpened(self, weight: float) -> float:
        """The factor of YaRN with a weight of its logarithm."""
        params = self.scaling_params
        return 1.0 if params is None else formulas.yarn_factor(params.scaling_factor, weight)

    def _factor(self) -> float:
        params = self.scaling_params
        if params is None:
            return 1.0
        return self._sharpened(params.mscale) / self._sharpened(params.mscale_all_dim)

    def freqs_cis_base(self) -> TensorValue:
        """The cosine and sine of each pair at each position, times the ratio of the factors of
        ``mscale`` and ``mscale_all_dim``, float32 ``[max_seq_len, dim / 2, 2]`` on the CPU.

        Raises:
            NoGraphError: ML313, no graph is being built.
            ShapeError: ML692, the table that was given has other dims.
        """
        return super().freqs_cis_base()

    def compute_scale(self, user_scale: float | None = None) -> float:
        """The factor of the products of queries and keys: ``user_scale``, or
        ``1 / sqrt(head_dim)`` when it is None, times the square of
        ``0.1 * mscale_all_dim * ln(scaling_factor) + 1``."""
        params = self.scaling_params
        weight = 0.0 if params is None else params.mscale_all_dim
        return super().compute_scale(user_scale) * self._sharpened(weight) ** 2


class LongRoPERotaryEmbedding(RotaryEmbedding):
    """A rotary embedding with a divisor of its own for each frequency, for Phi-3.5.

    Positions below ``original_max_position`` use ``short_factor``, the others ``long_factor``.
    Cosines and sines are multiplied by ``sqrt(1 + ln(s) / ln(original_max_position))``, where
    ``s`` is ``max_position_embeddings / original_max_position``; products of queries and keys
    grow by its square.

    Args:
        dim: The size of a token's vector, all heads together.
        n_heads: The number of attention heads.
        theta: The base of the frequencies, usually 10000.0.
        max_seq_len: The longest sequence, in tokens; tables have twice as many rows.
        head_dim: The dimensions of each head; ``dim // n_heads`` when left out.
        _freqs_cis: A table to use in place of the computed one.
        interleaved: Whether a pair is two neighbours, or half of ``head_dim`` apart.
        scaling_params: The divisors; None leaves the frequencies as they are.

    Raises:
        ArgumentError: As for ``RotaryEmbedding``; ML690, another number of divisors than of
            pairs.
        ArgumentTypeError: ML689, ``scaling_params`` of another class.

    Example:
        >>> from maxlab.nn.rotary_embedding import LongRoPERotaryEmbedding, LongRoPEScalingParams
        >>> params = LongRoPEScalingParams([1.0, 1.0], [2.0, 32.0], 4096, 131072)
        >>> rope = LongRoPERotaryEmbedding(4, 1, 1e4, 131072, scaling_params=params)
        >>> print(str(rope.frequencies).partition("; ")[2])
        long: from position 4096 on
        pair  wavelength [tokens]  scaled by  long wavelength [tokens]  long scaled by
           0                6.283          1                     12.57             0.5
           1                628.3          1                    20,106         0.03125
    """

    scaling_params: LongRoPEScalingParams | None = None

    def __init__(
        self,
        dim: int,
        n_heads: int,
        theta: float,
        max_seq_len: int,
        head_dim: int | None = None,
        _freqs_cis: TensorValueLike | None = None,
        interleaved: bool = True,
        scaling_params: LongRoPEScalingParams | None = None,
    ) -> None:
        super().__init__(dim, n_heads, theta, max_seq_len, head_dim, _freqs_cis, interleaved)
        check_scaling(type(self).__name__, scaling_params, LongRoPEScalingParams)
        pairs = self.head_dim // 2
        if scaling_params is not None and len(scaling_params.short_factor) != pairs:
            raise ArgumentError(
                "ML690",
                f"{type(self).__name__}: {len(scaling_params.short_factor)} factors for {pairs} "
                f"pairs of dimensions",
                fix=f"pass {pairs} factors in each list, or head_dim="
                f"{2 * len(scaling_params.short_factor)}",
            )
        self.scaling_params = scaling_params

    def inverse_frequencies(self) -> Array:
        """Radians a token of each pair at positions below ``original_max_position``, float64
        ``[head_dim / 2]``."""
        made, params = super().inverse_frequencies(), self.scaling_params
        return made if params is None else formulas.long_rope(made, params.short_factor)

    def long_inverse_frequencies(self) -> Array:
        """Radians a token of each pair at the other positions, float64 ``[head_dim / 2]``."""
        made, params = super().inverse_frequencies(), self.scaling_params
        return made if params is None else formulas.long_rope(made, params.long_factor)

    def _factor(self) -> float:
        params = self.scaling_params
        return 1.0 if params is None else formulas.long_rope_factor(params)

    def freqs_cis_base(self) -> TensorValue:
        """The cosine and sine of each pair at each position, float32
        ``[2 * max_seq_len, head_dim / 2, 2]`` on the CPU: rows below ``original_max_position``
        with ``short_factor``, the others with ``long_factor``.

        Raises:
            NoGraphError: ML313, no graph is being built.
            ShapeError: ML692, the table that was given has other dims.
        """
        return super().freqs_cis_base()

    def _parts(self) -> list[tuple[Array, int]]:
        rows = self._rows()
        if self.scaling_params is None or self.scaling_params.original_max_position >= rows:
            return super()._parts()
        border = self.scaling_params.original_max_position
        return [(self.inverse_frequencies(), border), (self.long_inverse_frequencies(), rows)]

    def compute_scale(self, user_scale: float | None = None) -> float:
        """The factor of the products of queries and keys: ``user_scale``, or
        ``1 / sqrt(head_dim)`` when it is None.

        The adjustment of LongRoPE is in the cosines and sines, so that it is not applied again.
        """
        return super().compute_scale(user_scale)

    @property
    def frequencies(self) -> Frequencies:
        """The wavelength of each pair and how it is scaled, before and from
        ``original_max_position`` on, as a table."""
        made, params = super().frequencies, self.scaling_params
        if params is not None:
            made.stretched = self.long_inverse_frequencies()
            made.original = params.original_max_position
        return made


__all__ = [
    "DeepseekYarnRotaryEmbedding",
    "Llama3RotaryEmbedding",
    "LongRoPERotaryEmbedding",
    "YarnRotaryEmbedding",
]
