"""Texts that end an answer, found in the text of its tokens wherever their ends lie."""

from __future__ import annotations

from typing import Any

from maxlab.interfaces import LogProbabilities, RequestID, TextGenerationContext
from maxlab.pipelines.lib.tokenizer.streaming import IncrementalDecoder

_TAIL = 16
"""Tokens of an answer that are named as the sequence that ended it."""


class StopTexts:
    """Watches the answers of requests for the texts that end them.

    A text can be written in more ways than `eos_sequences` of a context has, as when its first
    letters end one token and its last ones begin another.

    Args:
        tokenizer: The tokenizer of the pipeline. One without a ``delegate`` of transformers cannot
            be watched: its contexts end by their ``eos_sequences`` alone.
    """

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer if hasattr(tokenizer, "delegate") else None
        self._decoders: dict[RequestID, IncrementalDecoder] = {}

    def update(
        self, context: Any, token: int, log_probabilities: LogProbabilities | None = None
    ) -> None:
        """Gives a token to a context, and ends the answer if it completes a text that ends it.

        Such a token is told, other than one that ends a sequence: its first letters may stand
        before the text that ends the answer. Decoders cut there (`IncrementalDecoder`).

        Args:
            context: The state of the request.
            token: The token.
            log_probabilities: What is told with it.
        """
        completes = self._completes(context, token)
        if completes:
            context.eos_sequences.append([*context.generated_tokens[-_TAIL:].tolist(), token])
        context.update(token, log_probabilities)
        if completes:
            context.tell_end(log_probabilities)

    def _completes(self, context: Any, token: int) -> bool:
        """Whether a token that a context is about to take completes a text that ends its answer."""
        params = context.sampling_params
        if self._tokenizer is None or not params.stop or not params.detokenize:
            return False
        if context.active_idx < context.end_idx:  # the token is dropped
            return False
        if len(context.generated_tokens) < context.min_tokens:
            return False
        decoder = self._decoders.get(context.request_id) or self._begin(context)
        decoder.push(token)
        return decoder.stopped is not None

    def _begin(self, context: TextGenerationContext) -> IncrementalDecoder:
        decoder = IncrementalDecoder(
            self._tokenizer,
            context=context.all_tokens.tolist(),
            stop=context.sampling_params.stop or (),
        )
        self._decoders[context.request_id] = decoder
        return decoder

    def forget(self, request_id: RequestID) -> None:
        """Forgets a request, which is over.

        Args:
            request_id: The request.
        """
        self._decoders.pop(request_id, None)


__all__ = ["StopTexts"]
