"""Pipelines: what takes a batch of contexts and gives an output for each request."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from enum import StrEnum
from typing import Any, Generic, TypeAlias, TypeVar

from maxlab.interfaces.audio import AudioGenerationOutput
from maxlab.interfaces.batches import PipelineInputs
from maxlab.interfaces.embeddings import EmbeddingsGenerationOutput
from maxlab.interfaces.outputs import PipelineOutputType, SchedulerResult, TextGenerationOutput
from maxlab.interfaces.requests import RequestID

PipelineInputsType = TypeVar("PipelineInputsType", bound=PipelineInputs)


class Pipeline(ABC, Generic[PipelineInputsType, PipelineOutputType]):
    """Makes of a batch of inputs an output for each request; each pipeline extends it.

    Example:
        >>> from maxlab.interfaces import TextGenerationInputs, TextGenerationOutput
        >>> class Nothing(Pipeline[TextGenerationInputs, TextGenerationOutput]):
        ...     def execute(self, inputs):
        ...         return {}
        ...     def release(self, request_id):
        ...         return None
        >>> Nothing().execute(TextGenerationInputs([], num_steps=1))
        {}
    """

    @abstractmethod
    def execute(self, inputs: PipelineInputsType) -> dict[RequestID, PipelineOutputType]:
        """The output for each request of ``inputs``.

        Args:
            inputs: The batch.

        Raises:
            NotImplementedError: The class that extends this one calls it.
        """
        raise NotImplementedError

    @abstractmethod
    def release(self, request_id: RequestID) -> None:
        """Gives back what is kept for a request, which is over.

        Args:
            request_id: The request.

        Raises:
            NotImplementedError: The class that extends this one calls it.
        """
        raise NotImplementedError


PipelinesFactory: TypeAlias = Callable[[], Pipeline[PipelineInputsType, PipelineOutputType]]
"""A function without arguments that makes a pipeline."""


class PipelineTask(StrEnum):
    """The purposes of pipelines."""

    TEXT_GENERATION = "text_generation"
    EMBEDDINGS_GENERATION = "embeddings_generation"
    AUDIO_GENERATION = "audio_generation"
    SPEECH_TOKEN_GENERATION = "speech_token_generation"

    @property
    def output_type(self) -> type[dict[RequestID, SchedulerResult[Any]]]:
        """The type of what a scheduler sends back, as a decoder takes it.

        Example:
            >>> from maxlab.interfaces import msgpack_numpy_decoder
            >>> decoder = msgpack_numpy_decoder(PipelineTask.TEXT_GENERATION.output_type)
        """
        result: Any = SchedulerResult[_OUTPUTS[self]]  # type: ignore[valid-type]
        return dict[RequestID, result]


_OUTPUTS: dict[PipelineTask, Any] = {
    PipelineTask.TEXT_GENERATION: TextGenerationOutput,
    PipelineTask.EMBEDDINGS_GENERATION: EmbeddingsGenerationOutput,
    PipelineTask.AUDIO_GENERATION: AudioGenerationOutput,
    PipelineTask.SPEECH_TOKEN_GENERATION: TextGenerationOutput,
}
