"""Rotation of pairs of dimensions by the angles of their positions."""

from __future__ import annotations

from collections.abc import Sequence

from maxlab.errors import ShapeError, shown
from maxlab.graph import TensorValue, ops


def _bracketed(x: TensorValue) -> str:
    """The shape of ``x`` for messages."""
    return f"[{', '.join(map(str, x.shape))}]"


def rotated(x: TensorValue, cos_sin: TensorValue, interleaved: bool) -> TensorValue:
    """``x`` with each pair of its last dim turned by an angle, of the type of ``x``.

    The product is computed in the dtype of the cosines, float32.

    Args:
        x: ``[..., tokens, heads, head_dim]``.
        cos_sin: Cosine and sine of the angle of each pair, ``[..., tokens, head_dim / 2, 2]``.
        interleaved: Whether a pair is two neighbours, as in GGUF files of Llama. Otherwise the
            second of a pair is half of ``head_dim`` behind the first, as in safetensors files.

    Raises:
        ShapeError: ML691, the last dim of ``x`` is not two for each pair.
    """
    pairs = cos_sin.shape[-2]
    if x.rank < 3 or x.shape[-1] != 2 * pairs:
        raise ShapeError(
            "ML691",
            f"rotary embedding: the input is {_bracketed(x)}, expected "
            f"[..., tokens, heads, {2 * pairs}]",
            fix="split the heads off first, or make the embedding with this head_dim",
        )
    table = ops.unsqueeze(cos_sin, -3)  # the same angles for every head
    cos, sin = table[..., 0], table[..., 1]
    wide = ops.cast(x, cos_sin.dtype)
    if interleaved:
        both = ops.as_interleaved_complex(wide)
        first, second = both[..., 0], both[..., 1]
    else:
        first, second = ops.split(wide, [pairs, pairs], axis=-1)
    turned = (first * cos - second * sin, second * cos + first * sin)
    if interleaved:
        made = ops.reshape(ops.stack(turned, axis=-1), x.shape)
    else:
        made = ops.concat(turned, axis=-1)
    return ops.cast(made, x.dtype)


def at_positions(
    table: TensorValue, positions: TensorValue, sections: Sequence[int] | None = None
) -> TensorValue:
    """Cosine and sine of each pair at ``positions``, ``[..., tokens, pairs, 2]``.

    Args:
        table: Cosines and sines, ``[rows, pairs, 2]``.
        positions: Integers ``[..., tokens]``, each below ``rows``. With ``sections``, one set of
            positions for each section: ``[sections, ..., tokens]``.
        sections: How many pairs follow the first set of positions, the second, and so on, as
            ``mrope_section`` of Qwen2-VL: time, height and width.

    Raises:
        ShapeError: ML691, sections that do not add up to the pairs, or another number of sets.
    """
    if sections is None:
        return ops.gather(table, positions, axis=0)
    counts = list(sections)
    pairs = table.shape[-2]
    whole = all(isinstance(count, int) and count > 0 for count in counts)
    if not whole or pairs != sum(counts) or positions.shape[0] != len(counts):
        raise ShapeError(
            "ML691",
            f"rotary embedding: mrope_section {shown(counts)} and position_ids "
            f"{_bracketed(positions)}, expected sections that add up to {pairs} pairs, and a set "
            "of positions for each",
            fix=f"pass position_ids of the shape [{len(counts)}, ..., tokens], and the "
            "mrope_section of the model's config.json",
        )
    parts, start = [], 0
    for number, count in enumerate(counts):
        columns = table[:, start : start + count]
        parts.append(ops.gather(columns, positions[number], axis=0))
        start += count
    return ops.concat(parts, axis=-2)


__all__ = ["at_positions", "rotated"]
