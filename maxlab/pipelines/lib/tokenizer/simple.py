"""Tokenizers without contexts: one that changes nothing, and one around transformers' own."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

from maxlab.errors import InputError, UnsupportedError
from maxlab.interfaces import fields
from maxlab.interfaces.text import TextGenerationRequestMessage
from maxlab.pipelines.lib.tokenizer.base import Tokens
from maxlab.pipelines.lib.tokenizer.messages import as_text
from maxlab.pipelines.lib.tokenizer.running import run_with_default_executor
from maxlab.pipelines.lib.tokenizer.templates import of_model


def _no_context(name: str) -> NoReturn:
    raise UnsupportedError(
        "ML163", f"{name} makes no contexts of requests", fix="use TextTokenizer(model_path)"
    )


class IdentityPipelineTokenizer:
    """Takes a text for its own tokens, for pipelines that read text themselves.

    Args:
        *args: Arguments of other tokenizers, of which none is needed.
        **kwargs: Named ones.

    Example:
        >>> import asyncio
        >>> asyncio.run(IdentityPipelineTokenizer().encode("a b"))
        'a b'
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        del args, kwargs

    @property
    def eos(self) -> int:
        """0: a text needs no token at its end."""
        return 0

    @property
    def expects_content_wrapping(self) -> bool:
        """False: a part of a message has its text under ``"text"``."""
        return False

    async def new_context(self, request: Any) -> Any:
        """Raises: contexts have tokens.

        Args:
            request: A request.

        Raises:
            UnsupportedError: ML163, always.
        """
        del request
        _no_context("IdentityPipelineTokenizer")

    async def encode(self, prompt: str, add_special_tokens: bool = False) -> str:
        """The text ``prompt`` itself.

        Args:
            prompt: A text.
            add_special_tokens: Must be False: no text stands for special tokens.

        Raises:
            InputTypeError: ML980, ``prompt`` is no text.
            InputError: ML981, special tokens are asked for.
        """
        fields.text("prompt", prompt)
        if add_special_tokens:
            raise fields.out_of_range("add_special_tokens", add_special_tokens, "False")
        return prompt

    async def decode(self, encoded: str, **kwargs: Any) -> str:
        """The text ``encoded`` itself.

        Args:
            encoded: A text.
            **kwargs: Options of other tokenizers, which change no text.

        Raises:
            InputTypeError: ML980, it is no text.
        """
        fields.text("encoded", encoded)
        return encoded


class PreTrainedPipelineTokenizer:
    """A tokenizer of transformers with the methods of pipelines.

    Args:
        delegate: A ``PreTrainedTokenizer`` or ``PreTrainedTokenizerFast``.

    Raises:
        InputTypeError: ML980, ``delegate`` cannot encode and decode.
    """

    def __init__(self, delegate: Any) -> None:
        if not all(callable(getattr(delegate, name, None)) for name in ("encode", "decode")):
            raise fields.wrong_type("delegate", delegate, "a tokenizer of transformers")
        self.delegate = delegate

    @property
    def eos(self) -> int:
        """The token that ends a sequence.

        Raises:
            InputError: ML164, the tokenizer has none.
        """
        if (found := self.delegate.eos_token_id) is None:
            raise InputError(
                "ML164",
                "the tokenizer has no token that ends a sequence",
                fix="set its eos_token",
            )
        return int(found)

    @property
    def expects_content_wrapping(self) -> bool:
        """False: a part of a message has its text under ``"text"``."""
        return False

    async def new_context(self, request: Any) -> Any:
        """Raises: the tokenizer does not know the limits of a model.

        Args:
            request: A request.

        Raises:
            UnsupportedError: ML163, always.
        """
        del request
        _no_context("PreTrainedPipelineTokenizer")

    def apply_chat_template(self, messages: list[TextGenerationRequestMessage]) -> str:
        """The prompt that the tokenizer's chat template makes of a conversation.

        Args:
            messages: The conversation.

        Raises:
            InputError, ParseError: ML154 to ML159, as by `TextTokenizer.apply_chat_template`.
        """
        template = of_model(getattr(self.delegate, "chat_template", None), None, "the tokenizer")
        return template.render(as_text(messages), None, None, self.delegate.special_tokens_map)

    async def encode(self, prompt: str, add_special_tokens: bool = False) -> Tokens:
        """The tokens of a text, int64 of shape [tokens].

        Args:
            prompt: A text.
            add_special_tokens: Whether tokens such as the one that begins a sequence are added.

        Raises:
            InputTypeError: ML980, ``prompt`` is no text.
        """
        fields.text("prompt", prompt)
        found = await run_with_default_executor(
            self.delegate.encode, prompt, add_special_tokens=add_special_tokens
        )
        return np.array(found, np.int64)

    async def decode(self, encoded: Tokens, **kwargs: Any) -> str:
        """The text of tokens.

        Args:
            encoded: Integers of shape [tokens].
            **kwargs: Options of transformers' ``decode``.
        """
        return str(await run_with_default_executor(self.delegate.decode, encoded, **kwargs))


__all__ = ["IdentityPipelineTokenizer", "PreTrainedPipelineTokenizer"]
