"""The tokens that the decoder gets with each piece, compared with lists."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from maxlab.pipelines.core import TTSContext
from maxlab.pipelines.lib.audio_decoder import last_tokens, next_window
from maxlab.pipelines.lib.config import PrependPromptSpeechTokens

MODES = list(PrependPromptSpeechTokens)


def tail(tokens: list[int], count: int) -> list[int]:
    """The last ``count`` tokens."""
    return tokens[len(tokens) - min(count, len(tokens)) :] if count > 0 else []


@pytest.mark.parametrize("seed", range(60))
def test_windows_are_those_of_lists(seed: int) -> None:
    rng = np.random.default_rng(seed)
    voice, given = (rng.integers(0, 99, rng.integers(0, 6)).tolist() for _ in range(2))
    buffer, mode = int(rng.integers(0, 8)), MODES[seed % 3]
    context = TTSContext(
        max_length=9,
        tokens=np.array([1]),
        audio_prompt_tokens=np.array(voice, np.int32),
        buffer_speech_tokens=np.array(given, np.int64) if given else None,
    )
    made: list[int] = []
    for piece in range(5):
        new = rng.integers(100, 999, rng.integers(1, 5)).tolist()
        if piece == 0:
            front = [] if mode is PrependPromptSpeechTokens.NEVER else voice
            front = front + given
        elif mode is PrependPromptSpeechTokens.ROLLING:
            front = tail(voice + given + made, buffer)
        else:
            front = tail(given + made, buffer)
        context.update_speech_tokens(np.array(new))
        window = next_window(context, buffer, mode)
        assert window.tokens.tolist() == front + new
        assert (window.known, window.new) == (len(front), len(new))
        made += new
        context.decoded_index = len(made)
        kept = last_tokens(context, buffer)
        assert (None if kept is None else kept.tolist()) == (
            tail(given + made, buffer) if buffer else None
        )


def test_a_window_is_not_a_part_of_the_context() -> None:
    context: Any = TTSContext(max_length=9, tokens=np.array([1]))
    context.update_speech_tokens(np.array([4, 5]))
    next_window(context, 0, MODES[0]).tokens[:] = 7
    assert context.speech_tokens.tolist() == [4, 5]
