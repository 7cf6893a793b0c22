"""Kernels of latent vectors with wrong numbers, and with operands that do not fit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from maxlab.dtype import DType
from maxlab.errors import ExecutionError
from maxlab.graph import DeviceRef, Graph, TensorType, TensorValue, ops
from maxlab.nn import kernels
from tests.nn.kernels.caches import Array, Cache, Params, Values, run

F32, U32, CPU = DType.float32, DType.uint32, DeviceRef.CPU()
PARAMS = Params(n_kv_heads_per_device=1, head_dim=11, is_mla=True)


def _all(
    values: Values, offsets: TensorValue, layer: TensorValue, rest: list[TensorValue]
) -> list[TensorValue]:
    """What every kernel makes of a batch, with a buffer of 64 tokens, in one chunk."""
    params: Any = PARAMS
    q, inside, weight, starts, firsts, count = rest
    q = ops.rebind(q, [inside.shape[0], 3, 9])
    starts, firsts = ops.rebind(starts, offsets.shape), ops.rebind(firsts, [offsets.shape[0] - 1])
    place = (values, layer)
    both = kernels.flare_mla_decompress_k_cache(
        params, starts, firsts, count, weight, *place, 64
    ).reshape([64, 3, 10])
    return [
        kernels.k_cache_to_buffer(params, starts, firsts, *place, count, 64, 7),
        *kernels.flare_mla_prefill_ragged(
            params, q, both[..., :5], both[..., 5:], offsets, starts, firsts, *place, "0", 0.3, 4
        ),
        kernels.flare_mla_decode_ragged(params, inside, offsets, *place, "0", 0.3, 4),
    ]


def _arrays(cache: Cache) -> list[Array]:
    rng = np.random.default_rng(1)
    totals = cache.lengths.astype(np.int64) + np.diff(cache.offsets.astype(np.int64))
    shapes = ((cache.tokens, 3, 9), (cache.tokens, 3, 11), (30, 7))
    floats = [rng.standard_normal(shape).astype(np.float32) for shape in shapes]
    starts = np.cumsum([0, *totals]).astype(np.uint32)
    count = np.array(totals.sum(), np.int64)
    return [*floats, starts, np.zeros(len(totals), np.uint32), count]


def _cache() -> Cache:
    cache = Cache(PARAMS, [5, 2], [3, 4])
    cache.stored(1, 0, np.ones((7, 1, 11), np.float32))
    return cache


def _page(cache: Cache, arrays: list[Array]) -> None:
    cache.table[1, 0] = len(cache.blocks)


def _short_table(cache: Cache, arrays: list[Array]) -> None:
    cache.lengths[0] = cache.table.shape[1] * 4


def _late(cache: Cache, arrays: list[Array]) -> None:
    cache.offsets[0] = 1


def _backwards(cache: Cache, arrays: list[Array]) -> None:
    arrays[3][1:] = arrays[3][1:][::-1].copy()


def _beyond(cache: Cache, arrays: list[Array]) -> None:
    arrays[3][-1] = 65


def _far(cache: Cache, arrays: list[Array]) -> None:
    arrays[4][:] = 2**32 - 1


def _many(cache: Cache, arrays: list[Array]) -> None:
    arrays[5] = np.array(65, np.int64)


def _negative(cache: Cache, arrays: list[Array]) -> None:
    arrays[5] = np.array(-1, np.int64)


BROKEN = [_page, _short_table, _late, _backwards, _beyond, _far, _many, _negative]


@pytest.mark.parametrize("broken", BROKEN, ids=lambda f: f.__name__)
def test_numbers_out_of_range_end_the_run(
    place: DeviceRef, broken: Callable[[Cache, list[Array]], None]
) -> None:
    cache = _cache()
    arrays = _arrays(cache)
    broken(cache, arrays)
    with pytest.raises(ExecutionError, match="ML652"):
        run(cache, place, 1, arrays, _all)


@pytest.mark.parametrize("layer", [2, 2**32 - 1])
def test_a_layer_out_of_range_ends_the_run(place: DeviceRef, layer: int) -> None:
    cache = _cache()
    with pytest.raises(ExecutionError, match="ML652"):
        run(cache, place, layer, _arrays(cache), _all)


@pytest.mark.parametrize("chunks", [4, 5])
def test_a_batch_of_more_chunks_ends_the_run(place: DeviceRef, chunks: int) -> None:
    """14 tokens are five chunks of 3."""

    def body(
        values: Values, offsets: TensorValue, layer: TensorValue, rest: list[TensorValue]
    ) -> list[TensorValue]:
        return list(kernels.flare_mla_prefill_plan(PARAMS, offsets, values, layer, 3, chunks))

    if chunks == 5:
        assert run(_cache(), place, 1, [], body)[2].tolist() == [3, 3, 3, 3, 2]
        return
    with pytest.raises(ExecutionError, match="ML652"):
        run(_cache(), place, 1, [], body)


def test_no_rows_and_no_vectors(place: DeviceRef) -> None:
    cache = Cache(PARAMS, [0, 0], [0, 0])
    vectors, y, state, inside = run(cache, place, 1, _arrays(cache), _all)
    assert not vectors.any()
    assert [x.shape for x in (y, state, inside)] == [(0, 3, 5), (0, 3, 2), (0, 3, 7)]


def test_queries_that_see_nothing_are_0(place: DeviceRef) -> None:
    """A chunk of none of the tokens: the state says that there is no score."""
    cache = _cache()
    arrays = _arrays(cache)
    arrays[3][:] = 0
    arrays[5] = np.array(0, np.int64)
    vectors, y, state, _ = run(cache, place, 1, arrays, _all)
    assert not vectors.any()
    assert not y.any()
    assert (state[..., 0] == -np.inf).all()
    assert not state[..., 1].any()


Given = dict[str, Any]
PREFILL: list[tuple[str, Callable[[Given], Given]]] = [
    ("ML659", lambda s: s | {"input": s["input"][:, 0]}),
    ("ML659", lambda s: s | {"input": s["input"][..., :8]}),
    ("ML659", lambda s: s | {"qk_rope_dim": 3}),
    ("ML659", lambda s: s | {"k": s["k"][:, :2]}),
    ("ML659", lambda s: s | {"v": s["v"][:, :2]}),
    ("ML659", lambda s: s | {"v": s["v"][:10]}),
    ("ML659", lambda s: s | {"kv_params": Params(n_kv_heads_per_device=1, head_dim=12)}),
    ("ML659", lambda s: s | {"buffer_row_offsets": s["layer_idx"]}),
    ("ML659", lambda s: s | {"prev_output": s["k"], "prev_softmax_info": s["v"]}),
    ("ML666", lambda s: s | {"input": ops.cast(s["input"], DType.float16)}),
    ("ML666", lambda s: s | {"k": ops.cast(s["k"], DType.float16)}),
    ("ML667", lambda s: s | {"prev_output": s["v"]}),
    ("ML667", lambda s: s | {"mask_variant": "3"}),
    ("ML667", lambda s: s | {"scale": float("inf")}),
    ("ML317", lambda s: s | {"v": "x"}),
]


@pytest.mark.parametrize(("code", "changed"), PREFILL)
def test_what_does_not_fit_prefill_is_refused(code: str, changed: Callable[[Given], Given]) -> None:
    cache = _cache()
    shapes: list[list[Any]] = [["t", 3, 9], [64, 3, 5], [64, 3, 6]]
    rows = [TensorType(F32, shape) for shape in shapes]
    with Graph("bad", input_types=[*cache.types(CPU), *rows]) as graph:
        pages, lengths, table, most, offsets, layer, q, k, v = graph.inputs
        good: Given = {
            "kv_params": PARAMS, "input": q.tensor, "k": k.tensor, "v": v.tensor,
            "input_row_offsets": offsets.tensor, "buffer_row_offsets": offsets.tensor,
            "cache_offsets": lengths.tensor, "layer_idx": layer.tensor, "mask_variant": "0",
            "kv_collection": Values(pages.buffer, lengths.tensor, table.tensor, most.tensor),
            "scale": 0.5, "qk_rope_dim": 4,
        }  # fmt: skip
        kernels.flare_mla_prefill_ragged(**good)
        with pytest.raises((ValueError, TypeError), match=code):
            kernels.flare_mla_prefill_ragged(**changed(good))


def test_a_cache_of_keys_and_values_is_refused() -> None:
    """Also one of several heads, and sizes that are none."""
    for params in (Params(n_kv_heads_per_device=1), Params(n_kv_heads_per_device=2, is_mla=True)):
        cache = Cache(params, [5], [3])
        with Graph("bad", input_types=[*cache.types(CPU), TensorType(F32, ["t", 4, 8])]) as graph:
            pages, lengths, table, most, offsets, layer, q = graph.inputs
            values = Values(pages.buffer, lengths.tensor, table.tensor, most.tensor)
            with pytest.raises(ValueError, match="ML659"):
                kernels.flare_mla_decode_ragged(
                    params, q.tensor, offsets.tensor, values, layer.tensor, "0", 0.5, 4
                )
            with pytest.raises(ValueError, match="ML667"):
                kernels.flare_mla_prefill_plan(params, offsets.tensor, values, layer.tensor, 0)
            with pytest.raises(ValueError, match="ML659"):
                ops.latent_attention(
                    pages.buffer, offsets.tensor, lengths.tensor, table.tensor, layer.tensor,
                    q.tensor, size=4,
                )  # fmt: skip
