"""Requests for text and for speech: what a body of HTTP asks of a pipeline."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from maxlab.interfaces import (
    AudioGenerationRequest,
    RequestID,
    SamplingParams,
    SamplingParamsGenerationConfigDefaults,
    SamplingParamsInput,
    TextGenerationRequest,
)
from maxlab.serve.errors import ApiError
from maxlab.serve.limits import Limits
from maxlab.serve.pictures import has_images, images_of
from maxlab.serve.requests import (
    ChatRequest,
    CompletionRequest,
    Function,
    Message,
    ObjectFormat,
    Sampled,
    SchemaFormat,
    SpeechRequest,
    Texts,
    ToolChoice,
)
from maxlab.serve.tools import forcing_schema, parameters

COLDEST = 1e-4
"""Below this temperature the most probable token is taken: dividing by it leaves no other a
chance, and logits could become infinite."""
COMPLETION_TOKENS = 16
"""The most tokens of a completion that says nothing about it."""
_SEEDS = 2**64


@dataclass(frozen=True)
class Asked:
    """Everything that a body asks for.

    Attributes:
        requests: A request for each choice, in their order.
        model: The model as the client called it.
        top: How many of the most probable tokens are told with each token; None tells no log
            probabilities.
        functions: The functions that may be called.
        forced: The function that is called, ``""`` for any one; None where the model decides.
        most_calls: The most calls of an answer; None without a limit.
        is_stream: Whether the answer is told while it is written.
        tells_usage: Whether a stream ends with the numbers of tokens.
        echo: Whether answers begin with the prompt.
    """

    requests: list[TextGenerationRequest]
    model: str
    top: int | None = None
    functions: list[Function] = field(default_factory=list)
    forced: str | None = None
    most_calls: int | None = None
    is_stream: bool = False
    tells_usage: bool = False
    echo: bool = False


def chat(
    body: ChatRequest,
    path: str,
    name: str,
    defaults: SamplingParamsGenerationConfigDefaults,
    images: Limits | None = None,
) -> Asked:
    """Reads what a chat asks for.

    Args:
        body: The body.
        path: The path of the request.
        name: The name by which the pipeline knows the model or adapter.
        defaults: The parameters that the model sets.
        images: How many images there may be, and how large; None for a model that takes none.

    Raises:
        ApiError: Fields that contradict each other, or that nothing can be done with; images that
            are not read.
        InputError: ML981, ML982, parameters that contradict each other.
    """
    if body.logprobs is not True and body.top_logprobs is not None:
        raise ApiError(400, "top_logprobs needs logprobs: true", param="top_logprobs")
    if body.max_tokens is not None and body.max_completion_tokens is not None:
        raise ApiError(
            400, "max_tokens and max_completion_tokens mean the same: give one", param="max_tokens"
        )
    if body.store:
        raise ApiError(400, "this server stores no answers: store is false", param="store")
    functions, forced = _functions(body)
    schema = _answer_schema(body)
    if functions and forced is None and schema is not None:
        raise ApiError(
            400,
            "an answer cannot both fit response_format and call tools as it likes: leave one of "
            'them out, or set tool_choice to "none" or to a tool',
            param="response_format",
        )
    if forced is not None:
        chosen = [one for one in functions if forced in ("", one.name)]
        schema = forcing_schema(chosen)
        if len(chosen) == 1:
            forced = chosen[0].name
    top = (body.top_logprobs or 0) if body.logprobs else None
    messages = [_message(one) for one in body.messages]
    common: dict[str, Any] = {
        "messages": messages,
        "images": _images(messages, images, body) or None,
        "tools": [_tool(one) for one in functions] or None,
        "chat_template_options": body.chat_template_kwargs,
        "response_format": None
        if schema is None
        else {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}},
    }
    most = body.max_completion_tokens or body.max_tokens
    return Asked(
        list(_choices(body, path, name, defaults, [common], most, top)),
        body.model,
        top,
        functions,
        forced,
        1 if body.parallel_tool_calls is False else None,
        bool(body.stream),
        _tells_usage(body),
    )


def completion(
    body: CompletionRequest, path: str, name: str, defaults: SamplingParamsGenerationConfigDefaults
) -> Asked:
    """Reads what a completion asks for.

    Args:
        body: The body.
        path: The path of the request.
        name: The name by which the pipeline knows the model or adapter.
        defaults: The parameters that the model sets.

    Raises:
        ApiError: Fields that nothing can be done with.
        InputError: ML981, ML982, parameters that contradict each other.
    """
    if body.suffix:
        raise ApiError(
            400, "a suffix is nothing that this server can fit a text to", param="suffix"
        )
    if body.best_of is not None and body.best_of != (body.n or 1):
        raise ApiError(
            400, "best_of other than n is not offered: all answers are returned", param="best_of"
        )
    prompts = [{"prompt": one, "echo": bool(body.echo)} for one in texts(body.prompt, "prompt")]
    most = COMPLETION_TOKENS if body.max_tokens is None else body.max_tokens
    return Asked(
        list(_choices(body, path, name, defaults, prompts, most, body.logprobs)),
        body.model,
        body.logprobs,
        is_stream=bool(body.stream),
        tells_usage=_tells_usage(body),
        echo=bool(body.echo),
    )


def speech(
    body: SpeechRequest, name: str, defaults: SamplingParamsGenerationConfigDefaults
) -> AudioGenerationRequest:
    """Reads what a request for speech asks for.

    Args:
        body: The body.
        name: The name by which the pipeline knows the model.
        defaults: The parameters that the model sets.

    Raises:
        InputError: ML981, ML982, parameters that contradict each other.
    """
    params = SamplingParamsInput(
        temperature=_temperature(body),
        top_p=body.top_p,
        top_k=body.top_k,
        min_p=body.min_p,
        max_new_tokens=body.max_tokens,
        seed=None if body.seed is None else body.seed % _SEEDS,
    )
    return AudioGenerationRequest(
        RequestID(),
        name,
        input=body.input,
        audio_prompt_tokens=body.audio_prompt_tokens or [],
        audio_prompt_transcription=body.audio_prompt_transcription or "",
        sampling_params=SamplingParams.from_input_and_generation_config(
            params, sampling_params_defaults=defaults
        ),
        streaming=body.response_format == "pcm",
    )


def _temperature(body: Sampled | SpeechRequest) -> float | None:
    """The temperature that a body asks for; 0 below `COLDEST`."""
    cold = body.temperature is not None and body.temperature < COLDEST
    return 0.0 if cold else body.temperature


def texts(given: Texts, param: str) -> list[str | list[int]]:
    """The texts of a field that takes one, several, tokens, or lists of tokens.

    Args:
        given: The value of the field.
        param: Its name.

    Raises:
        ApiError: An empty list of tokens, or a list of several kinds.
    """
    if isinstance(given, str):
        return [given]
    kinds = {type(one) for one in given}
    if len(kinds) != 1:
        raise ApiError(400, f"{param}: texts alone, or tokens alone", param=param)
    if kinds == {int}:
        return [[one for one in given if isinstance(one, int)]]
    found = [one for one in given if isinstance(one, (str, list))]
    if any(isinstance(one, list) and not one for one in found):
        raise ApiError(400, f"{param}: a list without tokens", param=param)
    return found


def _tells_usage(body: Sampled) -> bool:
    if body.stream_options is None:
        return False
    if not body.stream:
        raise ApiError(400, "stream_options needs stream: true", param="stream_options")
    return body.stream_options.include_usage


def _choices(
    body: Sampled,
    path: str,
    name: str,
    defaults: SamplingParamsGenerationConfigDefaults,
    prompts: Sequence[dict[str, Any]],
    most: int | None,
    top: int | None,
) -> Iterator[TextGenerationRequest]:
    """A request for each choice: for each prompt ``n``, whose seeds follow each other."""
    if body.logit_bias:
        raise ApiError(400, "logit_bias is not offered by this server", param="logit_bias")
    for prompt in prompts:
        for place in range(body.n or 1):
            params = SamplingParamsInput(
                temperature=_temperature(body),
                top_p=body.top_p,
                top_k=body.top_k,
                min_p=body.min_p,
                frequency_penalty=body.frequency_penalty,
                presence_penalty=body.presence_penalty,
                repetition_penalty=body.repetition_penalty,
                max_new_tokens=most,
                min_new_tokens=body.min_tokens,
                ignore_eos=body.ignore_eos,
                stop=[body.stop] if isinstance(body.stop, str) else body.stop,
                stop_token_ids=body.stop_token_ids,
                seed=None if body.seed is None else (body.seed + place) % _SEEDS,
            )
            yield TextGenerationRequest(
                RequestID(),
                name,
                request_path=path,
                # Zero would tell none, and not even that of the token itself.
                logprobs=0 if top is None else max(top, 1),
                sampling_params=SamplingParams.from_input_and_generation_config(
                    params, sampling_params_defaults=defaults
                ),
                **prompt,
            )


# ------------------------------------------------------------ parts of chats
def _images(
    messages: Sequence[dict[str, Any]], limits: Limits | None, body: ChatRequest
) -> list[bytes]:
    """The bytes of the images of a chat."""
    where = has_images(messages)
    if where is None:
        return []
    if limits is None:
        raise ApiError(
            400,
            f"{where}: the model {body.model} reads texts alone, and no images",
            param=where,
            code="images_unsupported",
        )
    found = images_of(messages, limits)
    if len(found) * (body.n or 1) > limits.images:
        raise ApiError(
            400,
            f"at most {limits.images} images times n expected ≠ {len(found)} times {body.n} given",
            param="n",
            code="too_many_images",
        )
    return found


def _functions(body: ChatRequest) -> tuple[list[Function], str | None]:
    """The functions that may be called, and which one is: see `Asked`."""
    found = [one.function for one in body.tools or ()]
    choice = body.tool_choice
    if len({one.name for one in found}) < len(found):
        raise ApiError(400, "two tools have one name", param="tools")
    if choice == "none":
        return [], None
    if not found:
        if choice is None or choice == "auto":
            return [], None
        raise ApiError(400, "tool_choice needs tools", param="tool_choice")
    if isinstance(choice, ToolChoice):
        name = choice.function.name
        if name not in {one.name for one in found}:
            raise ApiError(400, f"there is no tool {name!r}", param="tool_choice")
        return found, name
    return found, "" if choice == "required" else None


def _answer_schema(body: ChatRequest) -> dict[str, Any] | None:
    form = body.response_format
    if isinstance(form, SchemaFormat):
        return form.json_schema.schema
    return {"type": "object"} if isinstance(form, ObjectFormat) else None


def _tool(one: Function) -> dict[str, Any]:
    return {
        "type": "function",
        "function": {
            "name": one.name,
            "description": one.description,
            "parameters": parameters(one),
        },
    }


def _message(one: Message) -> dict[str, Any]:
    """A message as chat templates read it: the arguments of calls are values, not text."""
    found: dict[str, Any] = msgspec.to_builtins(one)
    found.pop("annotations", None)
    found["role"] = "system" if one.role == "developer" else one.role
    found["content"] = "" if one.content is None else one.content
    for call in found.get("tool_calls", ()):
        try:
            value = json.loads(call["function"]["arguments"])
        except (ValueError, RecursionError):
            continue  # the model wrote no JSON, and sees what it wrote
        if isinstance(value, dict):
            call["function"]["arguments"] = value
    return found


__all__ = ["Asked", "chat", "completion", "speech", "texts"]
