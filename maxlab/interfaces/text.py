"""Text: requests, the messages and tools in them, and batches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Generic, Literal, TypedDict, TypeVar, get_args

from maxlab.interfaces import fields
from maxlab.interfaces.batches import BATCHES, PipelineInputs, distinct, merged
from maxlab.interfaces.contexts import TextGenerationContext
from maxlab.interfaces.requests import Request, RequestID
from maxlab.interfaces.sampling import PARAMS, SamplingParams

TextGenerationContextType = TypeVar("TextGenerationContextType", bound=TextGenerationContext)

Role = Literal["system", "user", "assistant", "tool", "function"]
"""The speakers of messages."""


class TextGenerationRequestFunction(TypedDict):
    """A function that the model may call, as a dict: its name, purpose and parameters."""

    name: str
    description: str | None
    parameters: dict[str, Any]


class TextGenerationRequestTool(TypedDict):
    """A tool that the model may use, as a dict: its type, such as ``"function"``, and the
    function."""

    type: str
    function: TextGenerationRequestFunction


class TextGenerationResponseFormat(TypedDict):
    """The form that the answer is to have, as a dict: its type, such as ``"json_schema"``, and the
    JSON schema."""

    type: str
    json_schema: dict[str, Any]


class TextGenerationRequestMessage(TypedDict):
    """A message of a conversation, as a dict: who speaks, and a text or a list of parts."""

    role: Role
    content: str | list[dict[str, Any]]


def _keys(field_name: str, value: Any, rules: fields.Rules) -> None:
    """Raises unless the dict ``value`` has the keys of ``rules``, with values that fit."""
    if not isinstance(value, dict):
        raise fields.wrong_type(field_name, value, "a dict")
    for key, rule in rules.items():
        if key not in value:
            raise fields.out_of_range(field_name, value, f"a dict with the key {key!r}")
        rule(f"{field_name}[{key!r}]", value[key])


def _role(name: str, value: Any) -> None:
    fields.text(name, value)
    if value not in get_args(Role):
        raise fields.out_of_range(name, value, f"one of {', '.join(get_args(Role))}")


_PART = fields.mapped(fields.text, fields.anything)
_CONTENT = fields.either(str, fields.text, fields.listed(_PART))
_FUNCTION: fields.Rules = {"name": fields.word, "parameters": _PART}


def _message(name: str, value: Any) -> None:
    _keys(name, value, {"role": _role, "content": _CONTENT})


def _function(name: str, value: Any) -> None:
    _keys(name, value, _FUNCTION)
    fields.optional(fields.text)(f"{name}['description']", value.get("description"))


def _tool(name: str, value: Any) -> None:
    _keys(name, value, {"type": fields.word, "function": _function})


def _format(name: str, value: Any) -> None:
    _keys(name, value, {"type": fields.word, "json_schema": _PART})


_TOKENS = fields.listed(fields.integer(0), kinds=(Sequence,))
_RULES: fields.Rules = {
    "model_name": fields.word,
    "prompt": fields.optional(fields.either(str, fields.text, _TOKENS)),
    "messages": fields.optional(fields.listed(_message)),
    "images": fields.optional(fields.listed(fields.instance(bytes))),
    "tools": fields.optional(fields.listed(_tool)),
    "response_format": fields.optional(_format),
    "timestamp_ns": fields.integer(0),
    "request_path": fields.word,
    "logprobs": fields.integer(0),
    "echo": fields.flag,
    "stop": fields.optional(fields.either(str, fields.word, fields.listed(fields.word))),
    "chat_template_options": fields.optional(_PART),
    "sampling_params": PARAMS,
    "target_endpoint": fields.optional(fields.word),
}


@dataclass(frozen=True)
class TextGenerationRequest(Request):
    """A request for text: a prompt or a conversation, and how to answer it.

    Args:
        request_id: What the request is known by.
        model_name: The model that is asked.
        prompt: A text or tokens to go on from; not together with ``messages``.
        messages: A conversation to answer.
        images: The bytes of the images that the messages name, in their order.
        tools: The tools that the model may use.
        response_format: The form that the answer is to have.
        timestamp_ns: When the request came, in nanoseconds.
        request_path: The path of the server that it came to.
        logprobs: How many of the most probable tokens are told with each token; 0 tells none.
        echo: Whether the answer begins with the prompt.
        stop: A text, or texts, that end the answer.
        chat_template_options: Options for the template that makes a prompt of the messages.
        sampling_params: How tokens are drawn.
        target_endpoint: The instance that is to answer, where there are several.

    Raises:
        InputTypeError: A field of another type.
        InputError: A field out of its range, or both a prompt and messages.

    Example:
        >>> request = TextGenerationRequest(RequestID("a"), "tiny", messages=[
        ...     {"role": "user", "content": "What's the weather like in Boston today?"}])
        >>> request.messages[0]["role"]
        'user'
    """

    model_name: str
    prompt: str | Sequence[int] | None = None
    messages: list[TextGenerationRequestMessage] | None = None
    images: list[bytes] | None = None
    tools: list[TextGenerationRequestTool] | None = None
    response_format: TextGenerationResponseFormat | None = None
    timestamp_ns: int = 0
    request_path: str = "/"
    logprobs: int = 0
    echo: bool = False
    stop: str | list[str] | None = None
    chat_template_options: dict[str, Any] | None = None
    sampling_params: SamplingParams = field(default_factory=SamplingParams)
    target_endpoint: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        fields.check(self, _RULES)
        if self.prompt is not None and self.messages is not None:
            raise fields.contradiction(
                "TextGenerationRequest has both a prompt and messages",
                "leave one of them out: messages are made into a prompt by the chat template",
            )


class BatchType(StrEnum):
    """The work of a batch: whole prompts, or one more token of each request."""

    CE = "CE"
    """Context encoding: tokens of prompts are computed."""
    TG = "TG"
    """Token generation: one token a step and request."""


_INPUTS: fields.Rules = {
    "batches": BATCHES,
    "num_steps": fields.integer(1),
    "input_tokens": fields.integer(-1),
    "batch_type": fields.instance(BatchType),
}


@dataclass(frozen=True)
class TextGenerationInputs(PipelineInputs, Generic[TextGenerationContextType]):
    """Batches of text generations, one for each device, and the number of steps to make.

    Args:
        batches: The contexts by request.
        num_steps: The number of steps, 1 or more.
        input_tokens: The number of tokens that go in; -1 where it was not counted.
        batch_type: What the batch does.

    Raises:
        InputTypeError: A field of another type.
        InputError: A number out of its range, or a request in two batches.
    """

    batches: list[dict[RequestID, TextGenerationContextType]]
    num_steps: int
    input_tokens: int = -1
    batch_type: BatchType = BatchType.TG

    def __post_init__(self) -> None:
        fields.check(self, _INPUTS)
        distinct("TextGenerationInputs", self.batches)

    @property
    def batch(self) -> dict[RequestID, TextGenerationContextType]:
        """All batches as one, in their order."""
        return merged(self.batches)

    @property
    def batch_top_log_probs(self) -> list[int]:
        """How many of the most probable tokens each context wants told, in the order of
        `batch`."""
        return [context.log_probabilities for context in self.batch.values()]

    @property
    def batch_echo(self) -> list[bool]:
        """Whether each context wants its prompt's log probabilities, in the order of `batch`."""
        return [context.log_probabilities_echo for context in self.batch.values()]

    @property
    def enable_log_probs(self) -> bool:
        """Whether any context wants log probabilities."""
        return any(self.batch_top_log_probs)

    @property
    def enable_echo(self) -> bool:
        """Whether any context wants its prompt's log probabilities."""
        return any(self.batch_echo)


fields.declare(TextGenerationRequest, _RULES)
fields.declare(TextGenerationInputs, _INPUTS)
