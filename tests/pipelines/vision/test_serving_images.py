"""Requests with images in a scheduler: prompts in parts, shared prefixes, and preemption."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest

from maxlab.pipelines.lib.scheduler import TextGenerationScheduler
from tests.pipelines.serving.scheduling import limits, steps_of
from tests.pipelines.vision.asking import context
from tests.pipelines.vision.conftest import Pipe, made
from tests.pipelines.vision.folders import SEES, picture
from tests.pipelines.vision.test_qwen2_5_vl import PROMPTS

LONG = "The quick brown fox jumps over the lazy dog, and doesn't stop. " * 8
"""More than a page of tokens."""


def contexts(pipeline: Pipe, prompts: Any = PROMPTS) -> list[Any]:
    return [context(pipeline.tokenizer, prompt, *images) for prompt, images in prompts]


@pytest.fixture(scope="module")
def alone(pipeline: Pipe) -> list[list[int]]:
    """The answers to the prompts, each computed alone."""
    return [answered(pipeline, [one])[0] for one in contexts(pipeline)]


def answered(pipeline: Pipe, requests: list[Any], **given: Any) -> list[list[int]]:
    scheduler = TextGenerationScheduler(pipeline, limits(pipeline, **given))
    return [one.tokens for one in scheduler.answer(requests)]


def plain(colour: str, width: int, height: int) -> bytes:
    """The bytes of a PNG file of one colour."""
    from PIL import Image

    out = io.BytesIO()
    Image.new("RGB", (width, height), colour).save(out, "PNG")
    return out.getvalue()


@pytest.mark.parametrize("budget", [1, 7, 20])
@pytest.mark.parametrize("mixes", [False, True])
def test_parts_of_prompts_never_cut_an_image(
    pipeline: Pipe, alone: list[list[int]], budget: int, mixes: bool
) -> None:
    scheduler = TextGenerationScheduler(
        pipeline, limits(pipeline, prompt_tokens=budget, mixes=mixes)
    )
    requests = contexts(pipeline)
    for one in requests:
        scheduler.submit(one)
    spans = {
        str(one.request_id): [(part.start_idx, part.end_idx) for part in one.images]
        for one in requests
    }
    largest = 0
    for step in steps_of(scheduler):
        assert not step.errors
        for row in step.record.requests:
            end = row.start + row.computed
            assert not any(a < end < b or a < row.start < b for a, b in spans[row.request])
            largest = max(largest, row.computed)
    assert [list(one.generated_tokens) for one in requests] == alone
    assert 16 <= largest <= max(budget, 16)  # the largest image has 16 tokens


def found(pipeline: Pipe, prompt: str, *images: bytes) -> tuple[int, list[int]]:
    """The tokens of a prompt that were found in shared pages, and the answer."""
    request = context(pipeline.tokenizer, prompt, *images, max_new_tokens=12)
    scheduler = TextGenerationScheduler(pipeline, limits(pipeline))
    scheduler.submit(request)
    rows = [row for step in steps_of(scheduler) for row in step.record.requests]
    return sum(row.cached for row in rows), list(request.generated_tokens)


def test_the_same_text_with_another_image_is_another_prefix(pipeline: Pipe) -> None:
    prompt = f"{SEES}{LONG}"
    (manager,) = pipeline.kv_managers
    manager.reset_prefix_cache()
    cold, first = found(pipeline, prompt, picture(24, 40))
    other, second = found(pipeline, prompt, picture(24, 40, 1))
    again, third = found(pipeline, prompt, picture(24, 40))
    assert (cold, other) == (0, 0)
    assert again == manager.page_size
    assert first == third != second


def test_equal_patches_in_another_grid_are_another_image(pipeline: Pipe) -> None:
    prompt = f"{SEES}{LONG}"
    wide, high = (context(pipeline.tokenizer, prompt, plain("red", *size))
                  for size in ((64, 16), (16, 64)))  # fmt: skip
    assert wide.prompt_tokens.tolist() == high.prompt_tokens.tolist()
    assert (wide.images[0].pixel_values == high.images[0].pixel_values).all()
    cold = [found(pipeline, prompt, plain("red", *size)) for size in ((64, 16), (16, 64))]
    assert [count for count, _ in cold] == [0, 0]
    assert found(pipeline, prompt, plain("red", 16, 64))[0] > 0


def test_no_prefix_ends_inside_of_an_image(pipeline: Pipe) -> None:
    """The page ends in the image, so nothing of it is shared; behind the image it is."""
    (manager,) = pipeline.kv_managers
    prompt = " 1 2" * 40 + SEES + LONG
    request = context(pipeline.tokenizer, prompt, picture(24, 40))
    image = request.images[0]
    assert image.start_idx < manager.page_size < image.end_idx
    first = found(pipeline, prompt, picture(24, 40))
    second = found(pipeline, prompt, picture(24, 40))
    assert (first[0], second[0]) == (0, 2 * manager.page_size)
    assert first[1] == second[1]
    short = prompt[: prompt.index(SEES)] + SEES + "b"
    assert found(pipeline, short, picture(24, 40))[0] == 0


def test_a_request_that_gives_its_pages_back_sees_its_images_again(
    tiny: tuple[Path, Any], alone: list[list[int]]
) -> None:
    small = made(tiny[0], 3, enable_echo=True, max_length=256)
    (manager,) = small.kv_managers
    assert manager.total_num_pages == 3
    prompts = [(f"{SEES}{LONG[:250]}", (picture(24, 40, seed),)) for seed in range(2)]
    wide = [answered(small, [one])[0] for one in contexts(small, prompts)]
    scheduler = TextGenerationScheduler(small, limits(small))
    requests = contexts(small, prompts)
    assert [one.tokens for one in scheduler.answer(requests)] == wide
    assert scheduler.preemptions > 0


def test_an_image_beside_next_tokens_of_others_does_not_wait(pipeline: Pipe) -> None:
    first = context(pipeline.tokenizer, "The fox", max_new_tokens=60)
    second = context(pipeline.tokenizer, SEES, picture(24, 40), max_new_tokens=4)
    scheduler = TextGenerationScheduler(pipeline, limits(pipeline, prompt_tokens=9, mixes=True))
    scheduler.submit(first)
    scheduler.step()
    scheduler.submit(second)
    for _ in range(12):
        scheduler.step()
    assert (first.is_done, second.is_done) == (False, True)
    for _ in steps_of(scheduler):
        pass
