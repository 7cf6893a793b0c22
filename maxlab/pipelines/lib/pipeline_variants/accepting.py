"""Checks of requests: a pipeline of text answers what its features allow."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import msgspec

from maxlab.errors import InputError
from maxlab.interfaces import TextGenerationContext, fields, refuse_unread
from maxlab.pipelines.lib.sampling import SamplingConfig

if TYPE_CHECKING:
    from maxlab.pipelines.lib.config import PipelineConfig

_UNREAD = {"target_endpoint"}
"""Fields of contexts that no pipeline of text reads."""
_NEUTRAL = {"frequency_penalty": 0, "presence_penalty": 0, "repetition_penalty": 1}
"""The penalties, and the values at which they change nothing."""


def require_accepted(context: TextGenerationContext, config: PipelineConfig) -> None:
    """Raises unless a pipeline with ``config`` can answer a request as it asks.

    Args:
        context: The state of the request.
        config: The configuration of the pipeline, resolved.

    Raises:
        InputError: ML139 (a ValueError), it asks for a feature that is off; ML160, its prompt
            leaves no room for a token; ML981, it asks for the log probabilities of more tokens
            than there are.
        UnsupportedError: ML995 (a NotImplementedError), it asks for something that no pipeline of
            text does.
    """
    if isinstance(context, msgspec.Struct):
        refuse_unread(context, _read(type(context)))
    require_features(context, config.sampling_config, enable_echo=config.enable_echo)
    if told := context.log_probabilities:
        words = vocab_size(config.model_config.huggingface_config)
        if words is not None and told > words:
            raise fields.out_of_range(
                "log_probabilities", told, f"at most the {words} of the vocabulary"
            )
    longest = config.max_length
    if longest is not None and context.current_length >= longest:
        raise too_long(context, longest)


def require_words(context: TextGenerationContext, config: PipelineConfig) -> None:
    """Raises for a prompt with a token that the model has no row for, as one of a tokenizer that
    does not fit has: it would fail the whole batch.

    Args:
        context: The state of the request.
        config: The configuration of the pipeline, resolved.

    Raises:
        InputError: ML981 (a ValueError), there is such a token.
    """
    words = vocab_size(config.model_config.huggingface_config)
    largest = int(context.prompt_tokens.max())
    if words is not None and largest >= words:
        raise fields.out_of_range(
            "a token of the prompt", largest, f"a token below {words}, the vocabulary,"
        )


def text_config(config: Any) -> Any:
    """The part of a checkpoint's configuration that is about text.

    Args:
        config: The configuration, a ``PretrainedConfig``.
    """
    get = getattr(config, "get_text_config", None)
    return get() if callable(get) else config


def vocab_size(config: Any) -> int | None:
    """The number of tokens that a checkpoint has logits for; None where it does not say.

    Args:
        config: The configuration, a ``PretrainedConfig``.
    """
    found = getattr(text_config(config), "vocab_size", None)
    return found if isinstance(found, int) else None


def eos_token_ids(config: Any) -> set[int]:
    """The tokens that end a sequence, by the configuration of a checkpoint.

    Args:
        config: The configuration, a ``PretrainedConfig``.
    """
    found = getattr(text_config(config), "eos_token_id", None)
    if isinstance(found, int):
        return {found}
    return {one for one in found or () if isinstance(one, int)}


def tokens_left(context: TextGenerationContext) -> int:
    """The number of tokens that a request can still get.

    Args:
        context: The state of the request.
    """
    longest = 2**31 if context.max_length is None else context.max_length
    most = context.sampling_params.max_new_tokens
    if most is not None:
        longest = min(longest, len(context.prompt_tokens) + most)
    return longest - context.end_idx


def too_long(context: TextGenerationContext, longest: int) -> InputError:
    """The error of a request whose tokens leave no room for another one."""
    return InputError(
        "ML160",
        f"the request {context.request_id}: fewer than max_length = {longest} tokens expected ≠ "
        f"{context.current_length} given",
        fix="shorten the prompt, or give a larger max_length if the model has it",
    )


@cache  # every request of every batch is asked about
def _read(kind: type[msgspec.Struct]) -> frozenset[str]:
    """The fields of contexts of a class that pipelines of text read."""
    public = {name for name in kind.__struct_fields__ if not name.startswith("_")}
    return frozenset(public - _UNREAD)


def require_features(
    context: TextGenerationContext, config: SamplingConfig, *, enable_echo: bool = False
) -> None:
    """Raises for a request that asks for a feature of the sampler that is off.

    Args:
        context: The state of the request.
        config: The configuration of the sampler.
        enable_echo: Whether log probabilities of prompts can be told.

    Raises:
        InputError: ML139 (a ValueError), a feature is off, or two contradict each other.

    Example:
        >>> import numpy as np
        >>> from maxlab.interfaces import SamplingParams
        >>> from maxlab.pipelines.core import TextContext
        >>> context = TextContext(max_length=9, tokens=np.array([5, 6]),
        ...                       sampling_params=SamplingParams(repetition_penalty=1.2))
        >>> require_features(context, SamplingConfig(do_penalties=True))
    """
    params = context.sampling_params
    if context.json_schema is not None:
        _require(
            context, "json_schema", config.enable_structured_output, "enable_structured_output"
        )
        if params.min_new_tokens:
            raise InputError(
                "ML139",
                f"the request {context.request_id} has a JSON schema and min_new_tokens = "
                f"{params.min_new_tokens}",
                why=["a text that fits the schema may be complete with fewer tokens"],
                fix="leave min_new_tokens at 0",
            )
    if params.min_new_tokens:
        _require(context, "min_new_tokens", config.enable_min_tokens, "enable_min_tokens")
    for name, neutral in _NEUTRAL.items():
        if getattr(params, name) != neutral:
            _require(context, name, config.do_penalties, "do_penalties")
    if context.log_probabilities and context.log_probabilities_echo:
        _require(context, "echo", enable_echo, "enable_echo")


def _require(context: TextGenerationContext, asked: str, is_on: bool, flag: str) -> None:
    if not is_on:
        raise InputError(
            "ML139",
            f"the request {context.request_id} asks for {asked}, and the pipeline was made without "
            f"{flag}",
            fix=f"make the PipelineConfig with {flag}=True, or leave {asked} of the request out",
        )


__all__ = [
    "eos_token_ids",
    "require_accepted",
    "require_features",
    "require_words",
    "text_config",
    "tokens_left",
    "too_long",
    "vocab_size",
]
