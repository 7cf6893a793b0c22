"""A model that speaks, as a user writes it: a tiny decoder of text, and sines for sound."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from maxlab.driver import Tensor
from maxlab.dtype import DType
from maxlab.graph import DeviceRef, Graph, TensorType, ops
from maxlab.interfaces import PipelineTask
from maxlab.pipelines.lib.audio_decoder import AudioDecoder, Samples, SpeechTokens
from maxlab.pipelines.lib.audio_generator_model import AudioGeneratorModel
from maxlab.pipelines.lib.tokenizer import SpeechTokenizer
from tests.pipelines.tiny.looking_back import ARCHITECTURES as TEXT
from tests.pipelines.tiny.looking_back import LookingBack

F32, I64, HOST = DType.float32, DType.int64, DeviceRef.CPU()


def ramps(harmonics: int, size: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Sines of whole periods in a token, swelling and fading: each [harmonics, size]."""
    time = np.arange(size) / size
    waves = np.sin(2 * np.pi * np.arange(1, harmonics + 1)[:, None] * time)
    return (waves * time).astype(np.float32), (waves * (1 - time)).astype(np.float32)


class Sines(AudioDecoder):
    """Adds sines, whose loudness moves from that of the token before to that of the token.

    Args:
        gain: Multiplies all samples.
    """

    sample_rate = 800
    samples_per_token = 16

    def __init__(self, *args: Any, gain: float = 1.0) -> None:
        super().__init__(*args)
        assert self.weights is not None
        table = np.asarray(self.weights.loudness.data().data, np.float32) * np.float32(gain)
        swell, fade = ramps(table.shape[1], self.samples_per_token)
        self.seen: list[list[list[int]]] = []
        """The rows of each call."""
        types = [TensorType(I64, ["tokens"], HOST)] * 2
        with Graph("sines", input_types=types) as graph:
            now, before = (value.tensor for value in graph.inputs)
            loud = ops.constant(table, F32, HOST)
            found = ops.gather(loud, now, axis=0) @ ops.constant(swell, F32, HOST)
            found += ops.gather(loud, before, axis=0) @ ops.constant(fade, F32, HOST)
            graph.output(found)
        self.model = self.session.load(graph)

    def decode(self, tokens: Sequence[SpeechTokens]) -> list[Samples]:
        self.seen.append([row.tolist() for row in tokens])
        now = np.concatenate(tokens)
        before = np.concatenate([np.append(row[:1], row[:-1]) for row in tokens])
        (found,) = self.model(*(Tensor.from_numpy(one.astype(np.int64)) for one in (now, before)))
        ends = np.cumsum([len(row) for row in tokens])[:-1]
        return [part.ravel() for part in np.split(found.to_numpy(), ends)]


class Speaking(AudioGeneratorModel):
    """The model: its parts are above."""

    speech_lm = LookingBack
    audio_decoders: ClassVar[dict[str, type[AudioDecoder]]] = {"sines": Sines}


ARCHITECTURES = [
    dataclasses.replace(
        TEXT[0],
        name="Speaking",
        pipeline_model=Speaking,
        task=PipelineTask.AUDIO_GENERATION,
        tokenizer=SpeechTokenizer,
    ),
    dataclasses.replace(
        TEXT[0],
        name="SpeakingTokens",
        task=PipelineTask.SPEECH_TOKEN_GENERATION,
        tokenizer=SpeechTokenizer,
    ),
]
