"""Answers that fit a JSON schema: a grammar says before each token which ones may follow."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import numpy.typing as npt

from maxlab.errors import InputError
from maxlab.interfaces import RequestID, TextGenerationContext
from maxlab.interfaces.needing import needed_by
from maxlab.pipelines.lib.pipeline_variants.accepting import tokens_left

_LOG = logging.getLogger(__name__)
Bitmask = npt.NDArray[np.int32]
BITS = 32


class Grammars:
    """Makes the matchers of schemas for one tokenizer, by llguidance.

    Args:
        delegate: The fast tokenizer of transformers.
        vocab_size: The number of tokens that the model has logits for.
        eos_token_ids: The tokens that end a sequence.

    Raises:
        InputError: ML140 (a ValueError), there is no fast tokenizer.
        MissingPackageError: ML979, llguidance is not installed.
    """

    def __init__(self, delegate: Any, vocab_size: int, eos_token_ids: set[int]) -> None:
        if getattr(delegate, "backend_tokenizer", None) is None:
            raise InputError(
                "ML140",
                "structured output needs a tokenizer whose delegate is a fast tokenizer of "
                f"transformers ≠ {type(delegate).__name__} given",
                fix="use TextTokenizer with a folder that has a tokenizer.json, or leave "
                "enable_structured_output at False",
            )
        with needed_by("structured output", "llguidance"):
            import llguidance
            import llguidance.hf
        self.vocab_size = vocab_size
        self._free: set[RequestID] = set()  # those whose schema cannot be followed
        self._llguidance: Any = llguidance
        self._tokenizer = llguidance.hf.from_tokenizer(
            delegate, n_vocab=vocab_size, eos_token=sorted(eos_token_ids) or None
        )

    def bitmask(self, count: int) -> Bitmask:
        """A bitmask in which every token may follow: int32 of shape [count, vocabulary / 32].

        Args:
            count: The number of requests.
        """
        return np.full((count, -(-self.vocab_size // BITS)), -1, np.int32)

    def begin(self, context: TextGenerationContext) -> None:
        """Gives a context the matcher of its schema, if it has a schema and no matcher yet.

        A schema that is none leaves the answer free; a line of the log says so.

        Args:
            context: The state of the request.
        """
        if context.json_schema is None or context.matcher is not None:
            return
        if context.request_id in self._free:
            return
        matcher, wrong = self._matcher(context.json_schema)
        if wrong:
            self._free.add(context.request_id)
            _LOG.warning(
                "the request %s has a JSON schema that cannot be followed, and is answered freely: "
                "%s",
                context.request_id,
                wrong,
            )
            return
        for token in context.generated_tokens.tolist():
            matcher.consume_token(token)
        context.set_matcher(matcher)

    def require_possible(self, json_schema: str) -> None:
        """Raises unless answers can fit a JSON schema.

        Args:
            json_schema: The schema as JSON.

        Raises:
            InputError: ML191 (a ValueError), it is no schema, has parts that cannot be followed, or
                nothing fits it.
        """
        _, wrong = self._matcher(json_schema)
        if wrong:
            raise InputError(
                "ML191",
                "a JSON schema that answers can fit expected, but it cannot be followed",
                why=[wrong],
                fix="leave out what the reason names, or ask without a schema",
            )

    def _matcher(self, json_schema: str) -> tuple[Any, str]:
        """The matcher of a schema, and what is wrong with it; empty where nothing is."""
        make = self._llguidance.LLMatcher
        try:
            matcher = make(self._tokenizer, make.grammar_from_json_schema(json_schema))
        except ValueError as error:
            return None, str(error)
        return matcher, matcher.get_error() if matcher.is_error() else ""

    def jump(self, context: TextGenerationContext) -> None:
        """Adds the tokens that the grammar leaves no choice of, so that they are computed at once.

        Where log probabilities are told, none are added: each token has its own when it is drawn.

        Args:
            context: The state of the request, the whole of whose prompt is computed next. At least
                one token is left to be drawn.
        """
        if context.matcher is None or context.active_idx < context.end_idx:
            return
        if context.log_probabilities:
            return
        room = tokens_left(context) - 1
        forced: list[int] = context.matcher.compute_ff_tokens()
        for token in forced[: max(room, 0)]:
            if token in context.eos_token_ids:
                return
            context.jump_ahead(token)

    def fill(self, context: TextGenerationContext, bitmask: Bitmask, index: int) -> None:
        """Writes into a row of ``bitmask`` which tokens may follow.

        Args:
            context: The state of the request.
            bitmask: The bitmask of the batch.
            index: The row of the request.
        """
        if context.matcher is not None:
            row = bitmask[index]
            context.matcher.unsafe_compute_mask_ptr(row.ctypes.data, row.nbytes)

    def forget(self, request_id: RequestID) -> None:
        """Forgets a request, which is over.

        Args:
            request_id: The request.
        """
        self._free.discard(request_id)


def allowed(bitmask: Bitmask, vocab_size: int) -> npt.NDArray[np.bool_]:
    """The bits of a bitmask as bools of shape [requests, vocabulary].

    Args:
        bitmask: int32 of shape [requests, vocabulary / 32], the lowest bit first.
        vocab_size: The number of tokens.

    Example:
        >>> allowed(np.array([[5]], np.int32), 4).tolist()
        [[True, False, True, False]]
    """
    words = np.ascontiguousarray(bitmask).view(np.uint8)
    bits = np.unpackbits(words, axis=1, bitorder="little", count=vocab_size)
    return bits.astype(np.bool_)


__all__ = ["Bitmask", "Grammars", "allowed"]
