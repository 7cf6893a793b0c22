"""Answers as OpenAI's API has them: whole ones, and the chunks of streams."""

from __future__ import annotations

import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from maxlab.serve.choices import Choice, Choices, Piece
from maxlab.serve.log_probabilities import TokenProbability
from maxlab.serve.tools import Call

Json = dict[str, Any]


@dataclass
class _Whole:
    """An answer as far as it is written."""

    text: list[str] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    told: list[TokenProbability] = field(default_factory=list)
    finish: str | None = None

    def add(self, piece: Piece) -> None:
        self.text.append(piece.text)
        self.calls += piece.calls
        self.told += piece.told
        self.finish = piece.finish or self.finish


class Answers:
    """Makes the bodies of responses; a class for chats and one for completions.

    Args:
        choices: The answers.
        model: The model as the client called it.
        prompts: The number of prompts.
    """

    kind: str
    chunk_kind: str
    prefix: str

    def __init__(self, choices: Choices, model: str, prompts: int) -> None:
        self._choices = choices
        self._prompts = prompts
        self._head = {
            "id": f"{self.prefix}-{uuid.uuid4().hex}",
            "created": int(time.time()),
            "model": model,
        }
        self._wholes: dict[int, _Whole] = {}

    # ------------------------------------------------------------ whole answers
    def add(self, choice: Choice, piece: Piece) -> None:
        """Adds a piece to the whole answer that it belongs to.

        Args:
            choice: The answer.
            piece: The piece.
        """
        self._wholes.setdefault(choice.index, _Whole()).add(piece)

    def whole(self) -> Json:
        """The body of a response with all answers."""
        found = []
        for choice in self._choices:
            one = self._wholes.get(choice.index, _Whole())
            found.append(
                {
                    "index": choice.index,
                    **self._content("".join(one.text), one.calls),
                    "logprobs": self._logprobs(choice, one.told),
                    "finish_reason": one.finish,
                }
            )
        return {
            **self._head,
            "object": self.kind,
            "choices": found,
            "usage": self._choices.usage(self._prompts),
        }

    # ------------------------------------------------------------ streams
    def begin(self) -> list[Json]:
        """The chunks before the first piece."""
        return []

    def chunk(self, choice: Choice, piece: Piece) -> Json:
        """The chunk of a piece.

        Args:
            choice: The answer that it belongs to.
            piece: The piece.
        """
        return self._chunk(
            [
                {
                    "index": choice.index,
                    **self._delta(choice, piece),
                    "logprobs": self._logprobs(choice, piece.told),
                    "finish_reason": piece.finish,
                }
            ]
        )

    def end(self) -> list[Json]:
        """The chunks after the last piece: the numbers of tokens, if they are asked for."""
        if not self._choices.asked.tells_usage:
            return []
        return [{**self._chunk([]), "usage": self._choices.usage(self._prompts)}]

    def _chunk(self, choices: Sequence[Json]) -> Json:
        found = {**self._head, "object": self.chunk_kind, "choices": list(choices)}
        return {**found, "usage": None} if self._choices.asked.tells_usage else found

    # ------------------------------------------------------------ parts
    def _content(self, text: str, calls: Sequence[Call]) -> Json:
        raise NotImplementedError

    def _delta(self, choice: Choice, piece: Piece) -> Json:
        raise NotImplementedError

    def _logprobs(self, choice: Choice, told: Sequence[TokenProbability]) -> Json | None:
        raise NotImplementedError


class ChatAnswers(Answers):
    """Answers of chats."""

    kind = "chat.completion"
    chunk_kind = "chat.completion.chunk"
    prefix = "chatcmpl"

    def __init__(self, choices: Choices, model: str, prompts: int) -> None:
        super().__init__(choices, model, prompts)
        self._called: dict[int, int] = {}

    def begin(self) -> list[Json]:
        """A chunk for each answer that says who speaks."""
        return [
            self._chunk(
                [
                    {
                        "index": choice.index,
                        "delta": {"role": "assistant", "content": ""},
                        "logprobs": None,
                        "finish_reason": None,
                    }
                ]
            )
            for choice in self._choices
        ]

    def _content(self, text: str, calls: Sequence[Call]) -> Json:
        message: Json = {"role": "assistant", "content": text, "refusal": None}
        if calls:
            message["content"] = text or None
            message["tool_calls"] = [_call(one) for one in calls]
        return {"message": message}

    def _delta(self, choice: Choice, piece: Piece) -> Json:
        delta: Json = {"content": piece.text} if piece.text else {}
        if piece.calls:
            first = self._called.get(choice.index, 0)
            self._called[choice.index] = first + len(piece.calls)
            delta["tool_calls"] = [
                {"index": place, **_call(one)} for place, one in enumerate(piece.calls, first)
            ]
        return {"delta": delta}

    def _logprobs(self, choice: Choice, told: Sequence[TokenProbability]) -> Json | None:
        top = self._choices.asked.top
        return None if top is None else self._choices.texts.of_chat(told, top)


class CompletionAnswers(Answers):
    """Answers of completions."""

    kind = chunk_kind = "text_completion"
    prefix = "cmpl"

    def _content(self, text: str, calls: Sequence[Call]) -> Json:
        del calls
        return {"text": text}

    def _delta(self, choice: Choice, piece: Piece) -> Json:
        return {"text": piece.text}

    def _logprobs(self, choice: Choice, told: Sequence[TokenProbability]) -> Json | None:
        top = self._choices.asked.top
        if top is None:
            return None
        return self._choices.texts.of_completion(told, top, choice.offsets)


def _call(one: Call) -> Json:
    return {
        "id": one.id,
        "type": "function",
        "function": {"name": one.name, "arguments": one.arguments},
    }


__all__ = ["Answers", "ChatAnswers", "CompletionAnswers", "Json"]
