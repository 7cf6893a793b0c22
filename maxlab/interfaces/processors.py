"""Inputs of functions that change logits: for one request, or for a batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from maxlab.interfaces.contexts import TextGenerationContext
from maxlab.records import dataclass

if TYPE_CHECKING:
    # Arguments of functions in one process: nothing here is decoded, and importing it is slow.
    from maxlab.driver import Tensor


@dataclass(frozen=True)
class ProcessorInputs:
    """The logits of one request, and its context.

    Args:
        logits: float32, of shape [tokens, vocabulary]; a processor writes into it.
        context: The state of the request.
    """

    logits: Tensor
    context: TextGenerationContext


@dataclass(frozen=True)
class BatchProcessorInputs:
    """The logits of a batch, and its contexts.

    Args:
        logits: float32, of shape [rows, vocabulary]; a processor writes into it.
        logit_offsets: Where the rows of each sequence begin, of shape [sequences + 1, 1]; None
            where each sequence has one row.
        context_batch: The states of the requests, in their order.
    """

    logits: Tensor
    logit_offsets: Tensor | None
    context_batch: Sequence[TextGenerationContext]


LogitsProcessor: TypeAlias = Callable[[ProcessorInputs], None]
"""A function that changes the logits of one request in place."""
BatchLogitsProcessor: TypeAlias = Callable[[BatchProcessorInputs], None]
"""A function that changes the logits of a batch in place."""
