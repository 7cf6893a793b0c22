"""What notebooks show of requests, parameters, contexts, batches and results."""

from __future__ import annotations

import dataclasses
import re
from html.parser import HTMLParser
from typing import Any

import msgspec
import numpy as np
import pytest

from maxlab import interfaces
from maxlab.errors import InputError, InputTypeError
from maxlab.interfaces import (
    AudioGenerationOutput,
    BatchType,
    GenerationStatus,
    ImageMetadata,
    LogProbabilities,
    PipelineInputs,
    RequestID,
    SamplingParams,
    SchedulerResult,
    TextGenerationInputs,
    TextGenerationOutput,
    TextGenerationRequest,
    msgpack_eq,
    msgpack_numpy_decoder,
    msgpack_numpy_encoder,
)
from maxlab.interfaces.showing import Shown
from maxlab.lab.requests import facts
from maxlab.pipelines import core
from maxlab.pipelines.core import TextAndVisionContext, TextContext, TTSContext
from maxlab.pipelines.core.showing import Kind, Work, runs_of
from tests.interfaces.samples import SAMPLES

EVIL = "<img src=x onerror=alert(1)>\"'&\x1b[31m\ud800"


class Page(HTMLParser):
    """The tags of a page, which must be nested as they are closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.titles: list[str] = []
        self.tags: list[str] = []
        self.words = ""
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag not in ("br", "input"):
            self.open.append(tag)
        self.titles += [value or "" for name, value in attrs if name == "title"]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open[-1:] != ["style"]:
            self.words += data


def bundle(obj: Any, **options: Any) -> dict[str, str]:
    """The MIME bundle of ``obj``."""
    found: dict[str, str] = obj._repr_mimebundle_(**options)
    return found


def page(obj: Any) -> Page:
    """The HTML of ``obj``, read."""
    return Page(bundle(obj)["text/html"])


def context_of(length: int = 4, **options: Any) -> TextContext:
    """A context of ``length`` tokens with room for many."""
    return TextContext(
        **{
            "max_length": 50_000,
            "tokens": np.arange(length),
            "request_id": RequestID("a"),
            "eos_token_ids": {0},
            **options,
        }
    )


# ---------------------------------------------------------------- tables
SHOWN = [one for _, one in SAMPLES.values() if isinstance(one, Shown)]
AS_ROWS = (TextGenerationOutput, LogProbabilities, SchedulerResult, PipelineInputs)
"""Classes of which a row is shown for each token or context, and no field."""


def names_of(sample: Any) -> list[str]:
    """The public fields of a message."""
    every = (
        sample.__struct_fields__
        if isinstance(sample, msgspec.Struct)
        else [one.name for one in dataclasses.fields(sample)]
    )
    return [name for name in every if not name.startswith("_")]


@pytest.mark.parametrize("sample", SHOWN, ids=lambda sample: type(sample).__name__)
def test_every_message_is_shown(sample: Any) -> None:
    found = bundle(sample)
    assert found["text/plain"].startswith(type(sample).__name__)
    read = Page(found["text/html"])
    assert type(sample).__name__ in read.words
    if not isinstance(sample, AS_ROWS):
        assert [name for name in names_of(sample) if name not in read.words] == []
        assert [name for name in names_of(sample) if name not in found["text/plain"]] == []


def test_parameters_tell_what_was_set() -> None:
    told = {fact.name: fact for fact in facts.facts_of(SamplingParams(top_p=0.5, seed=1))}
    assert (told["top_p"].is_default, told["top_k"].is_default) == (False, True)
    assert told["top_p"].default == "1"
    assert (told["seed"].default, told["seed"].is_default) == ("random", None)
    assert {name for name, fact in told.items() if not fact.meaning} == set()
    assert {name for name, fact in told.items() if not fact.allowed} == set()


def test_a_context_tells_whether_its_parameters_are_the_default_ones() -> None:
    for params, is_default in ((SamplingParams(seed=9), True), (SamplingParams(top_k=3), False)):
        context = context_of(sampling_params=params)
        told = {fact.name: fact for fact in facts.facts_of(context)}
        assert told["sampling_params"].is_default is is_default
        assert told["request_id"].is_default is None


def test_ranges_are_those_that_are_checked() -> None:
    ranges = {fact.name: fact.allowed for fact in facts.facts_of(SamplingParams())}
    for name in ("top_k", "top_p", "min_p"):
        low, _, high = ranges[name].removeprefix("int, ").partition(" … ")
        for value in (float(low), float(high)):
            options: dict[str, Any] = {name: int(value) if name == "top_k" else value}
            SamplingParams(**options)
        beyond: dict[str, Any] = {name: int(high) + 1}
        with pytest.raises(InputError):
            SamplingParams(**beyond)


def test_a_request_shows_its_conversation_and_no_bytes() -> None:
    request = TextGenerationRequest(
        RequestID("a"),
        "tiny",
        messages=[{"role": "user", "content": "why?"}, {"role": "assistant", "content": "so"}],
        images=[b"\xff" * 100_000],
    )
    found = page(request)
    assert "user: why?assistant: so" in found.words
    assert "100000 bytes" in found.words
    assert len(bundle(request)["text/html"]) < 30_000


@pytest.mark.parametrize("size", [1, 10, 100_000])
def test_long_values_are_cut(size: int) -> None:
    request = TextGenerationRequest(RequestID("a"), "x" * size, prompt=list(range(size)))
    assert len(bundle(request)["text/html"]) < 30_000
    assert len(bundle(request)["text/plain"]) < 6_000


def test_types_that_are_not_asked_for_are_not_made() -> None:
    assert set(bundle(SamplingParams(), include={"text/plain"})) == {"text/plain"}
    assert set(bundle(context_of(), exclude={"text/plain"})) == {"text/html"}


@pytest.mark.parametrize(
    "made",
    [
        lambda: TextGenerationRequest(RequestID(EVIL), EVIL, prompt=EVIL),
        lambda: TextGenerationRequest(
            RequestID("a"), "m", messages=[{"role": "user", "content": EVIL + "\n" + EVIL}]
        ),
        lambda: SamplingParams(stop=[EVIL]),
        lambda: context_of(model_name=EVIL).show([EVIL] * 9),
        lambda: TextGenerationInputs([{RequestID(EVIL): context_of()}], num_steps=1),
        lambda: TextGenerationOutput(RequestID(EVIL), [1], GenerationStatus.ACTIVE),
    ],
)
def test_text_of_users_stays_text(made: Any) -> None:
    found = bundle(made())
    read = Page(found["text/html"])
    assert {"img", "script"}.isdisjoint(read.tags)
    assert "\x1b" not in found["text/html"] + found["text/plain"]
    found["text/html"].encode("utf-8")


# ---------------------------------------------------------------- contexts
def states(context: TextContext) -> list[tuple[int, int, str]]:
    """The runs of a context with their states."""
    return [(run.start, run.stop, run.state) for run in runs_of(context)]


def test_a_generation_goes_through_its_states() -> None:
    context = context_of()
    room = (4, 128, "reserved")
    assert states(context) == [(0, 4, "prompt, computed next"), room]
    context.set_token_indices(active_idx=3)
    assert states(context)[:2] == [(0, 3, "prompt, computed next"), (3, 4, "prompt, waits")]
    context.update(9)  # dropped: a part of the prompt was not computed
    assert states(context)[:2] == [(0, 3, "prompt, computed"), (3, 4, "prompt, computed next")]
    context.update(7)
    context.update(8)
    assert states(context)[1:3] == [
        (4, 5, "generated, not returned, computed"),
        (5, 6, "generated, not returned, computed next"),
    ]
    context.to_generation_output()
    context.update(0)
    assert states(context) == [
        (0, 4, "prompt, computed"),
        (4, 6, "generated, returned, computed"),
        (6, 7, "generated, ends the answer, computed next"),
        (7, 128, "reserved"),
    ]


def test_after_a_reset_all_is_computed_again() -> None:
    context = context_of()
    context.update(7)
    context.to_generation_output()
    context.reset()
    assert [run.work for run in runs_of(context)[:-1]] == [Work.NEXT, Work.NEXT]


def test_tokens_tell_place_id_text_and_state() -> None:
    found = page(context_of(3).show(["zero", "one\n", ""]))
    assert found.titles[:3] == [
        "place 0 · token 0 · 'zero' · prompt, computed next",
        "place 1 · token 1 · 'one\\n' · prompt, computed next",
        "place 2 · token 2 · '' · prompt, computed next",
    ]
    assert re.search("zero.*one↵.*∅", found.words)


def test_states_can_be_told_without_colour() -> None:
    context = context_of()
    context.update(7)
    context.to_generation_output()
    context.update(8)
    html = bundle(context)["text/html"]
    styles = set(re.findall(r'mx-rq-token " ?style="background-color:[^;]*;([^"]*)"', html))
    styles |= set(re.findall(r'mx-rq-token" style="background-color:[^;]*;([^"]*)"', html))
    assert len(styles) >= len(runs_of(context)) - 1


@pytest.mark.parametrize("active", [4096, 4097])
def test_ten_thousand_tokens_are_folded(active: int) -> None:
    context = context_of(10_000)
    context.set_token_indices(active_idx=active)
    html = bundle(context)["text/html"]
    assert len(html) < 150_000
    found = Page(html)
    # Both sides of the place where the next step ends are seen.
    for place in (0, active - 1, active, 9_999):
        assert any(title.startswith(f"place {place} ") for title in found.titles)
    assert "9871: " in found.words or "folded" in found.words
    part = page(context.show(start=5_000, stop=5_010))
    assert [t.partition(" ·")[0] for t in part.titles] == [f"place {n}" for n in range(5000, 5010)]


def test_many_runs_stay_within_the_bounds() -> None:
    images = [
        ImageMetadata(start_idx=n * 100 + 40, end_idx=n * 100 + 50, pixel_values=np.zeros(1))
        for n in range(400)
    ]
    tokens = np.full(40_000, 9)
    context = TextAndVisionContext(
        max_length=40_001, tokens=tokens, vision_token_ids=[9], images=images
    )
    assert len(bundle(context)["text/html"]) < 1_000_000


def test_an_image_is_one_mark() -> None:
    image = ImageMetadata(start_idx=1, end_idx=4, pixel_values=np.zeros((2, 2)))
    context = TextAndVisionContext(
        max_length=99, tokens=np.array([5, 98, 98, 98, 6]), vision_token_ids=[98], images=[image]
    )
    assert [run.kind for run in runs_of(context)][:3] == [Kind.PROMPT, Kind.IMAGE, Kind.PROMPT]
    assert "image: 3 tokens" in page(context).words


def test_speech_has_tokens_of_its_own() -> None:
    context = TTSContext(max_length=9, tokens=np.array([1]), request_id=RequestID("t"))
    context.update_speech_tokens(np.array([4, 5, 6]))
    context.decoded_index = 1
    assert "speech, not decoded" in bundle(context)["text/plain"]
    found = page(context)
    assert "speech tokens" in found.words
    assert "place 1 · token 5 · speech, not decoded" in found.titles


def test_log_probabilities_are_drawn_until_told_and_from_outputs_after() -> None:
    context = context_of()
    told = LogProbabilities([-0.5], [{7: -0.5, 3: -1.5}])
    context.update(7, told)
    title = "log probability -0.5 (60.7%) · most probable: 7 60.7%, 3 22.3%"
    assert any(title in one for one in page(context).titles)
    output = context.to_generation_output()
    assert not any("log probability" in one for one in page(context).titles)
    found = page(context.show(outputs=[output]))
    assert sum(title in one for one in found.titles) == 1
    assert "place 4 " in next(one for one in found.titles if title in one)
    with pytest.raises(InputError, match="ML187"):
        context_of().show(outputs=[output])


def test_a_prompt_may_have_log_probabilities_too() -> None:
    context = context_of(3)
    context.update(7, LogProbabilities([-1.0, -2.0, -3.0], [{}, {}, {}]))
    found = [one for one in page(context).titles if "log probability" in one]
    assert [one.partition(" ·")[0] for one in found] == ["place 1", "place 2", "place 3"]


class Sync:
    """A tokenizer as transformers has them."""

    def decode(self, tokens: list[int]) -> str:
        return "".join(f"<{token}>" for token in tokens)


class Waiting:
    """A tokenizer as maxlab has them."""

    async def decode(self, encoded: list[int], **kwargs: Any) -> str:
        return "".join(f"<{token}>" for token in encoded)


@pytest.mark.parametrize(
    "tokenizer", [Sync(), Waiting(), {0: "<0>", 1: "<1>"}, ["<0>", "<1>"], lambda t: f"<{t}>"]
)
def test_texts_come_from_any_tokenizer(tokenizer: Any) -> None:
    assert "<0>" in page(context_of(2).show(tokenizer)).words


def test_texts_come_while_a_loop_runs() -> None:
    import asyncio

    async def inside() -> str:
        return page(context_of(2).show(Waiting())).words

    assert "<1>" in asyncio.run(inside())


def test_a_tokenizer_that_fails_leaves_the_numbers() -> None:
    def fails(token: int) -> str:
        raise KeyError(token)

    assert "place 1 · token 1 · prompt, computed next" in page(context_of(2).show(fails)).titles


@pytest.mark.parametrize(
    ("options", "kind"),
    [
        ({"tokenizer": 3}, InputTypeError),
        ({"tokenizer": "abc"}, InputTypeError),
        ({"start": -1}, InputError),
        ({"stop": 1.5}, InputTypeError),
        ({"outputs": [3]}, InputTypeError),
    ],
    ids=str,
)
def test_show_refuses(options: dict[str, Any], kind: type) -> None:
    with pytest.raises(kind):
        context_of().show(**options)


def test_nothing_in_the_part_that_is_asked_for() -> None:
    assert page(context_of().show(start=500)).titles == []


def test_a_message_is_what_it_was() -> None:
    encode = msgpack_numpy_encoder()
    for kind in (TextContext, TTSContext):
        context = kind(max_length=9, tokens=np.array([1, 2]))
        bundle(context)
        assert msgpack_eq(msgpack_numpy_decoder(kind)(encode(context)), context)


# ---------------------------------------------------------------- batches and outputs
def test_a_batch_has_a_row_for_each_context() -> None:
    second = context_of(6, request_id=RequestID("b"))
    second.update(3)
    inputs = TextGenerationInputs(
        [{RequestID("a"): context_of()}, {RequestID("b"): second}],
        num_steps=2,
        batch_type=BatchType.CE,
    )
    assert bundle(inputs)["text/plain"].splitlines() == [
        "TextGenerationInputs: CE, 2 requests on 2 devices, 2 steps",
        "  request  device  tokens  computed  next  generated  status",
        "  a             0       4         0     4          0  active",
        "  b             1       7         6     1          1  active",
    ]
    assert "6 prompt, computed, 1 generated, not returned, computed next, 121 reserved" in (
        page(inputs).titles
    )


def test_large_batches_are_counted() -> None:
    inputs = TextGenerationInputs(
        [{RequestID(f"r{n}"): context_of(1) for n in range(300)}], num_steps=1
    )
    assert "and 100 more requests" in page(inputs).words
    assert bundle(inputs)["text/plain"].endswith("and 100 more")


def test_empty_batches_and_unknown_contexts() -> None:
    assert "no request" in page(TextGenerationInputs([], num_steps=1)).words
    unknown: Any = object()
    odd: Any = TextGenerationInputs([{RequestID("a"): unknown}], num_steps=1)
    assert "–" in bundle(odd)["text/plain"]


def test_results_show_what_they_carry() -> None:
    output = TextGenerationOutput(
        RequestID("a"), [5, 6], GenerationStatus.ACTIVE,
        [LogProbabilities([-0.5], [{5: -0.5}]), LogProbabilities([-1.0], [{6: -1.0}])],
    )  # fmt: skip
    found = page(SchedulerResult.create(output))
    assert "TextGenerationOutput 'a': 2 tokens, active" in found.words
    assert "5: 60.7%" in found.words
    assert "cancelled" in page(SchedulerResult.cancelled()).words
    audio = AudioGenerationOutput(GenerationStatus.ACTIVE, 1, np.zeros(80, np.float32))
    assert "float32[80]" in page(SchedulerResult.create(audio)).words


def test_every_class_of_data_is_shown() -> None:
    """No class with fields is left out by accident: what is not shown is listed here."""
    kinds = [getattr(module, name) for module in (interfaces, core) for name in module.__all__]
    data = [
        kind
        for kind in kinds
        if isinstance(kind, type)
        and (issubclass(kind, msgspec.Struct) or dataclasses.is_dataclass(kind))
    ]
    left = {kind.__name__ for kind in data if not issubclass(kind, Shown)}
    assert left == {"BatchProcessorInputs", "ImageMetadata", "ProcessorInputs", "RequestID"}
