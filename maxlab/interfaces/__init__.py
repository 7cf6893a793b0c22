"""The contracts of serving: requests, sampling parameters, contexts, batches, results and queues.

Everything that travels between the processes of a server is declared here, so that the front end,
a scheduler and a pipeline agree on it. Data are ``msgspec`` structs and frozen dataclasses: they
check their fields when they are made, and go through msgpack unchanged (`msgpack_numpy_encoder`).
What a part must be able to do is a protocol or an abstract class.

It needs the packages of the extra ``llm``; without them the import says what to install.

Example:
    >>> from maxlab.interfaces import RequestID, SamplingParams, TextGenerationRequest
    >>> request = TextGenerationRequest(RequestID("a"), "tiny", prompt="Once",
    ...                                 sampling_params=SamplingParams(top_k=5, seed=1))
    >>> request.sampling_params.top_k
    5
"""

from __future__ import annotations

from maxlab.interfaces.needing import needed_by as _needed_by

with _needed_by("maxlab.interfaces", "msgspec"):
    import msgspec as _msgspec  # noqa: F401

from maxlab.interfaces.audio import (
    AudioGenerationInputs,
    AudioGenerationMetadata,
    AudioGenerationOutput,
    AudioGenerationRequest,
)
from maxlab.interfaces.batches import PipelineInputs
from maxlab.interfaces.contexts import (
    BaseContext,
    TextGenerationContext,
    VLMTextGenerationContext,
)
from maxlab.interfaces.embeddings import (
    EmbeddingsContext,
    EmbeddingsGenerationInputs,
    EmbeddingsGenerationOutput,
)
from maxlab.interfaces.fields import refuse_unread
from maxlab.interfaces.lora import (
    LoRAOperation,
    LoRARequest,
    LoRAResponse,
    LoRAStatus,
    LoRAType,
)
from maxlab.interfaces.outputs import (
    GenerationStatus,
    LogProbabilities,
    PipelineOutput,
    SchedulerResult,
    TextGenerationOutput,
)
from maxlab.interfaces.pipelines import Pipeline, PipelinesFactory, PipelineTask
from maxlab.interfaces.processors import (
    BatchLogitsProcessor,
    BatchProcessorInputs,
    LogitsProcessor,
    ProcessorInputs,
)
from maxlab.interfaces.queues import MAXPullQueue, MAXPushQueue, drain_queue, get_blocking
from maxlab.interfaces.requests import Request, RequestID
from maxlab.interfaces.sampling import (
    SamplingParams,
    SamplingParamsGenerationConfigDefaults,
    SamplingParamsInput,
)
from maxlab.interfaces.scheduling import Scheduler
from maxlab.interfaces.shared import SharedMemoryArray
from maxlab.interfaces.text import (
    BatchType,
    TextGenerationInputs,
    TextGenerationRequest,
    TextGenerationRequestFunction,
    TextGenerationRequestMessage,
    TextGenerationRequestTool,
    TextGenerationResponseFormat,
)
from maxlab.interfaces.tokenizers import PipelineTokenizer
from maxlab.interfaces.vision import ImageMetadata
from maxlab.interfaces.wire import (
    MsgpackNumpyDecoder,
    MsgpackNumpyEncoder,
    msgpack_eq,
    msgpack_numpy_decoder,
    msgpack_numpy_encoder,
)

__all__ = [
    "AudioGenerationInputs",
    "AudioGenerationMetadata",
    "AudioGenerationOutput",
    "AudioGenerationRequest",
    "BaseContext",
    "BatchLogitsProcessor",
    "BatchProcessorInputs",
    "BatchType",
    "EmbeddingsContext",
    "EmbeddingsGenerationInputs",
    "EmbeddingsGenerationOutput",
    "GenerationStatus",
    "ImageMetadata",
    "LoRAOperation",
    "LoRARequest",
    "LoRAResponse",
    "LoRAStatus",
    "LoRAType",
    "LogProbabilities",
    "LogitsProcessor",
    "MAXPullQueue",
    "MAXPushQueue",
    "MsgpackNumpyDecoder",
    "MsgpackNumpyEncoder",
    "Pipeline",
    "PipelineInputs",
    "PipelineOutput",
    "PipelineTask",
    "PipelineTokenizer",
    "PipelinesFactory",
    "ProcessorInputs",
    "Request",
    "RequestID",
    "SamplingParams",
    "SamplingParamsGenerationConfigDefaults",
    "SamplingParamsInput",
    "Scheduler",
    "SchedulerResult",
    "SharedMemoryArray",
    "TextGenerationContext",
    "TextGenerationInputs",
    "TextGenerationOutput",
    "TextGenerationRequest",
    "TextGenerationRequestFunction",
    "TextGenerationRequestMessage",
    "TextGenerationRequestTool",
    "TextGenerationResponseFormat",
    "VLMTextGenerationContext",
    "drain_queue",
    "get_blocking",
    "msgpack_eq",
    "msgpack_numpy_decoder",
    "msgpack_numpy_encoder",
    "refuse_unread",
]
