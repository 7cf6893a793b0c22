"""Pages that go to the host when a device is full, and come back."""

from __future__ import annotations

import numpy as np
import pytest

from maxlab.nn.kv_cache.paged_cache import PagedCache
from tests.nn.kv_cache import caches
from tests.nn.kv_cache.caches import begin, cache, run

BYTES = 2 * caches.LAYERS * caches.PAGE * caches.HEADS * caches.DIM * 4


def ended(one: PagedCache, first: int) -> None:
    """A request of 9 tokens, of which 2 pages are kept."""
    made = begin(one, list(range(first, first + 9)))
    run(one, made, 0)
    one.blocks.release(made.request_id)


@pytest.mark.parametrize(
    ("host", "start", "to_host", "gave_way"),
    [(0, 0, 0, 0), (1, 4, 2, 1), (2, 8, 2, 0), (9, 8, 2, 0)],
)
def test_evicted_pages_come_back_from_the_host(
    host: int, start: int, to_host: int, gave_way: int
) -> None:
    one = cache(3, host)
    ended(one, 0)
    ended(one, 20)  # evicts both pages, the second one first
    counted = one.blocks.metrics
    assert (counted.evictions, counted.d2h_blocks_copied) == (2, to_host)
    assert (counted.d2h_bytes_copied, counted.host_evictions) == (to_host * BYTES, gave_way)
    made = begin(one, list(range(9)))
    assert made.start_idx == start
    assert counted.h2d_blocks_copied == start // caches.PAGE
    assert counted.h2d_bytes_copied == start // caches.PAGE * BYTES
    np.testing.assert_array_equal(caches.read(one, made), caches.expected(made)[:start])


def test_pages_that_come_back_do_not_make_each_other_give_way() -> None:
    """The host has room for two; both are wanted, and each evicts a page of another prefix."""
    one = cache(3, 2)
    ended(one, 0)
    ended(one, 20)
    assert one.blocks.host.used_count == 2
    made = begin(one, list(range(9)))
    np.testing.assert_array_equal(caches.read(one, made), caches.expected(made)[:8])
    run(one, made, 0)
    one.blocks.release(made.request_id)
    again = begin(one, list(range(20, 29)))
    np.testing.assert_array_equal(
        caches.read(one, again), caches.expected(again)[: again.start_idx]
    )


def test_a_prefix_that_is_computed_anew_leaves_the_host() -> None:
    one = cache(3, 2)
    ended(one, 0)
    ended(one, 20)
    first = caches.context(list(range(9)))
    one.blocks.claim(first.request_id)
    # As if another request had computed the pages in the same step.
    first_pages = one.blocks.pool.take()[0], one.blocks.pool.take()[0]
    one.blocks.of(first.request_id).pages.extend(first_pages)
    first.set_token_indices(start_idx=8)
    one.blocks.commit(first)
    assert one.blocks.host.used_count == 0


def test_several_devices_swap_their_parts_together() -> None:
    from maxlab.driver import CPU

    one = PagedCache(
        caches.params(n_devices=2), caches.LAYERS, [CPU(), CPU()], 3, host_count=2, checks=True
    )
    for blocks, value in zip(one.memory.blocks, (1, 2), strict=True):
        blocks.to_numpy()[...] = value
    made = begin(one, list(range(9)))
    made.update(0)
    one.blocks.commit(made)
    one.blocks.release(made.request_id)
    other = begin(one, list(range(20, 29)))
    for blocks in one.memory.blocks:
        blocks.to_numpy()[...] = 9
    one.blocks.release(other.request_id)
    back = begin(one, list(range(9)))
    assert back.start_idx == 8
    held = one.blocks.of(back.request_id).pages[:2]
    found = [np.unique(blocks.to_numpy()[held]).tolist() for blocks in one.memory.blocks]
    assert found == [[1], [2]]
    assert one.blocks.metrics.h2d_bytes_copied == 2 * BYTES
