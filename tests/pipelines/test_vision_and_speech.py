"""Contexts with images and with speech, the validators, and all contexts in another process."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from maxlab.errors import DocumentError, InputError, InputTypeError
from maxlab.interfaces import (
    AudioGenerationInputs,
    EmbeddingsContext,
    GenerationStatus,
    ImageMetadata,
    LogProbabilities,
    RequestID,
    TextGenerationInputs,
    VLMTextGenerationContext,
    msgpack_eq,
    msgpack_numpy_decoder,
    msgpack_numpy_encoder,
)
from maxlab.pipelines import core
from maxlab.pipelines.core import TextAndVisionContext, TextContext, TTSContext
from tests.interfaces import other_process

# The example of the reference's page: <img> = 98 between <begin> = 97 and <end> = 99.
TOKENS = [
    *(51, 52, 53, 54, 97, 98, 98, 98, 98, 99, 55, 56),
    *(57, 58, 97, 98, 98, 98, 98, 99, 59, 60, 61, 62),
]


def image(start: int, end: int, shape: tuple[int, ...] = (2, 2)) -> ImageMetadata:
    """An image of the tokens [``start``, ``end``)."""
    return ImageMetadata(start_idx=start, end_idx=end, pixel_values=np.ones(shape, np.float32))


def seen(**options: Any) -> TextAndVisionContext:
    """The context of the page's example."""
    given: dict[str, Any] = {
        "request_id": RequestID("a"),
        "max_length": 40,
        "tokens": np.array(TOKENS),
        "vision_token_ids": [98],
        "images": [image(5, 9), image(15, 19)],
        **options,
    }
    return TextAndVisionContext(**given)


# ---------------------------------------------------------------- images
def test_the_example_of_the_page() -> None:
    context = seen()
    assert isinstance(context, VLMTextGenerationContext)
    context.set_token_indices(start_idx=11)
    assert context.image_idx == 1
    assert context.next_images == context.images[1:]
    assert context.needs_vision_encoding


@pytest.mark.parametrize("index", range(len(TOKENS) + 1))
def test_places_in_images(index: int) -> None:
    context = seen()
    inside = next((start for start, end in ((5, 9), (15, 19)) if start < index < end), None)
    assert context.compute_image_aligned_idx(index) == (index if inside is None else inside)
    for name, lowest in (("start_idx", 0), ("active_idx", 1)):
        before = context.start_idx, context.active_idx, context.end_idx
        allowed = inside is None and (index < len(TOKENS) if name == "start_idx" else index > 0)
        if allowed:
            context.set_token_indices(**{name: index})
            assert context.image_idx == sum(end <= context.start_idx for end in (9, 19))
            context.set_token_indices(*before)
        else:
            with pytest.raises(InputError):
                context.set_token_indices(**{name: index})
            with pytest.raises(InputError):
                context.bump_token_indices(**{name: index - getattr(context, name)})
        assert (context.start_idx, context.active_idx, context.end_idx) == before
        assert lowest <= context.active_idx


def test_a_prompt_in_chunks_between_images() -> None:
    context = seen()
    context.set_token_indices(active_idx=context.compute_image_aligned_idx(7))
    assert context.next_tokens.tolist() == TOKENS[:5]
    context.update(1)  # of a part of the prompt, and of no use
    assert context.next_tokens.tolist() == TOKENS[5:]
    assert context.is_initial_prompt
    context.update(1)
    assert not context.needs_vision_encoding
    assert context.next_images == []
    context.reset()
    assert context.image_idx == 0
    assert context.prompt_tokens.tolist() == TOKENS


@pytest.mark.parametrize(
    "images",
    [
        [image(5, 9), image(8, 12)],
        [image(15, 19), image(5, 9)],
        [image(4, 9)],
        [image(5, 10)],
        [image(20, 60)],
    ],
)
def test_images_that_cannot_be(images: list[ImageMetadata]) -> None:
    with pytest.raises(InputError):
        seen(images=images)


# ---------------------------------------------------------------- validators
GOOD: dict[str, dict[str, Any]] = {
    "validate_requires_vision_context": {},
    "validate_initial_prompt_has_image": {},
    "validate_only_one_image": {"images": [image(5, 9)]},
    "validate_image_shape_5d": {"images": [image(5, 9, (1, 1, 3, 2, 2))]},
    "validate_aspect_ratio_args": {
        "extra_model_args": {"aspect_ratio_ids": np.ones(1), "aspect_ratio_mask": np.ones(1)}
    },
    "validate_image_grid_thw_args": {"extra_model_args": {"image_grid_thw": np.ones(1)}},
    "validate_vision_position_ids": {"extra_model_args": {"vision_position_ids": np.ones(1)}},
}
BAD: dict[str, tuple[dict[str, Any], str]] = {
    "validate_initial_prompt_has_image": ({"images": []}, "a prompt with an image expected"),
    "validate_only_one_image": ({}, "at most one image expected ≠ 2 given"),
    "validate_image_shape_5d": ({}, r"pixels with 5 axes expected ≠ the shape \[2, 2\] given"),
    "validate_aspect_ratio_args": (
        {"extra_model_args": {"aspect_ratio_ids": np.ones(1)}},
        "aspect_ratio_mask expected ≠ aspect_ratio_ids given",
    ),
    "validate_image_grid_thw_args": ({}, "image_grid_thw expected ≠ none given"),
    "validate_vision_position_ids": ({}, "vision_position_ids expected ≠ none given"),
}


@pytest.mark.parametrize("name", GOOD)
def test_validators(name: str) -> None:
    validate: Callable[[TextContext], None] = getattr(core, name)
    validate(seen(**GOOD[name]))
    plain = TextContext(max_length=9, tokens=np.array([1]))
    with pytest.raises(InputError, match="a TextAndVisionContext expected ≠ a TextContext given"):
        validate(plain)
    if name in BAD:
        options, words = BAD[name]
        with pytest.raises(InputError, match=words):
            validate(seen(**options))


def test_arrays_are_needed_only_for_images_that_are_not_encoded() -> None:
    context = seen()
    context.set_token_indices(start_idx=20)
    core.validate_image_grid_thw_args(context)
    core.validate_vision_position_ids(context)
    core.validate_aspect_ratio_args(context)


# ---------------------------------------------------------------- speech
def spoken() -> TTSContext:
    """A context with 300 speech tokens, made in three parts."""
    context = TTSContext(
        np.array([1, 2], np.int32),
        np.array([3]),
        streaming=True,
        max_length=9,
        tokens=np.array([1, 2]),
        request_id=RequestID("a"),
    )
    for start in (0, 100, 200):
        context.update_speech_tokens(np.arange(start, start + 100))
    return context


def test_speech_tokens_grow_in_chunks() -> None:
    context = spoken()
    assert context.speech_tokens.tolist() == list(range(300))
    assert context.block_counter == 3
    assert not context.is_done
    context.status = GenerationStatus.END_OF_SEQUENCE
    assert not context.is_done  # of the tokens, and not of the audio
    context.audio_generation_status = GenerationStatus.END_OF_SEQUENCE
    assert context.is_done


@pytest.mark.parametrize(
    ("decoded", "size", "buffer", "wanted", "before"),
    [
        (0, None, None, range(300), 0),
        (0, 50, 20, range(50), 0),
        (50, 50, 20, range(30, 100), 20),
        (10, 50, 20, range(60), 10),
        (290, 50, 0, range(290, 300), 0),
        (300, 50, 20, range(280, 300), 20),
    ],
)
def test_chunks_of_speech(
    decoded: int, size: int | None, buffer: int | None, wanted: range, before: int
) -> None:
    context = spoken()
    context.decoded_index = decoded
    tokens, count = context.next_speech_tokens(size, buffer)
    assert (tokens.tolist(), count) == (list(wanted), before)
    assert context.decoded_index == decoded


def test_chunks_with_their_buffers_are_all_tokens() -> None:
    context, found = spoken(), list[int]()
    while context.decoded_index < 300:
        tokens, before = context.next_speech_tokens(70, 20)
        found += tokens[before:].tolist()
        context.decoded_index += len(tokens) - before
    assert found == list(range(300))


def test_speech_that_is_refused() -> None:
    context = spoken()
    with pytest.raises(InputTypeError):
        context.update_speech_tokens(np.zeros(3))  # type: ignore[arg-type]
    for arguments in ((0,), (-1,), (1, -1)):
        with pytest.raises(InputError):
            context.next_speech_tokens(*arguments)
    context.decoded_index = 301
    with pytest.raises(InputError, match="decoded_index"):
        context.next_speech_tokens()


# ---------------------------------------------------------------- messages
def started() -> TextContext:
    """A context in the middle of its generation."""
    context = TextContext(
        max_length=300,
        tokens=np.arange(130),
        request_id=RequestID("a"),
        eos_token_ids={300, 7, 9},
        eos_sequences=[[1, 2]],
        log_probabilities=2,
        target_endpoint="tcp://127.0.0.1:5555",
    )
    for token in (3, 4):
        context.update(token, LogProbabilities([-1.0], [{token: -1.0}]))
    return context


CONTEXTS: list[tuple[Any, Callable[[], Any]]] = [
    (TextContext, started),
    (TextAndVisionContext, seen),
    (TTSContext, spoken),
    (
        TextGenerationInputs[TextAndVisionContext],
        lambda: TextGenerationInputs([{RequestID("a"): seen()}], 2),
    ),
    (AudioGenerationInputs[TTSContext], lambda: AudioGenerationInputs({RequestID("a"): spoken()})),
]


@pytest.mark.parametrize("through_shared_memory", [False, True])
def test_contexts_go_through_a_spawned_process(through_shared_memory: bool) -> None:
    spawn = multiprocessing.get_context("spawn")
    here, there = spawn.Pipe()
    process = spawn.Process(target=other_process.echo, args=(there,))
    process.start()
    for kind, make in CONTEXTS:
        encode = msgpack_numpy_encoder(use_shared_memory=through_shared_memory)
        decode = msgpack_numpy_decoder(kind)
        value = make()
        here.send((decode, encode, encode(value)))
        assert here.poll(60)
        assert msgpack_eq(decode(here.recv_bytes()), value)
    here.send(None)
    process.join(60)
    assert process.exitcode == 0


def test_what_comes_back_goes_on() -> None:
    back = msgpack_numpy_decoder(TextContext)(msgpack_numpy_encoder()(started()))
    back.update(5)
    output = back.to_generation_output()
    assert output.tokens == [3, 4, 5]
    assert [one.token_log_probabilities for one in output.log_probabilities or []] == [[-1.0]] * 2
    speech = msgpack_numpy_decoder(TTSContext, copy=False)(msgpack_numpy_encoder()(spoken()))
    speech.update_speech_tokens(np.array([5]))
    assert speech.speech_tokens.tolist() == [*range(300), 5]
    speech.update(5)
    assert speech.all_tokens.tolist() == [1, 2, 5]


def test_another_kind_of_context_is_refused() -> None:
    message = msgpack_numpy_encoder()(started())
    with pytest.raises(DocumentError):
        msgpack_numpy_decoder(TTSContext)(message)


def test_a_text_context_serves_embeddings_too() -> None:
    assert isinstance(started(), EmbeddingsContext)
