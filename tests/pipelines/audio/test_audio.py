"""Audio of texts: pieces that make the sound of the whole, whatever their sizes."""

from __future__ import annotations

import asyncio
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from maxlab.driver import Tensor
from maxlab.errors import (
    ExecutionError,
    InputError,
    InsufficientBlocksError,
    UnsupportedError,
    WeightError,
)
from maxlab.interfaces import AudioGenerationInputs, GenerationStatus, RequestID
from maxlab.pipelines.lib.audio_generator_pipeline import AudioGeneratorPipeline as Audio
from maxlab.pipelines.lib.audio_generator_pipeline import joined
from maxlab.pipelines.lib.config import PipelineConfig, PrependPromptSpeechTokens
from maxlab.pipelines.lib.interfaces import get_paged_manager
from maxlab.pipelines.lib.registry import PipelineRegistry
from maxlab.pipelines.lib.speech_token_pipeline import SpeechTokenGenerationPipeline as Speech
from tests.pipelines.audio.running import (
    SIZE,
    TEXTS,
    audio_config,
    audio_pipeline,
    context,
    pieces_of,
    request,
    settings,
    sounds,
    tokens_of,
)
from tests.pipelines.tiny.speaking import Speaking

ONCE, NEVER, ROLLING = (
    PrependPromptSpeechTokens.ONCE,
    PrependPromptSpeechTokens.NEVER,
    PrependPromptSpeechTokens.ROLLING,
)


@pytest.fixture
def set_to(audio: Audio, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Changes settings of the shared pipeline for a test."""

    def change(**given: Any) -> None:
        for name, value in given.items():
            monkeypatch.setattr(audio.pipeline_config, name, value)

    return change


@pytest.fixture(scope="module")
def alone(speech: Speech) -> list[list[int]]:
    """Fourteen tokens of each text, each computed alone by a pipeline of its own."""
    return [tokens_of(speech, text, 14) for text in TEXTS]


def rows_seen(audio: Audio) -> list[list[list[int]]]:
    """The rows of each call of the decoder since it was asked last."""
    seen: list[list[list[int]]] = audio.pipeline_model.audio_decoder.seen
    found = list(seen)
    seen.clear()
    return found


@pytest.mark.parametrize("sizes", [[1], [3, 5], [4, 1, 2], [50], None])
def test_pieces_make_the_sound_of_the_whole(
    audio: Audio, alone: list[list[int]], folder: Path, set_to: Any, sizes: list[int] | None
) -> None:
    set_to(chunk_size=sizes)
    counts = [14, 9, 1]
    contexts = [context(audio, text, count) for text, count in zip(TEXTS, counts, strict=True)]
    every = pieces_of(audio, *contexts)
    for pieces, tokens, count, one in zip(every, alone, counts, contexts, strict=True):
        whole = joined(pieces)
        np.testing.assert_allclose(whole.audio_data, sounds(folder, tokens[:count]), atol=2e-6)
        assert whole.final_status is GenerationStatus.MAXIMUM_LENGTH
        assert whole.steps_executed == whole.metadata.tokens_generated == count
        assert whole.metadata.duration == count * SIZE / 800
        assert one.speech_tokens.tolist() == tokens[:count]
        told = [piece for piece in pieces if len(piece.audio_data)]
        assert [piece.metadata.chunk_id for piece in told] == list(range(len(told)))
        assert [piece.metadata.final_chunk for piece in told][-1] is True
        lengths = [len(piece.audio_data) // SIZE for piece in told]
        given = sizes or [count]
        expected = [given[min(n, len(given) - 1)] for n in range(count)]
        places = np.minimum(np.cumsum([0, *expected]), count)
        assert lengths == [int(n) for n in np.diff(places) if n]


def test_without_the_token_before_it_a_piece_sounds_different(
    audio: Audio, alone: list[list[int]], folder: Path, set_to: Any
) -> None:
    set_to(buffer=0, chunk_size=[5])
    (pieces,) = pieces_of(audio, context(audio, TEXTS[0], 10))
    tokens = alone[0][:10]
    separate = [sounds(folder, tokens[:5]), sounds(folder, tokens[5:])]
    np.testing.assert_allclose(joined(pieces).audio_data, np.concatenate(separate), atol=2e-6)
    assert np.abs(joined(pieces).audio_data - sounds(folder, tokens)).max() > 0.01
    assert pieces[-1].buffer_speech_tokens is None


def test_a_request_that_is_not_streamed_has_one_piece(
    audio: Audio, alone: list[list[int]], folder: Path
) -> None:
    whole, parts = (context(audio, TEXTS[0], 14, streaming=one) for one in (False, True))
    pieces, several = pieces_of(audio, whole, parts)
    assert [len(piece.audio_data) for piece in pieces] == [0, 0, 0, 14 * SIZE]
    assert [piece.is_done for piece in pieces] == [False, False, False, True]
    assert [len(piece.audio_data) // SIZE for piece in several] == [3, 5, 5, 1]
    assert [piece.steps_executed for piece in pieces] == [3, 5, 5, 1]
    np.testing.assert_array_equal(pieces[-1].audio_data, joined(several).audio_data)
    np.testing.assert_allclose(pieces[-1].audio_data, sounds(folder, alone[0]), atol=2e-6)


def test_an_answer_that_ends_by_itself(audio: Audio, alone: list[list[int]], folder: Path) -> None:
    one = context(audio, TEXTS[0], 14)
    end = next(n for n in range(4, 14) if alone[0][n] not in alone[0][:n])
    one.eos_token_ids = {alone[0][end]}
    (pieces,) = pieces_of(audio, one)
    whole = joined(pieces)
    assert whole.final_status is GenerationStatus.END_OF_SEQUENCE
    np.testing.assert_allclose(whole.audio_data, sounds(folder, alone[0][:end]), atol=2e-6)
    assert whole.steps_executed == end + 1  # with the token that ends it
    assert whole.metadata.tokens_generated == end


def test_an_answer_that_ends_with_its_first_token(audio: Audio, alone: list[list[int]]) -> None:
    one = context(audio, TEXTS[0], 14)
    one.eos_token_ids = {alone[0][0]}
    ((piece,),) = pieces_of(audio, one)
    assert piece.is_done
    assert piece.audio_data.shape == (0,)
    assert piece.metadata.duration == 0.0


@pytest.mark.parametrize(
    ("mode", "rows"),
    [
        (NEVER, [[0, 1, 2], [0, 1, 2, 3, 4], [1, 2, 3, 4, 5, 6]]),
        (ONCE, [[-3, -2, -1, 0, 1, 2], [0, 1, 2, 3, 4], [1, 2, 3, 4, 5, 6]]),
        (ROLLING, [[-3, -2, -1, 0, 1, 2], [-1, 0, 1, 2, 3, 4], [1, 2, 3, 4, 5, 6]]),
    ],
)
def test_the_voice_goes_to_the_decoder(
    audio: Audio,
    alone: list[list[int]],
    folder: Path,
    set_to: Any,
    mode: PrependPromptSpeechTokens,
    rows: list[list[int]],
) -> None:
    """Numbers from 0 on are places of the answer's tokens; below it, of the voice prompt's."""
    set_to(prepend_prompt_speech_tokens=mode, buffer=4, chunk_size=[3, 2])
    voice = [301, 302, 303]
    rows_seen(audio)
    (pieces,) = pieces_of(audio, context(audio, TEXTS[0], 7, audio_prompt_tokens=voice))
    expected = [[voice[n] if n < 0 else alone[0][n] for n in row] for row in rows]
    assert [row for (row,) in rows_seen(audio)] == expected
    assert [len(piece.audio_data) // SIZE for piece in pieces] == [3, 2, 2]
    before = None if mode is NEVER else voice[-1]
    np.testing.assert_allclose(
        joined(pieces).audio_data, sounds(folder, alone[0][:7], before), atol=2e-6
    )
    assert pieces[-1].buffer_speech_tokens is not None
    assert pieces[-1].buffer_speech_tokens.tolist() == alone[0][3:7]


def test_a_request_goes_on_where_another_one_ended(
    audio: Audio, alone: list[list[int]], folder: Path
) -> None:
    first, second = TEXTS[0], TEXTS[2]
    (before,) = audio.generate(request(first, 5))
    assert before.buffer_speech_tokens is not None
    (after,) = audio.generate(request(second, 5, buffer_speech_tokens=before.buffer_speech_tokens))
    np.testing.assert_allclose(
        np.concatenate([before.audio_data, after.audio_data]),
        np.concatenate([sounds(folder, alone[0][:5]), sounds(folder, alone[2][:5], alone[0][4])]),
        atol=2e-6,
    )
    assert np.abs(after.audio_data[:SIZE] - sounds(folder, alone[2][:1])).max() > 0.01


# ---------------------------------------------------------------- whole texts
def test_generate_gives_whole_texts_in_their_order(
    audio: Audio, alone: list[list[int]], folder: Path
) -> None:
    requests = [request(text, count) for count in (3, 8) for text in TEXTS]
    found = audio.generate(requests)  # two more than a batch has
    for number, (one, output) in enumerate(zip(requests, found, strict=True)):
        tokens = alone[number % 3][: 3 if number < 3 else 8]
        np.testing.assert_allclose(output.audio_data, sounds(folder, tokens), atol=2e-6)
        assert output.metadata.request_id == one.request_id
        assert output.metadata.model_name == "tiny"


def test_the_draws_of_a_request_are_its_own(audio: Audio) -> None:
    drawn = {"temperature": 40.0, "seed": 5, "top_k": 20}
    alone = audio.generate(request(TEXTS[1], 9, **drawn))[0]
    beside = audio.generate([request(TEXTS[0], 11), request(TEXTS[1], 9, **drawn)])[1]
    np.testing.assert_array_equal(alone.audio_data, beside.audio_data)
    other = audio.generate(request(TEXTS[1], 9, **{**drawn, "seed": 6}))[0]
    assert not np.array_equal(alone.audio_data, other.audio_data)


def test_two_requests_of_one_id_are_refused(audio: Audio) -> None:
    one = request()
    with pytest.raises(ValueError, match=r"different ids expected ≠ 2 with 1 given \[ML982\]"):
        audio.generate([one, one])


def test_a_cancelled_call_gives_everything_back(audio: Audio) -> None:
    (manager,) = audio.kv_managers

    async def cancelled() -> None:
        work = asyncio.create_task(audio.generate_async([request(text, 60) for text in TEXTS]))
        for _ in range(10_000):  # the contexts are made in threads
            if manager.num_free_blocks < manager.total_num_pages:
                break
            await asyncio.sleep(0.001)
        assert manager.num_free_blocks < manager.total_num_pages
        assert not work.done()
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work

    asyncio.run(cancelled())  # `pages_come_back` looks at the pages
    assert audio.generate(request(count=3))[0].metadata.tokens_generated == 3


def test_a_request_that_was_cancelled_is_not_computed(audio: Audio) -> None:
    kept, gone = context(audio, TEXTS[0], 7), context(audio, TEXTS[1], 7)
    batch = {one.request_id: one for one in (kept, gone)}
    audio.execute(AudioGenerationInputs(batch))
    gone.audio_generation_status = GenerationStatus.CANCELLED
    made = len(gone.speech_tokens)
    outputs = audio.execute(AudioGenerationInputs(batch))
    assert outputs[gone.request_id].final_status is GenerationStatus.CANCELLED
    assert outputs[gone.request_id].is_done
    assert outputs[gone.request_id].steps_executed == 0
    assert len(outputs[gone.request_id].audio_data) == 0
    assert len(gone.speech_tokens) == made
    assert len(outputs[kept.request_id].audio_data) == 4 * SIZE
    for one in batch:
        audio.release(one)
    with pytest.raises(InputError, match="ML621"):
        audio.release(gone.request_id)


def test_too_few_pages_are_shared(registry: PipelineRegistry, tmp_path: Path, audio: Audio) -> None:
    from tests.pipelines.tiny.models import speaking_folder

    texts = [TEXTS[0], TEXTS[0][:-2], TEXTS[1]]
    expected = audio.generate([request(text, 90) for text in texts])
    few = audio_pipeline(registry, speaking_folder(tmp_path, pages=3))
    resets: list[RequestID] = []
    manager = get_paged_manager(few)
    assert manager is not None
    assert manager.total_num_pages == 3
    release = manager.release

    def counted(one: RequestID) -> None:
        resets.append(one)
        release(one)

    manager.release = counted
    found = few.generate([request(text, 90) for text in texts])
    assert len(resets) > 3  # one each, and those that gave way
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one.audio_data, other.audio_data)
        assert one.steps_executed == other.steps_executed == 90
    assert manager.num_free_blocks == 3


def test_a_text_that_was_spoken_before_is_not_computed_again(
    registry: PipelineRegistry, folder: Path, audio: Audio
) -> None:
    shared = audio_pipeline(registry, folder, enable_prefix_caching=True)
    lm: Any = shared.speech_lm_pipeline.speech_lm
    text = TEXTS[0]
    prompt = len(context(shared, text).prompt_tokens)
    assert prompt > 128
    rows = []
    for _ in range(2):
        before = lm.rows
        (output,) = shared.generate(request(text, 9))
        rows.append(lm.rows - before)
        np.testing.assert_array_equal(
            output.audio_data, audio.generate(request(text, 9))[0].audio_data
        )
    assert rows == [prompt + 8, prompt + 8 - 128]
    (manager,) = shared.kv_managers
    assert manager.num_free_blocks == manager.total_num_pages


# ---------------------------------------------------------------- errors
def test_a_decoder_that_fails_once_loses_nothing(
    audio: Audio, alone: list[list[int]], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = context(audio, TEXTS[0], 7)
    batch = AudioGenerationInputs({one.request_id: one})
    first = audio.execute(batch)[one.request_id]
    decoder = audio.pipeline_model.audio_decoder
    decode = decoder.decode
    monkeypatch.setattr(decoder, "decode", lambda tokens: [row[1:] for row in decode(tokens)])
    with pytest.raises(ExecutionError, match=r"Sines: float32\[80\] for 5 tokens expected .*ML178"):
        audio.execute(batch)
    monkeypatch.setattr(decoder, "decode", lambda tokens: [])
    with pytest.raises(ExecutionError, match="Sines: 1 arrays of samples expected ≠ 0 given"):
        audio.execute(batch)
    monkeypatch.undo()
    last = audio.execute(batch)[one.request_id]
    assert last.is_done
    assert last.steps_executed == 4
    np.testing.assert_allclose(
        joined([first, last]).audio_data, sounds(folder, alone[0][:7]), atol=2e-6
    )
    audio.release(one.request_id)


def test_tokens_that_fail_within_a_piece_leave_its_size(
    audio: Audio,
    alone: list[list[int]],
    folder: Path,
    set_to: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    set_to(max_num_steps=2)
    one = context(audio, TEXTS[0], 7)
    batch = AudioGenerationInputs({one.request_id: one})
    lm = audio.speech_lm_pipeline
    calls, make = [0], lm.next_speech_token

    def failing(*given: Any) -> Any:
        calls[0] += 1
        if calls[0] == 2:
            raise InsufficientBlocksError("ML620", "no page is free")
        return make(*given)

    monkeypatch.setattr(lm, "next_speech_token", failing)
    with pytest.raises(InsufficientBlocksError):
        audio.execute(batch)
    assert len(one.generated_tokens) == 2
    outputs = [audio.execute(batch)[one.request_id] for _ in range(2)]
    assert [len(output.audio_data) // SIZE for output in outputs] == [3, 4]
    assert [output.steps_executed for output in outputs] == [3, 4]
    whole = joined(outputs).audio_data
    np.testing.assert_allclose(whole, sounds(folder, alone[0][:7]), atol=2e-6)
    audio.release(one.request_id)


def test_a_model_that_leaves_a_request_out(audio: Audio, monkeypatch: pytest.MonkeyPatch) -> None:
    one = context(audio)
    monkeypatch.setattr(audio.pipeline_model, "next_chunk", lambda batch: {})
    with pytest.raises(ExecutionError, match="Speaking: outputs of 1 requests expected .*ML178"):
        audio.execute(AudioGenerationInputs({one.request_id: one}))
    assert audio.execute(AudioGenerationInputs({})) == {}


def test_configurations_that_are_refused(
    registry: PipelineRegistry, folder: Path, audio: Audio
) -> None:
    plain = PipelineConfig(**settings(folder))
    with pytest.raises(InputError, match="ML175"):
        registry.retrieve(plain, registry.retrieve_pipeline_task(plain))
    cases: list[tuple[dict[str, Any], type[Exception], str]] = [
        ({"audio_decoder": "cosines"}, InputError, r"\(sines\) ≠ 'cosines' given \[ML176\]"),
        ({"audio_decoder_config": {"loud": 2}}, InputError, "'loud'"),
        (
            {"audio_decoder_weights": str(folder / "none.safetensors")},
            WeightError,
            "none.safetensors",
        ),
        ({"prometheus_metrics_mode": "launch_server"}, UnsupportedError, "ML127"),
        ({"run_model_test_mode": True}, UnsupportedError, "ML127"),
        ({"enable_in_flight_batching": True}, UnsupportedError, "ML127"),
        ({"enable_echo": True}, UnsupportedError, "ML127"),
        ({"draft_model_path": str(folder)}, UnsupportedError, "draft model.*ML127"),
        ({"enable_lora": True}, NotImplementedError, "ML169"),
    ]
    for given, kind, words in cases:
        config = audio_config(folder, **given)
        with pytest.raises(kind, match=words):
            Audio(config, Speaking, 1, {}, audio.tokenizer)


def test_parameters_go_to_the_decoder(registry: PipelineRegistry, folder: Path) -> None:
    from maxlab.driver import CPU
    from maxlab.engine import InferenceSession
    from maxlab.pipelines.lib.audio_decoder import loaded_decoder
    from tests.pipelines.tiny.speaking import Sines

    config = audio_config(folder, audio_decoder_config={"gain": 0.25})
    decoder = loaded_decoder({"sines": Sines}, config, InferenceSession(), [CPU()])
    (found,) = decoder.decode([np.array([4, 9, 9])])
    np.testing.assert_allclose(found, sounds(folder, [4, 9, 9], gain=0.25), atol=2e-6)


def test_the_model_steps_as_its_model_of_speech_tokens(
    audio: Audio, alone: list[list[int]]
) -> None:
    one = context(audio, TEXTS[0], 7)
    model, lm = audio.pipeline_model, audio.speech_lm_pipeline
    inputs, *_ = lm.prepare_batch([{one.request_id: one}], 1)
    cache = inputs.kv_cache_inputs
    assert list(model.prepare_initial_token_inputs([one], cache))
    drawn = model.execute(inputs).logits.to_numpy().argmax(-1)
    assert drawn.tolist() == alone[0][:1]
    following = model.prepare_next_token_inputs(Tensor.from_numpy(drawn), inputs)
    assert next(iter(following)).to_numpy().tolist() == alone[0][:1]
    audio.release(one.request_id)


def test_a_factory_that_was_pickled_makes_the_pipeline(
    registry: PipelineRegistry, folder: Path, alone: list[list[int]]
) -> None:
    config = audio_config(folder)
    _, factory = registry.retrieve_factory(config, registry.retrieve_pipeline_task(config))
    made: Any = pickle.loads(pickle.dumps(factory))()
    assert isinstance(made, Audio)
    (output,) = made.generate(request(TEXTS[0], 4))
    np.testing.assert_allclose(output.audio_data, sounds(folder, alone[0][:4]), atol=2e-6)


def test_the_cache_of_the_pipeline_is_that_of_its_speech_tokens(audio: Audio) -> None:
    assert get_paged_manager(audio) is audio.speech_lm_pipeline.kv_managers[0]
    memory = audio.pipeline_config.model_config.kv_cache_config.available_cache_memory
    assert memory is not None
    assert memory > 0
