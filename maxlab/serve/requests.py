"""The bodies of requests, field by field, as OpenAI's API has them.

A field that is not here is refused, as is a value out of its range. Beside OpenAI's fields there
are a few of the sampler: ``top_k``, ``min_p``, ``repetition_penalty``, ``min_tokens``,
``ignore_eos`` and ``stop_token_ids``; and ``chat_template_kwargs``, which the chat template
reads.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

Name = Annotated[str, Meta(min_length=1, max_length=1024)]
Probability = Annotated[float, Meta(ge=0, le=1)]
Penalty = Annotated[float, Meta(ge=-2, le=2)]
Count = Annotated[int, Meta(ge=1, le=2**31 - 1)]
Stop = Annotated[str, Meta(min_length=1)]
FunctionName = Annotated[str, Meta(pattern="^[a-zA-Z0-9_.-]{1,64}$")]
Token = Annotated[int, Meta(ge=0, le=2**31 - 1)]
Texts = str | Annotated[list[str | Token | list[Token]], Meta(min_length=1)]
"""A text, texts, tokens, or lists of tokens."""


class Body(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The fields of all requests."""

    model: Name
    user: str | None = None
    """The client's name for its user; answers do not depend on it."""


class StreamOptions(msgspec.Struct, forbid_unknown_fields=True):
    """The options of a stream."""

    include_usage: bool = False


class Sampled(Body, kw_only=True):
    """How an answer is drawn, and how it is told."""

    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    top_p: Probability | None = None
    frequency_penalty: Penalty | None = None
    presence_penalty: Penalty | None = None
    seed: Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)] | None = None
    n: Annotated[int, Meta(ge=1, le=128)] | None = None
    stop: Stop | Annotated[list[Stop], Meta(max_length=4)] | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    logit_bias: dict[str, float] | None = None
    top_k: Annotated[int, Meta(ge=-1, le=255)] | None = None
    min_p: Probability | None = None
    repetition_penalty: Annotated[float, Meta(ge=0.01, le=100)] | None = None
    min_tokens: Annotated[int, Meta(ge=0, le=2**31 - 1)] | None = None
    ignore_eos: bool | None = None
    stop_token_ids: Annotated[list[Token], Meta(max_length=64)] | None = None


class TextFormat(msgspec.Struct, tag_field="type", tag="text", forbid_unknown_fields=True):
    """Any text."""


class ObjectFormat(msgspec.Struct, tag_field="type", tag="json_object", forbid_unknown_fields=True):
    """An object of JSON."""


class NamedSchema(msgspec.Struct, forbid_unknown_fields=True):
    """A JSON schema with its name. Answers fit it, whether ``strict`` is set or not."""

    name: Annotated[str, Meta(pattern="^[a-zA-Z0-9_-]{1,64}$")]
    schema: dict[str, Any]
    description: str | None = None
    strict: bool | None = None


class SchemaFormat(msgspec.Struct, tag_field="type", tag="json_schema", forbid_unknown_fields=True):
    """A text that fits a JSON schema."""

    json_schema: NamedSchema


class Function(msgspec.Struct, forbid_unknown_fields=True):
    """A function that the model may call."""

    name: FunctionName
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


class Tool(msgspec.Struct, forbid_unknown_fields=True):
    """A tool that the model may use."""

    type: Literal["function"]
    function: Function


class FunctionChoice(msgspec.Struct, forbid_unknown_fields=True):
    """The function that the model is to call, by its name."""

    name: FunctionName


class ToolChoice(msgspec.Struct, forbid_unknown_fields=True):
    """The tool that the model is to use."""

    type: Literal["function"]
    function: FunctionChoice


class CalledFunction(msgspec.Struct, forbid_unknown_fields=True):
    """A call that an earlier answer made: the name, and the arguments as JSON."""

    name: str
    arguments: str


class Called(msgspec.Struct, forbid_unknown_fields=True):
    """A tool that an earlier answer used."""

    id: str
    type: Literal["function"]
    function: CalledFunction


class Message(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """A message of a conversation. The chat template reads its fields."""

    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: str | list[dict[str, Any]] | None = None
    name: str | None = None
    tool_calls: list[Called] | None = None
    tool_call_id: str | None = None
    refusal: str | None = None
    reasoning_content: str | None = None
    annotations: list[Any] | None = None
    audio: None = None
    function_call: None = None


class ChatRequest(Sampled, kw_only=True):
    """The body of ``POST /v1/chat/completions``."""

    messages: Annotated[list[Message], Meta(min_length=1)]
    max_tokens: Count | None = None
    max_completion_tokens: Count | None = None
    logprobs: bool | None = None
    top_logprobs: Annotated[int, Meta(ge=0, le=20)] | None = None
    response_format: TextFormat | ObjectFormat | SchemaFormat | None = None
    tools: Annotated[list[Tool], Meta(max_length=128)] | None = None
    tool_choice: Literal["none", "auto", "required"] | ToolChoice | None = None
    parallel_tool_calls: bool | None = None
    chat_template_kwargs: dict[str, Any] | None = None
    modalities: list[Literal["text"]] | None = None
    service_tier: Literal["auto", "default"] | None = None
    store: bool | None = None


class CompletionRequest(Sampled, kw_only=True):
    """The body of ``POST /v1/completions``."""

    prompt: Texts
    max_tokens: Count | None = None
    logprobs: Annotated[int, Meta(ge=0, le=20)] | None = None
    echo: bool | None = None
    best_of: Count | None = None
    suffix: str | None = None


class LoadAdapterRequest(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The body of ``POST /v1/load_lora_adapter``."""

    lora_name: Name
    lora_path: Name


class UnloadAdapterRequest(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The body of ``POST /v1/unload_lora_adapter``."""

    lora_name: Name


class EmbeddingRequest(Body, kw_only=True):
    """The body of ``POST /v1/embeddings``."""

    input: Texts
    encoding_format: Literal["float", "base64"] | None = None
    dimensions: Count | None = None


class SpeechRequest(Body, kw_only=True):
    """The body of ``POST /v1/audio/speech``.

    Beside OpenAI's fields there are some of the sampler, and the voice as tokens of a recording
    with the words that are said in it.
    """

    input: Annotated[str, Meta(min_length=1, max_length=4096)]
    voice: Literal["default"] | None = None
    response_format: Literal["wav", "pcm"] | None = None
    speed: Annotated[float, Meta(ge=1, le=1)] | None = None
    stream_format: Literal["audio"] | None = None
    instructions: None = None
    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    top_p: Probability | None = None
    top_k: Annotated[int, Meta(ge=-1, le=255)] | None = None
    min_p: Probability | None = None
    seed: Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)] | None = None
    max_tokens: Count | None = None
    audio_prompt_tokens: list[Token] | None = None
    audio_prompt_transcription: str | None = None


__all__ = [
    "Body",
    "Called",
    "ChatRequest",
    "CompletionRequest",
    "EmbeddingRequest",
    "Function",
    "LoadAdapterRequest",
    "Message",
    "ObjectFormat",
    "Sampled",
    "SchemaFormat",
    "SpeechRequest",
    "Texts",
    "Tool",
    "ToolChoice",
    "UnloadAdapterRequest",
]
