"""Rows that go to experts: their order by expert, and the products with the experts' matrices."""

from __future__ import annotations

from maxlab.graph import TensorValue, ops
from maxlab.graph.build import staged
from maxlab.nn.kernels.given import moved, require_rank


@staged
def moe_create_indices(
    topk_ids: TensorValue, num_local_experts: int
) -> tuple[TensorValue, TensorValue, TensorValue, TensorValue, TensorValue]:
    """The order of tokens by the expert that each goes to, and where the tokens of each expert
    begin in it.

    A token that several experts take occurs as often in ``topk_ids``. Tokens of one expert keep
    their order. An id that is out of range ends the run with ML652.

    Args:
        topk_ids: The expert of each token, int32, int64 or uint32 [tokens].
        num_local_experts: The number of experts on this device.

    Returns:
        ``token_expert_order``, uint32 [tokens]: the tokens in their new order;
        ``expert_start_indices``, uint32 [experts + 1]: where the tokens of each expert that has
        some begin in it, and the end; ``restore_token_order``, uint32 [tokens]: the place of each
        token in the new order; ``expert_ids``, int32 [experts]: the experts that have tokens, then
        -1; ``expert_usage_stats``, uint32 [2]: the most tokens of an expert, and how many experts
        have tokens.

    Raises:
        ShapeError: ML659, ids of another rank (a ValueError).
        DTypeError: ML666, ids of another dtype (a ValueError).
        ArgumentError: ML667, not a positive number of experts (a ValueError).
        ArgumentTypeError: ML302, it is not an int; ML317, the ids are no tensor.

    Example:
        >>> import numpy as np
        >>> from maxlab.engine import InferenceSession
        >>> from maxlab.graph import Graph
        >>> with Graph("sorted", input_types=[]) as graph:
        ...     graph.output(*moe_create_indices(np.array([2, 0, 2], np.int32), 3))
        >>> order, starts, restore, experts, usage = InferenceSession().load(graph)()
        >>> order.to_numpy().tolist(), starts.to_numpy().tolist(), usage.to_numpy().tolist()
        ([1, 0, 2], [0, 1, 3, 3], [2, 2])
    """
    ids = require_rank("moe_create_indices", "topk_ids", topk_ids, 1)
    return ops.expert_indices(ids, num_local_experts)


@staged
def grouped_matmul_ragged(
    hidden_states: TensorValue,
    weight: TensorValue,
    expert_start_indices: TensorValue,
    expert_ids: TensorValue,
    expert_usage_stats_host: TensorValue,
) -> TensorValue:
    """The products of the tokens of each expert with its matrix, transposed: [tokens, out].

    Only the experts that have tokens are computed, and only their matrices are read. A group of the
    expert -1 gives zeros. Groups that are not all tokens, and an expert that is not there, end the
    run with ML652.

    Args:
        hidden_states: The tokens in the order of their experts, floats [tokens, in].
        weight: The matrices of the experts, [experts, out, in], of the same dtype.
        expert_start_indices: Where the tokens of each group begin, and the end, uint32
            [groups + 1].
        expert_ids: The expert of each group, int32 [groups].
        expert_usage_stats_host: The most tokens of a group, and how many groups have tokens, uint32
            [2]; these groups come first. It may be on the host.

    Raises:
        ShapeError: ML659, other ranks or sizes (a ValueError).
        DTypeError: ML666, other dtypes (a ValueError).
        ArgumentTypeError: ML317, no tensors.
    """
    what = "grouped_matmul_ragged"
    x = require_rank(what, "hidden_states", hidden_states, 2)
    usage = require_rank(what, "expert_usage_stats_host", expert_usage_stats_host, 1)
    return ops.grouped_matmul(
        x,
        require_rank(what, "weight", weight, 3),
        require_rank(what, "expert_start_indices", expert_start_indices, 1),
        require_rank(what, "expert_ids", expert_ids, 1),
        moved(usage, x.device),
    )


__all__ = ["grouped_matmul_ragged", "moe_create_indices"]
