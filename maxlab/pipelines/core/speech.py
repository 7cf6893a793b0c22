"""The state of a request for speech: text tokens, speech tokens, and what of them was decoded."""

from __future__ import annotations

import time
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from maxlab.interfaces import GenerationStatus, fields
from maxlab.pipelines.core.text import TextContext

SPEECH_CHUNK = 128
"""The buffer of speech tokens has a multiple of this length."""


def _no_tokens() -> npt.NDArray[np.integer[Any]]:
    return np.zeros(0, np.int32)


def _room() -> npt.NDArray[np.integer[Any]]:
    return np.zeros(SPEECH_CHUNK, np.int32)


_RULES: fields.Rules = {
    "audio_prompt_tokens": fields.array(np.integer, 1),
    "buffer_speech_tokens": fields.optional(fields.array(np.integer)),
    "audio_buffer": fields.optional(fields.array(np.floating)),
    "prev_samples_beyond_offset": fields.integer(0),
    "streaming": fields.flag,
    "_speech_token_size": fields.integer(1, 2**31),
    "_speech_tokens": fields.array(np.integer, 1),
    "_block_counter": fields.integer(0),
    "audio_generation_status": fields.instance(GenerationStatus),
}


class TTSContext(TextContext, omit_defaults=True, eq=False):
    """A `TextContext` with the speech tokens that were made of it.

    Args:
        audio_prompt_tokens: The speech tokens of the voice to take.
        buffer_speech_tokens: The last speech tokens of a request before this one.
        audio_buffer: Samples that are kept from one piece to the next.
        prev_samples_beyond_offset: How many of them were made too early.
        streaming: Whether the audio is sent in pieces.
        decoded_index: The number of speech tokens that were decoded.
        audio_generation_status: Whether the audio goes on.

    Raises:
        InputTypeError, InputError: As by `TextContext`.

    Example:
        >>> context = TTSContext(max_length=9, tokens=np.array([1]))
        >>> context.update_speech_tokens(np.array([4, 5, 6]))
        >>> context.decoded_index = 1
        >>> context.next_speech_tokens(audio_chunk_size=1, buffer=5)
        (array([4, 5], dtype=int32), 1)
    """

    audio_prompt_tokens: npt.NDArray[np.integer[Any]] = msgspec.field(default_factory=_no_tokens)
    buffer_speech_tokens: npt.NDArray[np.integer[Any]] | None = None
    audio_buffer: npt.NDArray[np.floating[Any]] | None = None
    prev_samples_beyond_offset: int = 0
    streaming: bool = False
    _speech_token_size: int = SPEECH_CHUNK
    _speech_token_end_idx: int = 0
    _speech_tokens: npt.NDArray[np.integer[Any]] = msgspec.field(default_factory=_room)
    decoded_index: int = 0
    _block_counter: int = 0
    _arrival_time: float = msgspec.field(default_factory=time.time)
    audio_generation_status: GenerationStatus = GenerationStatus.ACTIVE

    def __post_init__(self) -> None:
        super().__post_init__()
        fields.check(self, _RULES)
        fields.integer(0, len(self._speech_tokens))(
            "TTSContext._speech_token_end_idx", self._speech_token_end_idx
        )
        fields.integer(0, self._speech_token_end_idx)(
            "TTSContext.decoded_index", self.decoded_index
        )

    @property
    def is_done(self) -> bool:
        """Whether the audio has ended."""
        return self.audio_generation_status.is_done

    @property
    def speech_tokens(self) -> npt.NDArray[np.integer[Any]]:
        """The speech tokens that were made."""
        return self._speech_tokens[: self._speech_token_end_idx]

    @property
    def block_counter(self) -> int:
        """How many times speech tokens were added."""
        return self._block_counter

    def update_speech_tokens(self, new_tokens: npt.NDArray[np.integer[Any]]) -> None:
        """Adds speech tokens behind those that there are.

        Args:
            new_tokens: Integers of shape [tokens].

        Raises:
            InputTypeError, InputError: It is no such array.
        """
        fields.array(np.integer, 1)("new_tokens", new_tokens)
        end = self._speech_token_end_idx + len(new_tokens)
        if end > len(self._speech_tokens) or not self._speech_tokens.flags.writeable:
            grown = np.zeros(-(-end // SPEECH_CHUNK) * SPEECH_CHUNK, self._speech_tokens.dtype)
            grown[: self._speech_token_end_idx] = self.speech_tokens
            self._speech_tokens, self._speech_token_size = grown, len(grown)
        self._speech_tokens[self._speech_token_end_idx : end] = new_tokens
        self._speech_token_end_idx = end
        self._block_counter += 1

    def next_speech_tokens(
        self, audio_chunk_size: int | None = None, buffer: int | None = None
    ) -> tuple[npt.NDArray[np.integer[Any]], int]:
        """The speech tokens that were not decoded yet, and how many before them come along.

        ``decoded_index`` stays as it is: who decodes them sets it.

        Args:
            audio_chunk_size: At most so many new tokens; None is all.
            buffer: So many tokens before them come along, if there are; None is none.

        Raises:
            InputTypeError, InputError: An argument that is no int, or out of its range.
        """
        fields.optional(fields.integer(1))("audio_chunk_size", audio_chunk_size)
        fields.optional(fields.integer(0))("buffer", buffer)
        fields.integer(0, self._speech_token_end_idx)("decoded_index", self.decoded_index)
        start = max(0, self.decoded_index - (buffer or 0))
        end = self._speech_token_end_idx
        if audio_chunk_size is not None:
            end = min(end, self.decoded_index + audio_chunk_size)
        return self._speech_tokens[start:end], self.decoded_index - start


fields.declare(TTSContext, _RULES)
