"""Changes of the keys and values of new tokens, which are in the pages of a cache already: they are
read, computed and written back. No other part of the cache is touched.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate, pairwise

from maxlab.dtype import DType
from maxlab.errors import ArgumentError, DTypeError, ShapeError, shown
from maxlab.graph import Dim, StaticDim, TensorValue, ops
from maxlab.graph.build import staged
from maxlab.graph.operands import as_int
from maxlab.nn.kernels.given import (
    CacheParams,
    PagedCache,
    moved,
    numbers,
    require_pages,
    require_rank,
)
from maxlab.nn.norm import RMSNormV1
from maxlab.nn.ranks import require_floats, require_integers


@staged
def fused_qk_ragged_rope(
    kv_params: CacheParams,
    input: TensorValue,
    input_row_offsets: TensorValue,
    kv_collection: PagedCache,
    freqs_cis: TensorValue,
    layer_idx: TensorValue,
    interleaved: bool = True,
    position_ids: TensorValue | None = None,
    mrope_section: list[int] | None = None,
) -> TensorValue:
    """The queries of a ragged batch, turned by their positions, in the shape and dtype of
    ``input``; its new keys are turned in the cache.

    Token i of a sequence has the position ``cache_lengths + i``, unless ``position_ids`` say
    another one. It is computed in the dtype of ``freqs_cis``.

    Where ``freqs_cis`` turns fewer dimensions than a head has, these are the last ones, as in
    multi-head latent attention; the others stay as they are.

    Args:
        kv_params: The parameters of the cache.
        input: The queries, [tokens, heads, head_dim]; or [tokens, heads, turned], the dimensions
            alone that are turned.
        input_row_offsets: Where the rows of each sequence begin, uint32 [batch + 1].
        kv_collection: The cache.
        freqs_cis: Cosine and sine of each pair, by position, [positions, turned], where an even
            number of up to ``head_dim`` dimensions is turned.
        layer_idx: The layer, uint32 of rank 0.
        interleaved: Whether a pair are neighbours, or an element of the first half of a head and
            one of the second.
        position_ids: Positions of the tokens, integers [sections, tokens].
        mrope_section: The pairs of each section, turned / 2 in all; needed for several.

    Raises:
        ShapeError: ML659, other ranks or sizes (a ValueError).
        DTypeError: ML666, other dtypes (a ValueError).
        ArgumentError: ML667, sections that are not those of ``position_ids`` (a ValueError).
        ArgumentTypeError: ML317, no tensors.
    """
    what = "fused_qk_ragged_rope"
    size = kv_params.head_dim
    q = require_floats(what, "the input", input, 3)
    table = require_rank(what, "freqs_cis", freqs_cis, 2)
    width = table.shape[1]
    some = int(width) if isinstance(width, StaticDim) else 0
    if not 0 < some <= size or some % 2 or q.shape[2] not in (size, some):
        raise ShapeError(
            "ML659",
            f"{what}: heads of {size} elements, queries {q.type}, freqs_cis {table.type}",
            fix="pass queries [tokens, heads, head_dim] and freqs_cis [positions, head_dim], or "
            "those of an even number of dimensions that are turned",
        )
    if not table.dtype.is_float():
        raise DTypeError(
            "ML666",
            f"{what}: freqs_cis must be floats, got {table.dtype.name}",
            fix="pass the freqs_cis of a RotaryEmbedding",
        )
    rows = q.shape[0]
    if position_ids is None:
        if mrope_section is not None:
            raise _no_sections(what, mrope_section, "no position_ids")
        offsets = require_rank(what, "input_row_offsets", input_row_offsets, 1)
        turns = _turns(table, positions(kv_collection, offsets, rows))
    else:
        turns = _sections(what, table, position_ids, mrope_section)

    def turned(x: TensorValue) -> TensorValue:
        kept = int(x.shape[2]) - some
        made = _turned(ops.cast(x[:, :, kept:], table.dtype), turns, interleaved)
        return ops.concat([x[:, :, :kept], ops.cast(made, x.dtype)], 2) if kept else made

    _change(what, kv_params, kv_collection, input_row_offsets, layer_idx, rows, (turned,))
    return ops.cast(turned(q), q.dtype)


def positions(cache: PagedCache, offsets: TensorValue, rows: Dim) -> TensorValue:
    """The position of each new token in its sequence, int64 [rows]."""
    sequences = ops.ragged_sequences(offsets, rows)
    first, cached = (
        ops.gather(ops.cast(x, DType.int64), sequences, 0) for x in (offsets, cache.cache_lengths)
    )
    row = ops.range(0, rows, 1, out_dim=rows, dtype=DType.int64, device=offsets.device)
    return cached + row - first


def _turns(table: TensorValue, places: TensorValue) -> TensorValue:
    """Cosine and sine, [tokens, 1, pairs, 2], of the positions ``places``."""
    found = ops.gather(table, places, 0)
    return ops.reshape(found, [places.shape[0], 1, int(table.shape[1]) // 2, 2])


def _sections(
    what: str, table: TensorValue, position_ids: TensorValue, sections: list[int] | None
) -> TensorValue:
    """The same, where each section of pairs has positions of its own."""
    ids = require_rank(what, "position_ids", position_ids, 2)
    pairs = int(table.shape[1]) // 2
    given = [pairs] if sections is None else list(sections)
    if ids.shape[0] != len(given) or sum(given) != pairs or min(given) < 0:
        raise _no_sections(what, sections, f"position_ids {ids.type}")
    found = [_turns(table, ids[n]) for n in range(len(given))]
    bounds = pairwise(accumulate(given, initial=0))
    parts = [x[:, :, a:b] for x, (a, b) in zip(found, bounds, strict=True)]
    return ops.concat(parts, 2) if len(parts) > 1 else parts[0]


def _no_sections(what: str, sections: list[int] | None, ids: str) -> ArgumentError:
    return ArgumentError(
        "ML667",
        f"{what}: mrope_section={shown(sections)} does not go with {ids}",
        fix="pass position_ids [sections, tokens], and as many sections, head_dim / 2 in all",
    )


def _turned(x: TensorValue, turns: TensorValue, interleaved: bool) -> TensorValue:
    """``x``, [tokens, heads, size], whose pairs are turned."""
    pairs = int(x.shape[2]) // 2
    split = ops.reshape(x, [*x.shape[:2], *((pairs, 2) if interleaved else (2, pairs))])
    a, b = (split[..., n] if interleaved else split[:, :, n] for n in (0, 1))
    cos, sin = turns[..., 0], turns[..., 1]
    made = ops.stack([a * cos - b * sin, a * sin + b * cos], axis=-1 if interleaved else 2)
    return ops.reshape(made, x.shape)


Change = Callable[[TensorValue], TensorValue]


def _change(
    what: str,
    params: CacheParams,
    cache: PagedCache,
    row_offsets: TensorValue,
    layer_idx: TensorValue,
    rows: Dim,
    changes: tuple[Change, ...],
) -> None:
    """Puts ``changes`` of the keys, and of the values if there are two, in their places.

    Args:
        what: The function, for errors.
        params: The parameters of the cache.
        cache: The cache.
        row_offsets: Where the rows of each sequence begin.
        layer_idx: The layer.
        rows: The number of new tokens.
        changes: Functions of keys, or values, [rows, heads, head_dim].
    """
    blocks = require_pages(what, params, cache)
    given = numbers(what, cache, row_offsets, layer_idx)
    width = params.n_kv_heads_per_device * params.head_dim
    for part, change in enumerate(changes):
        made = change(ops.cache_load(blocks, *given, rows, part))
        flat = ops.reshape(ops.cast(made, blocks.dtype), [rows, width])
        ops.cache_store(blocks, *given, flat, part=part)


@staged
def rms_norm_key_cache(
    kv_params: CacheParams,
    kv_collection: PagedCache,
    gamma: TensorValue,
    epsilon: float,
    layer_idx: TensorValue,
    total_seq_len: Dim,
    input_row_offsets: TensorValue,
    weight_offset: float,
    rms_norm_cols: int | None = None,
    multiply_before_cast: bool = True,
    per_head_norm: bool = True,
) -> None:
    """Normalises the new keys of a ragged batch in the cache by their root mean square.

    Args:
        kv_params: The parameters of the cache.
        kv_collection: The cache.
        gamma: The weights, [columns].
        epsilon: What is added to the mean of squares.
        layer_idx: The layer, uint32 of rank 0.
        total_seq_len: The number of new tokens.
        input_row_offsets: Where the rows of each sequence begin, uint32 [batch + 1].
        weight_offset: What is added to the weights.
        rms_norm_cols: The number of columns, from the first, that are normalised; it must be given
            where ``gamma`` is not as long as a head, or as all heads.
        multiply_before_cast: Whether weights are multiplied in float32, or in the dtype of keys.
        per_head_norm: Whether each head is normalised by itself, or all heads of a token together.

    Raises:
        ShapeError: ML659, other ranks or sizes (a ValueError).
        DTypeError: ML666, other dtypes (a ValueError).
        ArgumentError: ML667, ``rms_norm_cols`` that are not those of ``gamma`` (a ValueError).
        ArgumentTypeError: ML317, no tensors.
    """
    what = "rms_norm_key_cache"
    heads, size = kv_params.n_kv_heads_per_device, kv_params.head_dim
    width = size if per_head_norm else heads * size
    weight = require_rank(what, "gamma", gamma, 1)
    columns = width if rms_norm_cols is None else rms_norm_cols
    if weight.shape[0] != columns or not 0 < columns <= width:
        raise ArgumentError(
            "ML667",
            f"{what}: gamma {weight.type}, rms_norm_cols={shown(rms_norm_cols)}, rows of {width}",
            fix="pass rms_norm_cols, the size of gamma, to normalise a part of a row",
        )
    if weight.dtype is not kv_params.dtype:
        raise DTypeError(
            "ML666",
            f"{what}: gamma must be {kv_params.dtype.name}, got {weight.dtype.name}",
            fix=f"cast it: ops.cast(gamma, DType.{kv_params.dtype.name})",
        )
    rows = Dim(total_seq_len)

    def normalised(keys: TensorValue) -> TensorValue:
        x = keys if per_head_norm else ops.reshape(keys, [rows, width])
        norm = RMSNormV1(weight, float(epsilon), float(weight_offset), multiply_before_cast)
        made = norm(x[..., :columns])
        return made if columns == width else ops.concat([made, x[..., columns:]], axis=-1)

    _change(what, kv_params, kv_collection, input_row_offsets, layer_idx, rows, (normalised,))


@staged
def kv_cache_ragged_radd(
    kv_params: CacheParams,
    a: TensorValue,
    kv_collection: PagedCache,
    input_row_offsets: TensorValue,
    batch_offset: TensorValue,
    layer_idx: int,
) -> None:
    """Adds ``a`` to the new keys and values, in the cache, of the sequences from ``batch_offset``
    on.

    Args:
        kv_params: The parameters of the cache.
        a: A row for each new token of these sequences, [rows, 2 * heads * head_dim]: what is added
            to keys, and to values.
        kv_collection: The cache.
        input_row_offsets: Where the rows of each sequence of the batch begin, uint32 [batch + 1].
        batch_offset: The first of these sequences, an integer of rank 0.
        layer_idx: The layer.

    Raises:
        ShapeError: ML659, other ranks or sizes (a ValueError).
        DTypeError: ML666, other dtypes (a ValueError).
        ArgumentTypeError: ML317, no tensors.
    """
    what = "kv_cache_ragged_radd"
    heads, size = kv_params.n_kv_heads_per_device, kv_params.head_dim
    blocks, more = require_pages(what, kv_params, kv_collection), require_rank(what, "a", a, 2)
    if more.shape[1] != 2 * heads * size:
        raise ShapeError(
            "ML659",
            f"{what}: a must be [rows, {2 * heads * size}], got {more.type}",
            fix="rows have what is added to all heads of keys, then to those of values",
        )
    if more.dtype is not blocks.dtype:
        raise DTypeError(
            "ML666",
            f"{what}: a must be {blocks.dtype.name}, as the cache is, got {more.dtype.name}",
            fix=f"cast it: ops.cast(a, DType.{blocks.dtype.name})",
        )
    device, rows = blocks.device, more.shape[0]
    layer = ops.constant(as_int(what, layer_idx, "layer_idx"), DType.uint32, device)
    offsets = require_integers(what, "input_row_offsets", input_row_offsets, 1)
    place = moved(require_integers(what, "batch_offset", batch_offset, 0), device)
    wide = ops.cast(offsets, DType.int64)
    start = ops.gather(wide, ops.cast(place, DType.int64), 0)
    # Sequences before have no rows then, and those behind begin where their rows of ``a`` do.
    shifted = ops.cast(ops.max(wide - start, ops.constant(0, DType.int64, device)), DType.uint32)
    both = ops.reshape(more, [rows, 2, heads, size])
    changes = (lambda keys: keys + both[:, 0], lambda values: values + both[:, 1])
    _change(what, kv_params, kv_collection, shifted, layer, rows, changes)


__all__ = ["fused_qk_ragged_rope", "kv_cache_ragged_radd", "positions", "rms_norm_key_cache"]
