"""The answers of a request while they are written: text, log probabilities, calls and the end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from maxlab.interfaces import (
    GenerationStatus,
    RequestID,
    TextGenerationOutput,
    TextGenerationRequest,
)
from maxlab.serve.asking import Asked
from maxlab.serve.log_probabilities import Offsets, TokenProbability, TokenTexts, aligned
from maxlab.serve.tools import Call, CallReader

_REASONS = {
    GenerationStatus.END_OF_SEQUENCE: "stop",
    GenerationStatus.MAXIMUM_LENGTH: "length",
}


@dataclass
class Piece:
    """The addition of an output to an answer.

    Attributes:
        text: More text.
        calls: More calls of tools.
        told: The log probabilities of its tokens.
        finish: Why the answer ended: ``"stop"``, ``"length"`` or ``"tool_calls"``; None while it
            goes on.
    """

    text: str = ""
    calls: list[Call] = field(default_factory=list)
    told: list[TokenProbability] = field(default_factory=list)
    finish: str | None = None

    def __bool__(self) -> bool:
        return bool(self.text or self.calls or self.told or self.finish)


class Choice:
    """One answer while it is written.

    Args:
        index: Its number.
        tokenizer: The tokenizer of the model.
        request: The request.
        context: The state of the request.
        asked: What the body asks for.

    Attributes:
        offsets: Where the next token begins in the text.
    """

    def __init__(
        self,
        index: int,
        tokenizer: Any,
        request: TextGenerationRequest,
        context: Any,
        asked: Asked,
    ) -> None:
        self.index = index
        self.offsets = Offsets()
        self._tokenizer = tokenizer
        self._request = request
        self._prompt: list[int] = context.prompt_tokens.tolist()
        self._echo = asked.echo
        self._tells = asked.top is not None
        self._decoder = tokenizer.stream(request, self._prompt)
        self._reader: CallReader | None = None
        if asked.functions:
            self._reader = CallReader(
                [one.name for one in asked.functions], most=asked.most_calls, forced=asked.forced
            )
        self._is_first = True
        self.is_done = False
        """Whether it is complete."""
        self.prompt_size = len(self._prompt)
        self.size = 0
        """The number of tokens so far."""

    def take(self, output: TextGenerationOutput) -> Piece:
        """The addition of an output.

        Args:
            output: The output.
        """
        piece = Piece()
        tokens, text = self._read(output)
        self.size += len(tokens)
        self.is_done = output.is_done or self._decoder.stopped is not None
        prompt: Sequence[int] = ()
        if self._is_first and (tokens or self.is_done):
            self._is_first = False
            if self._echo:
                prompt = self._prompt
                piece.text = self._prompt_text()
        if self._tells and tokens:
            piece.told = aligned(prompt, tokens, output.log_probabilities or ())
        self._add(piece, text)
        if self.is_done:
            called = self._reader is not None and self._reader.found
            stopped = self._decoder.stopped is not None
            reason = "stop" if stopped else _REASONS.get(output.final_status, "stop")
            piece.finish = "tool_calls" if called and reason == "stop" else reason
        return piece

    def _read(self, output: TextGenerationOutput) -> tuple[list[int], str]:
        """The tokens of an output up to the one that completes a stop, and their text."""
        texts: list[str] = []
        for place, token in enumerate(output.tokens, 1):
            texts.append(self._decoder.push(token))
            if self._decoder.stopped is not None:
                return output.tokens[:place], "".join(texts)
        if output.is_done:
            texts.append(self._decoder.finish())
        return output.tokens, "".join(texts)

    def _add(self, piece: Piece, text: str) -> None:
        """Adds text to a piece, and the calls in it."""
        if self._reader is None:
            piece.text += text
            return
        found = self._reader.push(text) if text else []
        if self.is_done:
            found += self._reader.finish()
        for one in found:
            if isinstance(one, str):
                piece.text += one
            else:
                piece.calls.append(one)

    def _prompt_text(self) -> str:
        given = self._request.prompt
        if isinstance(given, str):
            return given
        options = {"skip_special_tokens": True, "clean_up_tokenization_spaces": False}
        return str(self._tokenizer.delegate.decode(self._prompt, **options))


class Choices:
    """The answers of a request by the ids of the pipeline's requests.

    Args:
        tokenizer: The tokenizer of the model.
        texts: The texts of its tokens.
        asked: What the body asks for.
        contexts: The states of the requests.
    """

    def __init__(
        self, tokenizer: Any, texts: TokenTexts, asked: Asked, contexts: Sequence[Any]
    ) -> None:
        self.asked = asked
        self.texts = texts
        self._found: dict[RequestID, Choice] = {}
        for index, (request, context) in enumerate(zip(asked.requests, contexts, strict=True)):
            choice = Choice(index, tokenizer, request, context, asked)
            self._found[request.request_id] = choice

    def __len__(self) -> int:
        return len(self._found)

    def __iter__(self) -> Any:
        return iter(self._found.values())

    def take(self, output: TextGenerationOutput) -> tuple[Choice, Piece]:
        """The answer that an output belongs to, and what it adds.

        Args:
            output: The output.
        """
        choice = self._found[output.request_id]
        return choice, choice.take(output)

    def usage(self, prompts: int) -> dict[str, int]:
        """The numbers of tokens of all answers so far.

        Args:
            prompts: The number of prompts; the answers of one prompt stand together.
        """
        choices = list(self._found.values())
        each = len(choices) // prompts
        asked = sum(one.prompt_size for one in choices[::each])
        made = sum(one.size for one in choices)
        return {
            "prompt_tokens": asked,
            "completion_tokens": made,
            "total_tokens": asked + made,
        }


__all__ = ["Choice", "Choices", "Piece"]
