"""``RotaryEmbedding``, and what its scaled variants share."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from maxlab.dtype import DType
from maxlab.errors import ArgumentError, ArgumentTypeError, ShapeError, shown
from maxlab.graph import DeviceRef, Dim, DimLike, TensorValue, TensorValueLike, ops
from maxlab.nn.dense import check_size
from maxlab.nn.module import Module
from maxlab.nn.rotary_embedding import frequencies as formulas
from maxlab.nn.rotary_embedding.rotation import at_positions, rotated
from maxlab.nn.rotary_embedding.scaling import LEAST, MOST_TOKENS, is_number
from maxlab.nn.rotary_embedding.shown import Frequencies
from maxlab.nn.rotary_embedding.tables import cos_sin

Array = np.ndarray[Any, Any]
CPU = DeviceRef.CPU()
MOST_DIMS = 2**16
"""The most dimensions of a head."""


def check_scaling(what: str, params: object, *kinds: type) -> None:
    """Raises unless ``params`` is None or of one of ``kinds``.

    Raises:
        ArgumentTypeError: ML689, it is something else.
    """
    if params is not None and not isinstance(params, kinds):
        raise ArgumentTypeError(
            "ML689",
            f"{what}: scaling_params must be {' or '.join(kind.__name__ for kind in kinds)}, got "
            f"{shown(params)}",
            fix=f"pass nn.rotary_embedding.{kinds[0].__name__}(...), or None for no scaling",
        )


class RotaryEmbedding(Module):
    """Turns pairs of dimensions of queries and keys by angles that grow with the position [1]_.

    Pair ``i`` turns by ``theta ** (-2 * i / head_dim)`` radians a token. Frequencies and angles
    are computed in float64, cosines and sines are rounded to float32. The layer has no weights.

    Args:
        dim: The size of a token's vector, all heads together.
        n_heads: The number of attention heads.
        theta: The base of the frequencies, often 10000.
        max_seq_len: The longest sequence, in tokens; tables have twice as many rows.
        head_dim: The number of dimensions that are turned in each head; ``dim // n_heads`` when
            left out.
        _freqs_cis: A table to use in place of the computed one: cosines and sines
            ``[rows, head_dim / 2, 2]`` or ``[rows, head_dim]``.
        interleaved: Whether a pair is two neighbours, as in GGUF files of Llama. Otherwise the
            second of a pair is half of ``head_dim`` behind the first, as in safetensors files.

    Raises:
        ArgumentError: ML716, a size that is not a positive int; ML688, ``head_dim`` is odd, or
            ``theta`` is not a positive number.

    Example:
        >>> from maxlab.dtype import DType
        >>> from maxlab.graph import Graph, TensorType
        >>> from maxlab.nn.rotary_embedding import RotaryEmbedding
        >>> rope = RotaryEmbedding(dim=512, n_heads=8, theta=10000.0, max_seq_len=1024)
        >>> queries = TensorType(DType.float32, ["batch", "seq", 8, 64])
        >>> graph = Graph("turned", rope, [queries])
        >>> graph.output_types[0].shape
        [Dim('batch'), Dim('seq'), Dim(8), Dim(64)]

    .. [1] J. Su, Y. Lu, S. Pan, A. Murtadha, B. Wen, Y. Liu, "RoFormer: Enhanced Transformer with
       Rotary Position Embedding", 2021, arXiv:2104.09864.
    """

    dim: int
    n_heads: int
    theta: float
    max_seq_len: int
    head_dim: int
    interleaved: bool = True

    def __init__(
        self,
        dim: int,
        n_heads: int,
        theta: float,
        max_seq_len: int,
        head_dim: int | None = None,
        _freqs_cis: TensorValueLike | None = None,
        interleaved: bool = True,
    ) -> None:
        what = type(self).__name__
        for name, size in (("dim", dim), ("n_heads", n_heads), ("max_seq_len", max_seq_len)):
            check_size(what, name, size)
        if not is_number(theta) or theta < LEAST:
            raise ArgumentError(
                "ML688",
                f"{what}: theta must be a positive number, got {shown(theta)}",
                fix="pass rope_theta of the model's config.json, often 10000.0",
            )
        self.dim = dim
        self.n_heads = n_heads
        self.theta = float(theta)
        self.max_seq_len = max_seq_len
        self.head_dim = self._default_head_dim() if head_dim is None else head_dim
        check_size(what, "head_dim", self.head_dim)
        if self._turned() % 2 or self._turned() > MOST_DIMS:
            raise ArgumentError(
                "ML688",
                f"{what}: an even number of dimensions up to {MOST_DIMS} is turned, got "
                f"{shown(self._turned())}",
                fix="pass an even head_dim, or a dim that is an even multiple of n_heads",
            )
        if max_seq_len > MOST_TOKENS:
            raise ArgumentError(
                "ML688",
                f"{what}: max_seq_len must be {MOST_TOKENS} or less, got {shown(max_seq_len)}",
                fix="pass the longest sequence that is to be run, in tokens",
            )
        self._freqs_cis = _freqs_cis
        self.interleaved = bool(interleaved)

    # ------------------------------------------------------------ what variants change
    def _default_head_dim(self) -> int:
        """The size of a head when none is given."""
        return self.dim // self.n_heads

    def _turned(self) -> int:
        """The number of dimensions that are turned."""
        return self.head_dim

    def _rows(self) -> int:
        """The number of rows of the table."""
        return 2 * self.max_seq_len

    def _factor(self) -> float:
        """The factor of all cosines and sines."""
        return 1.0

    def inverse_frequencies(self) -> Array:
        """Radians a token of each pair, float64 ``[head_dim / 2]``.

        Example:
            >>> from maxlab.nn.rotary_embedding import RotaryEmbedding
            >>> RotaryEmbedding(4, 1, 100.0, 16).inverse_frequencies()
            array([1. , 0.1])
        """
        return formulas.plain(self._turned(), self.theta)

    # ------------------------------------------------------------ tables
    def freqs_cis_base(self) -> TensorValue:
        """The cosine and sine of each pair at each position, float32
        ``[2 * max_seq_len, head_dim / 2, 2]`` on the CPU.

        The table is a constant of the graph that is being built. Layers that are alike share its
        memory, ``max_seq_len * head_dim * 8`` bytes.

        Raises:
            NoGraphError: ML313, no graph is being built.
            ShapeError: ML692, the table that was given has other dims.
        """
        given = self._given()
        return self._computed() if given is None else given

    def _parts(self) -> list[tuple[Array, int]]:
        """The frequencies, and the position before which they hold."""
        return [(self.inverse_frequencies(), self._rows())]

    def _computed(self) -> TensorValue:
        """The table that the frequencies make."""
        return ops.constant(cos_sin(self._parts(), self._factor()), DType.float32, CPU)

    def _given(self) -> TensorValue | None:
        """The table that was given, ``[rows, pairs, 2]``; None without one."""
        if self._freqs_cis is None:
            return None
        table: TensorValue
        if isinstance(self._freqs_cis, (np.ndarray, list, tuple)):
            table = ops.constant(np.asarray(self._freqs_cis), DType.float32, CPU)
        else:
            table = TensorValue(self._freqs_cis)
        pairs = self._turned() // 2
        if table.rank == 2 and table.shape[1] == 2 * pairs:
            return ops.reshape(table, [table.shape[0], pairs, 2])
        if table.rank != 3 or list(table.shape[1:]) != [pairs, 2]:
            dims = ", ".join(map(str, table.shape))
            raise ShapeError(
                "ML692",
                f"{type(self).__name__}: _freqs_cis is [{dims}], expected [rows, {pairs}, 2] or "
                f"[rows, {2 * pairs}]",
                fix="pass freqs_cis_base() of an embedding with the same head_dim",
            )
        return table

    @property
    def freqs_cis(self) -> TensorValue:
        """The table with cosine and sine of a pair side by side, float32
        ``[2 * max_seq_len, head_dim]`` on the CPU.

        Raises:
            NoGraphError: ML313, no graph is being built.
            ShapeError: ML692, the table that was given has other dims.
        """
        table = self.freqs_cis_base()
        return ops.reshape(table, [table.shape[0], self._turned()])

    # ------------------------------------------------------------ use
    def compute_scale(self, user_scale: float | None = None) -> float:
        """The factor of the products of queries and keys: ``user_scale``, or
        ``1 / sqrt(head_dim)`` when it is None.

        Example:
            >>> from maxlab.nn.rotary_embedding import RotaryEmbedding
            >>> RotaryEmbedding(64, 4, 10000.0, 128).compute_scale()
            0.25
        """
        return 1 / math.sqrt(self.head_dim) if user_scale is None else float(user_scale)

    def __call__(
        self,
        x: TensorValueLike,
        start_pos: TensorValueLike = 0,
        seq_len: DimLike | None = None,
        *,
        position_ids: TensorValueLike | None = None,
        mrope_section: Sequence[int] | None = None,
    ) -> TensorValue:
        """``x`` with each pair turned by the angle of its position, of the type of ``x``.

        Args:
            x: Queries or keys, ``[batch, seq, heads, head_dim]`` or ``[tokens, heads, head_dim]``.
            start_pos: The position of the first token: an int or an integer tensor of rank 0.
            seq_len: The number of tokens; that of ``x`` when left out.
            position_ids: The position of each token in place of ``start_pos`` and what follows
                it: integers ``[seq]`` or ``[batch, seq]``. With ``mrope_section``, a set of
                positions for each section: ``[sections, seq]`` or ``[sections, batch, seq]``.
            mrope_section: How many pairs follow each set of ``position_ids``.

        Raises:
            ShapeError: ML691, ``x``, ``position_ids`` and ``mrope_section`` do not fit together.
            DTypeError: ML109, positions that are not integers.
            ExecutionError: When the model runs, for a position that the table has no row for.
        """
        value = TensorValue(x)
        table = self.freqs_cis_base().to(value.device)
        if position_ids is not None:
            positions = TensorValue(position_ids)
        elif mrope_section is not None:
            raise ShapeError(
                "ML691",
                f"{type(self).__name__}: mrope_section {shown(list(mrope_section))} without "
                "position_ids",
                fix="pass position_ids, a set of positions for each section",
            )
        else:
            length = Dim(value.shape[-3] if seq_len is None else seq_len) if value.rank > 2 else 1
            steps = ops.range(0, length, 1, dtype=DType.int64, device=value.device)
            positions = steps + _start(start_pos, value.device)
        return rotated(value, at_positions(table, positions, mrope_section), self.interleaved)

    # ------------------------------------------------------------ display
    @property
    def frequencies(self) -> Frequencies:
        """The wavelength of each pair and how it is scaled, as a table."""
        unscaled = formulas.plain(self._turned(), self.theta)
        return Frequencies(repr(self), self.inverse_frequencies(), unscaled)

    def _facts(self) -> str:
        """The arguments in ``repr``."""
        return (
            f"head_dim={self.head_dim}, n_heads={self.n_heads}, theta={self.theta:g}, "
            f"max_seq_len={self.max_seq_len}, interleaved={self.interleaved}"
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._facts()})"

    def _repr_html_(self) -> str:
        return self.frequencies._repr_html_()


def _start(start: TensorValueLike, device: DeviceRef) -> TensorValue | int:
    """The first position, as int64 on ``device``."""
    if isinstance(start, int):
        return start
    value = TensorValue(start)
    if value.shape.num_elements == 1 and value.rank:
        value = ops.reshape(value, [])
    return ops.cast(value, DType.int64).to(device)


__all__ = ["RotaryEmbedding", "check_scaling"]
