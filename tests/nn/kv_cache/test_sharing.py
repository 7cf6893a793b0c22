"""Prefixes that are shared: what is found, what is not, and what a sequence writes into."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from maxlab.errors import ExecutionError, InsufficientBlocksError
from maxlab.interfaces import ImageMetadata
from maxlab.nn.kv_cache.paged_cache import PagedCache
from maxlab.pipelines.core import TextAndVisionContext, TextContext
from tests.nn.kv_cache import caches
from tests.nn.kv_cache.caches import begin, cache, run


def pages(one: PagedCache, made: TextContext) -> list[int]:
    return one.blocks.of(made.request_id).pages


def check_contents(one: PagedCache, made: TextContext) -> None:
    """The computed tokens of a sequence are read as they were written."""
    np.testing.assert_array_equal(caches.read(one, made), caches.expected(made)[: made.start_idx])


def ended(one: PagedCache, tokens: list[int], **more: Any) -> None:
    """A request that has run once, and is over."""
    made = begin(one, tokens, **more)
    run(one, made, 0)
    one.blocks.release(made.request_id)


@pytest.mark.parametrize(
    ("second", "start"),
    [
        (list(range(10)), 8),  # 2.5 pages of the same
        (list(range(9)), 8),
        (list(range(8)), 4),  # the last token of a prompt is always computed
        (list(range(5)), 4),
        (list(range(4)), 0),
        ([0, 1, 2, 3, 9, 9, 9, 9, 9], 4),
        ([9, 1, 2, 3, 4, 5, 6, 7, 8], 0),  # an equal page behind another one is another page
        ([4, 5, 6, 7, 8], 0),
    ],
)
def test_full_pages_of_a_prefix_are_found(second: list[int], start: int) -> None:
    one = cache(8)
    ended(one, list(range(10)))
    made = begin(one, second)
    assert (made.start_idx, made.active_idx) == (start, len(second))
    assert one.blocks.metrics.cache_tokens == start
    assert one.blocks.metrics.input_tokens == 10 + len(second) - start
    run(one, made, 0)
    check_contents(one, made)


def test_a_chunk_of_a_prompt_finds_what_is_before_its_end() -> None:
    one = cache(8)
    ended(one, list(range(14)))
    made = caches.context(list(range(14)))
    made.set_token_indices(active_idx=6)
    one.blocks.claim(made.request_id)
    found = []
    for _ in range(2):
        assert one.blocks.reserve(made, 1)
        found.append(made.start_idx)
        run(one, made, 0)
    # The first chunk ends in the middle of a page, which the kept one then replaces.
    assert found == [4, 12]
    check_contents(one, made)


def test_nothing_is_shared_where_it_was_not_asked_for() -> None:
    one = cache(8, enable_prefix_caching=False)
    ended(one, list(range(10)))
    assert begin(one, list(range(10))).start_idx == 0
    assert one.blocks.pool.prefix_count == 0


def test_adapters_share_nothing() -> None:
    one = cache(8)
    ended(one, list(range(10)), model_name="one")
    assert begin(one, list(range(10)), model_name="two").start_idx == 0
    assert begin(one, list(range(10)), model_name="one").start_idx == 8


def seen(start: int, end: int, pixel: float, **more: Any) -> TextAndVisionContext:
    """A prompt of 13 tokens with an image."""
    tokens = np.full(13, 5)
    tokens[start:end] = 98
    pixels = np.full((2, 2), pixel, np.float32)
    image = ImageMetadata(start_idx=start, end_idx=end, pixel_values=pixels, **more)
    return TextAndVisionContext(max_length=64, tokens=tokens, vision_token_ids=[98], images=[image])


@pytest.mark.parametrize(
    ("first", "second", "start"),
    [
        (seen(5, 7, 1.0), seen(5, 7, 1.0), 12),
        (seen(5, 7, 1.0), seen(5, 7, 2.0), 4),  # the same text, another image
        (seen(5, 7, 1.0, image_hash=3), seen(5, 7, 1.0, image_hash=4), 4),
        (seen(5, 7, 1.0, image_hash=3), seen(5, 7, 2.0, image_hash=3), 12),
        (seen(2, 10, 1.0), seen(2, 10, 1.0), 12),
        (seen(2, 10, 1.0), seen(2, 10, 2.0), 0),
    ],
)
def test_images_keep_prefixes_apart(
    first: TextAndVisionContext, second: TextAndVisionContext, start: int
) -> None:
    one = cache(12)
    found = []
    for made in (first, second):
        # The table of cases is made once, and hypothesis and others may run it again.
        made.set_token_indices(start_idx=0)
        one.blocks.claim(made.request_id)
        assert one.blocks.reserve(made, 1)
        found.append(made.start_idx)
        made.set_token_indices(start_idx=12)
        one.blocks.commit(made)
    assert found == [0, start]


def test_a_prefix_never_ends_inside_of_an_image() -> None:
    one = cache(12)
    whole, cut = seen(6, 12, 1.0), seen(6, 12, 1.0)
    for made, computed in ((whole, 12), (cut, 0)):
        one.blocks.claim(made.request_id)
        if made is cut:
            # Of three pages the last one is not kept, so that the prefix would end at 8.
            one.blocks.pool.forget(pages(one, whole)[2])
            del one.blocks.of(whole.request_id).hashes[2]
        assert one.blocks.reserve(made, 1)
        if computed:
            made.set_token_indices(start_idx=computed)
            one.blocks.commit(made)
    assert cut.start_idx == 4


def test_sequences_at_once_come_to_share_the_page_kept_first() -> None:
    one = cache(8)
    both = [begin(one, list(range(9))) for _ in range(2)]
    assert not set(pages(one, both[0])) & set(pages(one, both[1]))
    for made in both:
        caches.write(one, made)
        made.update(3)
    for made in both:
        one.blocks.commit(made)
    first, second = (pages(one, made) for made in both)
    assert first[:2] == second[:2]
    assert first[2] != second[2]
    assert one.blocks.metrics.deduplicated == 2
    assert one.blocks.metrics.input_tokens == 18
    assert one.blocks.pool.free_count == 4
    for made in both:
        check_contents(one, made)


def test_a_sequence_that_goes_back_into_a_shared_page_writes_into_a_copy() -> None:
    one = cache(8)
    first, second = (begin(one, [1, 2, 3]) for _ in range(2))
    for made in (first, second):
        for _ in range(3):
            run(one, made, 7)
    shared = pages(one, first)[0]
    assert pages(one, second)[0] == shared
    # Two tokens are refused, and another one comes.
    second.bump_token_indices(start_idx=-3, active_idx=-3, end_idx=-3)
    run(one, second, 8)
    run(one, second, 8)
    assert pages(one, second)[0] != shared
    for made in (first, second):
        check_contents(one, made)


def test_a_sequence_that_goes_back_alone_takes_its_page_out_of_the_prefixes() -> None:
    one = cache(8)
    made = begin(one, [1, 2, 3])
    for _ in range(3):
        run(one, made, 7)
    assert one.blocks.pool.prefix_count == 1
    made.bump_token_indices(start_idx=-3, active_idx=-3, end_idx=-3)
    assert one.blocks.reserve(made, 1)
    assert one.blocks.pool.prefix_count == 0
    for _ in range(3):
        run(one, made, 8)
    check_contents(one, made)


def test_a_reset_sequence_takes_its_pages_again() -> None:
    one = cache(8)
    made = begin(one, list(range(10)))
    run(one, made, 3)
    before = list(pages(one, made))
    made.reset()
    assert one.blocks.reserve(made, 1)
    assert made.start_idx == 8
    assert pages(one, made)[:2] == before[:2]


def test_the_tail_of_the_oldest_prefix_is_evicted_first() -> None:
    one = cache(6)
    ended(one, list(range(9)))  # 2 pages are kept
    ended(one, list(range(20, 29)))
    hashes = [one.blocks.pool.hashes[page] for page in one.blocks.pool.kept()]
    ended(one, list(range(40, 49)))  # takes the 2 empty pages, and evicts one
    left = [one.blocks.pool.hashes[page] for page in one.blocks.pool.kept()]
    assert left[:3] == hashes[1:]
    assert one.blocks.metrics.evictions == 1
    assert begin(one, list(range(9))).start_idx == 4


def test_a_reservation_that_fails_changes_nothing() -> None:
    one = cache(4)
    first = begin(one, list(range(9)))
    run(one, first, 0)
    second = caches.context(list(range(14)))
    one.blocks.claim(second.request_id)
    assert not one.blocks.reserve(second, 3)
    assert second.start_idx == 0
    assert pages(one, second) == []
    assert one.blocks.metrics.cache_tokens == 0
    one.blocks.release(first.request_id)
    # Four pages are free; two of them keep the prefix.
    assert one.blocks.reserve(second, 3)
    assert second.start_idx == 8


def test_a_sequence_that_never_fits_is_refused() -> None:
    one = cache(4)
    made = caches.context(list(range(17)))
    one.blocks.claim(made.request_id)
    with pytest.raises(InsufficientBlocksError) as caught:
        one.blocks.reserve(made, 1)
    assert caught.value.code == "ML647"
    assert isinstance(caught.value, RuntimeError)


def test_free_pages_are_poisoned_and_so_is_what_is_evicted() -> None:
    one = cache(3)
    assert np.isnan(one.memory.blocks[0].to_numpy()).all()
    ended(one, list(range(9)))
    kept = one.blocks.pool.kept()
    assert np.isfinite(one.memory.blocks[0].to_numpy()[kept]).all()
    made = begin(one, list(range(30, 39)))
    assert np.isnan(one.memory.blocks[0].to_numpy()).all()
    assert len(pages(one, made)) == 3


def test_forgetting_leaves_what_is_in_use() -> None:
    one = cache(9)
    ended(one, list(range(9)))
    made = begin(one, list(range(20, 29)))
    run(one, made, 0)
    one.blocks.forget_prefixes()
    assert begin(one, list(range(9))).start_idx == 0
    assert begin(one, list(range(20, 29))).start_idx == 8


def test_tables_that_do_not_hold_together_are_told() -> None:
    one = cache(4)
    made = begin(one, list(range(5)))
    pages(one, made)[1] = pages(one, made)[0]
    with pytest.raises(ExecutionError) as caught:
        one.blocks.check()
    assert caught.value.code == "ML643"
    assert "2 tables" in str(caught.value)
