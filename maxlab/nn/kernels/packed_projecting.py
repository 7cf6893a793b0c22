"""Products of ragged batches with weights as GPTQ stores them, whose results go into the pages of a
cache."""

from __future__ import annotations

from maxlab.dtype import DType
from maxlab.errors import ArgumentError, DTypeError, ShapeError
from maxlab.graph import StaticDim, TensorValue, ops
from maxlab.graph.build import staged
from maxlab.graph.operands import as_int
from maxlab.graph.quantization import QuantizationConfig
from maxlab.nn import groups
from maxlab.nn.kernels.given import CacheParams, PagedCache, numbers, require_pages, require_rank


@staged
def fused_qkv_ragged_matmul_quantized(
    kv_params: CacheParams,
    input: TensorValue,
    input_row_offsets: TensorValue,
    wqkv: TensorValue,
    kv_collection: PagedCache,
    layer_idx: TensorValue,
    n_heads: int,
    quantization_config: QuantizationConfig,
    perm_idx: TensorValue | None = None,
    bias: TensorValue | None = None,
) -> TensorValue:
    """The queries of a ragged batch, [tokens, n_heads * head_dim], by a weight as GPTQ stores it;
    its keys and values go into the pages of the cache, at the positions from ``cache_lengths`` on.

    The columns of ``wqkv`` are ``n = (n_heads + 2 * heads of keys) * head_dim``: those of queries,
    of keys, of values. Its rows are the bytes of the words, int32 [hidden * bits / 32, n], and
    behind them those of the scales, float16 [groups, n]; ``GPTQAttentionWithRope.wqkv`` is one.

    Args:
        kv_params: The parameters of the cache.
        input: The rows, [tokens, hidden], of the dtype of the cache.
        input_row_offsets: Where the rows of each sequence begin, uint32 [batch + 1].
        wqkv: The bytes of words and scales, uint8 [hidden * bits / 8 + 2 * groups, n].
        kv_collection: The cache.
        layer_idx: The layer, uint32 of rank 0.
        n_heads: The number of query heads.
        quantization_config: How the weight was packed: 2, 4 or 8 bits, symmetric.
        perm_idx: With ``desc_act`` of the config, which element of the input meets which row of the
            weight, int32 [hidden]; without it None.
        bias: What is added to each row of the product, [n].

    Raises:
        ShapeError: ML659, other ranks or sizes (a ValueError).
        DTypeError: ML666, other dtypes (a ValueError).
        ArgumentError: ML667, ``perm_idx`` without ``desc_act``, or the reverse (a ValueError).
        ModuleError: ML799, a config that is not supported, or does not fit the sizes.
        ArgumentTypeError: ML317, no tensors.
    """
    what = "fused_qkv_ragged_matmul_quantized"
    config = groups.check_config(what, None, quantization_config)
    dtype = require_pages(what, kv_params, kv_collection).dtype
    operands = [("the input", input, 2, dtype), ("wqkv", wqkv, 2, DType.uint8)]
    operands += [] if perm_idx is None else [("perm_idx", perm_idx, 1, DType.int32)]
    operands += [] if bias is None else [("bias", bias, 1, dtype)]
    for name, x, rank, wanted in operands:
        if require_rank(what, name, x, rank).dtype is not wanted:
            raise DTypeError(
                "ML666",
                f"{what}: {name} must be {wanted.name}, got {x.dtype.name}",
                fix="rows and bias have the dtype of the cache, wqkv is bytes, perm_idx is int32",
            )
    if (perm_idx is not None) != config.desc_act:
        raise ArgumentError(
            "ML667",
            f"{what}: perm_idx={'None' if perm_idx is None else perm_idx.type} does not go with "
            f"desc_act={config.desc_act}",
            fix="pass perm_idx of the layer where the config says desc_act, else None",
        )
    hidden = input.shape[1]
    if not isinstance(hidden, StaticDim):
        raise ShapeError(
            "ML659",
            f"{what}: packed weights need rows of a known size, got {input.type}",
            fix="give the last dim of the input as an int",
        )
    q_width = as_int(what, n_heads, "n_heads") * kv_params.head_dim
    width = q_width + 2 * kv_params.n_kv_heads_per_device * kv_params.head_dim
    words, many = groups.words_and_groups(what, config, int(hidden))
    shapes = [("wqkv", wqkv, [4 * words + 2 * many, width])]
    shapes += [] if perm_idx is None else [("perm_idx", perm_idx, [int(hidden)])]
    shapes += [] if bias is None else [("bias", bias, [width])]
    for name, x, shape in shapes:
        if list(x.shape) != shape:
            raise ShapeError(
                "ML659",
                f"{what}: {name} must be {shape}, got {x.type}",
                fix="wqkv is bytes of words, then of scales, with a column for each number of "
                "queries, keys and values; perm_idx has one for each of a row of the input",
            )
    packed, scales = groups.unstacked(wqkv, words, many)
    made = groups.product(input, packed, scales, perm_idx, config.bits)
    if bias is not None:
        made = made + bias
    given = numbers(what, kv_collection, input_row_offsets, layer_idx)
    ops.cache_store(kv_collection.kv_blocks, *given, made, part=0, parts=2, column=q_width)
    return made[:, :q_width]


__all__ = ["fused_qkv_ragged_matmul_quantized"]
