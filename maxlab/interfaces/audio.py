"""Audio: requests for speech, batches and results."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt

from maxlab.errors import InputError
from maxlab.interfaces import fields
from maxlab.interfaces.batches import BATCH, PipelineInputs
from maxlab.interfaces.contexts import BaseContext
from maxlab.interfaces.outputs import STATUS, GenerationStatus
from maxlab.interfaces.requests import ID, Request, RequestID
from maxlab.interfaces.sampling import PARAMS, SamplingParams
from maxlab.interfaces.showing import Shown
from maxlab.interfaces.waves import wav

MOST_CHARACTERS = 4096
"""The longest text that a request for speech takes."""

MOST_RATE = 2**31
"""A WAV file has a number of 32 bits for its bytes in a second, which are two a sample."""

AudioGenerationContextType = TypeVar("AudioGenerationContextType", bound=BaseContext)

_TOKENS = fields.listed(fields.integer(0))
_SPEECH = fields.optional(fields.array(np.integer))


def _spoken(name: str, value: Any) -> None:
    fields.text(name, value)
    if len(value) > MOST_CHARACTERS:
        raise fields.out_of_range(
            name, value, f"a str of at most {MOST_CHARACTERS} characters, not {len(value)},"
        )


_REQUEST: fields.Rules = {
    "model": fields.word,
    "input": fields.optional(_spoken),
    "audio_prompt_tokens": _TOKENS,
    "audio_prompt_transcription": fields.text,
    "sampling_params": PARAMS,
    "_assistant_message_override": fields.optional(fields.text),
    "prompt": fields.optional(fields.either(list, _TOKENS, fields.text)),
    "streaming": fields.flag,
    "buffer_speech_tokens": _SPEECH,
}


@dataclass(frozen=True)
class AudioGenerationRequest(Request):
    """A request for speech.

    Args:
        request_id: What the request is known by.
        model: The model that is asked.
        input: The text to speak, of at most 4096 characters.
        audio_prompt_tokens: The tokens of a recording whose voice is to be taken.
        audio_prompt_transcription: What is said in that recording.
        sampling_params: How tokens are drawn.
        prompt: Tokens or a text that go to the model as they are, instead of ``input``.
        streaming: Whether the audio is sent in pieces, as it is made.
        buffer_speech_tokens: The last tokens of a request before this one, which the decoder of
            audio begins with.

    Raises:
        InputTypeError: A field of another type.
        InputError: A field out of its range.
    """

    model: str
    input: str | None = None
    audio_prompt_tokens: list[int] = field(default_factory=list)
    audio_prompt_transcription: str = ""
    sampling_params: SamplingParams = field(default_factory=SamplingParams)
    _assistant_message_override: str | None = None
    prompt: list[int] | str | None = None
    streaming: bool = True
    buffer_speech_tokens: npt.NDArray[np.integer[Any]] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        fields.check(self, _REQUEST)

    @property
    def assistant_message(self) -> str | None:
        """The text that the answer of the assistant begins with, if the request has one."""
        return self._assistant_message_override


@dataclass(frozen=True)
class AudioGenerationInputs(PipelineInputs, Generic[AudioGenerationContextType]):
    """A batch of requests for speech.

    Args:
        batch: The contexts by request.

    Raises:
        InputTypeError: ``batch`` is no dict by `RequestID`.
    """

    batch: dict[RequestID, AudioGenerationContextType]

    def __post_init__(self) -> None:
        BATCH("AudioGenerationInputs.batch", self.batch)


_SECONDS = fields.optional(fields.real(0))
_METADATA: fields.Rules = {
    "sample_rate": fields.optional(fields.integer(1)),
    "duration": _SECONDS,
    "chunk_id": fields.optional(fields.integer(0)),
    "timestamp": fields.optional(fields.text),
    "final_chunk": fields.optional(fields.flag),
    "model_name": fields.optional(fields.text),
    "request_id": fields.optional(ID),
    "tokens_generated": fields.optional(fields.integer(0)),
    "processing_time": _SECONDS,
    "echo": fields.optional(fields.text),
}


class AudioGenerationMetadata(Shown, msgspec.Struct, tag=True, kw_only=True, omit_defaults=True):
    """The known facts of a piece of audio; None where one is not known.

    Args:
        sample_rate: Samples in a second.
        duration: Seconds of audio.
        chunk_id: The number of the piece.
        timestamp: When it was made.
        final_chunk: Whether it is the last piece.
        model_name: The model that made it.
        request_id: The request that it is of.
        tokens_generated: The number of tokens that it was made of.
        processing_time: Seconds that it took.
        echo: The text of the request, to check against.

    Raises:
        InputTypeError: A field of another type.
        InputError: A number out of its range.
    """

    sample_rate: int | None = None
    duration: float | None = None
    chunk_id: int | None = None
    timestamp: str | None = None
    final_chunk: bool | None = None
    model_name: str | None = None
    request_id: RequestID | None = None
    tokens_generated: int | None = None
    processing_time: float | None = None
    echo: str | None = None

    def __post_init__(self) -> None:
        fields.check(self, _METADATA)
        if self.duration is not None:  # an int would come back as a float
            self.duration = float(self.duration)
        if self.processing_time is not None:
            self.processing_time = float(self.processing_time)

    def to_dict(self) -> dict[str, Any]:
        """The fields that are known, by name; the request as its text.

        Example:
            >>> AudioGenerationMetadata(chunk_id=0, final_chunk=False).to_dict()
            {'chunk_id': 0, 'final_chunk': False}
        """
        values = {name: getattr(self, name) for name in self.__struct_fields__}
        if self.request_id is not None:
            values["request_id"] = self.request_id.value
        return {name: value for name, value in values.items() if value is not None}


def _silence() -> npt.NDArray[np.float32]:
    return np.zeros(0, np.float32)


_OUTPUT: fields.Rules = {
    "final_status": STATUS,
    "steps_executed": fields.integer(0),
    "audio_data": fields.array(np.float32),
    "buffer_speech_tokens": _SPEECH,
    "metadata": fields.instance(AudioGenerationMetadata),
}


class AudioGenerationOutput(Shown, msgspec.Struct, tag=True, omit_defaults=True, eq=False):
    """A piece of audio, and the state of its generation.

    Args:
        final_status: The state after this piece.
        steps_executed: The number of steps that were made before.
        audio_data: The samples, float32; empty where there are none yet.
        buffer_speech_tokens: The tokens to begin the next request with.
        metadata: What is known of the piece.

    Raises:
        InputTypeError: A field of another type.
        InputError: ``steps_executed`` is negative.
    """

    final_status: GenerationStatus
    steps_executed: int
    audio_data: npt.NDArray[np.float32] = msgspec.field(default_factory=_silence)
    buffer_speech_tokens: npt.NDArray[np.integer[Any]] | None = None
    metadata: AudioGenerationMetadata = msgspec.field(default_factory=AudioGenerationMetadata)

    def __post_init__(self) -> None:
        fields.check(self, _OUTPUT)

    @property
    def is_done(self) -> bool:
        """Whether the generation has ended."""
        return self.final_status.is_done

    def to_wav(self) -> bytes:
        """The samples as a WAV file: one channel of 16-bit samples.

        Samples beyond -1 and 1 are written as these, and those that are no number as 0.

        Raises:
            InputError: ML195 (a ValueError), ``metadata`` has no sample rate, or a larger one than
                such a file can say; or the samples are not of shape [samples].

        Example:
            >>> sound = AudioGenerationOutput(
            ...     GenerationStatus.END_OF_SEQUENCE, 1, np.zeros(800, np.float32),
            ...     metadata=AudioGenerationMetadata(sample_rate=8000))
            >>> sound.to_wav()[:4]
            b'RIFF'
        """
        rate, shape = self.metadata.sample_rate, self.audio_data.shape
        if rate is None or rate >= MOST_RATE:
            raise InputError(
                "ML195",
                f"a sample rate from 1 to {MOST_RATE - 1} Hz expected ≠ {rate} given",
                fix="set sample_rate of the metadata",
            )
        if len(shape) != 1:
            raise InputError(
                "ML195",
                f"samples of shape [samples] expected ≠ {list(shape)} given",
                fix="give one channel at a time",
            )
        return wav(self.audio_data, rate)


fields.declare(AudioGenerationRequest, _REQUEST)
fields.declare(AudioGenerationMetadata, _METADATA)
fields.declare(AudioGenerationOutput, _OUTPUT)
