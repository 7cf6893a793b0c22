"""Results: the state of a generation, its tokens with their log probabilities, and outputs."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable

import msgspec

from maxlab.interfaces import fields
from maxlab.interfaces.requests import ID, RequestID
from maxlab.interfaces.showing import Shown


class GenerationStatus(StrEnum):
    """Whether a generation goes on, and if not, why it ended."""

    ACTIVE = "active"
    """It goes on."""
    END_OF_SEQUENCE = "end_of_sequence"
    """It came to a token or to a text that ends it."""
    MAXIMUM_LENGTH = "maximum_length"
    """It came to the longest length that was allowed."""
    CANCELLED = "cancelled"
    """The user called it off."""

    @property
    def is_done(self) -> bool:
        """Whether the generation has ended, in whatever way."""
        return self is not GenerationStatus.ACTIVE


STATUS = fields.instance(GenerationStatus)
"""The rule of a field that holds a status."""


@runtime_checkable
class PipelineOutput(Protocol):
    """The output of a pipeline for one request: it knows whether the request is done."""

    @property
    def is_done(self) -> bool:
        """Whether the pipeline has nothing more to do for this request."""
        ...


PipelineOutputType = TypeVar("PipelineOutputType", bound=PipelineOutput)

_NUMBER = fields.instance(float, int, name="a number")
_PROBABILITIES: fields.Rules = {
    "token_log_probabilities": fields.listed(_NUMBER),
    "top_log_probabilities": fields.listed(fields.mapped(fields.integer(), _NUMBER)),
}


class LogProbabilities(Shown, msgspec.Struct, tag=True, omit_defaults=True):
    """The log probabilities of output tokens, as data: it computes nothing.

    Args:
        token_log_probabilities: The log probability of each token.
        top_log_probabilities: For each token, the most probable tokens there with theirs.

    Raises:
        InputTypeError: A field of another type.
    """

    token_log_probabilities: list[float]
    top_log_probabilities: list[dict[int, float]]

    def __post_init__(self) -> None:
        fields.check(self, _PROBABILITIES)


fields.declare(LogProbabilities, _PROBABILITIES)
TOKENS = fields.listed(fields.integer())
"""The rule of a field that holds a list of tokens."""
PROBABILITIES = fields.instance(LogProbabilities)
"""The rule of a field that holds log probabilities."""
_OUTPUT: fields.Rules = {
    "request_id": ID,
    "tokens": TOKENS,
    "final_status": STATUS,
    "log_probabilities": fields.optional(fields.listed(PROBABILITIES)),
}


class TextGenerationOutput(Shown, msgspec.Struct, tag=True, omit_defaults=True):
    """The tokens that a text generation has made since the last output, and its state.

    Args:
        request_id: The request.
        tokens: The token ids.
        final_status: The state of the generation after these tokens.
        log_probabilities: Those of each token; None where they were not asked for.

    Raises:
        InputTypeError: A field of another type.
        InputError: A token that no 64-bit integer holds.
    """

    request_id: RequestID
    tokens: list[int]
    final_status: GenerationStatus
    log_probabilities: list[LogProbabilities] | None = None

    def __post_init__(self) -> None:
        fields.check(self, _OUTPUT)

    @property
    def is_done(self) -> bool:
        """Whether the generation has ended."""
        return self.final_status.is_done


fields.declare(TextGenerationOutput, _OUTPUT)


class SchedulerResult(
    Shown, msgspec.Struct, Generic[PipelineOutputType], tag=True, omit_defaults=True
):
    """The answer of a scheduler for one request: whether it is done, and the output if any.

    Args:
        is_done: Whether the scheduler has nothing more to do for the request.
        result: The output of the pipeline; None of a request that was cancelled.

    Raises:
        InputTypeError: ``is_done`` is no bool.

    Example:
        >>> SchedulerResult.cancelled()
        SchedulerResult(is_done=True, result=None)
    """

    is_done: bool
    result: PipelineOutputType | None

    def __post_init__(self) -> None:
        fields.flag("SchedulerResult.is_done", self.is_done)

    @classmethod
    def cancelled(cls) -> SchedulerResult[Any]:
        """The result of a request that was cancelled: done, and without output."""
        return SchedulerResult(is_done=True, result=None)

    @classmethod
    def create(cls, result: PipelineOutputType) -> SchedulerResult[PipelineOutputType]:
        """The result that carries ``result``, and is done when ``result`` is.

        Args:
            result: The output of the pipeline for the request.
        """
        return SchedulerResult(is_done=result.is_done, result=result)
