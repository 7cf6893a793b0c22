"""The manager of paged caches: sizes, requests, inputs of a model, replicas, and refusals."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from maxlab import driver
from maxlab.driver import CPU, Tensor
from maxlab.dtype import DType
from maxlab.errors import (
    ArgumentError,
    ArgumentTypeError,
    InputError,
    InputTypeError,
    InsufficientBlocksError,
)
from maxlab.graph import Graph
from maxlab.interfaces import RequestID
from maxlab.nn.kv_cache import (
    KVCacheInputs,
    KVCacheInputsSequence,
    KVCacheMetrics,
    PagedCacheValues,
    PagedKVCacheManager,
    RaggedKVCacheInputs,
)
from maxlab.pipelines.core import TextContext
from tests.nn.kv_cache import caches
from tests.nn.kv_cache.caches import context, manager


def started(one: PagedKVCacheManager, length: int, replica: int | None = None) -> TextContext:
    """A claimed request whose prompt has pages."""
    made = context(np.arange(length))
    one.claim(made.request_id, replica)
    one.alloc(made)
    return made


# ---------------------------------------------------------------- inputs of a model
@pytest.mark.parametrize(("tokens", "width"), [(1, 4), (512, 4), (513, 8), (1024, 8), (1025, 16)])
def test_tables_have_few_widths(tokens: int, width: int) -> None:
    """A model is bound anew for each width."""
    one = manager(16)
    (inputs,) = one.get_runtime_inputs([started(one, tokens)])
    assert inputs.lookup_table.shape == (1, width)


def test_the_inputs_of_a_batch() -> None:
    one = manager(6)
    first, second = started(one, 200), started(one, 100)
    first.update(7)  # 200 tokens are cached, one is new
    one.alloc(first, 3)
    (inputs,) = one.get_runtime_inputs([first, second], num_steps=1)
    assert inputs.blocks.shape == (6, 2, 1, 128, 1, 1)
    assert inputs.blocks is one.device_tensors[0][0]
    assert inputs.cache_lengths.to_numpy().tolist() == [200, 0]
    pages = [one.get_req_blocks(made.request_id) for made in (first, second)]
    # 6 is the number of pages, and stands where a sequence has no more.
    assert inputs.lookup_table.to_numpy().tolist() == [[*pages[0], 6, 6], [*pages[1], 6, 6, 6]]
    assert inputs.max_lengths.to_numpy().tolist() == [[100, 201]]
    assert {tensor.dtype for tensor in inputs} == {DType.float32, DType.uint32}


def test_lengths_advance_by_step_and_not_before() -> None:
    one = manager(6)
    both = [started(one, length) for length in (200, 100)]
    for made in both:
        one.alloc(made, 3)
    inputs = one.get_runtime_inputs(both, num_steps=3)
    assert inputs[0].max_lengths.to_numpy().tolist() == [[200, 200], [1, 201], [1, 202]]
    for offsets, lengths in (([0, 200, 300], [200, 100]), ([0, 1, 2], [201, 101])):
        previous = SimpleNamespace(input_row_offsets=Tensor.from_numpy(np.array(offsets, "u4")))
        inputs = one.increment_cache_lengths(inputs, previous)
        assert inputs[0].cache_lengths.to_numpy().tolist() == lengths
    assert inputs[0].max_lengths.to_numpy().tolist() == [[1, 202]]
    # The state of the requests is as it was until they are updated.
    assert one.get_runtime_inputs(both)[0].cache_lengths.to_numpy().tolist() == [0, 0]
    with pytest.raises(InputError) as caught:
        one.increment_cache_lengths(inputs, previous)
    assert caught.value.code == "ML649"


def test_an_empty_batch_has_inputs() -> None:
    (inputs,) = manager(2).get_runtime_inputs([])
    assert [tensor.shape for tensor in inputs][1:] == [(0,), (0, 4), (1, 2)]


def test_a_graph_takes_the_inputs() -> None:
    one = manager(2)
    types = one.input_symbols()[0]
    graph = Graph("lengths", input_types=list(types))
    with graph:
        cache = PagedCacheValues.of(graph.inputs)
        assert len(list(cache)) == 4
        graph.output(cache.lookup_table, cache.cache_lengths)
    from maxlab.engine import InferenceSession

    made = started(one, 130)
    (inputs,) = one.get_runtime_inputs([made])
    table, lengths = InferenceSession().load(graph)(*inputs)
    assert table.to_numpy().tolist() == [[*one.get_req_blocks(made.request_id), 2, 2]]
    assert lengths.to_numpy().tolist() == [0]


def test_latent_vectors_have_one_part() -> None:
    one = manager(2, is_mla=True)
    assert one.device_tensors[0][0].shape == (2, 1, 1, 128, 1, 1)


def test_a_cache_of_several_devices_is_a_sequence_of_tensors() -> None:
    one = manager(4, n_devices=2, n_kv_heads=2)
    inputs = one.get_runtime_inputs([started(one, 5)])
    assert [each.blocks.shape for each in inputs] == [(4, 2, 1, 128, 1, 1)] * 2
    both = KVCacheInputsSequence(inputs)
    assert len(both) == 8
    assert both[4] is inputs[1].blocks


def test_inputs_are_tensors_of_a_dataclass() -> None:
    class Bare(KVCacheInputs):
        pass

    tensor = Tensor.from_numpy(np.zeros(1, np.uint32))
    for bad in (Bare(), RaggedKVCacheInputs(tensor, tensor, tensor, [[1]])):  # type: ignore[arg-type]
        with pytest.raises(ArgumentTypeError) as caught:
            list(bad)
        assert caught.value.code == "ML648"


# ---------------------------------------------------------------- sizes
@pytest.mark.parametrize(
    ("available", "shares", "pages"),
    [(None, False, 6), (2**30, False, 6), (4095, False, 3), (1024, False, 1), (8192, True, 8)],
)
def test_pages_follow_the_memory(available: int | None, shares: bool, pages: int) -> None:
    given = (caches.params(page_size=128, n_kv_heads=1, head_dim=1, enable_prefix_caching=shares),
             2, 300, 1)  # fmt: skip
    one = PagedKVCacheManager(*given, devices=[CPU()], available_cache_memory=available)
    assert one.total_num_pages == pages == one.num_free_blocks
    if available is not None:
        size = PagedKVCacheManager.estimated_memory_size(*given, available, [CPU()])
        assert size == pages * 1024 == one.device_tensors[0][0].to_numpy().nbytes <= available


def test_the_host_has_pages_for_the_swap_space() -> None:
    one = manager(
        2, enable_kvcache_swapping_to_host=True, host_kvcache_swap_space_gb=10 * 1024 / 2**30
    )
    assert one.total_num_host_pages == 10
    assert one.host_tensors[0][0].shape == (10, 2, 1, 128, 1, 1)
    assert one.host_committed_block_pct == 0.0
    for first in (0, 1000, 0):
        made = context(np.arange(first, first + 130))
        one.claim(made.request_id)
        one.alloc(made)
        found = made.start_idx
        made.update(0)
        one.step([made])
        one.release(made.request_id)
    assert found == 128
    counted = one.metrics
    assert (counted.d2h_blocks_copied, counted.h2d_blocks_copied) == (2, 1)
    assert one.host_committed_block_pct == 0.1
    one.reset_metrics()
    assert one.metrics == KVCacheMetrics()
    one.reset_prefix_cache()
    assert one.host_committed_block_pct == 0.0


# ---------------------------------------------------------------- requests
def test_requests_wait_for_pages_and_get_them_all_back() -> None:
    one = manager(4, enable_prefix_caching=False)
    first, second = started(one, 300), context(np.arange(200))
    one.claim(second.request_id)
    assert one.used_blocks_pct == 0.75
    assert one.get_pct_used_blocks_after_allocation(second) == 1.0
    assert not one.maybe_reserve(second)
    with pytest.raises(InsufficientBlocksError) as caught:
        one.alloc(second)
    assert caught.value.code == "ML620"
    one.release(first.request_id)
    assert one.maybe_reserve(second)
    one.release(second.request_id)
    assert (one.num_free_blocks, one.free_blocks_pct) == (4, 1.0)
    assert not one.contains(second.request_id)


def test_two_prompts_share_two_and_a_half_pages() -> None:
    one = manager(8)
    first = started(one, 320)
    first.update(1)
    one.step([first])
    second = context([*range(320), 5])
    one.claim(second.request_id)
    assert one.get_pct_used_blocks_after_allocation(second) == 0.5
    one.alloc(second)
    assert second.start_idx == 256
    assert one.used_blocks_pct == 0.5
    assert one.metrics.cache_hit_rate == 256 / 641
    first_pages, second_pages = (one.get_req_blocks(made.request_id) for made in (first, second))
    assert first_pages[:2] == second_pages[:2]
    assert first_pages[2] != second_pages[2]


def twice(one: PagedKVCacheManager) -> list[RequestID]:
    """The id of a claimed request, two times."""
    return [started(one, 2).request_id] * 2


REFUSED: list[tuple[str, type, Callable[[PagedKVCacheManager], object]]] = [
    ("ML621", InputError, lambda one: one.release(RequestID("new"))),
    ("ML621", InputError, lambda one: one.alloc(context([1]))),
    ("ML621", InputError, lambda one: one.maybe_reserve(context([1]))),
    ("ML621", InputError, lambda one: one.step([context([1])])),
    ("ML621", InputError, lambda one: one.get_runtime_inputs([context([1])])),
    ("ML621", InputError, lambda one: one.get_req_blocks(RequestID("new"))),
    ("ML621", InputError, lambda one: one.get_replica(RequestID("new"))),
    ("ML621", InputError, lambda one: one.claim(started(one, 2).request_id)),
    ("ML621", InputError, lambda one: list(map(one.release, twice(one)))),
    ("ML647", InsufficientBlocksError, lambda one: started(one, 600)),
    ("ML645", InputError, lambda one: one.get_runtime_inputs([started(one, 128)], 2)),
    ("ML649", InputError, lambda one: one.get_runtime_inputs([started(one, 2)] * 2)),
    ("ML980", InputTypeError, lambda one: one.claim("a")),  # type: ignore[arg-type]
    ("ML981", InputError, lambda one: one.claim(RequestID("a"), 1)),
    ("ML981", InputError, lambda one: one.maybe_reserve(context([1]), 0)),
]


@pytest.mark.parametrize("number", range(len(REFUSED)))
def test_what_is_refused(number: int) -> None:
    code, kind, call = REFUSED[number]
    one = manager(4)
    with pytest.raises(kind) as caught:
        call(one)
    assert caught.value.code == code  # type: ignore[attr-defined]
    one.check_tables()


@pytest.mark.parametrize(
    ("code", "changed", "given"),
    [
        ("ML644", {"page_size": 4}, {}),
        ("ML644", {"page_size": 192}, {}),
        ("ML644", {"cache_strategy": "model_default", "enable_prefix_caching": False}, {}),
        ("ML646", {}, {"available_cache_memory": 1023}),
        ("ML648", {}, {"devices": [CPU(), CPU()]}),
        ("ML650", {"dtype": DType.int8}, {"poison_free_pages": True}),
    ],
)
def test_managers_that_are_refused(
    code: str, changed: dict[str, Any], given: dict[str, Any]
) -> None:
    own = caches.params(**{"page_size": 128, "n_kv_heads": 1, "head_dim": 1, **changed})
    with pytest.raises(ArgumentError) as caught:
        PagedKVCacheManager(own, 2, 300, 1, **{"devices": [CPU()], **given})
    assert caught.value.code == code


def test_a_batch_of_too_many_requests() -> None:
    own = caches.params(page_size=128)
    one = PagedKVCacheManager(own, 1, 128, 1, [CPU()], available_cache_memory=10**6)
    with pytest.raises(InputError) as caught:
        one.get_runtime_inputs([started(one, 2), started(one, 3)])
    assert caught.value.code == "ML649"


# ---------------------------------------------------------------- replicas
def test_replicas_have_their_own_pages_and_requests() -> None:
    one = manager(4, n_devices=2, data_parallel_degree=2)
    assert one.num_replicas == 2
    with pytest.raises(InputTypeError):
        one.claim(RequestID("a"))  # of which replica?
    second = started(one, 129, 1)
    assert one.get_or_recommend_replica(context([1])) == 0
    assert one.get_or_recommend_replica(second) == one.get_replica(second.request_id) == 1
    first = started(one, 130, 0)
    inputs = one.get_runtime_inputs([first, second])
    assert [each.lookup_table.to_numpy().tolist() for each in inputs] == [[[0, 1, 4, 4]]] * 2
    assert one.get_data_parallel_splits([first, second]).to_numpy().tolist() == [0, 1, 2]
    assert one.get_data_parallel_splits([second]).to_numpy().tolist() == [0, 0, 1]
    with pytest.raises(InputError) as caught:
        one.get_data_parallel_splits([second, first])
    assert caught.value.code == "ML649"
    for made in (first, second):
        one.alloc(made, 2)
    inputs = one.increment_cache_lengths(
        one.get_runtime_inputs([first, second], 2),
        SimpleNamespace(
            input_row_offsets=Tensor.from_numpy(np.array([0, 130, 259], np.uint32)),
            data_parallel_splits=one.get_data_parallel_splits([first, second]),
        ),
    )
    assert [each.cache_lengths.to_numpy().tolist() for each in inputs] == [[130], [129]]
    names = [str(next(iter(types)).shape[0]) for types in one.input_symbols()]
    assert names == ["total_num_pages"] * 2
    dims = [str(types.cache_lengths.shape[0]) for types in one.input_symbols()]
    assert dims == ["replica_0_batch_size", "replica_1_batch_size"]


def test_threads_take_turns() -> None:
    one = manager(12)
    errors: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for turn in range(10):
                made = context(np.arange(129) + number * (turn % 2))
                one.claim(made.request_id)
                if one.maybe_reserve(made):
                    one.get_runtime_inputs([made])
                    made.update(1)
                    one.step([made])
                str(one)
                one.release(made.request_id)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert one.num_free_blocks == 12
    one.check_tables()


# ---------------------------------------------------------------- looking into it
def test_the_page_table_says_who_has_what() -> None:
    one = manager(8)
    first, second = started(one, 300), context(np.arange(290))
    first.update(1)
    one.step([first])
    one.claim(second.request_id)
    one.alloc(second)
    old = started(one, 5)
    one.release(old.request_id)
    table = one.page_table()
    assert [table.count(state) for state in ("shared", "prefix", "own", "kept", "empty")] == [
        2, 0, 2, 0, 4,
    ]  # fmt: skip
    assert table.title() == "4 of 8 pages of 128 tokens in use by 2 requests"
    assert f"{second.request_id}" in str(one)
    records = [line.split(",") for line in table.to_csv().splitlines()]
    assert records[0] == ["replica", "page", "state", "requests", "prefix", "evicted"]
    assert records[1][2] == "shared"
    assert set(records[1][3].split()) == {str(first.request_id), str(second.request_id)}
    assert one.page_table().rows[1].pages == tuple(one.get_req_blocks(second.request_id))


def test_the_picture_is_whole_whatever_requests_are_called() -> None:
    from xml.etree import ElementTree as ET

    one = manager(60)
    for number in range(30):
        made = context(np.arange(4), request_id=RequestID(f"</div><script>{number}&\x00"))
        one.claim(made.request_id)
        one.alloc(made)
    drawn = one._repr_html_()
    ET.fromstring(f"<all>{drawn}</all>")
    assert "<script" not in drawn
    assert "and 6 more requests" in drawn
    assert 'role="img"' in drawn
    assert "30 of 60 pages" in drawn


def test_many_pages_of_a_request_are_folded() -> None:
    one = manager(60)
    long = context(np.arange(40 * 128))
    long.set_token_indices(active_idx=30 * 128)
    one.claim(long.request_id)
    one.alloc(long)
    drawn = one._repr_html_()
    assert "… 8<" in drawn
    assert "0-29" in str(one)


def test_pages_of_an_accelerator_are_swapped_and_lengths_advance_there() -> None:
    own = caches.params(
        page_size=128,
        n_kv_heads=1,
        head_dim=1,
        enable_kvcache_swapping_to_host=True,
        host_kvcache_swap_space_gb=2048 / 2**30,
    )
    with driver.simulated():
        device = driver.Accelerator()
        one = PagedKVCacheManager(
            own, 2, 256, 1, [device], available_cache_memory=2048, enable_runtime_checks=True
        )
        for first, start in ((0, 0), (1000, 0), (0, 128)):
            made = context(np.arange(first, first + 130))
            one.claim(made.request_id)
            one.alloc(made, 2)
            assert made.start_idx == start
            (inputs,) = one.get_runtime_inputs([made], 2)
            page = one.get_req_blocks(made.request_id)[0]
            if start:
                assert inputs.blocks[page].cpu().to_numpy().ravel()[0] == 1
            else:
                inputs.blocks[page] = float(first + 1)
            offsets = Tensor.from_numpy(np.array([0, made.active_length], np.uint32)).to(device)
            previous = SimpleNamespace(input_row_offsets=offsets)
            (after,) = one.increment_cache_lengths([inputs], previous)
            assert after.cache_lengths.device == device
            assert after.cache_lengths.cpu().to_numpy().tolist() == [130]
            made.update(0)
            one.step([made])
            one.release(made.request_id)
