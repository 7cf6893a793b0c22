"""Tokenizers: tokens of texts, texts of tokens, and contexts of requests."""

from __future__ import annotations

from typing import Any, Protocol, TypeVar, runtime_checkable

UnboundContextType_co = TypeVar("UnboundContextType_co", covariant=True)
TokenizerEncoded = TypeVar("TokenizerEncoded")
RequestType_contra = TypeVar("RequestType_contra", contravariant=True)


@runtime_checkable
class PipelineTokenizer(Protocol[UnboundContextType_co, TokenizerEncoded, RequestType_contra]):
    """Encodes, decodes, and makes the context of a request."""

    @property
    def eos(self) -> int:
        """The token that ends a sequence."""
        ...

    @property
    def expects_content_wrapping(self) -> bool:
        """Whether the text of a message's part stands under ``"content"`` and not ``"text"``.

        Parts that are images are then ``{"type": "image"}``, and their bytes come with the request.
        """
        ...

    async def new_context(self, request: RequestType_contra) -> UnboundContextType_co:
        """The context of a new request.

        Args:
            request: The request.
        """
        ...

    async def encode(self, prompt: str, add_special_tokens: bool) -> TokenizerEncoded:
        """The tokens of a text.

        Args:
            prompt: The text.
            add_special_tokens: Whether tokens such as the one that begins a sequence are added.

        Raises:
            ValueError: There are more tokens than the longest length allows.
        """
        ...

    async def decode(self, encoded: TokenizerEncoded, **kwargs: Any) -> str:
        """The text of tokens.

        Args:
            encoded: The tokens.
            **kwargs: Options of the tokenizer.
        """
        ...
