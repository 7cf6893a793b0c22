"""The way of tokens to their experts and back."""

from __future__ import annotations

from dataclasses import dataclass

from maxlab.dtype import DType
from maxlab.graph import TensorValue, ops


@dataclass(frozen=True, eq=False)
class Routing:
    """The tokens of a batch in the order of their experts. A token that takes k experts is there k
    times.

    Attributes:
        indices: The experts of each token, integers ``[tokens, k]``.
        order: The entries of ``indices`` in the order of experts, uint32 ``[tokens * k]``.
        starts: Where the group of each expert begins in it, and the end, uint32.
        restore: The place of each entry in that order, uint32 ``[tokens * k]``.
        ids: The expert of each group, int32, counted from the first that is here; -1 for the group
            of those that are not.
        usage: The rows of the largest group, and how many groups have rows, uint32 ``[2]``.
    """

    indices: TensorValue
    order: TensorValue
    starts: TensorValue
    restore: TensorValue
    ids: TensorValue
    usage: TensorValue

    @classmethod
    def of(cls, indices: TensorValue, experts: int, first: int = 0, count: int = 0) -> Routing:
        """The routing of tokens to those of ``experts`` that are here.

        Args:
            indices: The experts of each token, integers ``[tokens, k]``.
            experts: The number of experts.
            first: The first of those that are here.
            count: How many are here; 0 for all.
        """
        local, groups = ops.cast(indices, DType.int64), experts
        if count and count < experts:  # the group behind the last has the tokens of all others
            local, groups = local - first, count + 1
            here = ops.logical_and(local >= 0, local < count)
            local = ops.where(here, local, count)
        order, starts, restore, ids, usage = ops.expert_indices(ops.reshape(local, [-1]), groups)
        if groups != experts:
            ids = ops.where(ids == groups - 1, -1, ids)
        return cls(indices, order, starts, restore, ids, usage)

    def rows(self, x: TensorValue) -> TensorValue:
        """The vectors of ``x``, ``[tokens, size]``, for each expert: ``[tokens * k, size]``."""
        chosen = int(self.indices.shape[1])
        token = ops.cast(self.order, DType.int64)
        return ops.gather(x, token if chosen == 1 else token // chosen, 0)

    def product(self, rows: TensorValue, matrices: TensorValue) -> TensorValue:
        """The products of each expert's rows with its matrix, transposed: ``[tokens * k, out]``."""
        return ops.grouped_matmul(rows, matrices, self.starts, self.ids, self.usage)

    def of_rows(self, values: TensorValue) -> TensorValue:
        """The row of ``values``, ``[all experts, size]``, of the expert of each row."""
        expert = ops.gather(ops.reshape(self.indices, [-1]), self.order, 0)
        return ops.gather(values, expert, 0)

    def back(self, rows: TensorValue) -> TensorValue:
        """``rows`` in the order of the tokens again: ``[tokens, k, size]``."""
        tokens, chosen = self.indices.shape
        made = ops.gather(rows, self.restore, 0)
        return ops.reshape(made, [tokens, chosen, rows.shape[1]])


def tokens_per_expert(indices: TensorValue, num_experts: int) -> TensorValue:
    """The number of tokens that each expert gets, int64 ``[num_experts]``.

    Args:
        indices: The experts of each token, integers ``[tokens, k]``, as a gate gives them.
        num_experts: The number of experts.

    Example:
        >>> import numpy as np
        >>> from maxlab.engine import InferenceSession
        >>> from maxlab.graph import Graph, ops
        >>> from maxlab.nn import moe
        >>> with Graph("load", input_types=[]) as graph:
        ...     indices = ops.constant(np.array([[0, 2], [2, 3]]))
        ...     graph.output(moe.tokens_per_expert(indices, 4))
        >>> InferenceSession().load(graph)()[0].to_numpy().tolist()
        [1, 0, 2, 1]
    """
    ids = ops.reshape(ops.cast(indices, DType.int64), [-1, 1])
    every = ops.range(0, num_experts, 1, num_experts, dtype=DType.int64, device=indices.device)
    return ops.squeeze(ops.sum(ops.cast(ids == every, DType.int64), axis=0), 0)


__all__ = ["Routing", "tokens_per_expert"]
