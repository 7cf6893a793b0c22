"""Decoders of audio: what makes sound of speech tokens, and the tokens that each piece needs."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from maxlab.errors import ExecutionError, InputError, shown
from maxlab.graph.weights import load_weights
from maxlab.interfaces import fields
from maxlab.pipelines.core import TTSContext
from maxlab.pipelines.lib.audio_config import PrependPromptSpeechTokens

if TYPE_CHECKING:
    from maxlab.driver import Device
    from maxlab.engine import InferenceSession
    from maxlab.graph.weights import Weights
    from maxlab.pipelines.lib.audio_config import AudioGenerationConfig

SpeechTokens = npt.NDArray[np.integer[Any]]
Samples = npt.NDArray[np.float32]


class AudioDecoder(ABC):
    """A model that makes sound of speech tokens: of each token the same number of samples.

    A class that extends it compiles its graph in ``__init__``, after that of this class. Entries of
    ``audio_decoder_config`` come as further keywords of ``__init__``.

    Args:
        pipeline_config: The configuration of the pipeline, resolved.
        session: The session that compiles and runs the graph.
        devices: The devices of the model.
        weights: The weights of ``audio_decoder_weights``; None where the configuration names none.

    Attributes:
        sample_rate: Samples in a second.
        samples_per_token: Samples that a token makes.
    """

    sample_rate: int
    samples_per_token: int

    def __init__(
        self,
        pipeline_config: AudioGenerationConfig,
        session: InferenceSession,
        devices: list[Device],
        weights: Weights | None,
    ) -> None:
        self.pipeline_config = pipeline_config
        self.session = session
        self.devices = devices
        self.weights = weights

    @abstractmethod
    def decode(self, tokens: Sequence[SpeechTokens]) -> Sequence[Samples]:
        """The samples of each of several rows of tokens, float32 between -1 and 1.

        Args:
            tokens: Rows of tokens, of different lengths, each of one request. A row begins with
                tokens that were decoded before, as many as ``buffer`` of the configuration says.

        Raises:
            NotImplementedError: The class that extends this one calls it.
        """
        raise NotImplementedError


def loaded_decoder(
    kinds: Mapping[str, type[AudioDecoder]],
    config: AudioGenerationConfig,
    session: InferenceSession,
    devices: list[Device],
) -> AudioDecoder:
    """The decoder that a configuration names, with its weights and parameters.

    Args:
        kinds: The classes of decoders that there are, by name.
        config: The configuration: its ``audio_decoder``, ``audio_decoder_weights`` and
            ``audio_decoder_config``.
        session: The session that compiles and runs the decoder.
        devices: The devices of the model.

    Raises:
        InputError: ML176 (a ValueError), there is no decoder of the name, or it does not take the
            parameters; ML981, its sample rate or its samples of a token are less than 1.
        InputTypeError: ML980, these are no int.
        WeightError: The weights cannot be read.
    """
    kind = kinds.get(config.audio_decoder)
    if kind is None:
        known = ", ".join(sorted(kinds)) or "none"
        raise InputError(
            "ML176",
            f"audio_decoder: a decoder of the model expected ({known}) ≠ "
            f"{shown(config.audio_decoder)} given",
            fix="name one of them, or add yours to audio_decoders of the model",
        )
    path = config.audio_decoder_weights
    given = (config, session, devices, load_weights([Path(path)]) if path else None)
    try:
        inspect.signature(kind).bind(*given, **config.audio_decoder_config)
    except TypeError as error:
        raise InputError(
            "ML176",
            f"audio_decoder_config: parameters of {kind.__name__} expected ≠ "
            f"{shown(config.audio_decoder_config)} given",
            why=[str(error)],
            fix="give the keywords that __init__ of the decoder takes",
        ) from error
    decoder = kind(*given, **config.audio_decoder_config)
    for name in ("sample_rate", "samples_per_token"):
        fields.integer(1)(f"{kind.__name__}.{name}", getattr(decoder, name, None))
    return decoder


@dataclass(frozen=True, eq=False)
class DecoderWindow:
    """The tokens of a request that go to the decoder together.

    Attributes:
        tokens: The tokens, shape [tokens].
        known: How many of them come first for what follows alone: their sound is dropped.
    """

    tokens: SpeechTokens
    known: int

    @property
    def new(self) -> int:
        """The number of tokens whose sound is told."""
        return len(self.tokens) - self.known


def next_window(
    context: TTSContext, buffer: int, prepend: PrependPromptSpeechTokens
) -> DecoderWindow:
    """The tokens of a request that were not decoded yet, behind those that they follow.

    In front of the new tokens stand the last ``buffer`` ones before them. Before the first piece
    these are the ``buffer_speech_tokens`` of the context, all of them. The tokens of the voice
    prompt stand in front of all that with the first piece, and with ``rolling`` fill later windows
    up to ``buffer``.

    Args:
        context: The state of the request; it is not changed.
        buffer: The number of tokens that come again.
        prepend: When the tokens of the voice prompt come along.

    Example:
        >>> context = TTSContext(max_length=9, tokens=np.array([1]),
        ...                      audio_prompt_tokens=np.array([7, 8]))
        >>> context.update_speech_tokens(np.array([4, 5, 6]))
        >>> window = next_window(context, 1, PrependPromptSpeechTokens.ONCE)
        >>> window.tokens.tolist(), window.known
        ([7, 8, 4, 5, 6], 2)
        >>> context.decoded_index = 2
        >>> window = next_window(context, 3, PrependPromptSpeechTokens.ROLLING)
        >>> window.tokens.tolist(), window.known
        ([8, 4, 5, 6], 3)
    """
    tokens, before = context.next_speech_tokens(buffer=buffer)
    is_first = context.decoded_index == 0
    given = context.buffer_speech_tokens
    earlier = tokens[:0] if given is None else given.ravel()
    if not is_first:
        earlier = _last(earlier, buffer - before)
    front: SpeechTokens = tokens[:0]
    if is_first and prepend is not PrependPromptSpeechTokens.NEVER:
        front = context.audio_prompt_tokens
    elif prepend is PrependPromptSpeechTokens.ROLLING:
        front = _last(context.audio_prompt_tokens, buffer - before - len(earlier))
    parts = [part.astype(np.int64) for part in (front, earlier, tokens)]
    return DecoderWindow(np.concatenate(parts), len(front) + len(earlier) + before)


def decoded(decoder: AudioDecoder, windows: Sequence[DecoderWindow]) -> list[Samples]:
    """The samples of the new tokens of each window; none of a window without any.

    Args:
        decoder: The decoder, which is called once.
        windows: The windows of several requests.

    Raises:
        ExecutionError: ML178 (a ValueError), the decoder gave other samples than the tokens make.
    """
    filled = [window for window in windows if window.new]
    sounds = list(decoder.decode([window.tokens for window in filled])) if filled else []
    per_token, name = decoder.samples_per_token, type(decoder).__name__
    if len(sounds) != len(filled):
        raise _misfit(name, f"{len(filled)} arrays of samples", str(len(sounds)))
    found = dict.fromkeys(map(id, windows), np.zeros(0, np.float32))
    for window, sound in zip(filled, sounds, strict=True):
        samples, size = np.asarray(sound), len(window.tokens) * per_token
        if samples.shape != (size,) or samples.dtype != np.float32:
            told = f"{samples.dtype}{list(samples.shape)}"
            raise _misfit(name, f"float32[{size}] for {len(window.tokens)} tokens", told)
        # A copy: not a part of an array that all requests keep alive.
        found[id(window)] = samples[window.known * per_token :].copy()
    return [found[id(window)] for window in windows]


def _misfit(name: str, expected: str, got: str) -> ExecutionError:
    return ExecutionError(
        "ML178",
        f"{name}: {expected} expected ≠ {got} given",
        fix="let decode return samples_per_token samples for each token of each row",
    )


def last_tokens(context: TTSContext, buffer: int) -> SpeechTokens | None:
    """The tokens that a request after this one begins with; None without a buffer.

    Args:
        context: The state of the request.
        buffer: The number of tokens.
    """
    if not buffer:
        return None
    made, given = context.speech_tokens, context.buffer_speech_tokens
    earlier = made[:0] if given is None else given.ravel()
    return _last(np.concatenate([earlier.astype(np.int64), made.astype(np.int64)]), buffer)


def _last(tokens: SpeechTokens, count: int) -> SpeechTokens:
    """The last ``count`` tokens, or all where there are fewer."""
    return tokens[max(len(tokens) - max(count, 0), 0) :]


__all__ = [
    "AudioDecoder",
    "DecoderWindow",
    "Samples",
    "SpeechTokens",
    "decoded",
    "last_tokens",
    "loaded_decoder",
    "next_window",
]
