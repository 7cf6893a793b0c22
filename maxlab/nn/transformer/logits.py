"""The logits of a model of language: of the last token of each text, of several, or of all."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum

from maxlab.dtype import DType
from maxlab.graph import TensorValue, ops


class ReturnLogits(StrEnum):
    """The tokens whose logits a model returns."""

    LAST_TOKEN = "last_token"
    """The last token of each text."""
    VARIABLE = "variable"
    """The last tokens of each text, as many as each call says."""
    ALL = "all"
    """Every token."""


def logits_of(
    head: Callable[[TensorValue], TensorValue],
    hidden: TensorValue,
    input_row_offsets: TensorValue,
    return_n_logits: TensorValue,
    return_logits: ReturnLogits,
) -> tuple[TensorValue, ...]:
    """The logits of the last token of each text, float32 ``[batch, words]``; with ``VARIABLE`` and
    ``ALL`` also those of more tokens, ``[rows, words]``, and where the rows of each text begin
    among them, ``[batch + 1]``.

    Args:
        head: Makes logits, ``[rows, words]``, of vectors, ``[rows, size]``.
        hidden: The vectors of all tokens, ``[tokens, size]``.
        input_row_offsets: Where the rows of each text begin, uint32 ``[batch + 1]``.
        return_n_logits: The number of tokens of each text for ``VARIABLE``, int64 ``[1]`` on the
            host. Every text must have as many.
        return_logits: The tokens whose logits are returned.
    """
    ends = ops.cast(input_row_offsets[1:], DType.int64)

    def made(rows: TensorValue) -> TensorValue:
        return ops.cast(head(rows), DType.float32)

    if return_logits is ReturnLogits.ALL:
        logits = made(hidden)
        return ops.gather(logits, ends - 1, 0), logits, input_row_offsets
    if return_logits is not ReturnLogits.VARIABLE:
        return (made(ops.gather(hidden, ends - 1, 0)),)
    batch, device = ends.shape[0], hidden.device
    count = return_n_logits[0]
    back = ops.range(count, 0, -1, out_dim="logits_of_a_text", dtype=DType.int64, device=device)
    rows = ops.unsqueeze(ends, -1) - back  # [batch, n]
    n = rows.shape[1]
    logits = made(ops.gather(hidden, ops.reshape(rows, [batch * n]), 0))
    texts = ops.range(0, batch + 1, 1, out_dim=batch + 1, dtype=DType.int64, device=device)
    last = texts[1:] * count.to(device) - 1
    return ops.gather(logits, last, 0), logits, ops.cast(texts * count.to(device), DType.uint32)


__all__ = ["ReturnLogits", "logits_of"]
