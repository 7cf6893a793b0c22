"""Whole answers, put together of the outputs of steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from maxlab.errors import ExecutionError
from maxlab.interfaces import (
    GenerationStatus,
    LogProbabilities,
    RequestID,
    TextGenerationOutput,
)


@dataclass
class Asked:
    """A request that somebody waits for.

    Attributes:
        parts: Its outputs so far.
        error: The reason why it failed.
        is_done: Whether nothing more comes.
    """

    parts: list[TextGenerationOutput] = field(default_factory=list)
    error: Exception | None = None
    is_done: bool = False


def failed_request(request_id: RequestID, error: Exception) -> ExecutionError:
    """The error of a request that a scheduler could not answer."""
    return ExecutionError(
        "ML141",
        f"the request {request_id} ended with an error: {error}",
        fix="see the error; other requests go on",
    )


def joined(request_id: RequestID, parts: Sequence[TextGenerationOutput]) -> TextGenerationOutput:
    """The outputs of a request as one; cancelled where there is no last one.

    Args:
        request_id: The request.
        parts: Its outputs, in their order.
    """
    told: list[LogProbabilities] = [one for part in parts for one in part.log_probabilities or ()]
    return TextGenerationOutput(
        request_id,
        [token for part in parts for token in part.tokens],
        parts[-1].final_status if parts and parts[-1].is_done else GenerationStatus.CANCELLED,
        told or None,
    )


__all__ = ["Asked", "failed_request", "joined"]
